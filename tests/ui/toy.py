"""A tiny random stack that sounds like something, and a page served on it. Every token is a short tone, so a run can
be heard, drawn and compared; nothing here is trained and no figure of it means anything."""

from __future__ import annotations

import time

import numpy as np
import torch

from tests.conftest import TinyPrompt, TinyStack, make_lm
from tts_demo.config import LMConfig

SHAPE = LMConfig(text_vocab=128, speech_codes=64, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, speaker=8,
                 max_positions=4096)


class ToneVocoder:
    """One tone of 20 ms a frame, phase kept from frame to frame."""

    def __init__(self, hop: int, pause: float = 0.0) -> None:
        self.hop, self.phase, self.pause = hop, 0.0, pause

    def push(self, frames: torch.Tensor) -> np.ndarray:
        time.sleep(self.pause)
        pitch = np.repeat(110 * 2 ** (frames[:, 0].numpy() % 64 / 24), self.hop)
        phase = self.phase + np.cumsum(2 * np.pi * pitch / 16000)
        self.phase = float(phase[-1]) if len(phase) else self.phase
        swell = 0.55 + 0.45 * np.sin(phase / 40)
        return (0.2 * swell * np.sin(phase)).astype(np.float32)

    def finish(self) -> np.ndarray:
        return np.zeros(0, np.float32)


class ToyStack(TinyStack):
    """TinyStack at a rate a browser can play. ``pause``: seconds each vocoder call takes, to make a run last."""

    name, sample_rate = "toy", 16000

    def __init__(self, pause: float = 0.0, modules: dict | None = None) -> None:
        super().__init__(make_lm(SHAPE), modules)
        self.pause = pause

    def vocoder(self, prompt: TinyPrompt, codebooks: int) -> ToneVocoder:
        return ToneVocoder(self.sample_rate // self.frame_rate, self.pause)


def tone(seconds: float = 3.0, rate: int = 16000) -> np.ndarray:
    """A voice for tests: a buzzing vowel with pauses, loud enough to pass every check. int16 [N]."""
    t = np.arange(int(seconds * rate)) / rate
    wave = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 9)) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
    return (9000 * wave / np.abs(wave).max()).astype(np.int16)
