"""Listening by machine: how many words of a run were heard right, and how close its voice is to the prompt.

Hints, not verdicts: one sentence proves nothing, and Whisper mishears people too. ``evaluate`` makes the tables that
can be quoted. Nothing is downloaded here: a judge that is not on this machine has no figure.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np

from ... import audio
from ...config import SAMPLE_RATE
from ...measure.judges import Judges, similarity, word_errors
from .session import Run, Side


class Ears:
    """Judges, loaded when first used; one listener at a time."""

    def __init__(self) -> None:
        self._judges, self._guard = Judges(download=False), threading.Lock()

    def transcribe(self, voice: audio.Recording) -> str:
        """What Whisper tiny.en hears; empty where it is not installed."""
        with self._guard:
            return self._judges.words(voice.samples) or ""

    def score(self, run: Run, voice: audio.Recording | None) -> Run:
        """The run with word errors and, given its voice, similarity among each side's metrics."""
        with self._guard:
            target = self._judges.voice(voice.samples) if voice else None
            sides = {
                name: dataclasses.replace(side, metrics=side.metrics | self._figures(side, run.text, target))
                for name, side in run.sides()
            }
        return dataclasses.replace(run, **sides)

    def _figures(self, side: Side, text: str, target: np.ndarray | None) -> dict[str, Any]:
        samples = audio.resample(side.audio.astype(np.float32) / 32768, side.sample_rate, SAMPLE_RATE)
        heard = self._judges.words(samples)
        spoken = self._judges.voice(samples) if target is not None else None
        found: dict[str, Any] = {"similarity": similarity(target, spoken)}
        if heard is not None:
            wrong, words = word_errors(text, heard)
            found |= {"heard": heard, "wer": wrong / max(1, words)}
        return found
