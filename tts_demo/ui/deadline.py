"""A deadline for requests that do not end: uvicorn has none for headers and bodies."""

import asyncio
from typing import Any

MEGABYTE = 1_000_000


def with_deadline(protocol: type[Any], seconds: float) -> type[Any]:
    """uvicorn's HTTP protocol class (either one), which closes a connection whose request stays incomplete: ``seconds``
    for its headers and for each megabyte of its body."""

    class Deadline(protocol):
        _timer: asyncio.TimerHandle | None = None
        _bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._start()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle = self.cycle
            answered = cycle is not None and cycle.response_complete
            if self.transport.is_closing() or self.transport.get_protocol() is not self:  # gone, or a web socket's now
                self._stop()
            elif cycle is not None and not answered and not cycle.more_body:
                self._stop()
            elif self._timer is None:
                self._start()
            else:
                self._bytes += len(data)
                if self._bytes >= MEGABYTE and not answered:
                    self._start()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _start(self) -> None:
            self._stop()
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

        def _stop(self) -> None:
            self._bytes = 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _expire(self) -> None:
            self._timer = None
            self.transport.close()

    return Deadline
