"""Recipe ``ssd-draft``: the first blocks and the head of the draft of speech speculative decoding.

Section 2.3: the last blocks, the norm and the embeddings are the base model's and stay frozen; what is trained starts as
the base's. The loss is cross-entropy to the data (equation 7) mixed with cross-entropy to the frozen base model's own
distribution, because a draft is accepted for agreeing with the base, not with the recording: ``--set distil=0`` leaves
the paper's loss alone. Beside it stands what decides at run time, between the laws that tokens are really drawn from (after
temperature, top-k and top-p, default sampling): the share of drafted tokens that would be rejected (their total variation
distance), and the mass on tokens that the base would never draw, which is what a tolerance lets through. At half of the positions, drawn at random, the draft hears its own hidden state instead of the base's,
as it does while it drafts. Some input tokens are replaced at random.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LMConfig, Sampling
from ..lm.model import LanguageModel
from ..lm.sampling import distribution
from ..methods.ssd import Draft, before
from .data import describe
from .forward import train_forward
from .lm import add_noise, base_inputs
from .load import load_lm, scale, sequences
from .loop import Task, TrainOptions
from .sequences import SpeechBatch, prefix_batch, speech_targets


NOISE = 0.05  # share of input tokens replaced
REJECTED, ASTRAY = 2.0, 1.0  # weights beside the cross-entropy
OWN = 0.5  # share of positions at which the draft hears itself


def apart(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [N, V] of draft and base -> [N] each, under the default sampling (repetition left aside): the chance that a drafted
    token is rejected at tolerance 0, and the draft's mass on tokens that the base would never draw. Differentiable."""
    p, q = (distribution(logits, Sampling()) for logits in (student, teacher))
    return (p - q).clamp(min=0).sum(-1), p.where(q == 0, 0.0).sum(-1)


@dataclass(frozen=True)
class _Blocks:
    layers: list[nn.Module]
    norm: nn.Module


@dataclass(frozen=True)
class ShallowLM:
    """What ``train_forward`` reads of a language model, for the draft: its blocks and the base's norm."""

    config: LMConfig
    backbone: _Blocks

    @classmethod
    def of(cls, lm: LanguageModel, draft: Draft) -> ShallowLM:
        blocks = draft.blocks(lm)
        return cls(replace(lm.config, layers=len(blocks)), _Blocks(blocks, lm.backbone.norm))


class DraftTask(Task):
    name = "ssd-draft"
    steps, lr = 400, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        self.lm = load_lm(options).requires_grad_(False)
        self.steps, self.lr, frames = scale(self, self.lm, 3000)
        self.data = sequences(options, frames=options.batch or frames)
        self.draft = Draft(self.lm).requires_grad_(True)
        self.shallow = ShallowLM.of(self.lm, self.draft)
        self.distil = float(options.settings.get("distil", 0.8))
        self.modules, self.helpers = {"ssd-draft": self.draft}, {}
        self.data_summary = describe(self.data.speech, self.data.train)

    def batch(self, rng: np.random.Generator, step: int) -> SpeechBatch:
        return self.data.batch(rng)

    def loss(self, batch: SpeechBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        student, teacher, targets = self.logits(batch, NOISE, OWN)
        spoken = targets >= 0
        student, targets = student[spoken].float(), targets[spoken]
        truth = F.cross_entropy(student, targets)
        base = F.cross_entropy(student, teacher[spoken].float().softmax(-1))
        rejected, astray = (share.mean() for share in apart(student, teacher[spoken].float()))
        loss = (1 - self.distil) * truth + self.distil * (base + REJECTED * rejected + ASTRAY * astray)
        return loss, {"ce": truth.item(), "distil": base.item(), "rejected": rejected.item(), "astray": astray.item()}

    def logits(self, batch: SpeechBatch, noise: float = 0.0, own: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
        """The draft's and the base's logits [B, F + 1, V] at every position that says speech, targets [B, F + 1]. ``own``: share
        of positions at which the draft hears itself, who hears the base."""
        lm, prefix = self.lm, prefix_batch(self.lm, batch)
        x, positions, mask = base_inputs(lm, prefix, add_noise(batch.codes[..., 0], lm.config.speech_codes, noise))
        start = prefix.x.shape[1] - 1
        with torch.no_grad():
            hidden = train_forward(lm, x, positions, mask)[0]
            teacher, heard = lm.head(hidden[:, start:]), before(hidden, start + 1)
            if own:
                itself = before(train_forward(self.shallow, x + self.draft.listen(heard), positions, mask)[0], start + 1)
                heard = torch.where(torch.rand(x.shape[:2], device=x.device)[..., None] < own, itself, heard)
        hidden, _ = train_forward(self.shallow, x + self.draft.listen(heard), positions, mask)
        return self.draft.head(hidden[:, start:]), teacher, speech_targets(batch, lm.config.eos)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On held-out speech: cross-entropy of draft and base, the share of drafted tokens that would be accepted, first ones
        and second ones, and the draft's mass on tokens that the base would never draw."""
        sums, count = np.zeros(6), 0
        for batch in self.data.held_out():
            student, teacher, targets = self.logits(batch)
            second = self.logits(batch, own=1.0)[0]
            spoken = targets >= 0
            student, second, teacher, targets = student[spoken].float(), second[spoken].float(), teacher[spoken].float(), targets[spoken]
            rejected, astray = apart(student, teacher)
            sums += [float(v.sum()) for v in (
                F.cross_entropy(student, targets, reduction="none"), F.cross_entropy(teacher, targets, reduction="none"),
                student.argmax(-1) == targets, 1 - rejected, 1 - apart(second, teacher)[0], astray)]
            count += len(targets)
        names = ("draft cross-entropy", "base cross-entropy", "draft accuracy", "acceptance at tolerance 0",
                 "acceptance at tolerance 0, second token", "mass the base never draws")
        return dict(zip(names, (sums / count).tolist()))
