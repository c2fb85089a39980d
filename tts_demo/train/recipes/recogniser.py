"""Recipe ``recogniser``: CTC over phonemes on whole utterances, each batch a little faster or slower, its voices higher
or lower, with noise, with bands and stretches masked (SpecAugment) and blocks left out: there are few voices to learn
from. ``--set width=256 layers=10`` makes another size than the default."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from ...codec.recogniser import Recogniser, RecogniserConfig
from ...config import HOP
from ...text.symbols import SYMBOLS
from ..data.corpora import PhonemeCache, SpeechCache, describe, pad_stack
from ..loop import Task, TrainOptions


class RecogniserTask(Task):
    name = "recogniser"
    steps, lr = 3000, 2e-3
    any_length = True

    def __init__(self, options: TrainOptions) -> None:
        self.speech = SpeechCache(options.data, options.work / "cache")
        self.phonemes = PhonemeCache(self.speech)
        sizes = {key: int(options.settings[key]) for key in ("width", "layers") if key in options.settings}
        self.model, self.device = Recogniser(RecogniserConfig(symbols=len(SYMBOLS), **sizes)), options.device
        self.model.skip = float(options.settings.get("skip", 0.1))
        self.modules, self.helpers = {"recogniser": self.model}, {}
        train = self.speech.indices(held_out=False)
        self.buckets = buckets(self.speech, train, seconds=options.batch or 90)
        self.test = self.speech.indices(held_out=True)
        self.data_summary = describe(self.speech, train)

    def batch(self, rng: np.random.Generator, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        chosen = self.buckets[rng.integers(len(self.buckets))]
        whole = [self.speech.samples(i) for i in chosen]
        frames = [len(s) // HOP for s in whole]
        samples = pad_stack([s[: n * HOP] for s, n in zip(whole, frames)])
        targets = [np.asarray(self.phonemes.sounds(i), dtype=np.int64) for i in chosen]
        return samples, torch.tensor(frames), pad_stack(targets), torch.tensor([len(t) for t in targets])

    def loss(self, batch: tuple[Tensor, ...], step: int) -> tuple[Tensor, dict[str, float]]:
        samples, frames, targets, lengths = batch
        samples, targets = samples.to(self.device), targets.to(self.device)
        with torch.no_grad():
            features = self.model.features(noisy(samples))
            pace, pitch = torch.empty(2).uniform_(-1, 1).tolist()
            features = mask_bands(warp(features, 1 + 0.12 * pace, 1 + 0.1 * pitch))
            frames = (frames * (features.shape[1] // 2)).div(samples.shape[1] // HOP, rounding_mode="floor")
        scores = self.model.scores(features)
        loss = F.ctc_loss(scores.transpose(0, 1), targets, frames, lengths, blank=0, zero_infinity=True)
        return loss, {"ctc": loss.item()}

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        errors = length = 0
        for i in self.test:
            truth = self.phonemes.sounds(i)
            errors += Levenshtein.distance(
                self.model.phonemes(torch.from_numpy(self.speech.samples(i)).to(self.device)), truth
            )
            length += len(truth)
        return {"phoneme error rate, held-out": errors / length}


def buckets(speech: SpeechCache, indices: list[int], seconds: float) -> list[list[int]]:
    """Utterances of like length together, about ``seconds`` of audio a batch."""
    buckets, current, total = [], [], 0.0
    for i in sorted(indices, key=speech.seconds):
        if current and total + speech.seconds(i) > seconds:
            buckets.append(current)
            current, total = [], 0.0
        current.append(i)
        total += speech.seconds(i)
    return buckets + [current]


def noisy(samples: Tensor) -> Tensor:
    """[B, N] with white noise 10 to 60 dB below each utterance."""
    below = 10 ** (-torch.empty(len(samples), 1, device=samples.device).uniform_(10, 60) / 20)
    return samples + below * samples.square().mean(1, keepdim=True).sqrt() * torch.randn_like(samples)


def warp(features: Tensor, pace: float, pitch: float) -> Tensor:
    """[B, 2 * F, mels] -> [B, 2 * F', mels], F' = F * pace; spectra stretched by ``pitch`` along the bands."""
    mels = features.shape[2]
    size = 2 * round(features.shape[1] / 2 * pace), round(mels * pitch)
    warped = F.interpolate(features[:, None], size=size, mode="bilinear", align_corners=False)[:, 0, :, :mels]
    return F.pad(warped, (0, mels - warped.shape[2]), mode="replicate")


def mask_bands(features: Tensor, stretches: int = 3) -> Tensor:
    """SpecAugment: two bands of mels and some stretches of time set to the mean, per utterance [B, F, mels]."""
    batch, count, mels = features.shape

    def pieces(number: int, length: int, longest: int) -> Tensor:  # [B, length]
        size, place = (torch.rand(2, batch, number, 1, device=features.device) * longest).unbind()
        place = place / longest * max(1, length - longest)
        at = torch.arange(length, device=features.device)
        return ((at >= place) & (at < place + size)).any(1)

    return features.masked_fill(pieces(2, mels, 16)[:, None] | pieces(stretches, count, 30)[..., None], 0)
