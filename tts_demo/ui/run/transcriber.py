"""Recognition and voice similarity of finished lanes, and transcripts of prompts.

Hints, not verdicts: one sentence proves nothing, and Whisper makes errors on people too. ``evaluate`` makes the tables
that can be quoted. Nothing is downloaded here: a judge that is not on this machine has no figure.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np

from ... import audio
from ...config import SAMPLE_RATE
from ...measure.judges import Judges, missing, similarity, whisper_folder
from ...metrics import nearest_words, word_errors
from .session import Lane


class Transcriber:
    """The judges, loaded when first used; one call at a time."""

    def __init__(self) -> None:
        self._judges, self._guard = Judges(download=False), threading.Lock()

    @cached_property
    def available(self) -> bool:
        """Whether Whisper can be had without a download."""
        return "WER" not in missing() and whisper_folder(download=False) is not None

    def transcribe(self, voice: audio.Recording) -> str:
        """Whisper tiny.en's transcript; empty where it is not installed."""
        with self._guard:
            return self._judges.transcribe(voice.samples) or ""

    def score(self, lane: Lane, voice: audio.Recording | None) -> dict[str, Any]:
        """Word errors and, given its voice, similarity of a lane."""
        with self._guard:
            samples = audio.resample(lane.audio.astype(np.float32) / 32768, lane.sample_rate, SAMPLE_RATE)
            transcript, found = self._judges.transcribe(samples), {}
            if voice is not None:
                found["similarity"] = similarity(self._judges.voice(voice.samples), self._judges.voice(samples))
            if transcript is not None:
                errors = word_errors(lane.made.text, transcript)
                found |= {"heard": transcript, "wer": errors.rate, "wrong": errors.errors, "words": errors.words}
                found["misheard"] = misheard(lane.made.text, transcript)
            return found


def misheard(text: str, transcript: str) -> list[str]:
    """Where a transcript differs from the text, in order: 'harbour as harper', 'small missing', 'again added'."""
    from rapidfuzz.distance import Levenshtein

    said, heard = nearest_words(text, transcript)
    found = []
    for kind, a, b, c, d in Levenshtein.opcodes(said, heard):
        was, now = " ".join(said[a:b]), " ".join(heard[c:d])
        if kind != "equal":
            found.append({"replace": f"{was} as {now}", "delete": f"{was} missing", "insert": f"{now} added"}[kind])
    return found
