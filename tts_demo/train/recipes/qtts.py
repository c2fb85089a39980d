"""What the recipes ``qtts-delay`` and ``qtts-hierarchical`` share: dials drawn per batch, loss and held-out scores.

The base model is frozen; LoRA, the vectors of books 2 to K and the heads or the depth decoder learn. The codes' vectors
start as the codec's own entries. K and d are drawn for each batch, so that one adapter serves every setting of the
page; ``--set codebooks=8 delay=1`` trains that one alone. Some input codes are replaced at random, as in the base's
recipe.

What the finer books will be when it speaks are its own draws, and they look little like a recording's: an adapter that
has only heard recordings now and then loses its place in the text behind them. So in half of the batches (``--set
own=0.5``) it hears the recording's first book with finer ones that it draws itself, and learns there what the first
says next, nothing else. Of book 1's loss, half (``--set distil=0.5``) is the cross-entropy to the base model's own law,
which is what WER is compared with, and the heads that ``lm.py`` guided to the spoken phoneme stay guided (``--set
guide=0.3``).
"""

from __future__ import annotations

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
from ...lm.model import LanguageModel
from ...lm.sampling import sample
from ...lm.text_position import ALIGNMENT_LAYERS
from ...methods.qtts.codebooks import higher_sampling
from ..data.corpora import describe
from ..data.load import load_lm, sequences
from ..data.sequences import SpeechBatch
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import SequenceSettings, Share, Weight, some_of
from ..task import Task, TrainOptions
from .lm import add_noise, as_base, base_logits, guided_loss

IGNORE = -100
NOISE = 0.06  # share of input codes replaced
BOOKS = (2, 4, 8, 8)  # drawn evenly: all the books twice as often
DELAYS = (1, 1, 2, 3, 4)
PASSES = 2  # in which finer books are drawn, each with those of the one before for their past


@dataclass(frozen=True)
class Dials:
    books: int
    d: int = 1

    def __str__(self) -> str:
        return f"{self.books} books, delay {self.d}"


@dataclass(frozen=True)
class Prediction:
    """Teacher-forced: logits [R, V] and targets [R] of book 1, end of speech included; logits [K - 1, R', entries] and
    targets [K - 1, R'] of the others, ``IGNORE`` where there is nothing to say. ``looks``: of each guided layer the log
    attention [B, F + 1, T] of book 1's rows on the text."""

    first: Tensor
    first_targets: Tensor
    rest: Tensor
    rest_targets: Tensor
    looks: list[Tensor]

    def entropies(self, reduction: str = "mean") -> tuple[Tensor, Tensor]:
        """Cross-entropy of book 1 and of the other books together."""
        return (
            F.cross_entropy(self.first.float(), self.first_targets, reduction=reduction),
            F.cross_entropy(
                self.rest.float().flatten(0, 1), self.rest_targets.flatten(), ignore_index=IGNORE, reduction=reduction
            ),
        )


class QTTSSettings(SequenceSettings):
    codebooks: some_of(BOOKS) = Field(BOOKS, description="numbers of codebooks to train, one drawn for each batch")
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
        self.books, self.delays = self.settings.codebooks, self.settings.delay
        self.own, self.distil, self.guide = self.settings.own, self.settings.distil, self.settings.guide
        self.adapt(torch.stack([book.entries for book in codec.quantizer.books]))
        self.data_summary = describe(self.data.speech, self.data.train)

    def adapt(self, entries: Tensor) -> None:
        """Make the adapter, begin with the codec's ``entries`` [K, N, width], and put its LoRA into the base."""
        self.adapter: Any = self.build(self.lm)
        self.adapter.codebooks.start_from(entries)
        lora.attach(self.lm.backbone, self.adapter.config.lora, self.adapter.lora)
        self.modules, self.helpers = {self.name: self.adapter}, {}

    def matrices(self) -> list[nn.Parameter]:
        adapter = self.adapter
        return [adapter.codebooks.into, adapter.codebooks.context, adapter.outer, *inner_matrices(adapter.lora)]

    def build(self, lm: LanguageModel) -> nn.Module:
        raise NotImplementedError

    def predict(self, batch: SpeechBatch, dials: Dials, heard: Tensor, guided: tuple[int, ...] = ()) -> Prediction:
        """``heard`` [B, F, K]: the codes that stand at the inputs; what is to be said is the batch's."""
        raise NotImplementedError

    def batch(self, rng: np.random.Generator, step: int) -> tuple[SpeechBatch, Dials]:
        return self.data.batch(rng), Dials(int(rng.choice(self.books)), int(rng.choice(self.delays)))

    def loss(self, batch: tuple[SpeechBatch, Dials], progress: Progress) -> tuple[Tensor, dict[str, float]]:
        speech, dials = batch
        own = bool(torch.rand(()) < self.own)
        heard = self.own_draws(speech, dials) if own else speech.codes[..., : dials.books]
        heard = add_noise(heard, self.adapter.config.entries, NOISE)
        said = self.predict(speech, dials, heard, ALIGNMENT_LAYERS if self.guide else ())
        first, rest = said.entropies()
        parts = {"book 1": first.item()} | ({} if own else {"others": rest.item()})
        if self.distil:
            # the end of speech has one too
            rows = torch.arange(heard.shape[1] + 1, device=heard.device) <= speech.frames[:, None]
            with torch.no_grad():
                law = base_logits(self.base, speech, heard[..., 0])[rows]
            base, told = as_base(said.first, law)
            first, parts = (1 - self.distil) * first + self.distil * base, parts | told
        if self.guide and bool((speech.alignment >= 0).any()):
            guide = guided_loss(said.looks, speech)
            first, parts = first + self.guide * guide, parts | {"guide": guide.item()}
        # behind what it drew itself the recording's finer codes mean nothing
        return first if own else first + rest, parts

    @torch.no_grad()
    def own_draws(self, batch: SpeechBatch, dials: Dials, generator: torch.Generator | None = None) -> Tensor:
        """Codes [B, F, K]: the first book is the batch's, the others are drawn as decoding draws them. Not one frame
        after the other, as ``drawn.py`` does once for all, but at once, from what stood there in the pass before: at
        first the
        recording's."""
        law, codes = higher_sampling(Sampling()), batch.codes[..., : dials.books].clone()
        spoken = torch.arange(codes.shape[1], device=codes.device) < batch.frames[:, None]
        for _ in range(PASSES):
            said = self.predict(batch, dials, codes)
            for k, (logits, targets) in enumerate(zip(said.rest, said.rest_targets), 1):
                there = targets != IGNORE  # an item's rows come in the order of its frames
                codes[..., k].masked_scatter_(spoken, sample(logits[there].float(), law, generator))
        return codes

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Held-out cross-entropy in nats and top-1 accuracy, of book 1 and of the other books, for several dials; and
        how much more book 1 costs, in the shorter half, behind finer books that the adapter drew itself, as it will
        speak."""
        batches, scores = self.data.held_out(batches=2), {}
        for dials in (d for d in self.scored if d.books in self.books and d.d in self.delays):
            sums, costs = np.zeros(6), []
            for batch in batches:
                p = self.predict(batch, dials, batch.codes[..., : dials.books])
                first, rest = p.entropies("sum")
                said = p.rest_targets != IGNORE
                hits = (p.first.argmax(-1) == p.first_targets).sum(), (p.rest.argmax(-1) == p.rest_targets).sum()
                sums += [float(v) for v in (first, hits[0], len(p.first_targets), rest, hits[1], said.sum())]
                costs.append(float(first) / len(p.first_targets))
            for book, (entropy, hits, count) in zip(("book 1", "other books"), sums.reshape(2, 3)):
                scores |= {f"{dials}: {book}, nats": entropy / count, f"{dials}: {book}, top-1": hits / count}
            draws = self.own_draws(batches[0], dials, torch.Generator(self.lm.device).manual_seed(0))
            own = self.predict(batches[0], dials, draws).entropies()[0].item()
            scores[f"{dials}: book 1 behind its own draws, nats more"] = own - costs[0]
        return scores


def padded_codes(batch: SpeechBatch, heard: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """heard [B, F, K] -> input codes [B, F, K], ``pad`` behind an item's end; the batch's as targets [B, F, K],
    ``IGNORE`` there."""
    spoken = (torch.arange(heard.shape[1], device=heard.device) < batch.frames[:, None])[..., None]
    return torch.where(spoken, heard, pad), torch.where(spoken, batch.codes[..., : heard.shape[-1]], IGNORE)
