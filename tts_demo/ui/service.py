"""The stack behind the page, its health, log lines, and errors as sentences. Knows nothing of components."""

import contextlib
import errno
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from .. import audio, engine
from ..config import Request, UserError
from ..methods import METHODS
from .limits import Unavailable
from .line import Gate
from .run import published
from .uploads import Uploads
from .zerogpu import forks

log = logging.getLogger("tts_demo.ui")
WARMING = "The kettle sang, and the cat listened."


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


class Warmth:
    """Loads a stack, captures its graphs where there are any, and generates a second of speech with every method, which
    is discarded: the first run of a method claims memory and chooses kernels, and no visitor's comparison should be
    made of that. ``words``: its progress."""

    def __init__(self, voice: Path | None = None) -> None:
        self.words, self._voice = "loading the model", voice

    def loader(self, load: Callable[[], Any]) -> Callable[[], Any]:
        """``load`` followed by the warm-up."""

        def loaded() -> Any:
            published.table()  # over a second of computing that no visitor's run should wait for
            stack = load()
            if self._voice and not forks():  # there every process warms up for itself
                self.warm(stack)
            return stack

        return loaded

    def warm(self, stack: Any) -> None:
        """Every method the stack has, one after the other. A method that cannot run here is left cold."""
        recording = audio.read(self._voice.read_bytes(), target=stack.sample_rate)
        prompt = stack.encode_prompt(recording.samples, recording.rate, None)
        for number, total in getattr(stack, "capture", lambda prompt: ())(prompt):
            self.words = f"capturing CUDA graphs, {number} of {total} chunks"
        for number, name in enumerate(METHODS, 1):
            self.words = f"warming up, {number} of {len(METHODS)} methods"
            try:
                request = Request(WARMING, prompt, name, sampling=stack.sampling, max_seconds=2.0)
                engine.warm_up(stack, request)
            except UserError as error:
                log.info("%s stays cold: %s", name, error)


def health(handle: Handle, gate: Gate) -> dict[str, Any]:
    """``ill``: the model is there, but visitors cannot bring or get recordings. ``wait_seconds``: of who comes now."""
    stack, problems, wait = handle.now, handle.problems(), gate.wait_seconds()
    return {
        "status": "draining" if gate.draining else "ill" if problems and handle.state == "ok" else handle.state,
        "jobs": gate.jobs(),
        "wait_seconds": None if wait is None else round(wait, 1),
        "stack": stack.name if stack else None,
        "checkpoint_hash": stack.checkpoint_hash if stack else None,
        "computing": engine.computing(stack) if stack else None,
        "problems": problems,
    }


def in_words(error: UserError | OSError) -> str:
    """One sentence for the visitor. What is no mistake of theirs is logged, and told by what it means to them."""
    if isinstance(error, UserError):
        return str(error)
    log.error("the machine refused", exc_info=error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The server's disk is full: tell who runs it, and try again later."
    return f"The server cannot keep the file ({error.strerror or 'unknown reason'}): tell who runs it."


@contextlib.contextmanager
def gradio_errors() -> Iterator[None]:
    """Errors within reach the visitor as one sentence."""
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
