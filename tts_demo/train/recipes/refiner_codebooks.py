"""Recipe ``refiner-books``: the refiner of strategies that emit several codebooks (QTTS), trained on their samples.

Each crop comes with its first codebook as recorded and its finer codebooks from one of three sources: the recording's,
or as the adapter of either strategy samples them given that first codebook (``data/sampled_codes.py``). The target is
the recording: through the frozen decoder, with the losses of recipe ``codec``. So the refiner learns to ignore what
samples do not carry about the recording, which no loss on recorded codes could teach. The number of codebooks is
sampled too. Everything but this refiner is frozen, so every code and every other method's speech stays as it is. With
``helpers=DIR`` discriminators begin as those of ``decoder``.
"""

from functools import partial

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ... import checkpoints
from ...codec.decoder import WaveformDecoder
from ...codec.model import Codec
from ...codec.recogniser import PhonemeRecogniser
from ...codec.refiner import CodebookRefiner, Refiner
from ...codec.speaker import SpeakerEncoder
from ...config import Sampling
from ...lm import Base
from ...methods.qtts import QTTS
from ...methods.qtts.delay import DelayStrategy
from ...methods.qtts.hierarchical import HierarchicalStrategy
from ..data.corpora import describe
from ..data.load import load_lm, sequences
from ..data.sampled_codes import SampledCodes, sample_delay, sample_hierarchical
from ..data.speech import tag_of
from ..progress import Progress
from ..settings import SequenceSettings, Share
from ..task import Loss, TrainOptions
from .codec import CROP, CodecBatch, CodecSettings, CodecTask, fitted, published

NAME = "refiner-books"
CODEBOOK_COUNTS = (2, 4, 8)  # codebooks emitted, sampled evenly


class CodebookRefinerSettings(CodecSettings, SequenceSettings):
    sampled: float = Field(3.0, gt=0, description="hours of speech whose finer codebooks are sampled, once")
    recorded: Share = Field(0.3, description="share of the crops with the recording's own finer codebooks")


class CodebookRefinerTask(CodecTask):
    Settings = CodebookRefinerSettings
    settings: CodebookRefinerSettings
    name = NAME
    steps, lr = 4000, 5e-4
    goes_on = True
    follows = {NAME: "refiner", f"{NAME}-discriminators": "decoder-discriminators"}

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.codec, self.voice = self.codec.to(options.device), self.voice.to(options.device)
        self.modules = {NAME: self.refiner}
        self.helpers = {name: self.helpers[name] for name in self.quicker}
        self.recorded, self.sampled = self.settings.recorded, self._sampled(options, self.settings.sampled)
        has_sample = lambda i: self.sampled.get(i) is not None
        self.train, self.test = list(filter(has_sample, self.train)), list(filter(has_sample, self.test))
        self.weights = self.speech.shares(self.train)
        self.data_summary = describe(self.speech, self.train)

    def _networks(
        self, options: TrainOptions, recogniser: PhonemeRecogniser
    ) -> tuple[Codec, WaveformDecoder, Refiner, SpeakerEncoder]:
        codec, decoder, plain, voice = published(options)
        refiner = CodebookRefiner(plain.config)
        if checkpoints.available(options.checkpoint, NAME) and self.settings.start == "published":
            checkpoints.load_module(options.checkpoint, NAME, refiner)
        else:
            refiner.load_state_dict(plain.state_dict(), strict=False)
        return codec, decoder, refiner.requires_grad_(True), voice

    def _sampled(self, options: TrainOptions, hours: float) -> SampledCodes:
        data, lm = sequences(options, self.settings, frames=1), load_lm(options)
        base = Base(lm)
        adapters = {
            name: checkpoints.load_module(options.checkpoint, name, module).to(options.device)
            for name, module in QTTS.build_modules(lm).items()
        }
        samplers = {
            "delay": partial(sample_delay, DelayStrategy(base, adapters["qtts-delay"]), Sampling()),
            "hierarchical": partial(
                sample_hierarchical, HierarchicalStrategy(base, adapters["qtts-hierarchical"]), Sampling()
            ),
        }
        tag = tag_of(lm, *adapters.values(), self.codec.quantizer)
        return SampledCodes(data, samplers, tag, hours)

    def loss(self, batch: CodecBatch, progress: Progress) -> Loss:
        source = torch.where(torch.rand(len(batch.crops)) < self.recorded, 0, torch.randint(1, 3, (len(batch.crops),)))
        counts = torch.tensor(CODEBOOK_COUNTS)[torch.randint(len(CODEBOOK_COUNTS), (len(batch.crops),))]
        codes = self._codes(batch).to(self.device)
        batch = batch.to(self.device)
        with torch.no_grad():
            target, speaker = self.codec.quantizer.decode(codes[:, 0]), self.voice(batch.voice)
        refined, pitch = self._refine(batch, codes, source, counts, speaker, batch.pitch)
        made, spectral, loss, parts = self.rendering_loss(batch, refined)
        distance, more = fitted(refined, target, pitch, batch.pitch)
        parts = {"refined": spectral.mean().item()} | more | parts
        return self.judged(made, batch.audio, progress, loss + distance, parts)

    def _codes(self, batch: CodecBatch) -> Tensor:
        """[B, sources, CROP, K]."""
        crops = [self.sampled.get(i)[:, start : start + CROP] for i, start in batch.crops.tolist()]
        return torch.from_numpy(np.stack(crops))

    def _refine(
        self,
        batch: CodecBatch,
        codes: Tensor,
        source: Tensor,
        counts: Tensor,
        speaker: Tensor,
        pitch: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Each item's finer codebooks from its ``source`` [B], of which ``counts`` [B] were emitted."""
        with torch.no_grad():
            chosen, counts = codes[torch.arange(len(codes)), source], counts.to(codes.device)
            finer_codes = sum(
                codebook.lookup(chosen[..., k]) * (counts > k)[:, None, None]
                for k, codebook in enumerate(self.codec.quantizer.codebooks)
                if k
            )
            prompt = self._prompt(batch, len(codes))
        return self.refiner.refine_codebooks(chosen[..., 0], finer_codes, counts, speaker, prompt, pitch=pitch)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Spectral distance of fixed crops of held-out speech, by the source of the finer codebooks and their
        number."""
        rng, scores = np.random.default_rng(0), {}
        for start in range(0, len(self.test), 12):
            batch = self._make(rng, np.asarray(self.test[start : start + 12]))
            codes, batch = self._codes(batch).to(self.device), batch.to(self.device)
            speaker, count = self.voice(batch.voice), len(codes)
            for source, name in enumerate(SampledCodes.SOURCES):
                for counts in (2, 8):
                    dials = torch.full((count,), source), torch.full((count,), counts)
                    refined, _ = self._refine(batch, codes, *dials, speaker)
                    distance = self.spectral(self.decoder.whole(refined), batch.audio).mean().item()
                    scores.setdefault(f"spectral distance, {counts} books {name}", []).append(distance)
        return {name: float(np.mean(found)) for name, found in scores.items()}
