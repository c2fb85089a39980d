"""The flow as CUDA graphs, one for each length: inputs are padded to a few lengths under a mask, and what a live run
remembers lies in buffers of a few sizes. One graph is the velocity field at all Euler steps; the encoder stays outside.

Without CUDA the same functions run as plain code over the same padded lengths (``lm.graphs``), for tests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm.graphs import Buffer, BufferPool
from ...lm.masks import additive
from .configs import MEL_PER_TOKEN, FlowConfig
from .memory import Budget, FlowMemory

PIECES = (1, 2, 4)  # blocks of a pass of a live run
BUFFERS = (16, 32, 64)  # blocks that a live run remembers at most
WHOLE = (4, 6, 8, 12, 16, 24, 32, 48, 64)  # blocks of a pass over a whole segment and its prompt
FRAMES = "frames of all convolutions"
Solve = Callable[..., Tensor]  # noise, mu, voice, condition, mask, Euler step -> memory: the mel


@dataclass(eq=False)
class Lease:
    """Of a buffer, for one run."""

    kv: Tensor  # keys and values at every Euler step in every layer [steps, layers, 2, B, A, S, D]


class StaticMemory:
    """The memory as the layers of one Euler step see it inside a graph. Every pass calls them in the same order, so
    that the n-th call finds what the n-th call of the last pass left."""

    def __init__(self, kv: Tensor, frames: Tensor, past: Tensor, kept: Tensor) -> None:
        """kv: [layers, 2, B, A, S, D]; frames: [n] of all convolutions; past: how many positions are remembered; kept:
        how many more will be."""
        self.past, self._kept = past, kept
        self._kv, self._frames = iter(kv), frames
        self._after: list[Tensor] = []

    def extended(self, layer: nn.Module, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, A, T, D] of an attention layer -> all of them [B, A, S, D], to be masked."""
        known = next(self._kv)
        slots = self.past + torch.arange(k.shape[2], device=k.device)
        for into, new in zip(known, (k, v)):
            into.index_copy_(2, slots, new)
        return known[0], known[1]

    def joined(self, layer: nn.Module, x: Tensor, left: int) -> Tensor:
        """A convolution's input [B, C, T] -> with the ``left`` frames before it [B, C, left + T]."""
        count = x.shape[0] * x.shape[1] * left
        before, self._frames = self._frames[:count].view(*x.shape[:2], left), self._frames[count:]
        joined = torch.cat((before, x), -1)
        self._after.append(joined.index_select(-1, self._kept + torch.arange(left, device=x.device)).flatten())
        return joined

    @property
    def after(self) -> Tensor:
        """Frames [n] before those that the next pass will get."""
        return torch.cat(self._after)


class PooledMemory(FlowMemory):
    """Of one run, over a buffer of ``pool``. ``hold`` comes before each pass; what the encoder remembers lies apart."""

    def __init__(self, config: FlowConfig, convolved: int, pool: BufferPool, budget: Budget, device: Any) -> None:
        """convolved: channels times frames that the velocity field's convolutions see of the past."""
        super().__init__(config.block_tokens, config.remembered_bytes, budget)
        self._config, self._pool, self._device = config, pool, device
        self._none = torch.zeros(config.steps, 2 * convolved, device=device)
        self._lease: Lease | None = None

    @torch.inference_mode()
    def hold(self, tokens: int) -> bool:
        """Whether a buffer holds so many tokens, padding included; a larger one is leased for them. What new buffers
        take of the budget stays taken, as they stay in the pool."""
        blocks = -(-tokens // self._block) + 1
        if blocks * self._block <= self._capacity:
            return True
        size = next((size for size in BUFFERS if size >= blocks), 0)
        if not size or not (self._pool.waiting(size) or self._budget.take(size * self._block * self._bytes_per_token)):
            return False
        lease = self._pool.lease(lambda kv: Lease(self._new_kv(size) if kv is None else kv), size)
        if self._lease:
            past = MEL_PER_TOKEN * self.tokens
            lease.kv[..., :past, :] = self._lease.kv[..., :past, :]
        self._lease, self._capacity = lease, size * self._block
        return True

    def _new_kv(self, blocks: int) -> Tensor:
        layers, heads, width = self._config.attention
        positions = MEL_PER_TOKEN * blocks * self._block
        return torch.zeros(self._config.steps, layers, 2, 2, heads, positions, width, device=self._device)

    def room(self, tokens: int) -> int:
        return tokens // self._block * self._block

    def ends(self, tokens: int, lookahead: int, last: bool) -> list[int]:
        """Where passes over what is not remembered of ``tokens`` end: at most so many blocks after each other as the
        longest piece has, and where more follows, what it looks ahead to is there."""
        longest, end, found = PIECES[-1] * self._block, self.tokens, []
        while tokens - end > longest:
            fits = not last or tokens - end - longest >= lookahead
            end += longest if fits else PIECES[-2] * self._block
            found.append(end)
        return [*found, tokens]

    def solve(self, function: Solve, noise: Tensor, mu: Tensor, voice: Tensor, condition: Tensor, keep: int) -> Tensor:
        """noise, mu, condition: [1, mels, M] behind what is remembered -> mel [1, mels, M]."""
        past, length, block = MEL_PER_TOKEN * self.tokens, noise.shape[-1], MEL_PER_TOKEN * self._block

        def step(
            buffer: Buffer, noise: Tensor, mu: Tensor, voice: Tensor, condition: Tensor, frames: Tensor, at: Tensor
        ) -> tuple[Tensor, Tensor]:
            past, kept, end = at
            seen = [StaticMemory(kv, given, past, kept) for kv, given in zip(buffer.kv, frames)]
            mask = padded_mask(noise.shape[-1], buffer.kv.shape[-2], past, end, block)
            mel = function(noise, mu, voice, condition, mask, seen.__getitem__)
            return mel, torch.stack([memory.after for memory in seen])

        noise, mu, condition = (padded(x, PIECES, block) for x in (noise, mu, condition))
        at = torch.tensor([past, MEL_PER_TOKEN * keep, past + length])
        frames = self._frames.get(FRAMES, self._none)
        mel, after = self._pool.run(self._lease, "flow", step, noise, mu, voice, condition, frames, at)
        if keep:
            self._frames[FRAMES] = after
        return mel[:, :, :length]


def solve_whole(
    function: Solve, pool: BufferPool, block: int, noise: Tensor, mu: Tensor, voice: Tensor, condition: Tensor
) -> Tensor:
    """The same with attention to everything and no memory, in blocks of ``block`` frames."""
    length = noise.shape[-1]

    def step(buffer: Buffer, noise: Tensor, mu: Tensor, voice: Tensor, condition: Tensor, end: Tensor) -> Tensor:
        mask = padded_mask(noise.shape[-1], noise.shape[-1], 0, end, noise.shape[-1])
        return function(noise, mu, voice, condition, mask, lambda step: None)

    given = [padded(x, WHOLE, block) for x in (noise, mu, condition)]
    mel = pool.run(without_memory(pool, noise), "flow", step, given[0], given[1], voice, given[2], torch.tensor(length))
    return mel[:, :, :length]


@torch.inference_mode()
def without_memory(pool: BufferPool, like: Tensor) -> Lease:
    """For one launch of what remembers nothing, on the device of ``like``."""
    return pool.lease(lambda kv: Lease(like.new_zeros(1) if kv is None else kv))


def whole_size(length: int, block: int) -> int:
    """Blocks of ``block`` frames that ``solve_whole`` pads so many frames to; 0 where they are too many."""
    return next((size for size in WHOLE if block * size >= length), 0)


def padded(x: Tensor, sizes: tuple[int, ...], block: int) -> Tensor:
    """x [..., M] with zeros behind it, up to the next of ``sizes`` blocks."""
    return F.pad(x, (0, next(block * size for size in sizes if block * size >= x.shape[-1]) - x.shape[-1]))


def padded_mask(length: int, columns: int, past: Tensor | int, end: Tensor, block: int) -> Tensor:
    """What is added to scores [length, columns]: a position sees its block and those before it, as far as ``end``."""
    keys = torch.arange(columns, device=end.device)
    rows = past + torch.arange(length, device=end.device)
    return additive((keys // block <= rows[:, None] // block) & (keys < end), torch.float32)
