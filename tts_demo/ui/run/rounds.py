"""Lanes in rounds, interleaved: every lane goes on a little at a time, so that all of them meet the same machine.

The first round is played; the further ones generate the same again for the clock alone, so that a ratio of speeds comes
with its spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import engine
from ...config import Request
from ...measure.turns import turns

FEWEST, MOST = 2, 5  # the range of five holds what the median of very many would be in 15 cases of 16
BUDGET = 40.0  # seconds of computing in all rounds together; beyond it no further one starts than the fewest


@dataclass(frozen=True)
class Round:
    """A round of turns has ended: LM-RTF and RTF of every lane in it, by the work clock. ``left``: rounds to come."""

    lm_rtf: tuple[float, ...]
    number: int
    left: int
    rtf: tuple[float, ...] = ()


@dataclass(frozen=True)
class Progress:
    """A further round goes on. ``share``: how much of it is done, from 0 to 1; ``count``: rounds in all."""

    number: int
    count: int
    share: float


@dataclass(frozen=True)
class First:
    """What the first round took. seconds: of computing, all lanes together; frames: of all lanes."""

    seconds: float
    frames: int


def rounds(
    stack: Any,
    requests: Sequence[Request],
    should_stop: Callable[[], bool] = lambda: False,
    most: int = MOST,
    quick: float = 0.0,
) -> Iterator[tuple[int, engine.Event | Round]]:
    """(which lane, its next event) of a first round, then ``(-1, Round)`` at the end of every round. ``most``: 1 for
    the first alone, without a ``Round``. A round that was stopped is not counted. ``quick``: while the RTF of all lanes
    together is below it, the first round also yields ``AttentionUpdate`` events. The first lane, which is heard,
    gets half of the first round until it has ended: its sound keeps its pace however many stand beside it."""
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
    stack: Any,
    requests: Sequence[Request],
    first: First,
    should_stop: Callable[[], bool] = lambda: False,
    most: int = MOST,
    number: int = 1,
) -> Iterator[tuple[int, Round | Progress]]:
    """The rounds after ``number`` of them, unheard: ``Progress`` while each goes on, ``Round`` at its end."""
    unseen = [replace(request, capture_attention=False) for request in requests]
    while left := _left(number, most, first.seconds):
        done: dict[int, engine.Done] = {}
        frames: dict[int, int] = {}
        for which, event in turns(stack, unseen, should_stop=should_stop):
            if isinstance(event, engine.Done):
                done[which] = event
            elif isinstance(event, engine.Stats):
                frames[which] = event.snapshot.frames
                share = min(1.0, sum(frames.values()) / max(1, first.frames))
                yield -1, Progress(number + 1, number + left, share)
        if any(d.stopped for d in done.values()):
            return
        number += 1
        yield -1, _round([done[i].snapshot for i in range(len(requests))], number, _left(number, most, first.seconds))


def _round(snapshots: Sequence[Any], number: int, left: int) -> Round:
    return Round(tuple(s.lm_rtf for s in snapshots), number, left, tuple(s.work_rtf for s in snapshots))


def _left(number: int, most: int, took: float) -> int:
    """Rounds still to come when each takes ``took`` seconds of computing."""
    return sum((n + 1) * took <= BUDGET or n < FEWEST and took <= BUDGET for n in range(number, most))
