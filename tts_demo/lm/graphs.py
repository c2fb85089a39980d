"""CUDA graphs over pooled buffers: of KV caches, and of whatever else holds memory ``kv`` for the length of a run.

A captured graph is bound to addresses, so cache memory is pooled: a run leases a buffer, and the buffer returns when
the run's cache is garbage-collected. The next run of that size replays the graphs captured over the buffer. With
``enabled=False`` the same static-shape path runs as plain code, so that tests without a GPU compare it with the eager
one."""

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from ..runtime import CUDAGraphed

MOST = 48  # graphs over one buffer
_STATIC: ContextVar[bool] = ContextVar("static path on every device", default=False)


class Leased(Protocol):
    """A run's own memory; ``kv`` comes from a pool."""

    kv: Tensor


Cache = TypeVar("Cache", bound=Leased)


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


def buffer_pool(device: torch.device, graphed: bool) -> "BufferPool | None":
    """A pool where steps run as graphs, else None."""
    return BufferPool(device.type == "cuda") if graphed and available(device) else None


@dataclass(eq=False)
class Buffer:
    """Cache memory and the graphs captured over it, by the key of the call (number of tokens, kind of mask, ...)."""

    kv: Tensor  # of a language model: [layers, B, 2 kv_heads, S, D]
    graphs: dict[Hashable, CUDAGraphed] = field(default_factory=dict)


class BufferPool:
    """The buffers of one module. Two runs never share one at a time."""

    def __init__(self, enabled: bool = True, most: int = MOST) -> None:
        """enabled: capture graphs (CUDA); False: run the same as plain code. most: graphs over one buffer."""
        self._enabled, self._most = enabled, most
        self._free: dict[Hashable, list[Buffer]] = {}
        self._leased: weakref.WeakKeyDictionary[Leased, Buffer] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()
        self.keys: set[Hashable] = set()  # of the calls that became graphs

    def lease(self, new_cache: Callable[[Tensor | None], Cache], size: Hashable = None) -> Cache:
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

    def waiting(self, size: Hashable) -> bool:
        """Whether a buffer of this size is free."""
        return bool(self._free.get(size))

    def __contains__(self, cache: Leased) -> bool:
        return cache in self._leased

    def run(self, cache: Leased, key: Hashable, function: Callable[..., Any], *inputs: Tensor | None) -> Any:
        """``function(buffer, *inputs)`` as the graph captured over the cache's buffer for ``key`` and the inputs'
        shapes. ``function`` must be repeatable and keep no reference to cache or run. Its tensors are the caller's
        own."""
        buffer = self._leased[cache]
        shapes = tuple(None if t is None else (tuple(t.shape), t.dtype) for t in inputs)
        graph = buffer.graphs.pop((key, shapes), None)
        if graph is None:
            if len(buffer.graphs) >= self._most:  # the one that was not used for the longest time
                del buffer.graphs[next(iter(buffer.graphs))]
            of_buffer = lambda *tensors: function(buffer, *tensors)
            graph = CUDAGraphed(of_buffer, enabled=self._enabled, device=buffer.kv.device)
        buffer.graphs[key, shapes] = graph
        self.keys.add(key)
        found = graph(*inputs)
        return found.clone() if isinstance(found, Tensor) else tuple(t.clone() for t in found)
