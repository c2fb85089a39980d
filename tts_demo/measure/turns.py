"""Runs interleaved in one process, a short slice of each at a time: a machine that slows down slows all of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .. import engine
from ..config import Request

TURN = 0.05  # seconds of compute in a slice: short beside the ups and downs of a machine's load


def turns(
    stack: engine.Stack,
    requests: Sequence[Request],
    around: AbstractContextManager[Any] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    wants_attention: Callable[[], bool] = lambda: False,
    lead: float = 1.0,
    begins: int = 0,
) -> Iterator[tuple[int, engine.Event]]:
    """Interleaves the runs of ``requests`` and yields (index of the request, its next event).

    The run with the fewest generated frames continues, until its next event: a chunk of audio, or ``TURN`` seconds of
    compute. The clocks of the others stand still meanwhile, so each run is timed as if it were alone.

    around: a context manager that is entered for every slice of the first run. wants_attention: see
    ``engine.generate``. lead: the first run generates ``lead`` times as many frames as each other one in the same
    time; the page plays it live and sets this above 1. begins: the run that begins, and goes on first where two have
    come equally far.
    """
    runs = [engine.generate(stack, r, should_stop, every=TURN, wants_attention=wants_attention) for r in requests]
    order = [begins, *(n for n in range(len(runs)) if n != begins)]
    progress = dict.fromkeys(order, 0.0)  # unfinished run -> frames, the first run's divided by ``lead``
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
    stack: engine.Stack, requests: Sequence[Request], around: AbstractContextManager[Any] | None = None, begins: int = 0
) -> list[engine.Done]:
    """The last event of every run, in the order of ``requests``; see ``turns``."""
    events = turns(stack, requests, around, begins=begins)
    done = {which: event for which, event in events if isinstance(event, engine.Done)}
    return [done[which] for which in range(len(requests))]
