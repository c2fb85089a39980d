"""Listening by machine: how many sounds and words of a run were heard right, and how close its voice is to the prompt.

Hints, not verdicts: one sentence proves nothing, the bundled recogniser took part in training, and PocketSphinx
mishears people too. ``evaluate`` makes the tables that can be quoted.
"""

from __future__ import annotations

import dataclasses
import threading
from functools import cached_property
from typing import Any

import numpy as np

from ... import audio
from ...config import SAMPLE_RATE
from ...measure.judges import Judges, similarity, word_errors
from ..service import Handle
from .session import Run, Side


class Ears:
    """Judges of the loaded stack's checkpoint, loaded when first used; one listener at a time."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._guard = handle, threading.Lock()

    @cached_property
    def _judges(self) -> Judges:
        root = getattr(self._handle.get(), "root", None)
        return Judges.of_checkpoint(root) if root else Judges()

    def transcribe(self, voice: audio.Recording) -> str:
        """What PocketSphinx hears; empty where it is not installed."""
        with self._guard:
            return self._judges.transcribe(voice.samples) or ""

    def score(self, run: Run, voice: audio.Recording | None) -> Run:
        """The run with word errors, sound errors and, given its voice, similarity among each side's metrics."""
        with self._guard:
            target = self._judges.voice(voice.samples) if voice else None
            sides = {
                name: dataclasses.replace(side, metrics=side.metrics | self._figures(side, run.text, target))
                for name, side in run.sides()
            }
        return dataclasses.replace(run, **sides)

    def _figures(self, side: Side, text: str, target: np.ndarray | None) -> dict[str, Any]:
        samples = audio.resample(side.audio.astype(np.float32) / 32768, side.sample_rate, SAMPLE_RATE)
        heard, sounds = self._judges.transcribe(samples), self._judges.phoneme_errors(samples, text)
        spoken = self._judges.voice(samples) if target is not None else None
        found: dict[str, Any] = {"similarity": similarity(target, spoken)}
        if heard is not None:
            wrong, words = word_errors(text, heard)
            found |= {"heard": heard, "wer": wrong / max(1, words)}
        if sounds is not None:
            found["per"] = sounds[0] / max(1, sounds[1])
        return found
