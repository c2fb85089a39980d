"""A tiny teacher's folder that tests train from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile

from tts_demo.config import SAMPLE_RATE

WORDS = "hˈO, hˈO."
UNITS = (4, 2, 2, 4, 8, 1, 2, 2, 4, 10, 3)  # before, h ˈ O , _ h ˈ O ., after


def teach(folder: Path, voices: dict[str, int], rate: int = SAMPLE_RATE) -> Path:
    """A teacher's folder: each name says WORDS in its voice."""
    folder.mkdir()
    with open(folder / "plan.jsonl", "w", encoding="utf-8") as plan, open(folder / "align-0.jsonl", "w") as align:
        for name, voice in voices.items():
            plan.write(json.dumps({"id": name, "voice": voice, "text": "Ho, ho.", "phonemes": WORDS}) + "\n")
            align.write(json.dumps({"id": name, "lead": UNITS[0], "frames": UNITS[1:-1], "tail": UNITS[-1]}) + "\n")
            wave = 0.1 * np.sin(np.arange(sum(UNITS) * rate // 40) * 0.1)
            soundfile.write(folder / f"{name}.flac", wave, rate)
    return folder
