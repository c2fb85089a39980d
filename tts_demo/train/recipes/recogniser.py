"""Recipe ``ears``: the phoneme recogniser whose features the codec's first codebook quantises.

A teacher's durations label every frame: cross-entropy, frame by frame. Of natural speech only the text is known: CTC,
and once ``--set align=DIR`` has the recogniser of an earlier run align it, cross-entropy too. Every recording is
augmented as it is read (``data/varied.py``). Scores: phoneme error rate (CTC's best path) on natural speech held out
and on the teacher's voices held out.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from ... import checkpoints
from ...codec.recogniser import PhonemeRecogniser, RecogniserConfig
from ...config import HOP, UserError
from ..data.batch import TensorBatch
from ..data.corpora import describe, pad_stack
from ..data.load import load_speech
from ..data.speech import TEACHER, UNKNOWN, Speech
from ..data.varied import PACE, THROAT, blotted, in_rooms, louder, noisy, warp
from ..losses import known_frames_loss
from ..progress import Progress
from ..settings import Settings, Share
from ..task import Loss, Task, TrainOptions

SCORED = 40  # utterances of each held-out set
SHORTEST, LONGEST = 0.6, 20.0  # seconds


@dataclass(frozen=True)
class RecogniserBatch(TensorBatch):
    samples: Tensor  # [B, N]
    pace: Tensor  # [B]
    throat: Tensor  # [B]
    frames: Tensor  # [B] after the change of pace, like all that follows
    labels: Tensor  # [B, F] phoneme of each frame, or UNKNOWN
    targets: Tensor  # [B, T] phonemes of the utterance, 0 = padding
    lengths: Tensor  # [B] of these


class RecogniserSettings(Settings):
    align: Path | None = Field(None, description="checkpoint whose recogniser tells the times of natural speech")
    skip: Share = Field(0.05, description="share of the steps that leave out each block (stochastic depth)")
    natural: Share = Field(0.6, description="share of the batches that are natural speech")


class RecogniserTask(Task):
    Settings = RecogniserSettings
    settings: RecogniserSettings
    name = "ears"
    steps, lr = 60_000, 1e-3
    any_length = True
    flat, averaged, scored_every = 0.7, 0.998, 300

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        settings = self.settings
        teach_times = checkpoints.load_module(settings.align, "ears") if settings.align else None
        self.speech = load_speech(options, settings, teach_times)
        self.model, self.device = PhonemeRecogniser(RecogniserConfig(), settings.skip), options.device
        self.modules, self.helpers = {"ears": self.model}, {}
        train = [i for i in self.speech.indices(held_out=False) if self._fits(i)]
        if not train:
            raise UserError("There is no speech to train on: give --data, --set teacher=FOLDER, or both.")
        seconds = options.batch or 64
        taught = lambda i: self.speech.utterances[i].corpus == TEACHER
        self.natural = batches_of(self.speech, [i for i in train if not taught(i)], seconds)
        self.teacher = batches_of(self.speech, [i for i in train if taught(i)], seconds)
        self.share = settings.natural if self.natural and self.teacher else float(bool(self.natural))
        self.test = held_out_sets(self.speech)
        self.data_summary = describe(self.speech, train)

    def _fits(self, index: int) -> bool:
        return SHORTEST <= self.speech.seconds(index) <= LONGEST and len(self.speech.sounds(index)) > 0

    def batch(self, rng: np.random.Generator, step: int) -> RecogniserBatch:
        some = self.natural if rng.random() < self.share else self.teacher
        return self._make(some[rng.integers(len(some))], *1 + rng.uniform(-1, 1, (2, 256)) * [[PACE], [THROAT]])

    def _make(self, chosen: list[int], pace: np.ndarray, throat: np.ndarray) -> RecogniserBatch:
        count = len(chosen)
        frames = [self.speech.frames(i) for i in chosen]
        slower = [int(n * p) for n, p in zip(frames, pace)]
        labels = []
        for i, n, m in zip(chosen, frames, slower):
            row = self.speech.labels(i)
            position = np.minimum(((np.arange(m) + 0.5) * n / m).astype(int), n - 1)
            labels.append(np.full(m, UNKNOWN) if row is None else row[position])
        targets = [self.speech.sounds(i) for i in chosen]
        return RecogniserBatch(
            pad_stack([self.speech.samples(i)[: n * HOP] for i, n in zip(chosen, frames)]),
            torch.from_numpy(pace[:count]).float(),
            torch.from_numpy(throat[:count]).float(),
            torch.tensor(slower),
            pad_stack(labels, UNKNOWN),
            pad_stack(targets),
            torch.tensor([len(t) for t in targets]),
        )

    def loss(self, batch: RecogniserBatch, progress: Progress) -> Loss:
        batch = batch.to(self.device)
        with torch.no_grad():
            features = self.model.features(louder(noisy(in_rooms(batch.samples))))
            features = blotted(warp(features, batch.pace, batch.throat, 2 * batch.labels.shape[1]))
        spell, frame = self.model.heads(self.model.global_blocks(self.model.local_blocks(features)))
        scores = spell.log_softmax(-1).transpose(0, 1)
        ctc = F.ctc_loss(scores, batch.targets, batch.frames, batch.lengths, blank=0, zero_infinity=True)
        frame_loss = known_frames_loss(frame.transpose(1, 2), batch.labels)
        known = {"frame": frame_loss.item()} if bool((batch.labels != UNKNOWN).any()) else {}
        return ctc + frame_loss, {"ctc": ctc.item()} | known

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        found = {f"phonemes wrong, {name}": self._wrong(some) for name, some in self.test.items() if some}
        teacher = [i for name, some in self.test.items() if TEACHER in name for i in some]
        return found | ({"frames wrong, teacher": self._frames_wrong(teacher)} if teacher else {})

    def _wrong(self, chosen: list[int]) -> float:
        errors = length = 0
        for i in chosen:
            recognised = self.model.phonemes(torch.from_numpy(self.speech.samples(i)).to(self.device))
            truth = self.speech.sounds(i).tolist()
            errors, length = errors + Levenshtein.distance(recognised, truth), length + len(truth)
        return errors / length

    def _frames_wrong(self, chosen: list[int]) -> float:
        wrong = total = 0
        for i in chosen:
            labels = torch.from_numpy(self.speech.labels(i))
            samples = torch.from_numpy(self.speech.samples(i)).to(self.device)
            recognised = self.model.log_probs(samples)[1].argmax(-1).cpu()
            known = labels != UNKNOWN
            wrong, total = wrong + int((recognised != labels)[known].sum()), total + int(known.sum())
        return wrong / total


def batches_of(speech: Speech, indices: list[int], seconds: float) -> list[list[int]]:
    """Utterances of like length together, about ``seconds`` of audio a batch."""
    found, current = [], []
    for i in sorted(indices, key=speech.seconds):
        if current and (len(current) + 1) * speech.seconds(i) > seconds:
            found, current = [*found, current], []
        current.append(i)
    return [*found, current] if current else found


def held_out_sets(speech: Speech) -> dict[str, list[int]]:
    """Natural recordings held out, LibriSpeech's (unseen voices) and ARCTIC's (unseen sentences) separately; the
    teacher's voices held out. ``SCORED`` of each, spread."""
    held_out = speech.indices(held_out=True)
    of = lambda test: [i for i in held_out if test(speech.utterances[i].corpus)]
    groups = {
        "natural voices unheard": of(lambda corpus: corpus == "librispeech"),
        "natural sentences unheard": of(lambda corpus: corpus not in ("librispeech", TEACHER)),
        f"{TEACHER}'s voices unheard": of(lambda corpus: corpus == TEACHER),
    }
    return {name: some[:: max(1, len(some) // SCORED)][:SCORED] for name, some in groups.items()}
