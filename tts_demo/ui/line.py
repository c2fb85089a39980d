"""The line before the device: first come, first served, and how long that takes; and the desk, a second line."""

import dataclasses
import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..config import UserError
from .limits import Limits, Unavailable
from .presence import Presence, client

WAIT_SECONDS = 0.2  # how often it is checked whether someone who waits has left
Question = Callable[[], bool]
DESK_WAITING = 12  # who may wait at the desk
FIRST_GUESS = 10  # seconds that a run may take, before any has shown it


class Job:
    """One visitor's place in the line: a stop flag, and the device while it is first. ``wanted`` is asked at every step
    whether somebody still waits for the result. ``size``: seconds of speech it makes."""

    def __init__(self, gate: "Gate", visitor: str, wanted: Question, size: float, address: str) -> None:
        self._gate, self.visitor, self._wanted, self.size, self.address = gate, visitor, wanted, size, address
        self.stop = threading.Event()
        self.began: float | None = None  # when it got the device

    def stopping(self) -> bool:
        return self.stop.is_set() or not self._wanted()

    def acquire(self, timeout: float) -> bool:
        """Try to take the device. Called again and again, so that a waiting visitor who leaves is let go."""
        return self._gate.first(self, timeout)

    def waiting(self, model: Any = None) -> Iterator[str]:
        """Wait for the model (a ``Handle``), then for the device; meanwhile what is waited for, in words, five times a
        second."""
        while model and not model.wait(WAIT_SECONDS):
            self._check()
            yield "The model is still loading"
        while not self.acquire(WAIT_SECONDS):
            self._check()
            yield self._gate.before(self)
        self._check()

    def _check(self) -> None:
        if self.stopping():
            reason = "The server is restarting; try again in a minute."
            raise Unavailable(reason if self._gate.draining else "Stopped before the device was free.")

    def leave(self) -> None:
        """Flags and a release only: after a cancel this runs on the server's event loop."""
        self.stop.set()
        self._gate.forget(self)


class Gate:
    """The line before the device, first come first served, and who is in it. Jobs are let in and out by any thread:
    a cancelled generator is closed on another thread than the one that ran it."""

    def __init__(self, limits: Limits, noun: str = "run") -> None:
        self.limits, self._noun = limits, noun
        self.draining = False
        self._line: list[Job] = []
        self._spare: Job | None = None  # has the device while the line is empty
        self._changed = threading.Condition()
        self._lasted: deque[tuple[float, float]] = deque(maxlen=20)  # seconds and sizes of the last runs

    def join(self, visitor: str, wanted: Question = lambda: True, size: float = 1.0, address: str = "") -> Job:
        """A place at the end of the line, or a UserError that says why not. ``address``: of the visitor, where it is
        known."""
        with self._changed:
            if self.draining:
                raise Unavailable("The server is restarting; try again in a minute.")
            if len(self._of(visitor)) >= self.limits.per_visitor:
                raise UserError(f"Your previous {self._noun} has not ended yet; stop it or wait for it.")
            seconds = max(1, math.ceil(self.wait_seconds(1) or FIRST_GUESS))  # until the first in the line is done
            if address and sum(job.address == address for job in self._line) >= self.limits.per_address:
                raise Unavailable(
                    f"{self.limits.per_address} {self._noun}s from your address are running or waiting already; try "
                    "again when one has ended.",
                    seconds,
                )
            if len(self._line) > self.limits.max_queue:
                raise Unavailable(
                    f"{self.limits.max_queue} {self._noun}s are waiting already; try again in about {seconds} s.",
                    seconds,
                )
            job = Job(self, visitor, wanted, size, address)
            self._line.append(job)
            return job

    def spare(self, visitor: str, wanted: Question = lambda: True) -> Job | None:
        """The device for work that gives way: its job is to stop as soon as anybody joins the line, who waits until it
        has left. None where somebody has the device, or waits for it."""
        with self._changed:
            if self._line or self._spare or self.draining:
                return None
            self._spare = Job(self, visitor, lambda: wanted() and not self._line, 0.0, "")
            return self._spare

    def has(self, visitor: str) -> bool:
        """Whether this visitor has a place in the line."""
        return bool(self._of(visitor))

    def first(self, job: Job, timeout: float) -> bool:
        """Wait until ``job`` is first in the line and may have the device."""
        with self._changed:
            if self._changed.wait_for(lambda: self._line[:1] == [job] and self._spare is None, timeout):
                job.began = job.began or time.monotonic()
            return job.began is not None

    def crowded(self) -> bool:
        """Whether anybody waits behind whoever has the device."""
        with self._changed:
            return len(self._line) > 1

    def before(self, job: Job) -> str:
        """How many are before this job, and how long that may take going by the last runs."""
        with self._changed:
            count = self._line.index(job) if job in self._line else 0
            seconds = self.wait_seconds(count)
        if not count:
            return "Yours is next"
        text = f"One {self._noun} is before yours" if count == 1 else f"{count} {self._noun}s are before yours"
        return f"{text}, about {seconds:.0f} s" if seconds and seconds >= 1 else text

    def wait_seconds(self, count: int | None = None) -> float | None:
        """How long the first ``count`` in the line will take (all of them: a newcomer's wait), None until a run has
        shown the pace."""
        with self._changed:
            before, lasted = self._line[:count], list(self._lasted)
        if not lasted:
            return None if before else 0.0
        pace, now = sum(seconds for seconds, _ in lasted) / sum(size for _, size in lasted), time.monotonic()
        return sum(max(0.0, job.size * pace - (now - job.began if job.began else 0.0)) for job in before)

    def forget(self, job: Job) -> None:
        with self._changed:
            if job is self._spare:
                self._spare = None
                self._changed.notify_all()
            if job in self._line:
                self._line.remove(job)
                if job.began:
                    self._lasted.append((time.monotonic() - job.began, job.size))
                self._changed.notify_all()

    def stop(self, visitor: str) -> int:
        """Ask every run of this visitor to stop; how many were asked."""
        with self._changed:
            jobs = self._of(visitor)
            if self._spare and self._spare.visitor == visitor:
                jobs.append(self._spare)
        for job in jobs:
            job.stop.set()
        return len(jobs)

    def stopping(self, visitor: str) -> bool:
        """True once this visitor's run was asked to stop, or nobody waits for it any more, or it has gone."""
        jobs = self._of(visitor)
        return not jobs or jobs[0].stopping()

    def _of(self, visitor: str) -> list[Job]:
        return [job for job in list(self._line) if job.visitor == visitor]

    @property
    def busy(self) -> bool:
        """True while a job has the device."""
        return any(job.began for job in list(self._line))

    def jobs(self) -> int:
        return len(self._line)

    def drain(self) -> None:
        """Refuse new runs, let the running one finish for a while, then stop it cleanly."""
        with self._changed:
            self.draining = True
            if self._spare:
                self._spare.stop.set()
            self._changed.wait_for(lambda: not self._line, self.limits.shutdown_seconds)
            for job in self._line:
                job.stop.set()
            self._changed.wait_for(lambda: not self.busy, 2)


class Desk:
    """Work for visitors that needs no device: recordings decoded, words checked, archives written. A line of its own,
    one piece at a time, so that it neither fills the memory nor takes the processor from a run."""

    def __init__(self, limits: Limits, presence: Presence) -> None:
        self.presence = presence
        own = dataclasses.replace(limits, max_queue=DESK_WAITING, per_visitor=limits.per_address)
        self._gate = Gate(own, "request")

    @contextmanager
    def turn(self) -> Iterator[Job]:
        """Held while the work is done; ``stopping`` of the job says when nobody waits for it any more. UserError where
        too many wait."""
        asking = client(self.presence)
        job = self._gate.join(uuid.uuid4().hex, asking.wanted, 1.0, asking.address)
        try:
            for _ in job.waiting():
                pass
            yield job
        finally:
            job.leave()
