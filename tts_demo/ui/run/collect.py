"""Events of a run -> its finished lanes: one way for the page, the endpoints and the recorded runs."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import engine
from ...methods import METHODS
from .rounds import Requests, Round
from .session import Lane, Made, lane_from, plain


@dataclass(frozen=True)
class PromptEncoded:
    """First event of a run: seconds of the recording that are used, and notes for the visitor about it."""

    seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class WarmingUp:
    """This method has not run since the model was loaded: the beginning is generated once, outside the clock."""

    method: str


class Collector:
    """One lane for each of ``requests``, in their order. ``conditions``: those that are known beforehand; ``notes``: of
    the recording, before it is encoded."""

    def __init__(
        self,
        requests: Requests,
        made: Made,
        sample_rate: int,
        conditions: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.requests, self.sample_rate = requests, sample_rate
        self.curves: list[list[tuple[float, float, float]]] = [[] for _ in requests]  # as Lane.curve
        self.steps: list[list[dict[str, Any]]] = [[] for _ in requests]
        self.rounds = 0
        self._made, self._conditions, self._notes = made, dict(conditions or {}), notes
        self._lanes: dict[int, Lane] = {}

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The finished ones, each with the conditions of all."""
        made = dataclasses.replace(self._made, conditions=dict(self._conditions))
        return tuple(dataclasses.replace(self._lanes[i], made=made) for i in sorted(self._lanes))

    @property
    def complete(self) -> bool:
        return len(self._lanes) == len(self.requests)

    def lane(self, which: int) -> Lane:
        return self._lanes[which]

    def add(self, which: int, event: Any) -> None:
        """``which``: the lane of the event, -1 for all."""
        if isinstance(event, PromptEncoded):
            notes = list(dict.fromkeys((*self._notes, *event.notes)))
            self._conditions |= {"prompt_seconds": event.seconds, "notes": notes}
        elif isinstance(event, engine.Started):
            self._conditions |= conditions(event, self._conditions.get("cold", False))
        elif isinstance(event, engine.Stats):
            s = event.snapshot
            if s.audio_seconds > 0:
                self.curves[which].append((s.audio_seconds, s.work_rtf, s.kv_bytes_total))
        elif isinstance(event, engine.Trace):
            self.steps[which] += map(plain, event.steps)
        elif isinstance(event, engine.Done):
            request, made = self.requests[which], dataclasses.replace(self._made, conditions=dict(self._conditions))
            title = METHODS[request.method].title
            self._lanes[which] = lane_from(event, title, request, made, self.sample_rate, self.curves[which])
        elif isinstance(event, Round):
            self.rounds = event.number
            if event.number > 1:  # the first is in the lanes already
                self._lanes = {i: timed(lane, event, i) for i, lane in self._lanes.items()}


def timed(lane: Lane, event: Round, which: int) -> Lane:
    """The lane with one more round of turns."""
    return dataclasses.replace(
        lane, rounds=(*lane.rounds, event.lm_rtf[which]), whole=(*lane.whole, *event.rtf[which : which + 1])
    )


def conditions(event: engine.Started, cold: bool = False) -> dict[str, Any]:
    """What a run's figures depend on; cold when any lane was."""
    facts = ("device", "processor", "dtype", "stack", "checkpoint_hash")
    return {name: getattr(event, name) for name in facts} | {"cold": cold or event.cold}
