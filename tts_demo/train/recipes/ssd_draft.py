"""Recipe ``ssd-draft``: the first blocks and the head of the draft of speech speculative decoding.

Section 2.3: the last blocks, the norm and the embeddings are the base model's and stay frozen; what is trained starts
as the base's. The loss is cross-entropy to the data (equation 7; alone with ``distil=0``) mixed with cross-entropy to
the frozen base model's own distribution, because a draft is accepted for agreeing with the base, not with the
recording. Beside it stands what decides at run time (``lm.disagreement``): the share of drafted tokens that would be
rejected, and the mass on tokens that the base would never draw, which is what a tolerance lets through.

Every token is trained at each depth of a drafting pass: as its first token, for which the base's features of all
tokens before are known, and one to three tokens deep, where the draft's own features stand in for those of the tokens
drafted so far. ``on_policy``: batches sampled from the base model (from the start or from some frame on), as in
decoding; there the base's distribution is the only target. In recordings some input tokens are replaced at random.

A draft that attends to the base's keys and values can begin with published weights of one with a cache of its own, and
the other way round.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ...config import Sampling
from ...lm import Backend, Decoder
from ...lm.block import training_forward
from ...lm.sampling import probabilities
from ...methods.ssd import Draft
from ...methods.ssd.draft import DraftConfig
from ...runtime import autocast, precision
from ..data.corpora import describe
from ..data.load import load_lm, scale, sequences
from ..data.on_policy import PER_GROUP, REPEATS, OnPolicy, generate
from ..data.sequences import SpeechBatch, prefix_batch, speech_targets
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import Count, SequenceSettings, Share
from ..task import Loss, Task, TrainOptions
from .drafting import at_every_depth, base_memory
from .lm import OUTSIDE, REJECTION, add_noise, base_inputs, disagreement

NOISE = 0.05  # share of input tokens replaced
DEEPEST = 3  # tokens drafted before the deepest one of a pass
REACHED = 0.85  # weight of a token over that of the one before it in a pass: so often it is reached


@dataclass(frozen=True)
class DraftBatch:
    """Speech to learn from. hidden: the base's states [B, F + 1, H] that said it; None: a recording. memory: the base's
    keys and values that the draft attends to (``base_memory``), where they are known already."""

    batch: SpeechBatch
    hidden: Tensor | None = None
    memory: list[tuple[Tensor, Tensor]] | None = None


@dataclass(frozen=True)
class Predictions:
    """What draft and base say of all tokens at all depths, those that mean nothing left out: logits of the draft [N, V]
    and of the base [M, V], which of those each of the draft's is about [N], targets [M] (-100: none) and depths [N], 0
    being the first token of a pass."""

    student: Tensor
    teacher: Tensor
    about: Tensor
    targets: Tensor
    depth: Tensor


class DraftSettings(SequenceSettings):
    distil: Share = Field(0.8, description="share of the cross-entropy to the base model's distribution in the loss")
    on_policy: Share = Field(0.0, description="share of the batches that are the base model's own samples")
    group: Count = Field(PER_GROUP, description="batches that are sampled at once: many rows decode at less a row")
    repeats: Count = Field(REPEATS, description="steps that use each sampled batch")
    cache: Literal["base", "own"] | None = Field(
        None, description="whose keys and values the draft attends to; by default the base's, if it has one own block"
    )


class DraftTask(Task):
    Settings = DraftSettings
    settings: DraftSettings
    name = "ssd-draft"
    steps, lr = 400, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.lm = load_lm(options).requires_grad_(False)
        self.steps, self.lr, frames = scale(self, self.lm, 3000)
        self.data = sequences(options, self.settings, frames=options.batch or frames)
        kind = {"base": True, "own": False, None: None}[self.settings.cache]
        self.draft = Draft(self.lm, DraftConfig.of(self.lm.config, kind)).requires_grad_(True)
        self.distil = self.settings.distil
        backend = Backend(self.lm.device, precision(options.device))  # many rows at once are fastest so
        self.decoder = Decoder.from_model(self.lm, backend=backend)
        steps = self.settings.group * self.settings.repeats
        self.on_policy_samples = OnPolicy(self.settings.on_policy, options.seed, self._say, steps=steps)
        self.modules, self.helpers = {"ssd-draft": self.draft}, {}
        self.data_summary = describe(self.data.speech, self.data.train)

    def matrices(self) -> list[nn.Parameter]:
        return [self.draft.feature_projection.weight, *inner_matrices(self.draft.layers)]

    def batch(self, rng: np.random.Generator, step: int) -> DraftBatch:
        return self.on_policy_samples.batch(step, self.process) or DraftBatch(self.data.batch(rng))

    def _say(self, rng: np.random.Generator) -> list[DraftBatch]:
        """A group of batches sampled from the base model, whole or from a random frame of the recordings on."""
        batch = self.data.batch(rng, self.settings.group)
        kept = int(rng.integers(int(batch.frames.min()))) if rng.random() < 0.5 else 0
        generator = torch.Generator(batch.codes.device).manual_seed(int(rng.integers(2**62)))
        generated, hidden = generate(self.lm, self.decoder, batch, kept, Sampling(), generator)
        order = generated.frames.argsort()  # of like length together
        parts = [_part(generated, hidden, rows) for rows in order.chunk(self.settings.group)]
        return [self._remembered(part) for part in parts] if self.draft.config.base_layers else parts

    def _remembered(self, speech: DraftBatch) -> DraftBatch:
        """With the base's keys and values, which several steps use."""
        with autocast(self.lm.device):
            inputs = base_inputs(self.lm, prefix_batch(self.lm, speech.batch), speech.batch.codes[..., 0])
            _, memory = base_memory(self.lm, inputs, self.draft.config.base_layers)
        return replace(speech, memory=memory)

    def loss(self, speech: DraftBatch, progress: Progress) -> Loss:
        rows = self.rows(speech, NOISE if speech.hidden is None else 0.0)
        student, weight = rows.student.float(), REACHED**rows.depth
        weight = weight / weight.sum()
        teacher = rows.teacher.float()
        truth = F.cross_entropy(student, rows.targets[rows.about], reduction="none") @ weight
        base = F.cross_entropy(student, teacher.softmax(-1)[rows.about], reduction="none") @ weight
        shares = disagreement(student, probabilities(teacher, Sampling())[rows.about])
        rejected, outside = (share @ weight for share in shares)
        distil = self.distil if speech.hidden is None else 1.0
        loss = (1 - distil) * truth + distil * (base + REJECTION * rejected + OUTSIDE * outside)
        return loss, {"ce": truth.item(), "distil": base.item(), "rejected": rejected.item(), "outside": outside.item()}

    def rows(self, speech: DraftBatch, noise: float = 0.0) -> Predictions:
        lm, batch = self.lm, speech.batch
        prefix = prefix_batch(lm, batch)
        inputs = base_inputs(lm, prefix, add_noise(batch.codes[..., 0], lm.config.speech_codes, noise))
        task, layers = prefix.x.shape[1] - 1, self.draft.config.base_layers
        hidden, memory = speech.hidden, speech.memory
        with torch.no_grad():
            if layers and memory is None:
                read, memory = base_memory(lm, inputs, layers)
                hidden = read[:, task:] if hidden is None else hidden
            elif hidden is None:
                hidden = training_forward(lm, *inputs)[0][:, task:]
            teacher = lm.head(hidden)
        previous = F.pad(hidden[:, :-1], (0, 0, task + 1, 0))
        found = at_every_depth(lm, self.draft, prefix, inputs, previous, DEEPEST, memory)
        hidden = torch.stack(found)  # [D + 1, B, F + 1, H]
        row = torch.arange(teacher.shape[1], device=teacher.device)
        meant = row <= batch.frames[:, None]  # [B, F + 1]
        deep = torch.arange(DEEPEST + 1, device=row.device)[:, None, None]
        drafted = meant & (row >= deep + (layers is not None))  # [D + 1, B, F + 1]
        number = (meant.flatten().cumsum(0) - 1).view_as(meant)
        return Predictions(
            self.draft.head(hidden[drafted]),
            teacher[meant],
            number.expand_as(drafted)[drafted],
            speech_targets(batch, lm.config.eos)[meant],
            deep.expand_as(drafted)[drafted],
        )

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On held-out recordings, and on the same texts in the base's own words: the share of drafted tokens that would
        be accepted at tolerance 0, the first of a pass and those behind it; on recordings also the cross-entropy of
        draft and base, and the mass on tokens that the base would never draw, of first tokens."""
        held_out = self.data.held_out()
        recorded = self._means([DraftBatch(batch) for batch in held_out])
        generator = torch.Generator(held_out[0].codes.device).manual_seed(0)
        sample = lambda batch: DraftBatch(*generate(self.lm, self.decoder, batch, 0, Sampling(), generator))
        sampled = self._means([sample(batch) for batch in held_out])
        names = (
            "draft cross-entropy",
            "base cross-entropy",
            "draft accuracy",
            "acceptance at tolerance 0",
            "mass the base never draws",
        )
        scores = dict(zip(names, recorded[:, 0].tolist()))
        positions = ("second token", "third token", "fourth token")
        scores |= {f"acceptance at tolerance 0, {n}": float(v) for n, v in zip(positions, recorded[3, 1:])}
        scores |= {
            f"acceptance at tolerance 0, the base's own speech, {n}": float(v)
            for n, v in zip(("first token", *positions), sampled[3])
        }
        return scores | {"mass the base never draws, its own speech": float(sampled[4, 0])}

    def _means(self, held_out: list[DraftBatch]) -> np.ndarray:
        """[5, DEEPEST + 1]: cross-entropy of draft and base, accuracy, acceptance and the draft's mass where the
        base has none, by depth."""
        sums, counts = np.zeros((5, DEEPEST + 1)), np.zeros(DEEPEST + 1)
        for speech in held_out:
            rows = self.rows(speech)
            student, teacher, targets = rows.student.float(), rows.teacher.float(), rows.targets[rows.about]
            rejected, outside = disagreement(student, probabilities(teacher, Sampling())[rows.about])
            values = (
                F.cross_entropy(student, targets, reduction="none"),
                F.cross_entropy(teacher, rows.targets, reduction="none")[rows.about],
                student.argmax(-1) == targets,
                1 - rejected,
                outside,
            )
            depth = rows.depth.cpu().numpy()
            sums += [np.bincount(depth, v.double().cpu().numpy(), DEEPEST + 1) for v in values]
            counts += np.bincount(depth, minlength=DEEPEST + 1)
        return sums / counts


def _part(generated: SpeechBatch, hidden: Tensor, rows: Tensor) -> DraftBatch:
    """Some rows of a batch, padding cut off."""
    batch = generated.each(lambda tensor: tensor[rows])
    text, frames = int(batch.text_lengths.max()), int(batch.frames.max())
    cut = {"text": batch.text[:, :text], "codes": batch.codes[:, :frames], "alignment": batch.alignment[:, :frames]}
    return DraftBatch(replace(batch, **cut), hidden[rows, : frames + 1])
