"""What the flow remembers while it streams, so that nothing final is computed twice: the keys and values of finished
blocks in every attention layer, and the last frames that every causal convolution saw, at each Euler step.

That is 360 to 460 kB a token and Euler step in float32, so a budget bounds it. What does not fit is computed again.
"""

import threading
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

GROWTH = 4  # blocks by which buffers grow


class Budget:
    """Bytes that all runs of one stack may remember together."""

    def __init__(self, total: int) -> None:
        self._left = total
        self._guard = threading.Lock()

    def take(self, count: int) -> bool:
        with self._guard:
            if count > self._left:
                return False
            self._left -= count
            return True

    def give_back(self, taken: list[int]) -> None:
        with self._guard:
            self._left += sum(taken)


class FlowMemory:
    """Of the first ``tokens`` of one run."""

    def __init__(self, block: int, bytes_per_token: int, budget: Budget) -> None:
        """block: tokens of a block."""
        self.tokens = 0
        self._block, self._bytes_per_token, self._budget = block, bytes_per_token, budget
        self._capacity = 0  # tokens
        self._taken: list[int] = []  # bytes
        self._attended: dict[Hashable, Tensor] = {}  # keys and values [2, B, A, capacity, D] of a layer at a step
        self._frames: dict[Hashable, Tensor] = {}  # what a convolution saw last [B, C, left]
        self.mark()
        weakref.finalize(self, budget.give_back, self._taken)

    def hold(self, tokens: int) -> bool:
        """Whether passes over so many tokens can be made."""
        return True

    def ends(self, tokens: int, lookahead: int, last: bool) -> list[int]:
        """Where passes over ``tokens`` end: one is enough."""
        return [tokens]

    def room(self, tokens: int) -> int:
        """How many tokens can be remembered, of so many, in whole blocks; buffers grow for it as the budget allows."""
        step = GROWTH * self._block
        while self._capacity < tokens and self._budget.take(cost := step * self._bytes_per_token):
            self._taken.append(cost)
            self._capacity += step
        return min(self._capacity, tokens // self._block * self._block)

    def mark(self) -> None:
        """What is remembered now is what ``return_to_mark`` returns to."""
        self._marked = self.tokens, dict(self._frames)

    def return_to_mark(self) -> None:
        self.tokens, self._frames = self._marked[0], dict(self._marked[1])

    def extend(self, key: Hashable, k: Tensor, v: Tensor, rate: int, keep: int) -> tuple[Tensor, Tensor]:
        """k, v [B, A, T, D] behind those that are remembered -> [B, A, past + T, D]; ``keep`` tokens, of ``rate``
        positions each, are remembered."""
        past, kept = rate * self.tokens, rate * keep
        if kept:
            buffer = self._buffer(key, k, past, rate * self._capacity)
            buffer[0, :, :, past : past + kept], buffer[1, :, :, past : past + kept] = k[:, :, :kept], v[:, :, :kept]
            if kept == k.shape[2]:
                return buffer[0, :, :, : past + kept], buffer[1, :, :, : past + kept]
        if not past:
            return k, v
        known = self._attended[key]
        return torch.cat((known[0, :, :, :past], k), 2), torch.cat((known[1, :, :, :past], v), 2)

    def _buffer(self, key: Hashable, k: Tensor, past: int, capacity: int) -> Tensor:
        """Room for ``capacity`` positions, with the first ``past`` as they were."""
        old = self._attended.get(key)
        if old is None or old.shape[3] < capacity:
            self._attended[key] = k.new_empty(2, *k.shape[:2], capacity, k.shape[3])
            if past:
                self._attended[key][:, :, :, :past] = old[:, :, :, :past]
        return self._attended[key]

    def join(self, key: Hashable, x: Tensor, left: int, kept: int) -> Tensor:
        """x [B, C, T] with the ``left`` frames before it, zeros before the first; those before frame ``kept`` of x are
        remembered -> [B, C, left + T]."""
        before = self._frames.get(key)
        joined = torch.cat((x.new_zeros(*x.shape[:2], left) if before is None else before, x), -1)
        if kept:
            self._frames[key] = joined[..., kept : kept + left].clone()
        return joined


@dataclass(frozen=True)
class Memory:
    """The memory as the layers of one pass see it: ``keep`` of the pass's tokens will be remembered."""

    store: FlowMemory
    keep: int
    rate: int = 1  # positions a token
    step: int = -1  # Euler step; -1: the encoder

    def at(self, rate: int, step: int = -1) -> "Memory":
        return replace(self, rate=rate, step=step)

    @property
    def past(self) -> int:
        """Positions that are remembered."""
        return self.rate * self.store.tokens

    def extended(self, layer: nn.Module, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, A, T, D] of an attention layer -> all of them [B, A, past + T, D]."""
        return self.store.extend((layer, self.step), k, v, self.rate, self.keep)

    def joined(self, layer: nn.Module, x: Tensor, left: int) -> Tensor:
        """A convolution's input [B, C, T] -> with the ``left`` frames before it [B, C, left + T]."""
        return self.store.join((layer, self.step), x, left, self.rate * self.keep)
