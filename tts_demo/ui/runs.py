"""A run on the device, for the page and every endpoint: encode the prompt, warm up, decode the lanes in turns."""

import dataclasses
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from .. import engine
from ..audio import Recording
from ..config import UserError
from ..prompts import UNUSED_TRANSCRIPT
from .limits import Limits
from .line import Gate
from .presence import Presence
from .run.collect import PromptEncoded, WarmingUp
from .run.rounds import First, Question, Requests, Round, RoundProgress, further_rounds, rounds
from .service import Handle
from .voices import Recordings
from .zerogpu import Ticket, forks, gpu

CHARACTERS_A_SECOND = 15  # of English speech


class Runner:
    """Bound to one stack handle and the line before the device."""

    def __init__(self, handle: Handle, gate: Gate, limits: Limits, presence: Presence | None = None) -> None:
        self.handle, self.gate, self.limits = handle, gate, limits
        self.presence = presence or Presence()
        self.recordings = Recordings(limits)
        self._on_device = gpu(self._events, lambda voice, transcript, requests, *_: 40 * len(requests))

    def events(
        self, voice: Recording, transcript: str, requests: Requests, visitor: str, most: int = 1, quick: float = 0.0
    ) -> Iterator[tuple[int, Any]]:
        """Events of all lanes, ended when this visitor's run is: see ``_events``."""
        stopping = lambda: self.gate.stopping(visitor)
        with Ticket(stopping) if forks() else nullcontext(stopping) as asked:
            yield from self._on_device(voice, transcript, requests, asked, most, quick)

    def _events(
        self, voice: Recording, transcript: str, requests: Requests, stopping: Question, most: int, quick: float
    ) -> Iterator[tuple[int, Any]]:
        """One device acquisition for all lanes: the voice is encoded once, then the lanes are generated in turns, in up
        to ``most`` rounds. Yields (lane, event), lane -1 for what concerns all. Events hold plain numbers and arrays
        only, for on ZeroGPU they come from another process."""
        stack = self.handle.get()
        # a transcript of a recording that was cut no longer fits it
        prompt = stack.encode_prompt(voice.samples, voice.rate, None if voice.cut else transcript or None)
        unused = (UNUSED_TRANSCRIPT,) if voice.cut and transcript else ()
        yield -1, PromptEncoded(round(float(prompt.seconds), 2), (*getattr(prompt, "notes", ()), *unused))
        ready = [dataclasses.replace(request, prompt=prompt) for request in requests]
        for request in ready:
            if not stack.method(request.method).warm(request.options):
                yield -1, WarmingUp(request.method)
                engine.warm_up(stack, request, stopping)
        for which, event in rounds(stack, ready, stopping, most, quick):
            if isinstance(event, engine.Started):  # on ZeroGPU a prompt does not leave the process
                event = dataclasses.replace(event, request=requests[which])
            yield which, event

    def timing(
        self, voice: Recording, transcript: str, requests: Requests, first: First, number: int, stopping: Question
    ) -> Iterator[tuple[int, Round | RoundProgress]]:
        """The rounds after ``number`` of them, for the clock alone. Not on ZeroGPU, where they belong to the run's own
        call."""
        stack = self.handle.get()
        prompt = stack.encode_prompt(voice.samples, voice.rate, None if voice.cut else transcript or None)
        ready = [dataclasses.replace(request, prompt=prompt) for request in requests]
        yield from further_rounds(stack, ready, first, stopping, number=number)


def expected(stack: Any, text: str, max_seconds: float) -> float:
    """Rough length of the text's speech in seconds: the player waits by it where generation is slower than real time,
    and the line's estimate rests on it. Numbers and signs count as they are spoken, where ``stack`` can say how."""
    return round(min(max_seconds, 0.5 + len(written_out(stack, text)) / CHARACTERS_A_SECOND), 1)


def written_out(stack: Any, text: str) -> str:
    """The text as it is spoken; as it is typed without a stack, or where it cannot be spoken."""
    if stack is None or not text.strip():
        return text.strip()
    try:
        return " ".join(form for form, _ in stack.preview(text))
    except UserError:
        return text.strip()
