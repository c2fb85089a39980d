"""Recipe ``refiner-books``: the refiner of strategies that emit several codebooks (QTTS), trained on their samples.

Recipe ``refiner`` with the finer codebooks as a further input. They come from one of three sources: the recording's, or
as the adapter of either strategy samples them given the recorded first codebook (``data/sampled_codes.py``). The target
is the recording. So the refiner learns to ignore what samples do not carry about the recording, which no loss on
recorded codes could teach. The number of codebooks is sampled too. Everything but this refiner is frozen, so every code
and every other method's speech stays as it is.

It begins as the published ``refiner``, or with ``start=published`` as itself. Trained through the decoder with losses
of spectra instead, as by ``codec``, it sounded worse than the refiner that it began as (DistilMOS -.07 on the same
codes): a distance of spectra trains towards the mean of all that a code allows."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from ... import checkpoints
from ...codec.refiner import CodebookRefiner
from ...config import Sampling
from ...lm import Base
from ...methods.qtts import QTTS
from ...methods.qtts.delay import DelayStrategy
from ...methods.qtts.hierarchical import HierarchicalStrategy
from ..data.load import load_lm
from ..data.sampled_codes import SampledCodes, sample_delay, sample_hierarchical
from ..data.speech import tag_of
from ..settings import Share
from ..task import TrainOptions
from .refiner import CROP, RefinerBatch, RefinerSettings, RefinerTask

NAME = "refiner-books"
CODEBOOK_COUNTS = (2, 4, 8)  # codebooks emitted, sampled evenly


@dataclass(frozen=True)
class CodebookRefinerBatch(RefinerBatch):
    sampled: Tensor  # [B, sources, CROP, K]
    source: Tensor  # [B] which of ``SampledCodes.SOURCES`` the finer codebooks come from
    counts: Tensor  # [B] codebooks emitted


class CodebookRefinerSettings(RefinerSettings):
    sampled: float = Field(3.0, gt=0, description="hours of speech whose finer codebooks are sampled, once")
    recorded: Share = Field(0.3, description="share of the crops with the recording's own finer codebooks")


class CodebookRefinerTask(RefinerTask):
    Settings = CodebookRefinerSettings
    settings: CodebookRefinerSettings
    Batch = CodebookRefinerBatch
    name = NAME
    goes_on = loads_published = True
    follows = {
        NAME: "refiner",
        f"{NAME}-discriminators": "refiner-discriminators",
        f"{NAME}-waveforms": "decoder-discriminators",
    }

    def _refiner(self, options: TrainOptions) -> CodebookRefiner:
        plain = checkpoints.load_module(options.checkpoint, "refiner")
        refiner = CodebookRefiner(plain.config)
        if self.settings.start == "published" and checkpoints.available(options.checkpoint, NAME):
            checkpoints.load_module(options.checkpoint, NAME, refiner)
        else:
            refiner.load_state_dict(plain.state_dict(), strict=False)
        return refiner.requires_grad_(True)

    def _utterances(self, options: TrainOptions) -> tuple[list[int], list[int]]:
        """Those whose finer codebooks are sampled."""
        lm = load_lm(options)
        base = Base(lm)
        adapters = {
            name: checkpoints.load_module(options.checkpoint, name, module).to(options.device)
            for name, module in QTTS.build_modules(lm).items()
        }
        delay = DelayStrategy(base, adapters["qtts-delay"])
        hierarchical = HierarchicalStrategy(base, adapters["qtts-hierarchical"])
        samplers = {
            "delay": partial(sample_delay, delay, Sampling()),
            "hierarchical": partial(sample_hierarchical, hierarchical, Sampling()),
        }
        tag = tag_of(lm, *adapters.values(), self.quantizer)
        self.sampled = SampledCodes(self.data, samplers, tag, self.settings.sampled)
        train, test = ([i for i in side if self.sampled.get(i) is not None] for side in super()._utterances(options))
        return train, test

    def _row(self, rng: np.random.Generator, i: int, start: int) -> tuple[np.ndarray, ...]:
        sampled = self.sampled.get(i)[:, start : start + CROP]
        source = 0 if rng.random() < self.settings.recorded else rng.integers(1, len(sampled))
        more = sampled, np.asarray(source), np.asarray(rng.choice(CODEBOOK_COUNTS))
        return *super()._row(rng, i, start), *more

    def _refine(self, batch: CodebookRefinerBatch, prompt: Tensor, pitch: Tensor | None) -> tuple[Tensor, Tensor]:
        codes = batch.sampled[torch.arange(len(batch.source), device=self.device), batch.source]
        with torch.no_grad():
            finer = sum(
                codebook.lookup(codes[..., k]) * (batch.counts > k)[:, None, None]
                for k, codebook in enumerate(self.quantizer.codebooks)
                if k
            )
        return self.refiner.refine_codebooks(codes[..., 0], finer, batch.counts, batch.speaker, prompt, pitch=pitch)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Distance of the latent on fixed crops of held-out speech, pitch guessed, by the source of the finer codebooks
        and their number."""
        rng, scores = np.random.default_rng(0), {}
        for start in range(0, len(self.test), 12):
            batch = self._make(rng, np.asarray(self.test[start : start + 12])).to(self.device)
            for source, name in enumerate(SampledCodes.SOURCES):
                for counts in (2, 8):
                    dials = {"source": source, "counts": counts}
                    given = {key: torch.full_like(batch.counts, value) for key, value in dials.items()}
                    refined, latent, _ = self._refined(replace(batch, **given), None)
                    scores.setdefault(f"distance of the latent, {counts} books {name}", []).append(
                        F.l1_loss(refined, latent).item()
                    )
        return {name: float(np.mean(found)) for name, found in scores.items()}
