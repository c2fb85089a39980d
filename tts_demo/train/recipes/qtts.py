"""Recipes ``qtts-delay`` (LoRA and a head per codebook, on delayed codes with padding in the corners) and
``qtts-hierarchical`` (LoRA and the depth decoder, on whole frames, all codebooks of a frame at once).

The base model is frozen; the vectors of codebooks 2 to K learn too and start as the codec's own entries. K and d are
sampled for each batch, so that one adapter serves every setting of the page; ``--set codebooks=8 delay=1`` trains that
one alone. Some input codes are replaced at random, as in the base's recipe.

When decoding, the finer codebooks in the past are the adapter's own samples, which differ much from a recording's: an
adapter trained on recordings alone then loses its place in the text. So in a share ``own`` of the batches the input is
the recording's first codebook with finer ones that the adapter samples, and the only target there is the next token of
the first codebook. The heads that ``lm.py`` guided stay guided.
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
from ...lm.model import ALIGNMENT_LAYERS, Layers
from ...lm.sampling import sample
from ...methods.qtts.codebooks import higher_sampling
from ...methods.qtts.delay import DelayAdapter, delay
from ...methods.qtts.hierarchical import HierarchicalAdapter
from ..data.corpora import describe
from ..data.load import load_lm, sequences
from ..data.sequences import SpeechBatch, prefix_batch, speech_inputs, speech_rows, speech_targets
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
    steps, lr = 240, 1.5e-3
    Adapter: ClassVar[type[nn.Module]]
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
        self.adapter: Any = self.Adapter(self.lm)
        self.adapter.codebooks.start_from(entries)
        lora.attach(self.lm.backbone, self.adapter.config.lora, self.adapter.lora)
        self.modules, self.helpers = {self.name: self.adapter}, {}

    def matrices(self) -> list[nn.Parameter]:
        adapter = self.adapter
        return [adapter.codebooks.into, adapter.codebooks.context, adapter.outer, *inner_matrices(adapter.lora)]

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


class QTTSDelayTask(QTTSTask):
    name = "qtts-delay"
    Adapter = DelayAdapter
    scored = (Dials(8, 1), Dials(8, 2), Dials(8, 4), Dials(4, 1), Dials(2, 1))

    def matrices(self) -> list[nn.Parameter]:
        return [*super().matrices(), self.adapter.inner]

    def predict(self, batch: SpeechBatch, dials: Dials, inputs: Tensor, alignment_layers: Layers = ()) -> Prediction:
        hidden, below, targets, attention = self.rows(batch, dials, inputs, alignment_layers)
        first, rest = targets[..., 0] != IGNORE, (targets[..., 1:] != IGNORE).any(-1)
        return Prediction(
            self.lm.head(hidden[first]),
            targets[..., 0][first],
            self.adapter.scores(hidden[rest], below[rest]),
            targets[..., 1:][rest].t(),
            attention,
        )

    def rows(
        self, batch: SpeechBatch, dials: Dials, inputs: Tensor, alignment_layers: Layers = ()
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Teacher forcing of the delay pattern: hidden states [B, S, H] before each step, the vectors of their frames'
        lower codebooks [B, S, K - 1, H], targets [B, S, K], and the log attention to the text of the F + 1 steps that
        emit codebook 1; S = F + (K - 1) d."""
        lm, adapter, pad = self.lm, self.adapter, self.adapter.config.pad
        codes, targets = padded_codes(batch, inputs, pad)
        steps, targets = delay(codes, dials.d, pad), delay(targets, dials.d, IGNORE)
        # after its last frame, codebook 1 ends speech
        ends = torch.arange(targets.shape[1], device=targets.device) == batch.frames[:, None]
        targets[..., 0] = torch.where(ends, lm.config.eos, targets[..., 0])
        table = adapter.table(lm.speech_embedding.weight, dials.codebooks)
        prefix = prefix_batch(lm, batch)
        embedded = adapter.codebooks.look_up(table, steps[:, :-1])[0] + adapter.tag(dials.codebooks, dials.d)
        fed = speech_inputs(prefix, embedded, lm.config.bidirectional_text)
        hidden, attention = speech_rows(lm, prefix, fed, alignment_layers, codes.shape[1] + 1)
        return hidden, adapter.below(adapter.codebooks.look_up(table, codes)[1], dials.d), targets, attention


class QTTSHierarchicalTask(QTTSTask):
    name = "qtts-hierarchical"
    Adapter = HierarchicalAdapter
    scored = (Dials(8), Dials(4), Dials(2))

    def matrices(self) -> list[nn.Parameter]:
        return [*super().matrices(), *inner_matrices(self.adapter.depth.blocks)]

    def predict(self, batch: SpeechBatch, dials: Dials, inputs: Tensor, alignment_layers: Layers = ()) -> Prediction:
        hidden, contexts, targets, attention = self.rows(batch, inputs, alignment_layers)
        first_targets = speech_targets(batch, self.lm.config.eos, IGNORE)
        valid = first_targets != IGNORE  # end of speech included: its row predicts codebook 1 alone
        rows = self.adapter.depth(hidden[valid], contexts[valid])
        first = self.lm.head(hidden[valid] + self.adapter.correct(rows[:, 0]))
        rest, rest_targets = self.adapter.scores(rows[:, 1:]), targets[valid][:, 1:].t()
        return Prediction(first, first_targets[valid], rest, rest_targets, attention)

    def rows(
        self, batch: SpeechBatch, inputs: Tensor, alignment_layers: Layers = ()
    ) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Teacher forcing over frames: hidden states [B, F + 1, H] before each frame, the contexts of that frame's
        codes [B, F + 1, K, W], targets [B, F + 1, K], and the log attention to the text."""
        lm, adapter, codebooks = self.lm, self.adapter, inputs.shape[-1]
        codes, targets = padded_codes(batch, inputs, adapter.config.pad)
        table = adapter.codebooks.table(lm.speech_embedding.weight, codebooks)
        embedded, contexts = adapter.codebooks.look_up(table, codes)
        prefix = prefix_batch(lm, batch)
        fed = speech_inputs(prefix, embedded + adapter.tag(codebooks), lm.config.bidirectional_text)
        hidden, attention = speech_rows(lm, prefix, fed, alignment_layers)
        contexts, targets = F.pad(contexts, (0, 0, 0, 0, 0, 1)), F.pad(targets, (0, 0, 0, 1), value=IGNORE)
        return hidden, contexts, targets, attention
