"""ZeroGPU Spaces, where the GPU belongs to a process forked for one call: what the page must do differently there.

The package ``spaces`` (installed on Spaces alone) emulates CUDA in the thread that imports it, until the page is
launched. So it is imported first, the stack is loaded in that thread, and device work runs in the function given to
``gpu``, whose arguments and results are pickled. A flag of the parent does not reach the fork: a ``Ticket`` does.
"""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from ..config import UserError

WATCH_SECONDS = 0.1  # how often the parent looks whether the run is still wanted


def zero_gpu() -> Any | None:
    """The ``spaces`` package where it is installed. It must be imported before anything touches CUDA."""
    try:
        import spaces
    except ImportError:
        return None
    return spaces


SET = "SPACES_ZERO_GPU"


@contextlib.contextmanager
def service() -> Iterator[None]:
    """Launch within: ``spaces`` reports to ZeroGPU then. UserError where that is not behind it."""
    if os.environ.get(SET) and zero_gpu() is None:
        absent = "but the package spaces is not installed: this machine's own device is used."
        print(f"{SET} is set, {absent}", file=sys.stderr)
    try:
        yield
    except (httpx.HTTPError, RuntimeError) as error:
        if not forks():
            raise
        raise UserError(
            f"{SET} is set, but no ZeroGPU answers here ({error}): unset it to use this machine's own device."
        ) from None


def forks(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether device work runs in forked processes."""
    return environment.get(SET, "").lower() in ("1", "t", "true") and zero_gpu() is not None


def gpu(function: Callable, seconds: Callable[..., int]) -> Callable:
    """One ZeroGPU acquisition per call of the generator ``function`` on Spaces; the function itself elsewhere."""
    spaces = zero_gpu()
    return spaces.GPU(duration=seconds)(function) if spaces else function


class Ticket:
    """A file that is there while somebody wants the run; called, it says whether to stop. Pickled, it is a path.

    ``with Ticket(stopping):`` keeps it until ``stopping()`` or the end of the block, whichever comes first.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping, self._over = stopping, threading.Event()
        handle, self._path = tempfile.mkstemp(prefix="tts_demo-run-")
        os.close(handle)

    def __getstate__(self) -> str:
        return self._path

    def __setstate__(self, path: str) -> None:
        self._path = path

    def __call__(self) -> bool:
        return not os.path.exists(self._path)

    def __enter__(self) -> "Ticket":
        threading.Thread(target=self._watch, daemon=True, name="ticket").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._give_up()

    def _watch(self) -> None:
        while not self._over.wait(WATCH_SECONDS):
            if self._stopping():
                return self._give_up()

    def _give_up(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
