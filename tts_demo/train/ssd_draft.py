"""Recipe ``ssd-draft``: the first blocks and the head of the draft of speech speculative decoding.

Section 2.3: the last blocks, the norm and the embeddings are the base model's and stay frozen; what is trained starts as
the base's. The loss is cross-entropy to the data (equation 7) mixed with cross-entropy to the frozen base model's own
distribution, because a draft is accepted for agreeing with the base, not with the recording: ``--set distil=0`` leaves
the paper's loss alone. The bundled model's blocks were guided to the text (``lm.py``), so its draft's second block begins as
one of those, not as the base's second, and stays guided (``--set guide=0``: not). Some input tokens are replaced at random.
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
from ..methods.ssd import Draft
from .data import describe
from .forward import train_forward
from .lm import GUIDED, add_noise, base_inputs, guided_loss
from .load import load_lm, scale, sequences
from .loop import Task, TrainOptions
from .sequences import SpeechBatch, prefix_batch, speech_targets


NOISE = 0.05  # share of input tokens replaced


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
        starts = (0, 1) if options.stack else (0, GUIDED[1])
        self.draft = Draft(self.lm, starts).requires_grad_(True)
        self.shallow = ShallowLM.of(self.lm, self.draft)
        self.distil = float(options.settings.get("distil", 0.8))
        self.guide = float(options.settings.get("guide", 0.3))
        self.modules, self.helpers = {"ssd-draft": self.draft}, {}
        self.data_summary = describe(self.data.speech, self.data.train)

    def batch(self, rng: np.random.Generator, step: int) -> SpeechBatch:
        return self.data.batch(rng)

    def loss(self, batch: SpeechBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        student, teacher, targets, guided = self.logits(batch, NOISE)
        spoken = targets >= 0
        student, targets = student[spoken].float(), targets[spoken]
        truth = F.cross_entropy(student, targets)
        base = F.cross_entropy(student, teacher[spoken].float().softmax(-1))
        agree = (student.argmax(-1) == teacher[spoken].argmax(-1)).float().mean()
        loss, parts = (1 - self.distil) * truth + self.distil * base, {"ce": truth.item(), "distil": base.item(), "agree": agree.item()}
        if self.guide and bool((batch.alignment >= 0).any()):
            guide = guided_loss(guided, batch)
            loss, parts["guide"] = loss + self.guide * guide, guide.item()
        return loss, parts

    def logits(self, batch: SpeechBatch, noise: float = 0.0) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """The draft's and the base's logits [B, F + 1, V] at every position that says speech, targets [B, F + 1], and the log
        attention of the draft's last own block on the text [B, F + 1, T]."""
        lm, prefix = self.lm, prefix_batch(self.lm, batch)
        x, positions, mask = base_inputs(lm, prefix, add_noise(batch.codes[..., 0], lm.config.speech_codes, noise))
        start, text = prefix.x.shape[1] - 1, batch.text.shape[1]
        with torch.no_grad():
            teacher = lm.head(train_forward(lm, x, positions, mask)[0][:, start:])
        hidden, guided = train_forward(self.shallow, x, positions, mask, (self.draft.config.trained - 1,),
                                       slice(start, None), slice(start - text, start))
        return self.draft.head(hidden[:, start:]), teacher, speech_targets(batch, lm.config.eos), guided

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On held-out speech: cross-entropy of draft and base, and the share of drafted tokens that would be accepted,
        1 - (the distance of the two laws), under the default sampling. Repetition is left aside."""
        sums, count = np.zeros(5), 0
        for batch in self.data.held_out():
            student, teacher, targets, _ = self.logits(batch)
            spoken = targets >= 0
            student, teacher, targets = student[spoken].float(), teacher[spoken].float(), targets[spoken]
            laws = [torch.minimum(distribution(student, s), distribution(teacher, s)).sum(-1).sum()
                    for s in (Sampling(), Sampling(temperature=0))]
            ahead = (student.argmax(-1) == targets).sum()
            sums += [float(v) for v in (F.cross_entropy(student, targets, reduction="sum"),
                                        F.cross_entropy(teacher, targets, reduction="sum"), ahead, *laws)]
            count += len(targets)
        names = ("draft cross-entropy", "base cross-entropy", "draft accuracy", "acceptance at tolerance 0",
                 "greedy acceptance at tolerance 0")
        return dict(zip(names, (sums / count).tolist()))
