"""Work for visitors that needs no device: recordings decoded, words checked, archives written. One piece at a time, so
that it neither fills the memory nor takes the processor from a run."""

import dataclasses
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from .limits import Limits
from .line import Gate, Job
from .presence import Presence, client

WAITING = 12


class Desk:
    """A line of its own, in which whoever has left is passed over."""

    def __init__(self, limits: Limits, presence: Presence) -> None:
        self.presence = presence
        own = dataclasses.replace(limits, max_queue=WAITING, per_visitor=limits.per_address)
        self._gate = Gate(own, "request")

    @contextmanager
    def turn(self) -> Iterator[Job]:
        """Held while the work is done; ``stopping`` of the job says when nobody waits for it any more. UserError where
        too many wait."""
        asking = client(self.presence)
        job = self._gate.join(uuid.uuid4().hex, asking.wanted, 1.0, asking.address)
        try:
            for _ in job.waiting():
                pass
            yield job
        finally:
            job.leave()
