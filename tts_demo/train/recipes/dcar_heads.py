"""Recipe ``dcar-heads``: six extra heads and LoRA on the frozen backbone (DCAR, section 3.1).

The base head stays frozen and keeps its term in the loss, so that LoRA may not spoil it; all heads weigh the same,
which the paper found best.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm import lora
from ...lm.block import training_forward
from ...methods.dcar.heads import Heads
from ..data.corpora import describe
from ..data.load import load_lm, scale, sequences
from ..data.sequences import SpeechBatch, prefix_batch, speech_targets
from ..loop import Task, TrainOptions
from ..optimiser import inner_matrices
from .lm import base_inputs

IGNORE = -100


def head_targets(targets: Tensor, heads: int) -> Tensor:
    """targets [B, F + 1] of the base head, y_{t+1} at row t -> [1 + heads, B, F + 1]: head j must say y_{t+1+j} there;
    behind the end there is nothing to say."""
    shifted = [F.pad(targets[:, j:], (0, min(j, targets.shape[1])), value=IGNORE) for j in range(heads + 1)]
    return torch.stack(shifted)


class HeadsTask(Task):
    name = "dcar-heads"
    steps, lr = 500, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        self.lm = load_lm(options).requires_grad_(False)
        self.steps, self.lr, frames = scale(self, self.lm, 2500)
        self.data = sequences(options, frames=options.batch or frames)
        self.data_summary = describe(self.data.speech, self.data.train)
        self.heads = Heads(self.lm)
        lora.attach(self.lm.backbone, self.heads.config.lora, self.heads.lora)
        self.modules, self.helpers = {"dcar-heads": self.heads}, {}

    def matrices(self) -> list[nn.Parameter]:
        return [self.heads.weight, *inner_matrices(self.heads.lora)]

    def batch(self, rng: np.random.Generator, step: int) -> SpeechBatch:
        return self.data.batch(rng)

    def loss(self, batch: SpeechBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        losses, _ = self.scores(batch)
        return losses.mean(), {"base": losses[0].item(), "second": losses[1].item(), "last": losses[-1].item()}

    def scores(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """Cross-entropy and accuracy [7] of the base head and the six others, over the positions each one has."""
        lm, prefix = self.lm, prefix_batch(self.lm, batch)
        x, positions, mask = base_inputs(lm, prefix, batch.codes[..., 0])
        hidden, _ = training_forward(lm, x, positions, mask)
        hidden = hidden[:, prefix.x.shape[1] - 1 :]  # [B, F + 1, H], row t has read t speech tokens
        targets = head_targets(speech_targets(batch, lm.config.eos, IGNORE), self.heads.config.heads)
        spoken = targets[0] != IGNORE  # rows of padding say nothing with any head
        rows, targets = hidden[spoken], targets[:, spoken]
        logits = torch.cat([lm.head(rows)[None], self.heads(rows)]).float()
        losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="none")
        counts = (targets != IGNORE).sum(1).clamp(min=1)
        right = (logits.detach().argmax(-1) == targets).sum(1)
        return losses.view_as(targets).sum(1) / counts, right / counts

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
