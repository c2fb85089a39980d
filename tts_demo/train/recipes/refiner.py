"""Recipe ``refiner``: from the first book to the decoder's latent, learnt on latents alone.

Taught through the decoder, as by ``codec`` and ``codec-decoder``, a crop costs a waveform and its spectra. Here both
sides come from cached codes, a fifth of the time a frame: for a first book that is new to the refiner, whose entries it
must learn one by one. ``codec-decoder --set start=published`` then goes on by ear.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ... import checkpoints
from ...codec.refiner import Refiner
from ...config import FRAME_RATE, UserError
from ..data.corpora import describe
from ..data.load import sequences
from ..data.pitch import pitch_of
from ..loop import Task, TrainOptions

CROP = 200  # frames
PITCHES = 0.1  # weight of the pitch's cross-entropy, as in the codec's recipe


@dataclass(frozen=True)
class RefinerBatch:
    codes: Tensor  # [B, CROP, K]
    prompt: Tensor  # [B, prompt frames, K], the same voice elsewhere
    speaker: Tensor  # [B, E] of that other utterance
    pitch: Tensor  # [B, CROP] class of pitch.py

    def to(self, device: torch.device | str) -> RefinerBatch:
        return RefinerBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


class RefinerTask(Task):
    name = "refiner"
    steps, lr = 6000, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        self.data, self.device, self.size = sequences(options, frames=1), options.device, options.batch or 4
        codec = checkpoints.load_module(options.checkpoint, "codec")
        shape = checkpoints.load_module(options.checkpoint, "refiner").config
        self.refiner = Refiner(replace(shape, entries=codec.config.first))
        self.pitch = pitch_of(self.data.speech, self.refiner.config.pitch_classes)
        self.quantizer = codec.quantizer.to(self.device)
        self.train = [i for i in self.data.train if self._frames(i) > CROP]
        self.test = [i for i in self.data.test if self._frames(i) > CROP]
        if not self.train:
            raise UserError(
                f"There is too little speech to train on: at least two recordings over {CROP / FRAME_RATE:g} s that "
                "fit their text."
            )
        frames = np.asarray([self._frames(i) for i in self.train])
        self.share = frames / frames.sum()
        self.modules, self.helpers = {"refiner": self.refiner}, {}
        self.data_summary = describe(self.data.speech, self.train)

    def _frames(self, index: int) -> int:
        return min(len(self.data.codes.get(index)), len(self.pitch.get(index)))

    def batch(self, rng: np.random.Generator, step: int) -> RefinerBatch:
        return self._make(rng, rng.choice(self.train, size=self.size, p=self.share))

    def _make(self, rng: np.random.Generator, chosen: np.ndarray) -> RefinerBatch:
        codes, prompts, speakers, pitches = [], [], [], []
        for i in map(int, chosen):
            start = int(rng.integers(self._frames(i) - CROP + 1))
            codes.append(self.data.codes.get(i)[start : start + CROP])
            pitches.append(self.pitch.get(i)[start : start + CROP].astype(np.int64))
            other = int(rng.choice(self.data.same_voice(i)))
            voice = self.data.codes.get(other)
            count = self.refiner.config.prompt_frames
            start = int(rng.integers(max(1, len(voice) - count + 1)))
            prompts.append(np.resize(voice[start : start + count], (count, voice.shape[1])))  # a short one is repeated
            speakers.append(self.data.codes.speakers[other])
        return RefinerBatch(*(torch.from_numpy(np.stack(rows)) for rows in (codes, prompts, speakers, pitches)))

    def loss(self, batch: RefinerBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        apart, guessed = self._apart(batch.to(self.device), true_pitch=True)
        return apart + PITCHES * guessed, {"reg": apart.item(), "pitch": guessed.item()}

    def _apart(self, batch: RefinerBatch, true_pitch: bool) -> tuple[Tensor, Tensor]:
        """Distance of the refined latent from that of all books, and cross-entropy of the pitch guessed for it, each
        []."""
        with torch.no_grad():
            latent, prompt = self.quantizer.decode(batch.codes), self.quantizer.decode(batch.prompt)
        refined, pitch = self.refiner.refine(
            batch.codes[..., 0], batch.speaker, prompt, pitch=batch.pitch if true_pitch else None
        )
        return F.l1_loss(refined.float(), latent), F.cross_entropy(pitch.float().transpose(1, 2), batch.pitch)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On fixed crops of held-out speech, with the recording's pitch and with the one guessed."""
        rng, scores = np.random.default_rng(0), []
        for start in range(0, min(len(self.test), 96), 12):
            batch = self._make(rng, np.asarray(self.test[start : start + 12])).to(self.device)
            told, guessed = self._apart(batch, true_pitch=True)
            scores.append([told.item(), self._apart(batch, true_pitch=False)[0].item(), guessed.item()])
        names = (
            "distance of the latent, pitch known",
            "distance of the latent, pitch guessed",
            "cross-entropy of the pitch, nats",
        )
        return dict(zip(names, np.mean(scores, axis=0).tolist()))
