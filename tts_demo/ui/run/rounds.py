"""Rounds of interleaved runs: each round generates every request once, a short slice of each at a time.

The first round is played. Further rounds repeat it unheard and are only timed, so that a speed-up has a spread.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import engine
from ...config import Request
from ...measure.turns import turns

FEWEST, MOST = 2, 5  # rounds; the range of five contains the true median with a probability of 15/16
Requests, Question = Sequence[Request], Callable[[], bool]
never: Question = lambda: False
BUDGET = 40.0  # seconds of computing in all rounds together; beyond it only ``FEWEST`` rounds are made


@dataclass(frozen=True)
class Round:
    """A finished round: LM-RTF and RTF of every request in it, by the work clock. ``left``: rounds still to come."""

    lm_rtf: tuple[float, ...]
    number: int
    left: int
    rtf: tuple[float, ...] = ()


@dataclass(frozen=True)
class RoundProgress:
    """A further round under way. ``share``: the part that is done, 0 to 1; ``count``: planned rounds, the first one
    included."""

    number: int
    count: int
    share: float


@dataclass(frozen=True)
class First:
    """Cost of the first round, summed over its requests. seconds: of computing; frames: generated."""

    seconds: float
    frames: int


def rounds(
    stack: Any, requests: Requests, should_stop: Question = never, most: int = MOST, quick: float = 0.0
) -> Iterator[tuple[int, engine.Event | Round]]:
    """Yields (index of the request, its next event) during the first round, and ``(-1, Round)`` after each round.

    In the first round the first request, which is played live, generates as many frames as all others together, so
    that its audio keeps up however many there are. A round that is stopped ends the rounds and yields no ``Round``.

    most: number of rounds at most; with 1 there is no ``Round`` either. quick: the first round also yields
    ``AttentionUpdate`` events while the sum of all RTFs is below ``quick``.
    """
    done: dict[int, engine.Done] = {}
    pace: dict[int, float] = {}
    wants_attention = lambda: len(pace) == len(requests) and sum(pace.values()) < quick
    lead = max(1.0, len(requests) - 1.0)
    for which, event in turns(stack, requests, should_stop=should_stop, wants_attention=wants_attention, lead=lead):
        if isinstance(event, engine.Stats) and event.snapshot.audio_seconds > 0:
            pace[which] = event.snapshot.rtf
        if isinstance(event, engine.Done):
            done[which] = event
        yield which, event
    if most == 1 or any(d.stopped for d in done.values()):
        return
    snapshots = [done[i].snapshot for i in range(len(requests))]
    first = First(sum(s.total_seconds for s in snapshots), sum(s.frames for s in snapshots))
    yield -1, _round(snapshots, 1, _left(1, most, first.seconds))
    for which, event in further_rounds(stack, requests, first, should_stop, most):
        if isinstance(event, Round):
            yield which, event


def further_rounds(
    stack: Any, requests: Requests, first: First, should_stop: Question = never, most: int = MOST, number: int = 1
) -> Iterator[tuple[int, Round | RoundProgress]]:
    """The rounds that follow the first ``number``, without attention maps: yields ``(-1, RoundProgress)`` during a
    round and ``(-1, Round)`` after it."""
    unseen = [replace(request, capture_attention=False) for request in requests]
    while left := _left(number, most, first.seconds):
        done: dict[int, engine.Done] = {}
        frames: dict[int, int] = {}
        # Another one begins each time: it pays for what the others find in the CPU's cache.
        for which, event in turns(stack, unseen, should_stop=should_stop, begins=number % len(requests)):
            if isinstance(event, engine.Done):
                done[which] = event
            elif isinstance(event, engine.Stats):
                frames[which] = event.snapshot.frames
                share = min(1.0, sum(frames.values()) / max(1, first.frames))
                yield -1, RoundProgress(number + 1, number + left, share)
        if any(d.stopped for d in done.values()):
            return
        number += 1
        yield -1, _round([done[i].snapshot for i in range(len(requests))], number, _left(number, most, first.seconds))


def _round(snapshots: Sequence[Any], number: int, left: int) -> Round:
    return Round(tuple(s.lm_rtf for s in snapshots), number, left, tuple(s.work_rtf for s in snapshots))


def _left(number: int, most: int, took: float) -> int:
    """Number of rounds after ``number`` that the budget allows, when each takes ``took`` seconds of computing."""
    return sum((n + 1) * took <= BUDGET or n < FEWEST and took <= BUDGET for n in range(number, most))
