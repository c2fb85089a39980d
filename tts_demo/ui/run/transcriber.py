"""Recognition and voice similarity of finished lanes, and transcripts of prompts.

Hints, not verdicts: one sentence proves nothing, and Whisper makes errors on people too. ``evaluate`` makes the tables
that can be quoted. Nothing is downloaded here: a judge that is not on this machine has no figure.
"""

import string
import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from ... import audio
from ...config import SAMPLE_RATE
from ...measure.judges import Judges, missing, similarity, whisper_folder
from ...metrics import nearest_words, plain_words, word_errors
from .session import Lane

# what stands beside a word and is not of it
MARKS = string.punctuation.replace("$", "").replace("%", "") + "\u2018\u2019\u201c\u201d\u2013\u2014\u2026"


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
    """Where a transcript differs from the text, in order: 'harbour as harper', 'small missing', 'again added'. Words
    are compared as the score compares them and named as the text and the transcript have them: 'twelve', not '12'."""
    from rapidfuzz.distance import Levenshtein

    said, heard = nearest_words(text, transcript)
    named, found = (WrittenWords(text, said), WrittenWords(transcript, heard)), []
    for kind, a, b, c, d in Levenshtein.opcodes(said, heard):
        if kind == "equal":
            continue
        was, now = named[0].between(a, b), named[1].between(c, d)
        found.append({"replace": f"{was} as {now}", "delete": f"{was} missing", "insert": f"{now} added"}[kind])
    return found


class WrittenWords:
    """The words of a text as it has them, for the words by which it is compared (normalised, compounds joined)."""

    def __init__(self, text: str, compared: Sequence[str]) -> None:
        letters, groups = "".join(compared), _groups(text.replace("\u2019", "'"))
        if "".join(plain for plain, _ in groups) != letters:  # it is compared as it is spoken
            groups = [(word, word) for word in compared]
        self._words = _spans(groups)
        self._compared = _spans([(word, word) for word in compared])

    def between(self, first: int, last: int) -> str:
        """The words of the text in which the compared words ``first`` to ``last`` stand."""
        if first == last:
            return ""
        start, end = self._compared[first][0], self._compared[last - 1][1]
        return " ".join(word for a, b, word in self._words if a < end and b > start)


def _spans(groups: Sequence[tuple[str, str]]) -> list[tuple[int, int, str]]:
    """(first letter, last letter + 1, name) of texts that stand one after another."""
    ends = list(accumulate(len(plain) for plain, _ in groups))
    return [(end - len(plain), end, name) for (plain, name), end in zip(groups, ends)]


def _groups(text: str) -> list[tuple[str, str]]:
    """(letters by which it is compared, words of the text) of the shortest stretches that are normalised alike alone
    and within the text: 'forty-nine dollars' is one stretch."""
    rest, words, groups, start = list(plain_words(text)), text.split(), [], 0
    for end in range(1, len(words) + 1):
        stretch = words[start:end]
        plain = list(plain_words(" ".join(stretch)))
        if plain == rest[: len(plain)]:
            groups.append(("".join(plain), " ".join(stretch).strip(MARKS)))
            rest, start = rest[len(plain) :], end
    return groups
