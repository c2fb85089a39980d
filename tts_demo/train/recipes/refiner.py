"""Recipe ``refiner``: from the first codebook to the decoder's latent, trained on latents alone.

Trained through the decoder, as by ``codec`` and ``decoder``, a crop costs a waveform and its spectra. Here both
sides come from cached codes, a fifth of the time a frame: for a first codebook that is new to the refiner.
``decoder`` then learns to decode what it makes.

A distance alone trains towards the mean of all latents that a code allows, which sounds veiled and confuses consonants:
``adversarial=0.1`` is against that. With ``recognised=1`` the frozen decoder decodes a stretch of each crop, whose
features and phonemes by the recogniser must be those of the recording. ``waveform=1`` judges a part of this stretch:
what sounds veiled is told there, in the terms of the decoder of the day. With ``helpers=DIR`` these discriminators
begin as those that ``decoder judges=light`` left there."""

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ... import checkpoints
from ...codec.refiner import Refiner
from ...codec.source import accumulate
from ...config import HOP
from ..data.batch import TensorBatch
from ..data.corpora import describe, longer_than
from ..data.load import sequences
from ..data.pitch import pitch_of
from ..discriminators import of_latents, of_waveforms
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import Optimiser, SequenceSettings, Weight
from ..task import Loss, Task, TrainOptions
from .codec import PHONEME_WEIGHT, recogniser_distance

CROP, DECODED, JUDGED = 128, 96, 32  # frames: short sentences are speech too
PITCHES = 0.1  # weight of the pitch's cross-entropy, as in the codec's recipe
BY_DEGREES = 500  # steps until the discriminators count in full (``Progress.ramp``)
WAVEFORM_RATE = 4.0  # learning rate of the discriminators of waveforms over the refiner's


@dataclass(frozen=True)
class RefinerBatch(TensorBatch):
    codes: Tensor  # [B, CROP, K]
    prompt: Tensor  # [B, prompt frames, K], another utterance of the speaker
    speaker: Tensor  # [B, E] of that other utterance
    pitch: Tensor  # [B, CROP] class of pitch.py
    labels: Tensor  # [B, DECODED] phoneme of each frame of a stretch of the crop, or UNKNOWN
    samples: Tensor  # [B, DECODED * HOP] of this stretch
    stretch: Tensor  # [B] where in the crop it begins


class RefinerSettings(SequenceSettings):
    optimiser: Optimiser = "muon"
    recognised: Weight = Field(
        0.0, description="weight of what the recogniser makes of the decoded latent; 0 trains without"
    )
    adversarial: Weight = Field(0.0, description="weight of the discriminators of latents; 0 trains without")
    waveform: Weight = Field(0.0, description="weight of the discriminators of what is decoded; 0 trains without")


class RefinerTask(Task):
    Settings = RefinerSettings
    settings: RefinerSettings
    Batch: type[RefinerBatch] = RefinerBatch
    name = "refiner"
    steps, lr = 6000, 1e-3
    follows = {"refiner-waveforms": "decoder-discriminators"}

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.data = sequences(options, self.settings, frames=1)
        self.device, self.size = options.device, options.batch or 4
        self.codec = checkpoints.load_module(options.checkpoint, "codec").to(self.device)
        self.quantizer = self.codec.quantizer
        self.decoder = checkpoints.load_module(options.checkpoint, "decoder").to(self.device)
        self.refiner = self._refiner(options)
        self.pitch = pitch_of(self.data.speech, self.refiner.config.pitch_classes)
        self.train, self.test, self.share = longer_than(CROP, self._frames, *self._utterances(options))
        self.modules, self.helpers = {self.name: self.refiner}, {}
        self.recognised, self.waveform = self.settings.recognised, self.settings.waveform
        self.adversarial = self.settings.adversarial
        if self.adversarial:
            known = self.codec.config.latent + self.refiner.config.speaker
            self.helpers["discriminators"] = of_latents(self.codec.config.latent + known)
        if self.waveform:
            self.helpers["waveforms"] = of_waveforms(light=True)
            self.quicker = {"waveforms": WAVEFORM_RATE}
        self.data_summary = describe(self.data.speech, self.train)

    def _refiner(self, options: TrainOptions) -> Refiner:
        """A new one, in the shape of the published."""
        shape = checkpoints.load_module(options.checkpoint, "refiner").config
        return Refiner(replace(shape, entries=self.codec.config.first))

    def _utterances(self, options: TrainOptions) -> tuple[list[int], list[int]]:
        """What it trains on and what is held out."""
        return self.data.train, self.data.test

    def matrices(self) -> list[nn.Parameter]:
        return inner_matrices(self.refiner.layers)

    def _frames(self, index: int) -> int:
        return min(len(self.data.codes.get(index)), len(self.pitch.get(index)))

    def batch(self, rng: np.random.Generator, step: int) -> RefinerBatch:
        return self._make(rng, rng.choice(self.train, size=self.size, p=self.share))

    def _make(self, rng: np.random.Generator, chosen: np.ndarray) -> RefinerBatch:
        return self.Batch.of(self._row(rng, i, int(rng.integers(self._frames(i) - CROP + 1))) for i in map(int, chosen))

    def _row(self, rng: np.random.Generator, i: int, start: int) -> tuple[np.ndarray, ...]:
        """An item of a batch: the crop of utterance ``i`` from frame ``start`` on."""
        stretch = int(rng.integers(CROP - DECODED + 1))
        crop, decoded = slice(start, start + CROP), start + stretch
        prompt, speaker = self.data.prompt(rng, i, self.refiner.config.prompt_frames)
        pitch, labels = self.pitch.get(i)[crop].astype(np.int64), self.data.speech.labels(i)[decoded:][:DECODED]
        samples = self.data.speech.samples(i, decoded * HOP, DECODED * HOP)
        return self.data.codes.get(i)[crop], prompt, speaker, pitch, labels, samples, np.asarray(stretch)

    def loss(self, batch: RefinerBatch, progress: Progress) -> Loss:
        batch = batch.to(self.device)
        refined, latent, guessed = self._refined(batch, batch.pitch)
        distance = F.l1_loss(refined, latent)
        loss, parts = distance + PITCHES * guessed, {"latent": distance.item(), "pitch": guessed.item()}
        decoded = self._decoded(refined, batch.stretch) if self.recognised or self.waveform else None
        if self.recognised:
            recognised, phonemes = recogniser_distance(self.codec, decoded, batch.samples, batch.labels)
            loss = loss + self.recognised * (recognised + PHONEME_WEIGHT * phonemes)
            parts |= {"recognised": recognised.item(), "phonemes": phonemes.item()}
        if self.waveform:
            weight = self.waveform * progress.ramp(BY_DEGREES)
            more, judged = self.helpers["waveforms"].adversarial(decoded, batch.samples, weight, JUDGED)
            loss, parts = loss + more, parts | {f"waveform {name}": value for name, value in judged.items()}
        if self.adversarial:
            known = self._known(batch)
            weight = self.adversarial * progress.ramp(BY_DEGREES)
            fake, real = (torch.cat([x, known], -1) for x in (refined, latent))
            more, judged = self.helpers["discriminators"].adversarial(fake, real, weight)
            loss, parts = loss + more, parts | judged
        return loss, parts

    def _known(self, batch: RefinerBatch) -> Tensor:
        """What discriminators of latents know beside them [B, CROP, D]: the first codebook and the speaker."""
        first = self.quantizer.codebooks[0].lookup(batch.codes[..., 0]).detach()
        return torch.cat([first, batch.speaker[:, None].expand(-1, first.shape[1], -1)], -1)

    def _decoded(self, latent: Tensor, stretch: Tensor) -> Tensor:
        """Latents [B, CROP, latent] -> DECODED frames from frame ``stretch`` [B] on, decoded [B, N]."""
        frames = stretch[:, None] + torch.arange(DECODED, device=latent.device)
        some = latent.gather(1, frames[..., None].expand(-1, -1, latent.shape[-1]))
        return self.decoder(accumulate(torch.cat([some, self.decoder.source(some.detach())], -1)))

    def _refined(self, batch: RefinerBatch, pitch: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """-> the refined latent and that of all codebooks, [B, F, latent] each, and the cross-entropy of the predicted
        pitch, []. ``pitch`` None: the predicted pitch is used."""
        with torch.no_grad():
            latent, prompt = self.quantizer.decode(batch.codes), self.quantizer.decode(batch.prompt)
        refined, logits = self._refine(batch, prompt, pitch)
        return refined.float(), latent, F.cross_entropy(logits.float().transpose(1, 2), batch.pitch)

    def _refine(self, batch: RefinerBatch, prompt: Tensor, pitch: Tensor | None) -> tuple[Tensor, Tensor]:
        """-> ``Refiner.refine`` of what the batch gives it; prompt [B, prompt frames, latent]."""
        return self.refiner.refine(batch.codes[..., 0], batch.speaker, prompt, pitch=pitch)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """On fixed crops of held-out speech, with the recording's pitch and with the predicted one."""
        rng, scores = np.random.default_rng(0), []
        for start in range(0, min(len(self.test), 96), 12):
            batch = self._make(rng, np.asarray(self.test[start : start + 12])).to(self.device)
            known, latent, guessed = self._refined(batch, batch.pitch)
            alone = self._refined(batch, None)[0]
            scores.append([F.l1_loss(known, latent).item(), F.l1_loss(alone, latent).item(), guessed.item()])
        names = (
            "distance of the latent, pitch known",
            "distance of the latent, pitch guessed",
            "cross-entropy of the pitch, nats",
        )
        return dict(zip(names, np.mean(scores, axis=0).tolist()))
