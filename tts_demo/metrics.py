"""Metrics, defined once: a pausable clock, sums over steps, the snapshot that everything prints, and word errors.

RTF = compute seconds / audio seconds (lower is better), by a clock that stands still while a consumer holds an event.
LM-RTF counts the autoregressive part only (prefill and steps, a method's own modules included), as all parts do by the
work clock: on a CPU the time that the processor gave this thread, so that other programs do not count, on a GPU the
clock. TTFA = request to first audio. Word errors compare a text with a transcript of its speech.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from .config import UserError
from .text.spelling import normalise

BUSY_FROM = 1.6  # times the seconds of work: a run that took longer had to wait for other programs


@dataclass(frozen=True)
class StepRecord:
    """One pass of the big model as it appears on the timeline. kv_bytes: live bytes of all caches after it."""

    frames: int
    marks: tuple[str, ...]
    kv_bytes: int
    ms: float
    proposed: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class Snapshot:
    audio_seconds: float
    lm_seconds: float
    vocoder_seconds: float
    total_seconds: float
    lm_rtf: float
    rtf: float
    ttfa_seconds: float | None  # None until there is audio
    frames: int
    backbone_steps: int
    frames_per_step: float
    kv_bytes: dict[str, int]  # live bytes by cache
    kv_bytes_total: int
    kv_bytes_peak: int
    acceptance: float | None  # accepted / proposed; None where nothing is proposed
    method_stats: dict[str, Any] = field(default_factory=dict)

    @property
    def work_rtf(self) -> float:
        """RTF of the parts by the work clock: on a CPU without what other programs take."""
        return (self.lm_seconds + self.vocoder_seconds) / self.audio_seconds if self.audio_seconds else 0.0

    @property
    def delayed(self) -> bool:
        """Whether other programs took much of the run's time; on a GPU, where both clocks are one, never."""
        return self.total_seconds > BUSY_FROM * (self.lm_seconds + self.vocoder_seconds)


class Meter:
    """Counts one run. ``clock`` and ``work`` return seconds: of everything, and of the parts (None: by the clock)."""

    def __init__(
        self, frame_rate: float, clock: Callable[[], float] = time.perf_counter, work: Callable[[], float] | None = None
    ) -> None:
        self.frame_rate, self._clock, self.work = frame_rate, clock, work or clock
        self._started, self._held = clock(), 0.0
        self.took = 0.0  # seconds that the part measured last took
        self._seconds = {"lm": 0.0, "vocoder": 0.0}
        self._kv: dict[str, int] = {}
        self._peak = self._frames = self._passes = self._proposed = self._accepted = 0
        self._first_audio: float | None = None
        self._stats: dict[str, Any] = {}

    def now(self) -> float:
        """Seconds since the request, holds left out."""
        return self._clock() - self._started - self._held

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time inside to ``part``: lm or vocoder."""
        start = self.work()
        yield
        self.took = self.work() - start
        self._seconds[part] += self.took

    @contextmanager
    def held(self) -> Iterator[None]:
        """The clock stands still inside: a consumer holds an event. Holds even if the consumer never comes back."""
        start = self._clock()
        try:
            yield
        finally:
            self._held += self._clock() - start

    def step(self, made: Any, frames: int, caches: Mapping[str, Any], seconds: float = 0.0) -> StepRecord:
        """Count one step. made: as the method gives it, with passes, marks, proposed, accepted and stats; ``frames`` of
        it are taken. caches: anything with ``nbytes``, by name."""
        self._frames += frames
        self._passes += made.passes
        self._proposed += made.proposed
        self._accepted += made.accepted
        self._stats.update(made.stats)
        total = self.memory(caches)
        return StepRecord(frames, made.marks[:frames], total, 1000 * seconds, made.proposed, made.accepted)

    def memory(self, caches: Mapping[str, Any]) -> int:
        """Note the caches' live bytes; returns their sum."""
        self._kv = {name: cache.nbytes for name, cache in caches.items()}
        total = sum(self._kv.values())
        self._peak = max(self._peak, total)
        return total

    def first_audio(self) -> None:
        if self._first_audio is None:
            self._first_audio = self.now()

    def snapshot(self) -> Snapshot:
        audio, total = self._frames / self.frame_rate, self.now()
        lm = self._seconds["lm"]
        return Snapshot(
            audio_seconds=audio,
            lm_seconds=lm,
            vocoder_seconds=self._seconds["vocoder"],
            total_seconds=total,
            lm_rtf=lm / audio if audio else 0.0,
            rtf=total / audio if audio else 0.0,
            ttfa_seconds=self._first_audio,
            frames=self._frames,
            backbone_steps=self._passes,
            frames_per_step=self._frames / self._passes if self._passes else 0.0,
            kv_bytes=dict(self._kv),
            kv_bytes_total=sum(self._kv.values()),
            kv_bytes_peak=self._peak,
            acceptance=self._accepted / self._proposed if self._proposed else None,
            method_stats=dict(self._stats),
        )


WORD_SCORE = 2  # how ``word_errors`` counts; records say by which they were made


class WordErrors(NamedTuple):
    """Substitutions + insertions + deletions, and the number of words of the text."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        """Word error rate; 1 is one error a word."""
        return self.errors / max(1, self.words)


def word_errors(text: str, transcript: str) -> WordErrors:
    """Word errors of a transcript, in the nearest spelling of both (``nearest_words``). The number of words is that of
    the text as spoken, whatever the transcript, so that errors of several runs of a text can be added and compared."""
    from rapidfuzz.distance import Levenshtein

    words = len(_spellings(text)[-1])
    reference, recognised = nearest_words(text, transcript)
    return WordErrors(Levenshtein.distance(reference, recognised) if recognised else words, words)


def nearest_words(text: str, transcript: str) -> tuple[list[str], list[str]]:
    """The words of a text and of a transcript, each as written or as spoken, whichever two are nearest: '7:45 p.m.',
    '7.45 PM' and 'seven forty-five p.m.' are the same. Compounds are joined: so are 'sea shells' and 'seashells'."""
    from rapidfuzz.distance import Levenshtein

    pairs = itertools.product(_spellings(text), _spellings(transcript))
    return min((_joined(*pair) for pair in pairs), key=lambda pair: Levenshtein.distance(*pair))


def _spellings(text: str) -> list[tuple[str, ...]]:
    """Words of a text by Whisper's English normaliser: as written, then as spoken where that can be told."""
    try:
        return [plain_words(text), plain_words(normalise(text))]
    except UserError:  # another script, or nothing to speak
        return [plain_words(text)]


@lru_cache(maxsize=1024)
def plain_words(text: str) -> tuple[str, ...]:
    """Lower case, American spelling, no punctuation, numbers as digits, contractions and titles written out."""
    words = (word.strip(".") for word in _normaliser()(text).split())  # it leaves the dots of '...'
    return tuple(word for word in words if any(map(str.isalnum, word)))


@lru_cache(maxsize=1)
def _normaliser() -> Callable[[str], str]:
    """Whisper's English normaliser; transformers ships it without its table of British spellings."""
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    table = resources.files("whisper_normalizer") / "normalizers" / "english.json"
    return EnglishTextNormalizer(json.loads(table.read_text(encoding="utf-8")))


def _joined(reference: Sequence[str], recognised: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both with neighbouring words joined, alike on both sides, where the compound is a word of either. Digits
    alone are left to the normaliser."""
    known = {word for word in (*reference, *recognised) if any(map(str.isalpha, word))}
    return _with_compounds(reference, known), _with_compounds(recognised, known)


def _with_compounds(words: Sequence[str], known: set[str], longest: int = 3) -> list[str]:
    found, at = [], 0
    while at < len(words):
        sizes = range(min(longest, len(words) - at), 1, -1)
        size = next((n for n in sizes if "".join(words[at : at + n]) in known), 1)
        found.append("".join(words[at : at + size]))
        at += size
    return found
