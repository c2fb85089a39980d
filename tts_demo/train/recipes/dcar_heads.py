"""Recipe ``dcar-heads``: six extra heads and LoRA on the frozen backbone (DCAR, section 3.1).

The base head stays frozen and keeps its term in the loss, so that LoRA may not spoil it. The paper weighs all heads
alike, in a model that learns them from the start; beside a LoRA of a base that is done, six new heads pull it away from
what it says next, so the base head weighs ``--set base=3`` times as much here and a
later head less than the one before it. ``--set distil=0.6`` mixes in cross-entropy to the law that the frozen base has
of a token once it has heard all before it: averaged over those, it is the law that a head must have. Some input tokens
are replaced at random, as in the base model's recipe: chunks are drawn blindly, and err.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ...lm import lora
from ...lm.block import training_forward
from ...methods.dcar.heads import Heads
from ..data.corpora import describe
from ..data.load import load_lm, scale, sequences
from ..data.sequences import SpeechBatch, prefix_batch, speech_targets
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import SequenceSettings, Share, Weight
from ..task import Task, TrainOptions
from .lm import add_noise, base_inputs, base_logits

IGNORE = -100
NOISE = 0.08  # share of input tokens replaced
LATER = 0.9  # weight of a head over that of the one before it


def head_targets(targets: Tensor, heads: int) -> Tensor:
    """targets [B, F + 1] of the base head, y_{t+1} at row t -> [1 + heads, B, F + 1]: head j must say y_{t+1+j} there;
    behind the end there is nothing to say."""
    shifted = [F.pad(targets[:, j:], (0, min(j, targets.shape[1])), value=IGNORE) for j in range(heads + 1)]
    return torch.stack(shifted)


def head_weights(heads: int, base: float) -> list[float]:
    """Of the base head, ``base`` times the first of the others, and of those: they sum to 1."""
    weights = [base, *(LATER**j for j in range(heads))]
    return [weight / sum(weights) for weight in weights]


def entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of logits [R, V], 0 where there are none: speech that ends before a head's reach."""
    return F.cross_entropy(logits, targets, reduction="sum") / max(1, len(logits))


class HeadsSettings(SequenceSettings):
    base: Weight = Field(3.0, description="weight of the base head over that of the first extra head")
    distil: Share = Field(0.0, description="share of the cross-entropy to the base model's distribution in the loss")


class HeadsTask(Task):
    Settings = HeadsSettings
    settings: HeadsSettings
    name = "dcar-heads"
    steps, lr = 500, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.lm = load_lm(options).requires_grad_(False)
        self.steps, self.lr, frames = scale(self, self.lm, 2500)
        self.data = sequences(options, self.settings, frames=options.batch or frames)
        self.data_summary = describe(self.data.speech, self.data.train)
        self.heads = Heads(self.lm)
        self.distil = self.settings.distil
        self.base = load_lm(options).requires_grad_(False) if self.distil else None  # without the LoRA
        self.weights = head_weights(self.heads.config.heads, self.settings.base)
        lora.attach(self.lm.backbone, self.heads.config.lora, self.heads.lora)
        self.modules, self.helpers = {"dcar-heads": self.heads}, {}

    def matrices(self) -> list[nn.Parameter]:
        return [self.heads.weight, *inner_matrices(self.heads.lora)]

    def batch(self, rng: np.random.Generator, step: int) -> SpeechBatch:
        return self.data.batch(rng)

    def loss(self, batch: SpeechBatch, progress: Progress) -> tuple[Tensor, dict[str, float]]:
        heard = add_noise(batch.codes[..., 0], self.lm.config.speech_codes, NOISE)
        said, targets, logits = self.said(batch, heard)
        each = [entropy(x, targets[about]) for about, x in logits]
        truth = sum(w * loss for w, loss in zip(self.weights, each))
        parts = {"base": each[0].item(), "second": each[1].item(), "last": each[-1].item()}
        if self.base is None:
            return truth, parts
        with torch.no_grad():
            law = base_logits(self.base, batch, heard)[said].float().softmax(-1)  # [N, V]
        distil = sum(w * entropy(x, law[about]) for w, (about, x) in zip(self.weights, logits))
        return (1 - self.distil) * truth + self.distil * distil, parts | {"distil": distil.item()}

    def said(self, batch: SpeechBatch, heard: Tensor) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
        """Which rows [B, F + 1] say something after the tokens ``heard`` [B, F], the target of each such row [N], and
        of the base head and the six others: which of those rows' targets they are about [R], logits [R, V]."""
        lm, prefix = self.lm, prefix_batch(self.lm, batch)
        hidden, _ = training_forward(lm, *base_inputs(lm, prefix, heard))
        targets = speech_targets(batch, lm.config.eos, IGNORE)
        said = targets != IGNORE
        rows = hidden[:, prefix.x.shape[1] - 1 :][said]  # row t has read t speech tokens
        number = torch.where(said, said.flatten().cumsum(0).view_as(said) - 1, IGNORE)
        about = head_targets(number, self.heads.config.heads)[:, said]
        logits = torch.cat([lm.head(rows)[None], self.heads(rows)])
        return said, targets[said], [(a[a != IGNORE], x[a != IGNORE].float()) for a, x in zip(about, logits)]

    def scores(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """Cross-entropy and accuracy [7] of the base head and the six others, over the positions each one has."""
        _, targets, logits = self.said(batch, batch.codes[..., 0])
        losses = [entropy(x, targets[about]) for about, x in logits]
        right = [(x.argmax(-1) == targets[about]).sum() / max(1, len(x)) for about, x in logits]
        return torch.stack(losses), torch.stack(right)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Cross-entropy and accuracy of every head on held-out speech."""
        scored = [self.scores(batch) for batch in self.data.held_out(batches=4)]
        losses, right = (torch.stack(part).mean(0).tolist() for part in zip(*scored))
        return {
            f"head {j} ({j + 1} ahead) {kind}": values[j]
            for kind, values in (("cross-entropy", losses), ("accuracy", right))
            for j in range(len(values))
        }
