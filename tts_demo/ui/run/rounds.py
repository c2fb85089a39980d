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
    """A round of turns has ended: LM-RTF of every lane in it. ``left``: rounds still to come."""

    lm_rtf: tuple[float, ...]
    number: int
    left: int


def rounds(
    stack: Any,
    requests: Sequence[Request],
    should_stop: Callable[[], bool] = lambda: False,
    most: int = MOST,
    quick: float = 0.0,
) -> Iterator[tuple[int, engine.Event | Round]]:
    """(which lane, its next event) of a first round, then ``(-1, Round)`` at the end of every round. ``most``: 1 for
    the first alone, untold. A round that was stopped is not counted. ``quick``: while the RTF of all lanes together is
    below it, the first round also yields ``AttentionUpdate`` events."""
    done: dict[int, engine.Done] = {}
    pace: dict[int, float] = {}
    wants_attention = lambda: len(pace) == len(requests) and sum(pace.values()) < quick
    for which, event in turns(stack, requests, should_stop=should_stop, wants_attention=wants_attention):
        if isinstance(event, engine.Stats) and event.snapshot.audio_seconds > 0:
            pace[which] = event.snapshot.rtf
        if isinstance(event, engine.Done):
            done[which] = event
        yield which, event
    took = sum(d.snapshot.total_seconds for d in done.values())
    number = 1
    if most == 1 or any(d.stopped for d in done.values()):
        return
    yield -1, Round(tuple(done[i].snapshot.lm_rtf for i in range(len(requests))), number, _left(number, most, took))
    unseen = [replace(request, capture_attention=False) for request in requests]
    while _left(number, most, took):
        again: dict[int, engine.Done] = {}
        for which, event in turns(stack, unseen, should_stop=should_stop):
            if isinstance(event, engine.Done):
                again[which] = event
        if any(d.stopped for d in again.values()):
            return
        number += 1
        rtf = tuple(again[i].snapshot.lm_rtf for i in range(len(requests)))
        yield -1, Round(rtf, number, _left(number, most, took))


def _left(number: int, most: int, took: float) -> int:
    """Rounds still to come when each takes ``took`` seconds of computing."""
    return sum((n + 1) * took <= BUDGET or n < FEWEST and took <= BUDGET for n in range(number, most))
