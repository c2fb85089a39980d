"""Metrics of a run, defined once: a pausable clock, sums over steps, and the snapshot that everything prints.

RTF = compute seconds / audio seconds (lower is better), by a clock that stands still while a consumer holds an event.
LM-RTF counts the autoregressive part only (prefill and steps, a method's own modules included), as all parts do by the
work clock: on a CPU the time that the processor gave this thread, so that other programs do not count, on a GPU the
clock. TTFA = request to first audio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


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
