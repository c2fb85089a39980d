"""Warming up once at start-up: the first run of a method claims memory and chooses kernels, and no visitor's comparison
should be made of that."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import audio, engine
from ...config import Request, UserError
from ...methods import METHODS
from ..zerogpu import forks
from . import published

log = logging.getLogger("tts_demo.ui")
TEXT = "The kettle sang, and the cat listened."


class Warmth:
    """Loads a stack, captures its graphs where there are any, and generates a second of speech with every method, which
    is discarded; ``words``: its progress."""

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
                request = Request(TEXT, prompt, name, sampling=stack.sampling, max_seconds=2.0)
                engine.warm_up(stack, request)
            except UserError as error:
                log.info("%s stays cold: %s", name, error)
