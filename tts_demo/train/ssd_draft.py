"""Recipe ``ssd-draft``: the first blocks and the head of the draft of speech speculative decoding.

Section 2.3: the last blocks, the norm and the embeddings are the base model's and stay frozen; what is trained starts as
the base's. The loss is cross-entropy to the data (equation 7) mixed with cross-entropy to the frozen base model's own
distribution, because a draft is accepted for agreeing with the base, not with the recording: ``--set distil=0`` leaves
the paper's loss alone. Beside it stands what decides at run time, between the laws that tokens are really drawn from (after
temperature, top-k and top-p, default sampling): the share of drafted tokens that would be rejected (their total variation
distance), and the mass on tokens that the base would never draw, which is what a tolerance lets through.

Every token is learnt from twice, as it is when drafting: first of a pass, where the draft has heard the base about everything,
and again one to three tokens deep, where it hears itself since the pass began. Some input tokens are replaced at random.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LMConfig, Sampling
from ..lm.masks import causal_mask
from ..lm.model import LanguageModel
from ..lm.sampling import distribution
from ..methods.ssd import Draft, before
from .data import describe
from .forward import train_forward
from .lm import add_noise, base_inputs
from .load import load_lm, scale, sequences
from .loop import Task, TrainOptions
from .sequences import SpeechBatch, attention_mask, prefix_batch, speech_targets

NOISE = 0.05  # share of input tokens replaced
REJECTED, ASTRAY = 4.0, 2.0  # weights beside the cross-entropy
DEEPEST = 3  # tokens back to the last that the base was heard about


def apart(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [N, V] of draft and base -> [N] each, under the default sampling (repetition left aside): the chance that a drafted
    token is rejected at tolerance 0, and the draft's mass on tokens that the base would never draw. Differentiable."""
    p, q = (distribution(logits, Sampling()) for logits in (student, teacher))
    return (p - q).clamp(min=0).sum(-1), p.where(q == 0, 0.0).sum(-1)


def depths(count: int, phase: int | Tensor, device: torch.device | str | None = None) -> Tensor:
    """[F]: how many of the last tokens, each of F included, were drafted in the same pass: 1 to DEEPEST in turn, never more than
    there are; ``phase`` moves where passes begin."""
    place = torch.arange(count, device=device)
    return torch.minimum(1 + (place + phase) % DEEPEST, place + 1)


def drafting_mask(depth: Tensor) -> Tensor:
    """Mask [2F, 2F] of every token heard the base about, then of every token as drafted: a drafted one sees those of its own
    pass, ``depth`` [F] of them, and what the base was heard about before."""
    count, device = len(depth), depth.device
    causal = causal_mask(count, count, device)
    place = torch.arange(count, device=device)
    same_pass = place > (place - depth)[:, None]
    return torch.cat([torch.cat([causal, torch.zeros_like(causal)], 1),
                      torch.cat([causal & ~same_pass, causal & same_pass], 1)])


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
        student, teacher, targets, _ = self.logits(batch, NOISE, torch.randint(DEEPEST, (), device=batch.codes.device))
        spoken = targets >= 0
        student, targets = student[spoken].float(), targets[spoken]
        truth = F.cross_entropy(student, targets)
        base = F.cross_entropy(student, teacher[spoken].float().softmax(-1))
        rejected, astray = (share.mean() for share in apart(student, teacher[spoken].float()))
        loss = (1 - self.distil) * truth + self.distil * (base + REJECTED * rejected + ASTRAY * astray)
        return loss, {"ce": truth.item(), "distil": base.item(), "rejected": rejected.item(), "astray": astray.item()}

    def logits(self, batch: SpeechBatch, noise: float = 0.0, phase: int | Tensor = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What comes after TASK and every token, [B, F + 1], then after every token again as drafted, [B, F]: the draft's and the
        base's logits [B, 2F + 1, V], targets [B, 2F + 1] and how deep in a pass each stands [2F + 1], 0 = its first token."""
        lm, prefix = self.lm, prefix_batch(self.lm, batch)
        x, positions, mask = base_inputs(lm, prefix, add_noise(batch.codes[..., 0], lm.config.speech_codes, noise))
        task, depth = prefix.x.shape[1] - 1, depths(batch.codes.shape[1], phase, x.device)
        with torch.no_grad():
            hidden = train_forward(lm, x, positions, mask)[0]
            teacher, heard = lm.head(hidden[:, task:]), before(hidden, task + 1)
            first = train_forward(self.shallow, x + self.draft.listen(heard), positions, mask)[0][:, task:-1]
        x, positions = (torch.cat([rows, rows[:, task + 1:]], 1) for rows in (x, positions))
        mask = attention_mask(prefix, drafting_mask(depth), lm.config.bidirectional_text)
        itself = first
        for deep in range(1, DEEPEST + 1):  # a token as deep as that hears itself rightly from here on
            with torch.set_grad_enabled(deep == DEEPEST and torch.is_grad_enabled()):
                fed = x + self.draft.listen(torch.cat([heard, itself], 1))
                hidden = train_forward(self.shallow, fed, positions, mask)[0]
            itself = torch.where(depth[:, None] == 1, first, F.pad(hidden[:, -len(depth):-1], (0, 0, 1, 0)))
        targets = speech_targets(batch, lm.config.eos)
        return (self.draft.head(hidden[:, task:]), torch.cat([teacher, teacher[:, 1:]], 1),
                torch.cat([targets, targets[:, 1:]], 1), F.pad(depth, (len(depth) + 1, 0)))

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On held-out speech: cross-entropy of draft and base, the share of drafted tokens that would be accepted, the first of a
        pass and those behind it, and the mass on tokens that the base would never draw, of first tokens."""
        sums, counts = np.zeros((5, DEEPEST + 1)), np.zeros(DEEPEST + 1)
        for batch in self.data.held_out():
            student, teacher, targets, depth = self.logits(batch)
            spoken = targets >= 0
            depth = depth.expand(len(targets), -1)[spoken].cpu().numpy()
            student, teacher, targets = student[spoken].float(), teacher[spoken].float(), targets[spoken]
            rejected, astray = apart(student, teacher)
            values = (F.cross_entropy(student, targets, reduction="none"), F.cross_entropy(teacher, targets, reduction="none"),
                      student.argmax(-1) == targets, 1 - rejected, astray)
            sums += [np.bincount(depth, v.double().cpu().numpy(), DEEPEST + 1) for v in values]
            counts += np.bincount(depth, minlength=DEEPEST + 1)
        means = sums / counts
        names = ("draft cross-entropy", "base cross-entropy", "draft accuracy", "acceptance at tolerance 0", "mass the base never draws")
        deeper = {f"acceptance at tolerance 0, {n}": float(v) for n, v in zip(("second token", "third token", "fourth token"), means[3, 1:])}
        return dict(zip(names, means[:, 0].tolist())) | deeper
