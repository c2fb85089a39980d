"""A tiny random stack that sounds like something, and the page served on it. Every token is a short tone, so a run can
be heard, drawn and compared; nothing here is trained and no figure of it means anything."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from tests.conftest import TinyPrompt, TinyStack, make_lm
from tts_demo import audio
from tts_demo.config import LMConfig
from tts_demo.ui import build_app, launch
from tts_demo.ui.limits import Limits

PROMPTS = Path(__file__).parents[2] / "assets" / "prompts"
SHAPE = LMConfig(
    text_vocab=128, speech_codes=64, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, speaker=8, max_positions=4096
)


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

    def prepare(self) -> None:
        """Nothing: there are no graphs."""

    def end_segment(self) -> np.ndarray:
        return np.zeros(0, np.float32)

    def finish(self) -> np.ndarray:
        return np.zeros(0, np.float32)


class ToyStack(TinyStack):
    """TinyStack at a rate a browser can play. ``pause``: seconds each vocoder call takes, to make a run last."""

    name, sample_rate = "toy", 16000

    def __init__(self, pause: float = 0.0, modules: dict | None = None) -> None:
        super().__init__(make_lm(SHAPE), modules)
        self.pause = pause

    def vocoder(self, prompt: TinyPrompt, codebooks: int, live: bool = True) -> ToneVocoder:
        return ToneVocoder(self.sample_rate // self.frame_rate, self.pause)


def tone(seconds: float = 3.0, rate: int = 16000) -> np.ndarray:
    """A buzzing vowel, loud enough to be heard, though nobody's voice. int16 [N]."""
    t = np.arange(int(seconds * rate)) / rate
    wave = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 9)) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
    return (9000 * wave / np.abs(wave).max()).astype(np.int16)


def speech(seconds: float = 3.0, rate: int = 16000, voice: int = 0) -> np.ndarray:
    """A bundled voice from its first sound on, which starts again where it ends; not the file itself, so that consent
    is asked for. int16 [N]."""
    samples = audio.read(sorted(PROMPTS.glob("*.wav"))[voice], target=rate).samples
    samples = samples[np.argmax(np.abs(samples) > 0.02) :]
    return np.resize(np.round(samples * 30000).astype(np.int16), int(seconds * rate))


def voice_file(folder: Path, seconds: float = 3.0) -> Path:
    path = folder / f"voice-{seconds:g}.wav"
    soundfile.write(path, speech(seconds), 16000)
    return path


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def served(stack: Any, **limits: Any) -> Iterator[tuple[str, Any]]:
    """The real page on ``stack`` at a free port: (address, app)."""
    app = build_app(stack, Limits(**{"per_address": 100, **limits}))  # all visitors of a test have one address
    try:
        yield launch(app, "127.0.0.1", free_port(), block=False), app
    finally:
        app.close()
