"""Tiny folders that tests train from: a teacher's, and natural speech."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile

from tts_demo.config import SAMPLE_RATE

WORDS = "hˈO, hˈO."
UNITS = (4, 2, 2, 4, 8, 1, 2, 2, 4, 10, 3)  # before, h ˈ O , _ h ˈ O ., after


def record(folder: Path, texts: dict[str, str]) -> Path:
    """A corpus of texts by id, each a tone of 62 frames and a bit."""
    folder.mkdir(parents=True)
    for name in texts:
        soundfile.write(folder / f"{name}.wav", 0.5 * np.sin(np.arange(20_100) * 0.05), SAMPLE_RATE)
    (folder / "metadata.csv").write_text("".join(f"{name}|{text}|1\n" for name, text in texts.items()))
    return folder


def teach(folder: Path, voices: dict[str, int], rate: int = SAMPLE_RATE, times: int = 1) -> Path:
    """A teacher's folder: each name says WORDS so many ``times`` in its voice."""
    folder.mkdir()
    text, phonemes = " ".join(["Ho, ho."] * times), " ".join([WORDS] * times)
    frames = [*UNITS[1:-1], *(4, *UNITS[1:-1]) * (times - 1)]
    samples = (UNITS[0] + sum(frames) + UNITS[-1]) * rate // 40
    with open(folder / "plan.jsonl", "w", encoding="utf-8") as plan, open(folder / "align-0.jsonl", "w") as align:
        for name, voice in voices.items():
            plan.write(json.dumps({"id": name, "voice": voice, "text": text, "phonemes": phonemes}) + "\n")
            align.write(json.dumps({"id": name, "lead": UNITS[0], "frames": frames, "tail": UNITS[-1]}) + "\n")
            wave = 0.1 * np.sin(np.arange(samples) * 0.1)
            soundfile.write(folder / f"{name}.flac", wave, rate)
    return folder
