"""Pitch of the training speech, a class per codec frame: what the refiner learns to guess before it guesses the rest.

Normalised autocorrelation of 64 ms windows, and the path through it that jumps least (P. Boersma, "Accurate short-term
analysis of the fundamental frequency", 1993).
"""

import numpy as np
import torch
from torch import Tensor

from ...codec.refiner import PITCH_HIGH, PITCH_LOW
from ...config import HOP, SAMPLE_RATE
from .corpora import Kept
from .speech import Speech

WINDOW, FINER = 1024, 3  # samples; lags looked at per class
FINE_CLASSES, REFINE = 120, 2  # for the pitch in Hz; lags around a class's own
UNVOICED, OCTAVE, JUMP, SWITCH = 0.45, 0.02, 0.5, 0.15  # Praat's kind of costs, as shares of a perfect correlation


def pitch_classes(samples: np.ndarray, classes: int) -> np.ndarray:
    """samples [F * HOP + n] at 16 kHz -> int8 [F]: 0 = unvoiced, 1 to ``classes`` = log-spaced from 60 to 420 Hz."""
    strength = _strengths(torch.from_numpy(samples[: len(samples) // HOP * HOP]), classes).numpy()
    octaves = np.arange(classes) * np.log2(PITCH_HIGH / PITCH_LOW) / (classes - 1)
    strength = strength + np.r_[0.0, OCTAVE * octaves]  # of two octaves that fit, the higher: the lower always fits too
    cost = np.full((classes + 1, classes + 1), SWITCH)
    cost[0, 0], cost[1:, 1:] = 0.0, JUMP * np.abs(octaves[:, None] - octaves)
    return _best_path(strength, cost).astype(np.int8)


def pitch_in_hertz(samples: np.ndarray) -> np.ndarray:
    """samples [F * HOP + n] at 16 kHz -> float32 [F]: Hz, 0 = unvoiced. The top of the parabola through three lags:
    classes lie percents apart, and the tenth harmonic is ten times as far from its place as the pitch."""
    classes = torch.from_numpy(pitch_classes(samples, FINE_CLASSES).astype(np.int64))
    normal = _correlations(torch.from_numpy(samples[: len(samples) // HOP * HOP]))[0]
    coarse = (SAMPLE_RATE / pitch_of_class(classes.clamp(min=1), FINE_CLASSES)).round().long()
    lags = coarse[:, None] + torch.arange(-REFINE, REFINE + 1)
    lag = lags.gather(1, normal.gather(1, lags).argmax(1, keepdim=True))
    before, at, after = (normal.gather(1, lag + d) for d in (-1, 0, 1))
    top = lag + (0.5 * (before - after) / (before - 2 * at + after).clamp(max=-1e-9)).clamp(-0.5, 0.5)
    return torch.where(classes > 0, SAMPLE_RATE / top[:, 0], 0.0).float().numpy()


def pitch_of_class(number: Tensor, classes: int) -> Tensor:
    """Classes 1 to ``classes`` -> Hz."""
    return PITCH_LOW * (PITCH_HIGH / PITCH_LOW) ** ((number - 1) / (classes - 1))


def _strengths(samples: Tensor, classes: int) -> Tensor:
    """samples [F * HOP] -> [F, 1 + classes]: how well each class explains each frame, about 0 to 1."""
    normal, alone = _correlations(samples)
    steps = torch.linspace(-0.5, classes - 0.5, FINER * classes)
    lags = SAMPLE_RATE / (PITCH_LOW * (PITCH_HIGH / PITCH_LOW) ** (steps / (classes - 1)))
    low = lags.floor().long()
    between = torch.lerp(normal[:, low], normal[:, low + 1], lags - low)
    loud = alone.sqrt()
    silent = (1 - loud / (0.05 * loud.max()).clamp(min=1e-3)).clamp(min=0)
    return torch.cat([UNVOICED + silent[:, None], between.unflatten(1, (classes, FINER)).amax(2)], 1)


def _correlations(samples: Tensor) -> tuple[Tensor, Tensor]:
    """samples [F * HOP] -> correlation with what lies each lag away [F, WINDOW // 2], 1 = the same; energy [F]."""
    padded = torch.nn.functional.pad(samples, ((WINDOW - HOP) // 2, WINDOW))
    frames = padded.unfold(0, WINDOW, HOP)[: len(samples) // HOP]
    window = torch.hann_window(WINDOW)
    frames = (frames - frames.mean(1, keepdim=True)) * window
    alone, of_window = _autocorrelation(frames), _autocorrelation(window[None])[0]
    normal = alone / alone[:, :1].clamp(min=1e-6) / (of_window / of_window[0]).clamp(min=1e-3)
    return normal, alone[:, 0]


def _autocorrelation(frames: Tensor) -> Tensor:
    """[F, WINDOW] -> [F, WINDOW // 2], lag 0 first."""
    spectrum = torch.fft.rfft(frames, 2 * WINDOW)
    return torch.fft.irfft(spectrum.real.square() + spectrum.imag.square())[:, : WINDOW // 2]


def _best_path(score: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """score [F, C], cost of a step from row to column [C, C] -> the path [F] with the largest sum of score less
    cost."""
    best, came = score[0], np.zeros(score.shape, dtype=np.int64)
    for t in range(1, len(score)):
        reach = best[:, None] - cost
        came[t] = reach.argmax(0)
        best = reach[came[t], np.arange(len(best))] + score[t]
    path = np.zeros(len(score), dtype=np.int64)
    path[-1] = best.argmax()
    for t in range(len(score) - 1, 0, -1):
        path[t - 1] = came[t, path[t]]
    return path


def pitch_of(speech: Speech, classes: int = 0) -> Kept:
    """Pitch of every utterance, made once: int8 [F] classes, or float32 [F] of Hz where their number is 0; 0 =
    unvoiced."""
    if not classes:
        return speech.kept("hertz", lambda i: pitch_in_hertz(speech.samples(i)))
    return speech.kept(f"pitch-{classes}", lambda i: pitch_classes(speech.samples(i), classes))
