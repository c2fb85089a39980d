"""What keeps a public page upright: limits, the one lock around the device, health, log lines, an orderly end.

Knows nothing of components. Limits come from environment variables so that a Space can set them without code.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..config import UserError

log = logging.getLogger("tts_demo.ui")


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


class Job:
    """One visitor's place: a stop flag, and the device lock while it runs."""

    def __init__(self, gate: Gate, visitor: str) -> None:
        self._gate, self._visitor, self._held = gate, visitor, False
        self.stop = threading.Event()
        self.started = time.monotonic()

    def acquire(self, timeout: float) -> bool:
        """Try to take the device. Called again and again, so that a waiting visitor who leaves is let go."""
        self._held = self._gate.lock.acquire(timeout=timeout)
        return self._held

    def leave(self) -> None:
        """Flags and a release only: after a cancel this runs on the server's event loop."""
        self.stop.set()
        if self._held:
            self._held = False
            self._gate.lock.release()
        self._gate.forget(self._visitor, self)


class Gate:
    """One plain lock around the device, and who is inside. A plain ``Lock``, since a cancelled generator is closed on
    another thread than the one that took it, which an ``RLock`` would refuse."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.lock = threading.Lock()
        self.draining = False
        self._jobs: dict[str, list[Job]] = {}
        self._guard = threading.Lock()

    def join(self, visitor: str) -> Job:
        """A place for one run, or a UserError that says why not."""
        with self._guard:
            if self.draining:
                raise UserError("The server is restarting; try again in a minute.")
            mine = self._jobs.setdefault(visitor, [])
            if len(mine) >= self.limits.per_visitor:
                raise UserError("Your previous run has not ended yet; stop it or wait for it.")
            if sum(map(len, self._jobs.values())) > self.limits.max_queue:
                raise UserError(f"{self.limits.max_queue} runs are waiting already; try again in a minute.")
            job = Job(self, visitor)
            mine.append(job)
            return job

    def forget(self, visitor: str, job: Job) -> None:
        with self._guard:
            left = [j for j in self._jobs.get(visitor, []) if j is not job]
            if left:
                self._jobs[visitor] = left
            else:
                self._jobs.pop(visitor, None)

    def stop(self, visitor: str) -> int:
        """Ask every run of this visitor to stop; how many were asked."""
        with self._guard:
            jobs = list(self._jobs.get(visitor, []))
        for job in jobs:
            job.stop.set()
        return len(jobs)

    def stopping(self, visitor: str) -> bool:
        """True once this visitor's run was asked to stop (or has gone)."""
        jobs = self._jobs.get(visitor)
        return not jobs or jobs[0].stop.is_set()

    def jobs(self) -> int:
        with self._guard:
            return sum(map(len, self._jobs.values()))

    def drain(self) -> None:
        """Refuse new runs, let the running one finish for a while, then stop it cleanly."""
        self.draining = True
        end = time.monotonic() + self.limits.shutdown_seconds
        while self.jobs() and time.monotonic() < end:
            time.sleep(0.05)
        with self._guard:
            jobs = [j for js in self._jobs.values() for j in js]
        for job in jobs:
            job.stop.set()
        if self.lock.acquire(timeout=2):
            self.lock.release()


class Handle:
    """The stack, loaded in the background so that the page and its recorded runs open at once."""

    def __init__(self, stack_or_loader: Any) -> None:
        self._ready = threading.Event()
        self._stack: Any = None
        self.error = ""
        if callable(stack_or_loader):
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

    def get(self, timeout: float = 120.0) -> Any:
        """The stack; waits while it loads. UserError when it could not be loaded."""
        if not self._ready.wait(timeout):
            raise UserError("The model is still loading; try again in a minute.")
        if self.error:
            raise UserError(self.error)
        return self._stack

    @property
    def now(self) -> Any | None:
        """The stack if it is there, without waiting."""
        return self._stack if self._ready.is_set() else None


def health(handle: Handle, gate: Gate) -> dict[str, Any]:
    stack = handle.now
    return {
        "status": "draining" if gate.draining else handle.state,
        "jobs": gate.jobs(),
        "stack": stack.name if stack else None,
        "checkpoint_hash": stack.checkpoint_hash if stack else None,
    }


def log_line(event: str, **numbers: Any) -> None:
    """One JSON object a line. Only counts, names of methods and times: no text, voice, address or session."""
    log.info(json.dumps({"event": event, "time": round(time.time(), 3), **numbers}))


def log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def zero_gpu() -> Any | None:
    """Hugging Face's ``spaces`` package where it is installed. It must be imported before anything touches CUDA."""
    try:
        import spaces
    except ImportError:
        return None
    return spaces


def gpu(function: Callable, seconds: Callable[..., int]) -> Callable:
    """One ZeroGPU acquisition per call of the generator ``function`` on Spaces; the function itself elsewhere."""
    spaces = zero_gpu()
    return spaces.GPU(duration=seconds)(function) if spaces else function
