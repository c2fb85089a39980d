"""CUDA graphs over pooled cache buffers.

A captured graph is bound to addresses, so cache memory is pooled: a run leases a buffer, and the buffer returns when
the run's KVCache is garbage-collected. The next run of that size replays the graphs captured over the buffer. With
``enabled=False`` the same static-shape path runs as plain code, so that tests without a GPU compare it with the eager
one.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..runtime import CUDAGraphed
from .cache import KVCache

_STATIC: ContextVar[bool] = ContextVar("static path on every device", default=False)


def available(device: torch.device) -> bool:
    """Whether steps can run as graphs on this device."""
    return device.type == "cuda" or _STATIC.get()


@contextmanager
def static_path() -> Iterator[None]:
    """What is built and run inside takes the path of a GPU on every device, as plain code where there are no graphs."""
    token = _STATIC.set(True)
    try:
        yield
    finally:
        _STATIC.reset(token)


def buffer_pool(device: torch.device, graphed: bool) -> BufferPool | None:
    """A pool where steps run as graphs, else None."""
    return BufferPool(device.type == "cuda") if graphed and available(device) else None


def shared_graphs(device: torch.device, graphed: bool) -> SharedGraphs | None:
    """Likewise for functions without a cache."""
    return SharedGraphs(device.type == "cuda") if graphed and available(device) else None


@dataclass(eq=False)
class Buffer:
    """Cache memory and the graphs captured over it, by the key of the call (number of tokens, kind of mask, ...)."""

    kv: Tensor  # [layers, B, 2 kv_heads, S, D]
    graphs: dict[Hashable, CUDAGraphed] = field(default_factory=dict)


class BufferPool:
    """The buffers of one module. Two runs never share one at a time."""

    def __init__(self, enabled: bool = True) -> None:
        """enabled: capture graphs (CUDA); False: run the same functions as plain code."""
        self._enabled = enabled
        self._free: dict[Hashable, list[Buffer]] = {}
        self._leased: weakref.WeakKeyDictionary[KVCache, Buffer] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()
        self.keys: set[Hashable] = set()  # of the calls that became graphs

    def lease(self, new_cache: Callable[[Tensor | None], KVCache], size: Hashable = None) -> KVCache:
        """An empty cache over a free buffer of this ``size``; ``new_cache(kv)`` makes it over memory kv, None: new
        memory. A used buffer is cleared: masked slots are read too, and a NaN that a run left there would spread."""
        with self._guard:
            free = self._free.setdefault(size, [])
            buffer = free.pop() if free else None
        cache = new_cache(buffer.kv.zero_() if buffer else None)
        buffer = buffer or Buffer(cache.kv)
        self._leased[cache] = buffer
        weakref.finalize(cache, free.append, buffer)
        return cache

    def __contains__(self, cache: KVCache) -> bool:
        return cache in self._leased

    def run(self, cache: KVCache, key: Hashable, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """``function(buffer, *inputs)`` as the graph captured for ``key`` over the cache's buffer. ``function`` must
        be repeatable and must keep no reference to the cache. The result is overwritten by the next call."""
        buffer = self._leased[cache]
        self.keys.add(key)
        if key not in buffer.graphs:
            buffer.graphs[key] = CUDAGraphed(lambda *tensors: function(buffer, *tensors), enabled=self._enabled)
        return buffer.graphs[key](*inputs)


class SharedGraphs:
    """Graphs of functions that keep nothing between calls: one for each key, used by all runs in turn."""

    def __init__(self, enabled: bool = True, most: int = 64) -> None:
        """enabled: as for ``BufferPool``. most: keys behind so many run as plain code: every temperature that somebody
        sets is a key, and a graph's memory is never given back."""
        self._enabled, self._most = enabled, most
        self._graphs: dict[Hashable, CUDAGraphed] = {}
        self._guard = threading.Lock()

    @property
    def keys(self) -> set[Hashable]:
        return set(self._graphs)

    def run(self, key: Hashable, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """``function(*inputs)`` as the graph captured for ``key``, which names function and shapes. The result is the
        caller's own."""
        with self._guard:
            if key not in self._graphs:
                if len(self._graphs) >= self._most:
                    return function(*inputs)
                self._graphs[key] = CUDAGraphed(function, enabled=self._enabled)
            return self._graphs[key](*inputs).clone()
