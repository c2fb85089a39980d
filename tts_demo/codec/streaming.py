"""Streaming by bounded recomputation: exactly the whole utterance's result, with no state on any module."""

from collections.abc import Callable

import torch
from torch import Tensor

from .source import accumulate


class RunningPhase:
    """Streams ``source.accumulate``: it remembers the phase and the frame number at the end of what was pushed."""

    def __init__(self) -> None:
        self._cycles, self._number = 0.0, 0
        self._none: Tensor | None = None  # no frames, in the shape of the outputs

    def push(self, frames: Tensor) -> Tensor:
        """frames [n, m] -> [n, m + 1]."""
        done = accumulate(frames, self._cycles, self._number)
        self._cycles = (self._cycles + float(frames[:, -3].double().sum())) % 1.0
        self._number += len(frames)
        self._none = done[:0]
        return done

    def finish(self) -> Tensor:
        """Nothing: no frame waits for a later one."""
        return self._none


class Windowed:
    """Streams a function of frames whose output frame t depends on inputs t - left .. t + right only.

    ``fn`` maps [1, F, ...] to [1, F * rate, ...]. ``push`` returns the outputs that no later input can change any more,
    ``finish`` the rest. Each call recomputes ``left`` frames of context: few large chunks cost less."""

    def __init__(self, fn: Callable[[Tensor], Tensor], left: int, right: int, rate: int = 1) -> None:
        self.fn, self.left, self.right, self.rate = fn, left, right, rate
        self._buffer: Tensor | None = None  # the last inputs that outputs still need, [F, ...]
        self._first = 0  # frame number of the buffer's first row
        self._done = 0  # frames already returned

    def push(self, frames: Tensor) -> Tensor:
        """frames [n, ...], n >= 0 (the first time n >= 1) -> outputs [m * rate, ...], m >= 0."""
        self._buffer = frames if self._buffer is None else torch.cat([self._buffer, frames])
        return self._emit(self._first + len(self._buffer) - self.right)

    def finish(self) -> Tensor:
        """The outputs still owed; the stream is over."""
        return self._emit(self._first + len(self._buffer))

    @torch.no_grad()
    def _emit(self, until: int) -> Tensor:
        start, until = self._done, max(self._done, until)
        if until == start:
            return self.fn(self._buffer[:1][None])[0][:0]
        output = self.fn(self._buffer[None])[0]
        wanted = output[(start - self._first) * self.rate : (until - self._first) * self.rate]
        self._done = until
        drop = max(0, until - self.left - self._first)
        self._buffer, self._first = self._buffer[drop:], self._first + drop
        return wanted
