"""Runs side by side in one process: each goes on to its next event in turn, so that all of them meet the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import engine
from .config import Request


def in_turn(stack: Any, requests: Sequence[Request], around: AbstractContextManager[Any] | None = None) -> list[engine.Done]:
    """All of ``requests`` at once; whichever has spoken least goes on, until its next event (a chunk of audio, or a fifth of a
    second of compute). A run's clock stands still meanwhile, as it does while a page shows an event, so its figures are its
    own; but a machine that is slow for a second is slow for every run. ``around``: entered while the first one goes on."""
    runs = [engine.generate(stack, request) for request in requests]
    spoken, done = [0] * len(runs), [None] * len(runs)
    while None in done:
        turn = min((i for i, end in enumerate(done) if end is None), key=spoken.__getitem__)
        with around if around is not None and turn == 0 else nullcontext():
            event = next(runs[turn])
        if isinstance(event, engine.Stats):
            spoken[turn] = event.snapshot.frames
        elif isinstance(event, engine.Done):
            done[turn] = event
    return done
