"""What keeps a public page upright: limits, the line before the device, health, log lines, an orderly end.

Knows nothing of components. Limits come from environment variables so that a Space can set them without code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from ..config import UserError
from .faults import Uploads, sentence
from .zerogpu import forks

log = logging.getLogger("tts_demo.ui")
WAIT_SECONDS = 0.2  # how often someone who waits is looked after
FIRST_GUESS = 10  # seconds that a run may take, before any has shown it


@dataclass(frozen=True)
class Limits:
    """Every limit, its environment variable being TTS_DEMO_ and the name in capitals."""

    max_upload_mb: int = 20  # size of an uploaded voice
    max_characters: int = 600  # of one text
    max_seconds: int = 40  # of speech per side
    max_queue: int = 16  # runs waiting; the next visitor is politely refused
    per_visitor: int = 1  # runs one visitor may have running or waiting
    shutdown_seconds: int = 20  # how long a running job may finish after SIGTERM
    max_prompt_seconds: float = 10.0  # longer voices are cut to this

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        values = {}
        for f in dataclasses.fields(cls):
            name = f"TTS_DEMO_{f.name.upper()}"
            if name not in environment:
                continue
            try:
                values[f.name] = type(f.default)(environment[name])
            except ValueError:
                raise UserError(f"{name} must be a number, not {environment[name]!r}.") from None
            if values[f.name] <= 0:
                raise UserError(f"{name} must be above 0, not {values[f.name]}.")
        return cls(**values)


class Unavailable(UserError):
    """Nothing is wrong with what was asked: the server cannot do it now. ``seconds``: when to ask again."""

    def __init__(self, words: str, seconds: int = 60) -> None:
        super().__init__(words)
        self.seconds = seconds


class Job:
    """One visitor's place in the line: a stop flag, and the device while it is first. ``wanted`` is asked at every step
    whether somebody still waits for the result. ``size``: seconds of speech it makes."""

    def __init__(self, gate: Gate, visitor: str, wanted: Callable[[], bool], size: float) -> None:
        self._gate, self.visitor, self._wanted, self.size = gate, visitor, wanted, size
        self.stop = threading.Event()
        self.began: float | None = None  # when it got the device

    def stopping(self) -> bool:
        return self.stop.is_set() or not self._wanted()

    def acquire(self, timeout: float) -> bool:
        """Try to take the device. Called again and again, so that a waiting visitor who leaves is let go."""
        return self._gate.first(self, timeout)

    def waiting(self, handle: Handle) -> Iterator[str]:
        """Wait for the model, then for the device; meanwhile what is waited for, in words, five times a second."""
        while not handle.wait(WAIT_SECONDS):
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

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.draining = False
        self._line: list[Job] = []
        self._changed = threading.Condition()
        self._lasted: deque[tuple[float, float]] = deque(maxlen=20)  # seconds and sizes of the last runs

    def join(self, visitor: str, wanted: Callable[[], bool] = lambda: True, size: float = 1.0) -> Job:
        """A place for one run at the end of the line, or a UserError that says why not."""
        with self._changed:
            if self.draining:
                raise Unavailable("The server is restarting; try again in a minute.")
            if len(self._of(visitor)) >= self.limits.per_visitor:
                raise UserError("Your previous run has not ended yet; stop it or wait for it.")
            if len(self._line) > self.limits.max_queue:
                seconds = max(1, math.ceil(self.wait_seconds(1) or FIRST_GUESS))  # until the first in the line is done
                raise Unavailable(
                    f"{self.limits.max_queue} runs are waiting already; try again in about {seconds} s.", seconds
                )
            job = Job(self, visitor, wanted, size)
            self._line.append(job)
            return job

    def first(self, job: Job, timeout: float) -> bool:
        """Wait until ``job`` is first in the line, which is to have the device."""
        with self._changed:
            if self._changed.wait_for(lambda: self._line[:1] == [job], timeout):
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
        words = "One run is before yours" if count == 1 else f"{count} runs are before yours"
        return f"{words}, about {seconds:.0f} s" if seconds and seconds >= 1 else words

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
            if job in self._line:
                self._line.remove(job)
                if job.began:
                    self._lasted.append((time.monotonic() - job.began, job.size))
                self._changed.notify_all()

    def stop(self, visitor: str) -> int:
        """Ask every run of this visitor to stop; how many were asked."""
        with self._changed:
            jobs = self._of(visitor)
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
            self._changed.wait_for(lambda: not self._line, self.limits.shutdown_seconds)
            for job in self._line:
                job.stop.set()
            self._changed.wait_for(lambda: not self.busy, 2)


def listened_to() -> Callable[[], bool]:
    """To be called within a Gradio event: whether its client still listens. False once the client has cancelled,
    disconnected or died; Gradio itself ends only generators, and those only when they yield."""
    blocks, event_id = LocalContext.blocks.get(None), LocalContext.event_id.get(None)
    if blocks is None or event_id is None:  # called without a queue
        return lambda: True
    events = blocks._queue.event_ids_to_events

    def listening() -> bool:
        event = events.get(event_id)
        return event is not None and event.alive

    return listening


class Handle:
    """The stack, loaded in the background so that the page and its recorded runs open at once; on ZeroGPU before
    them."""

    def __init__(self, stack_or_loader: Any, uploads: Uploads | None = None) -> None:
        self._uploads = uploads
        self._ready = threading.Event()
        self._stack: Any = None
        self.error = ""
        if callable(stack_or_loader) and forks():
            self._load(stack_or_loader)  # the emulation of CUDA that a fork inherits is this thread's
        elif callable(stack_or_loader):
            threading.Thread(target=self._load, args=(stack_or_loader,), daemon=True, name="load-stack").start()
        else:
            self._stack = stack_or_loader
            self._ready.set()

    def _load(self, loader: Callable[[], Any]) -> None:
        try:
            self._stack = loader()
        except UserError as error:
            log.error(str(error))
            self.error = str(error)
        except Exception as error:  # a background thread has nobody to raise to: keep the reason for every visitor
            log.exception("the stack did not load")
            self.error = f"The model could not be loaded: {error}"
        finally:
            self._ready.set()

    @property
    def state(self) -> str:
        return "loading" if not self._ready.is_set() else "failed" if self.error else "ok"

    def wait(self, timeout: float) -> bool:
        """Whether the loading has ended, well or badly, within ``timeout`` seconds."""
        return self._ready.wait(timeout)

    def get(self, timeout: float = 120.0) -> Any:
        """The stack; waits while it loads. UserError when it could not be loaded."""
        if not self.wait(timeout):
            raise Unavailable("The model is still loading; try again in a minute.")
        if self.error:
            raise Unavailable(self.error)
        return self._stack

    def problems(self) -> list[str]:
        """What hinders the service, a sentence each: a model that did not load, a folder or disk of uploads."""
        return [*filter(None, [self.error]), *(self._uploads.problems() if self._uploads else ())]

    @property
    def now(self) -> Any | None:
        """The stack if it is there, without waiting."""
        return self._stack if self._ready.is_set() else None


def health(handle: Handle, gate: Gate) -> dict[str, Any]:
    """``ill``: the model is there, but visitors cannot bring or get recordings. ``wait_seconds``: of who comes now."""
    stack, problems, wait = handle.now, handle.problems(), gate.wait_seconds()
    return {
        "status": "draining" if gate.draining else "ill" if problems and handle.state == "ok" else handle.state,
        "jobs": gate.jobs(),
        "wait_seconds": None if wait is None else round(wait, 1),
        "stack": stack.name if stack else None,
        "checkpoint_hash": stack.checkpoint_hash if stack else None,
        "problems": problems,
    }


def in_words(error: UserError | OSError) -> str:
    """One sentence for the visitor; what is no mistake of theirs is logged as well."""
    if isinstance(error, UserError):
        return str(error)
    log.error("the machine refused", exc_info=error)
    return sentence(error)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """What goes wrong within reaches the visitor as one sentence."""
    try:
        yield
    except (UserError, OSError) as error:
        raise gr.Error(in_words(error), print_exception=False, title="Not yet") from None


def log_line(event: str, **numbers: Any) -> None:
    """One JSON object a line. Only counts, names of methods and times: no text, voice, address or session."""
    log.info(json.dumps({"event": event, "time": round(time.time(), 3), **numbers}))


def log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
