"""Pitch classes of sounds whose pitch is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tts_demo.config import SAMPLE_RATE
from tts_demo.train.data.pitch import _best_path, pitch_classes, pitch_in_hertz, pitch_of_class

TIME = np.arange(SAMPLE_RATE) / SAMPLE_RATE


def buzz(hertz: float) -> np.ndarray:
    return sum(0.1 * np.sin(2 * np.pi * hertz * k * TIME) / k for k in range(1, 8)).astype(np.float32)


@pytest.mark.parametrize("hertz", [75, 118, 190, 260, 380])
def test_a_buzz_has_its_pitch(hertz: float) -> None:
    classes = pitch_classes(buzz(hertz), 48)
    assert len(classes) == 50 and (classes[2:-2] > 0).all()
    heard = pitch_of_class(torch.from_numpy(classes[2:-2].astype(int)), 48).numpy()
    assert np.abs(np.log2(heard / hertz)).max() < 0.06  # within a class


@pytest.mark.parametrize("hertz", [75.3, 118.7, 191.3, 263.1, 377.7])
def test_its_pitch_in_hertz_is_near_enough_for_the_tenth_harmonic(hertz: float) -> None:
    heard = pitch_in_hertz(buzz(hertz))
    assert heard.dtype == np.float32 and np.abs(heard[2:-2] / hertz - 1).max() < 0.003
    assert not pitch_in_hertz(np.zeros(SAMPLE_RATE, np.float32)).any()


def test_noise_and_silence_have_none() -> None:
    noise = np.random.default_rng(0).standard_normal(SAMPLE_RATE).astype(np.float32)
    assert (pitch_classes(0.1 * noise, 48) == 0).mean() > 0.95
    assert (pitch_classes(np.zeros(SAMPLE_RATE, np.float32), 48) == 0).all()
    half = np.concatenate([buzz(120), np.zeros_like(TIME, dtype=np.float32)])
    voiced = pitch_classes(half, 48) > 0
    assert voiced[2:46].all() and not voiced[54:].any()


def test_the_best_path_pays_for_jumps() -> None:
    score = np.array([[0.0, 1.0], [0.6, 0.5], [0.0, 1.0]])
    assert _best_path(score, np.zeros((2, 2))).tolist() == [1, 0, 1]
    assert _best_path(score, 0.2 * (1 - np.eye(2))).tolist() == [1, 1, 1]
