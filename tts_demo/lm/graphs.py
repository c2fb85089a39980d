"""Decoding steps as CUDA graphs: one captured graph for each cache buffer, number of tokens and kind of mask.

A graph is bound to addresses, so cache buffers are pooled: a run leases one, and gives it back when its KVCache is
gone. The next run of that size replays the graphs that were captured for it. With ``enabled=False`` the same static
path runs as plain code, which is how tests without a GPU hold it equal to the eager one.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..runtime import CUDAGraphed
from .cache import KVCache

if TYPE_CHECKING:
    from .decoder import Decoder

MOST_TOKENS = 16  # a longer call is a prefill and runs as it is
CAPACITY_STEP = 256  # capacities are rounded up to this, so that runs of about one length share buffers


@dataclass(eq=False)
class Buffer:
    """Cache memory and the graphs captured over it."""

    kv: Tensor
    graphs: dict[tuple[int, bool], CUDAGraphed] = field(default_factory=dict)  # (tokens, masked) -> graph

    @property
    def capacity(self) -> int:
        return self.kv.shape[3]


class GraphPool:
    """The buffers of one decoder. Two runs never share one at a time."""

    def __init__(self, decoder: Decoder, enabled: bool = True) -> None:
        self._decoder, self._enabled = weakref.proxy(decoder), enabled
        self._free: dict[tuple[int, int], list[Buffer]] = {}
        self._leased: weakref.WeakKeyDictionary[KVCache, Buffer] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()

    def lease(self, capacity: int, batch: int) -> KVCache:
        """An empty cache of at least ``capacity`` slots."""
        c, decoder = self._decoder.config, self._decoder
        capacity = -(-capacity // CAPACITY_STEP) * CAPACITY_STEP
        with self._guard:
            free = self._free.setdefault((capacity, batch), [])
            buffer = free.pop() if free else None
        cache = KVCache(
            c.layers,
            batch,
            c.kv_heads,
            capacity,
            c.head_dim,
            decoder.dtype,
            decoder.device,
            kv=buffer.kv if buffer else None,
        )
        buffer = buffer or Buffer(cache.kv)
        self._leased[cache] = buffer
        weakref.finalize(cache, free.append, buffer)
        return cache

    def takes(self, x: Tensor, cache: KVCache, positions: Tensor) -> bool:
        """Whether this call has a graph: few tokens, one position a column, a cache of this pool."""
        return x.shape[1] <= MOST_TOKENS and positions.dim() == 1 and cache in self._leased

    def step(self, x: Tensor, cache: KVCache, slots: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """``Decoder.forward_static`` over the claimed ``slots`` [T]; mask [T, live] as ``Decoder.forward`` takes it."""
        buffer, key = self._leased[cache], (x.shape[1], mask is not None)
        if key not in buffer.graphs:
            decoder = self._decoder
            buffer.graphs[key] = CUDAGraphed(
                lambda x, slots, positions, *mask: decoder.forward_static(x, buffer, slots, positions, *mask),
                enabled=self._enabled,
            )
        inputs = [x, slots, positions]
        if mask is not None:
            inputs.append(torch.nn.functional.pad(mask, (0, buffer.capacity - mask.shape[1])))
        return buffer.graphs[key](*inputs).clone()  # a run may keep what it got; the graph's own output is overwritten
