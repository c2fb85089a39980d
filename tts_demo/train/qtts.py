"""What the recipes ``qtts-delay`` and ``qtts-hierarchical`` share: dials drawn per batch, loss and held-out scores.

The base model is frozen; LoRA, the vectors of books 2 to K and the heads or the depth decoder learn. The codes' vectors
start as the codec's own entries. K and d are drawn for each batch, so that one adapter serves every setting of the page;
``--set codebooks=8 delay=1`` trains that one alone. Some input codes are replaced at random, as in the base's recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import checkpoints
from ..config import UserError
from ..lm import lora
from ..lm.model import LanguageModel
from .data import describe
from .lm import add_noise
from .load import load_lm, sequences
from .loop import Task, TrainOptions
from .sequences import SpeechBatch

IGNORE = -100
NOISE = 0.06  # share of input codes replaced
BOOKS = (2, 4, 8, 8)  # drawn evenly: all the books twice as often
DELAYS = (1, 1, 2, 3, 4)


@dataclass(frozen=True)
class Dials:
    books: int
    d: int = 1

    def __str__(self) -> str:
        return f"{self.books} books, delay {self.d}"


@dataclass(frozen=True)
class Prediction:
    """Teacher-forced: logits [R, V] and targets [R] of book 1, end of speech included; logits [K - 1, R', entries] and
    targets [K - 1, R'] of the others, ``IGNORE`` where there is nothing to say."""

    first: Tensor
    first_targets: Tensor
    rest: Tensor
    rest_targets: Tensor

    def entropies(self, reduction: str = "mean") -> tuple[Tensor, Tensor]:
        """Cross-entropy of book 1 and of the other books together."""
        return (F.cross_entropy(self.first.float(), self.first_targets, reduction=reduction),
                F.cross_entropy(self.rest.float().flatten(0, 1), self.rest_targets.flatten(), ignore_index=IGNORE,
                                reduction=reduction))


class QTTSTask(Task):
    name: ClassVar[str]
    lr = 1.5e-3
    scored: ClassVar[tuple[Dials, ...]]

    def __init__(self, options: TrainOptions) -> None:
        self.data = sequences(options, frames=options.batch or 2400)
        self.lm = load_lm(options).requires_grad_(False)
        codec = checkpoints.load_module(options.checkpoint, "codec")
        self.books = drawn(options.settings, "codebooks", BOOKS)
        self.delays = drawn(options.settings, "delay", DELAYS)
        self.adapt(torch.stack([book.entries for book in codec.quantizer.books]))
        self.data_summary = describe(self.data.speech, self.data.train)

    def adapt(self, entries: Tensor) -> None:
        """Make the adapter, begin with the codec's ``entries`` [K, N, width], and put its LoRA into the base."""
        self.adapter: Any = self.build(self.lm)
        self.adapter.books.start_from(entries)
        lora.attach(self.lm.backbone, self.adapter.config.lora, self.adapter.lora)
        self.modules, self.helpers = {self.name: self.adapter}, {}

    def build(self, lm: LanguageModel) -> nn.Module:
        raise NotImplementedError

    def predict(self, batch: SpeechBatch, dials: Dials, noise: float) -> Prediction:
        raise NotImplementedError

    def batch(self, rng: np.random.Generator, step: int) -> tuple[SpeechBatch, Dials]:
        return self.data.batch(rng), Dials(int(rng.choice(self.books)), int(rng.choice(self.delays)))

    def loss(self, batch: tuple[SpeechBatch, Dials], step: int) -> tuple[Tensor, dict[str, float]]:
        first, rest = self.predict(*batch, NOISE).entropies()
        return first + rest, {"book 1": first.item(), "others": rest.item()}

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Held-out cross-entropy in nats and top-1 accuracy, of book 1 and of the other books, for several dials."""
        scores = {}
        for dials in (d for d in self.scored if d.books in self.books and d.d in self.delays):
            sums = np.zeros(6)
            for batch in self.data.held_out(batches=2):
                p = self.predict(batch, dials, 0.0)
                first, rest = p.entropies("sum")
                sums += [float(v) for v in (first, (p.first.argmax(-1) == p.first_targets).sum(), len(p.first_targets),
                                            rest, (p.rest.argmax(-1) == p.rest_targets).sum(),
                                            (p.rest_targets != IGNORE).sum())]
            for book, (entropy, hits, count) in zip(("book 1", "other books"), sums.reshape(2, 3)):
                scores |= {f"{dials}: {book}, nats": entropy / count, f"{dials}: {book}, top-1": hits / count}
        return scores


def drawn(settings: dict[str, str], key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """The values a dial is drawn from: ``--set key=2,4`` or the default."""
    words = settings.get(key, "").split(",") if settings.get(key) else [str(v) for v in default]
    if any(not w.isdigit() or int(w) not in default for w in words):
        raise UserError(f"{key} must be some of {', '.join(map(str, sorted(set(default))))}, separated by commas.")
    return tuple(int(w) for w in words)


def noisy_codes(batch: SpeechBatch, books: int, pad: int, noise: float) -> tuple[Tensor, Tensor]:
    """-> input codes [B, F, K], some replaced, ``pad`` behind an item's end; targets [B, F, K], ``IGNORE`` there."""
    codes = batch.codes[..., :books]
    spoken = (torch.arange(codes.shape[1], device=codes.device) < batch.frames[:, None])[..., None]
    return torch.where(spoken, add_noise(codes, pad, noise), pad), torch.where(spoken, codes, IGNORE)
