"""What the recipes ``qtts-delay`` and ``qtts-hierarchical`` share: dials sampled per batch, loss and held-out scores.

The base model is frozen; LoRA, the vectors of codebooks 2 to K and the heads or the depth decoder learn. The codes'
vectors start as the codec's own entries. K and d are sampled for each batch, so that one adapter serves every setting
of the page; ``--set codebooks=8 delay=1`` trains that one alone. Some input codes are replaced at random, as in the
base's recipe.

When decoding, the finer codebooks in the past are the adapter's own samples, which differ much from a recording's: an
adapter trained on recordings alone then loses its place in the text. So in half of the batches (``--set own=0.5``) the
input is the recording's first codebook with finer ones that the adapter samples, and the only target there is the next
token of the first codebook. Of the first codebook's loss, half (``--set distil=0.5``) is the cross-entropy to the base
model's distribution, and the heads that ``lm.py`` guided stay guided (``--set guide=0.3``).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ... import checkpoints
from ...config import Sampling
from ...lm import lora
from ...lm.model import ALIGNMENT_LAYERS, LanguageModel, Layers
from ...lm.sampling import sample
from ...methods.qtts.codebooks import higher_sampling
from ..data.corpora import describe
from ..data.load import load_lm, sequences
from ..data.sequences import SpeechBatch
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import SequenceSettings, Share, Weight, some_of
from ..task import Loss, Task, TrainOptions
from .lm import add_noise, attention_guide, base_logits, distillation

IGNORE = -100
NOISE = 0.06  # share of input codes replaced
CODEBOOK_COUNTS = (2, 4, 8, 8)  # sampled evenly: all codebooks twice as often
DELAYS = (1, 1, 2, 3, 4)
PASSES = 2  # in which finer codebooks are sampled, each given the samples of the pass before


@dataclass(frozen=True)
class Dials:
    codebooks: int
    d: int = 1

    def __str__(self) -> str:
        return f"{self.codebooks} codebooks, delay {self.d}"


@dataclass(frozen=True)
class Prediction:
    """Teacher-forced: logits [R, V] and targets [R] of codebook 1, end of speech included; logits [K - 1, R', entries]
    and targets [K - 1, R'] of the others, ``IGNORE`` where there is none. ``attention``: log attention [B, F + 1, T] of
    codebook 1's rows to the text, of each guided layer."""

    first: Tensor
    first_targets: Tensor
    rest: Tensor
    rest_targets: Tensor
    attention: list[Tensor]

    def entropies(self, reduction: str = "mean") -> tuple[Tensor, Tensor]:
        """Cross-entropy of codebook 1 and of the others together."""
        return (
            F.cross_entropy(self.first.float(), self.first_targets, reduction=reduction),
            F.cross_entropy(
                self.rest.float().flatten(0, 1), self.rest_targets.flatten(), ignore_index=IGNORE, reduction=reduction
            ),
        )


class QTTSSettings(SequenceSettings):
    codebooks: some_of(CODEBOOK_COUNTS) = Field(CODEBOOK_COUNTS, description="numbers of codebooks, one for each batch")
    delay: some_of(DELAYS) = Field(DELAYS, description="delays to train, one drawn for each batch")
    own: Share = Field(0.5, description="share of the batches behind finer codes that the adapter samples itself")
    distil: Share = Field(0.5, description="share of the cross-entropy to the base model's distribution in the loss")
    guide: Weight = Field(0.3, description="weight of the attention guide")


class QTTSTask(Task):
    Settings = QTTSSettings
    settings: QTTSSettings
    name: ClassVar[str]
    lr = 1.5e-3
    scored: ClassVar[tuple[Dials, ...]]

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.data = sequences(options, self.settings, frames=options.batch or 2400)
        self.lm = load_lm(options).requires_grad_(False)
        self.base = load_lm(options).requires_grad_(False)  # without LoRA
        codec = checkpoints.load_module(options.checkpoint, "codec")
        self.codebooks, self.delays = self.settings.codebooks, self.settings.delay
        self.own, self.distil, self.guide = self.settings.own, self.settings.distil, self.settings.guide
        self.adapt(torch.stack([codebook.entries for codebook in codec.quantizer.codebooks]))
        self.data_summary = describe(self.data.speech, self.data.train)

    def adapt(self, entries: Tensor) -> None:
        """Make the adapter, start from the codec's ``entries`` [K, N, width], and attach its LoRA to the base."""
        self.adapter: Any = self.build(self.lm)
        self.adapter.codebooks.start_from(entries)
        lora.attach(self.lm.backbone, self.adapter.config.lora, self.adapter.lora)
        self.modules, self.helpers = {self.name: self.adapter}, {}

    def matrices(self) -> list[nn.Parameter]:
        adapter = self.adapter
        return [adapter.codebooks.into, adapter.codebooks.context, adapter.outer, *inner_matrices(adapter.lora)]

    def build(self, lm: LanguageModel) -> nn.Module:
        raise NotImplementedError

    def predict(self, batch: SpeechBatch, dials: Dials, inputs: Tensor, alignment_layers: Layers = ()) -> Prediction:
        """``inputs`` [B, F, K]: the input codes; the targets are the batch's."""
        raise NotImplementedError

    def batch(self, rng: np.random.Generator, step: int) -> tuple[SpeechBatch, Dials]:
        return self.data.batch(rng), Dials(int(rng.choice(self.codebooks)), int(rng.choice(self.delays)))

    def loss(self, batch: tuple[SpeechBatch, Dials], progress: Progress) -> Loss:
        speech, dials = batch
        own = bool(torch.rand(()) < self.own)
        inputs = self.own_samples(speech, dials) if own else speech.codes[..., : dials.codebooks]
        inputs = add_noise(inputs, self.adapter.config.entries, NOISE)
        prediction = self.predict(speech, dials, inputs, ALIGNMENT_LAYERS if self.guide else ())
        first, rest = prediction.entropies()
        parts = {"codebook 1": first.item()} | ({} if own else {"others": rest.item()})
        if self.distil:
            # the end of speech has a distribution too
            rows = torch.arange(inputs.shape[1] + 1, device=inputs.device) <= speech.frames[:, None]
            with torch.no_grad():
                teacher = base_logits(self.base, speech, inputs[..., 0])[rows]
            base, more = distillation(prediction.first, teacher)
            first, parts = (1 - self.distil) * first + self.distil * base, parts | more
        if self.guide and bool((speech.alignment >= 0).any()):
            guide = attention_guide(prediction.attention, speech)
            first, parts = first + self.guide * guide, parts | {"guide": guide.item()}
        # after its own samples the recording's finer codes are no targets
        return first if own else first + rest, parts

    @torch.no_grad()
    def own_samples(self, batch: SpeechBatch, dials: Dials, generator: torch.Generator | None = None) -> Tensor:
        """Codes [B, F, K]: the first codebook is the batch's, the others are sampled as in decoding. Not frame by
        frame, as ``data/sampled_codes.py`` does once for all, but all frames at once, given the codes of the pass
        before: first the recording's."""
        sampling, codes = higher_sampling(Sampling()), batch.codes[..., : dials.codebooks].clone()
        inside = torch.arange(codes.shape[1], device=codes.device) < batch.frames[:, None]
        for _ in range(PASSES):
            prediction = self.predict(batch, dials, codes)
            for k, (logits, targets) in enumerate(zip(prediction.rest, prediction.rest_targets), 1):
                there = targets != IGNORE  # an item's rows are in the order of its frames
                codes[..., k].masked_scatter_(inside, sample(logits[there].float(), sampling, generator))
        return codes

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Held-out cross-entropy in nats and top-1 accuracy, of codebook 1 and of the others, for several dials; and
        how much the cross-entropy of codebook 1 grows, on the shorter half, given finer codebooks that the adapter
        sampled itself, as in decoding."""
        batches, scores = self.data.held_out(batches=2), {}
        for dials in (d for d in self.scored if d.codebooks in self.codebooks and d.d in self.delays):
            sums, costs = np.zeros(6), []
            for batch in batches:
                p = self.predict(batch, dials, batch.codes[..., : dials.codebooks])
                first, rest = p.entropies("sum")
                known = p.rest_targets != IGNORE
                hits = (p.first.argmax(-1) == p.first_targets).sum(), (p.rest.argmax(-1) == p.rest_targets).sum()
                sums += [float(v) for v in (first, hits[0], len(p.first_targets), rest, hits[1], known.sum())]
                costs.append(float(first) / len(p.first_targets))
            for level, (entropy, hits, count) in zip(("codebook 1", "other codebooks"), sums.reshape(2, 3)):
                scores |= {f"{dials}: {level}, nats": entropy / count, f"{dials}: {level}, top-1": hits / count}
            samples = self.own_samples(batches[0], dials, torch.Generator(self.lm.device).manual_seed(0))
            own = self.predict(batches[0], dials, samples).entropies()[0].item()
            scores[f"{dials}: codebook 1 behind its own samples, nats more"] = own - costs[0]
        return scores


def padded_codes(batch: SpeechBatch, inputs: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """heard [B, F, K] -> input codes [B, F, K], ``pad`` behind an item's end; the batch's as targets [B, F, K],
    ``IGNORE`` there."""
    inside = (torch.arange(inputs.shape[1], device=inputs.device) < batch.frames[:, None])[..., None]
    return torch.where(inside, inputs, pad), torch.where(inside, batch.codes[..., : inputs.shape[-1]], IGNORE)
