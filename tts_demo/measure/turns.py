"""Runs side by side in one process, each to its next event in turn, so that all of them meet the same machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .. import engine
from ..config import Request

TURN = 0.05  # seconds of compute; other work on a machine comes and goes more slowly


def turns(
    stack: engine.Stack,
    requests: Sequence[Request],
    around: AbstractContextManager[Any] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    wants_attention: Callable[[], bool] = lambda: False,
    lead: float = 1.0,
) -> Iterator[tuple[int, engine.Event]]:
    """All of ``requests`` at once: (which one, its next event). Whichever has spoken least goes on, until its next
    event (a chunk of audio, or ``TURN`` seconds of compute). A run's clock stands still meanwhile, as it does while
    a page shows an event, so its figures are its own; but a machine that is slow for a second is slow for every run.
    ``around``: entered while the first one goes on. ``wants_attention``: see ``engine.generate``. ``lead``: so many
    times as much as each of the others the first one speaks meanwhile, because somebody listens to it."""
    runs = [
        engine.generate(stack, request, should_stop, every=TURN, wants_attention=wants_attention)
        for request in requests
    ]
    progress = dict.fromkeys(range(len(runs)), 0.0)  # frames of those that go on, of the first over ``lead``
    while progress:
        which = min(progress, key=progress.__getitem__)
        with around if around is not None and which == 0 else nullcontext():
            event = next(runs[which])
        yield which, event
        if isinstance(event, engine.Stats):
            progress[which] = event.snapshot.frames / (lead if which == 0 else 1.0)
        elif isinstance(event, engine.Done):
            del progress[which]


def in_turn(
    stack: engine.Stack, requests: Sequence[Request], around: AbstractContextManager[Any] | None = None
) -> list[engine.Done]:
    """How all of them end, in their order."""
    done = {which: event for which, event in turns(stack, requests, around) if isinstance(event, engine.Done)}
    return [done[which] for which in range(len(requests))]
