"""One launch: passes of a decoder with all that comes before, between and behind them, sampling included, as one CUDA
graph over a run's pooled memory; where there are no graphs, the same function as plain code."""

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from .cache import KVCache
from .decoder import Decoder, Hook
from .graphs import Buffer, BufferPool
from .sampling import Sampler

LONGEST = 32  # tokens of a launch that is a graph
Forward = Callable[..., Tensor]  # x [1, n, H], last=False, hook=None -> hidden: a pass of a launch
Function = Callable[..., Any]  # of tensors and None, to a tensor or a tuple of tensors


def launch(
    pool: BufferPool | None, cache: KVCache, key: Hashable, function: Function, sampler: Sampler, *inputs: Tensor | None
) -> Any:
    """``function(kv, sampler, *inputs)``, kv: the memory of ``cache``. As a graph where ``pool`` has leased it.

    function: of its arguments and of weights alone; ``key`` names it and what its shapes depend on."""
    if pool is None or cache not in pool:
        return function(cache.kv, sampler, *inputs)
    structure = sampler.structure

    def step(buffer: Buffer, noise: Tensor | None, temperature: Tensor | None, *inputs: Tensor | None) -> Any:
        return function(buffer.kv, Sampler.inside(structure, noise, temperature), *inputs)

    return pool.run(cache, (key, structure), step, *sampler.inputs, *inputs)


def launch_passes(
    decoder: Decoder,
    cache: KVCache,
    count: int,
    key: Hashable,
    function: Function,
    sampler: Sampler,
    *inputs: Tensor | None,
    positions: Tensor | int | None = None,
    mask: Tensor | None = None,
) -> Any:
    """``function(forward, sampler, *inputs)`` as one launch: a CUDA graph where the pool has leased the cache, else
    plain code. ``forward(x [1, n, H], last=False, hook=None)`` makes a pass like ``Decoder.forward``. All passes
    together append ``count`` tokens, at ``positions`` [count], or consecutive from an int (None: the cache's next
    position). mask [count, slots]: for a launch of a single pass. Raises ValueError where the cache is full."""
    positions = cache.next_position if positions is None else positions
    if not is_graph(decoder, cache, count):
        return function(Passes(decoder, cache.kv, positions, mask, cache), sampler, *inputs)
    if isinstance(positions, int):
        positions = decoder.counter[positions : positions + count]
    slots = cache.claim(positions)
    slots = decoder.counter[slots] if isinstance(slots, slice) else slots
    if mask is not None and mask.shape[1] < cache.capacity:
        mask = F.pad(mask, (0, cache.capacity - mask.shape[1]))
    decoder = weakref.proxy(decoder)  # graphs live in buffers of this decoder's own pool

    def with_passes(
        kv: Tensor, sampler: Sampler, slots: Tensor, positions: Tensor, mask: Tensor | None, *inputs: Tensor | None
    ) -> Any:
        return function(Passes(decoder, kv, positions, mask, slots=slots), sampler, *inputs)

    return launch(decoder.pool, cache, key, with_passes, sampler, slots, positions, mask, *inputs)


def is_graph(decoder: Decoder, cache: KVCache, count: int) -> bool:
    """Whether passes over ``count`` tokens are a graph."""
    return decoder.pool is not None and cache in decoder.pool and 0 < count <= LONGEST


@dataclass
class Passes:
    """The passes of one launch, one after the other: as plain code over a cache, or inside a graph over its memory
    ``kv``."""

    decoder: Decoder
    kv: Tensor
    positions: Tensor | int  # [count], or from there on
    mask: Tensor | None = None
    cache: KVCache | None = None  # of plain code
    slots: Tensor | None = None  # [count] in a graph
    taken: int = 0  # tokens of the passes so far

    def __call__(self, x: Tensor, last: bool = False, hook: Hook | None = None) -> Tensor:
        first, self.taken = self.taken, self.taken + x.shape[1]
        given, here = self.positions, slice(first, self.taken)
        positions = given + first if isinstance(given, int) else given[here]
        if self.slots is None:
            return self.decoder.forward(x, self.cache, positions, self.mask, hook, last)
        hidden = self.decoder.forward_static(x, self.kv, self.slots[here], positions, self.mask, hook)
        return hidden[:, -1:] if last else hidden
