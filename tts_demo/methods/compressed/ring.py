"""A cache of bounded size: a permanent prefix, a ring of the last tokens, and a growing row of span summaries.

    slots: [ prefix | ring of ``window`` tokens | summary 0, summary 1, ... ]

The first pass writes the prefix; or every pass writes the visible part of a longer prefix that another cache keeps
(``show_prefix``): by slices as plain code, a fixed number of columns inside a CUDA graph.

Attention does not depend on the order of slots (rotary positions are inside the keys), so a token takes the slot of the
one that has just left the window: no token is moved or masked, and a token attends to one run of slots from the first
(near both ends of a text seen through a window, some of the prefix's slots are empty and masked). A summary is computed
before it is needed, and is not attended to until its span has left the window."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...lm import KVCache, Sampler
from ...lm.decoder import Decoder, Hook
from ...lm.launch import Passes, is_graph, launch_passes
from .text_position import rotated, rotation_by

COLUMNS = 64  # a graph writes a multiple of so many columns, so that prefixes of about one length share it


class RingCache(KVCache):
    """The first pass appends the prefix of ``fixed`` tokens, unless ``show_prefix`` supplies it. Each later pass
    appends up to ``most`` tokens, then ``summaries_due`` summaries. All tokens of a pass attend to the window of its
    last token. Summary j stands for tokens j * group .. (j + 1) * group - 1. ``group`` 0: no summaries."""

    def __init__(
        self,
        layers: int,
        batch: int,
        kv_heads: int,
        head_dim: int,
        fixed: int,
        window: int,
        group: int,
        tokens: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        kv: Tensor | None = None,
        capacity: int = 0,
        most: int = 1,
    ) -> None:
        """kv: as for ``KVCache``. capacity: at least so many slots."""
        assert group + most - 1 <= window, (group, most, window)
        capacity = max(capacity, self.slots(fixed, window, group, tokens))
        super().__init__(layers, batch, kv_heads, capacity, head_dim, dtype, device, kv)
        self.fixed, self.window, self.group = fixed, window, group
        self.generated = self.summaries = 0  # tokens behind the prefix, and summaries made
        self._attended = 0
        self.full_prefix: KVCache | None = None  # cache of a longer prefix, of which only parts are visible
        self._parts: list[slice] = []  # slots of the full prefix that are visible
        self._offsets: list[int] = []  # of each part, how many positions it is moved towards speech
        self._visible = fixed  # number of prefix slots in use
        # summaries made in one pass: as many as there are spans whose tokens are all still in the ring
        self._summaries_per_pass = (window - most + 1) // group if group else 0

    @classmethod
    def new(cls, decoder: Decoder, fixed: int, window: int, group: int, tokens: int, most: int = 1) -> "RingCache":
        """For a run of ``decoder``: a prefix of ``fixed`` tokens, then ``tokens``, up to ``most`` in a pass."""
        c = decoder.config
        sizes = c.layers, 1, c.kv_heads, c.head_dim, fixed, window, group, tokens, decoder.dtype, decoder.device
        make = lambda kv, capacity: cls(*sizes, kv=kv, capacity=capacity, most=most)
        return decoder.lease(make, cls.slots(fixed, window, group, tokens))

    @staticmethod
    def slots(fixed: int, window: int, group: int, tokens: int) -> int:
        """How many a run of ``tokens`` needs."""
        return fixed + window + (tokens // group if group else 0)

    @property
    def attended(self) -> int:
        return self._attended

    @property
    def nbytes(self) -> int:
        """Bytes of live K and V slots, those of a prefix kept elsewhere included."""
        return super().nbytes + (self.full_prefix.nbytes if self.full_prefix is not None else 0)

    @property
    def has_empty_slots(self) -> bool:
        """Whether some slots of the attended range are empty."""
        return self._visible < self.fixed

    def show_prefix(self, full_prefix: KVCache, parts: Sequence[slice], offsets: Sequence[int]) -> None:
        """Make these slots of a prefix in a cache of its own visible to the next pass, one part after the other, each
        moved by so many positions. A step's cost does not depend on the prefix's length."""
        if self.full_prefix is None:
            self.full_prefix, self.length, self.next_position = full_prefix, self.fixed, full_prefix.next_position
        self._parts, self._offsets = list(parts), list(offsets)
        self._visible = sum(part.stop - part.start for part in parts)
        assert self._visible <= self.fixed, (self._visible, self.fixed)

    def write_prefix(self, decoder: Decoder) -> None:
        """Write the visible parts, their keys rotated."""
        full, start = self.full_prefix, 0
        rotations = rotation_by(decoder, on_device(np.array(self._offsets), decoder.device))
        for slots, rotation in zip(self._parts, rotations):
            end = start + slots.stop - slots.start
            self.k[:, :, :, start:end] = rotated(full.k[:, :, :, slots], rotation)
            self.v[:, :, :, start:end] = full.v[:, :, :, slots]
            start = end

    def prefix_columns(self) -> Tensor:
        """[3, C] for ``write_columns``: of each visible column the slot in the full prefix, the slot here, and the
        offset; the last one again and again for those that are empty. C: a multiple of ``COLUMNS``."""
        counts = [part.stop - part.start for part in self._parts]
        sources = np.concatenate([np.arange(part.start, part.stop) for part in self._parts])
        columns = np.stack([sources, np.arange(self._visible), np.repeat(self._offsets, counts)])
        padding = -(-self.fixed // COLUMNS) * COLUMNS - self._visible
        return on_device(np.pad(columns, ((0, 0), (0, padding)), "edge"), self.k.device)

    def summaries_due(self, tokens: int = 1) -> int:
        """Number of summaries that the pass of the next ``tokens`` must include. They are computed several at once,
        because a pass over a few tokens costs little more than over one, and before their spans leave the ring."""
        return self._summaries_per_pass if self.summarised(tokens) > self.summarised(0) else 0

    def summarised(self, tokens: int) -> int:
        """Number of tokens that have summaries once ``tokens`` more have been generated."""
        batch = self._summaries_per_pass * self.group
        return (self.generated + tokens) // batch * batch if batch else 0

    def span_ends(self, tokens: int) -> range:
        """The last token of each span whose summary is due with the next ``tokens``."""
        last = self.summarised(tokens) - 1
        return range(last - (self.summaries_due(tokens) - 1) * self.group, last + 1, self.group or 1)

    def visible(self, generated: int) -> int:
        """Slots, from the first, that the last of ``generated`` tokens may attend to."""
        if generated <= self.window:
            return self.fixed + generated
        return self.fixed + self.window + ((generated - self.window) // self.group if self.group else 0)

    def claim(self, positions: Tensor) -> slice | Tensor:
        """Slots for the prefix, or for n tokens and the summaries due with them at ``positions`` [n + due]."""
        if self.length < self.fixed:
            slots = super().claim(positions)
            self._attended = self.length
            return slots
        # positions has n + due entries for n tokens; summaries_due gives the same number for either count
        count = self.summaries_due(len(positions))
        tokens = len(positions) - count
        first = self.fixed + self.window + self.summaries
        if first + count > self.capacity:
            raise ValueError(f"the KV cache holds {self.capacity} slots, {first + count} are needed: allocate more")
        start = self.generated
        self.generated += tokens
        self.summaries += count
        self.next_position += tokens
        self.length = self.fixed + min(self.generated, self.window) + self.summaries
        self._attended = first + count if count else self.visible(self.generated)
        if len(positions) == 1:
            slot = self.fixed + start % self.window
            self.positions[slot : slot + 1] = positions
            return slice(slot, slot + 1)
        slots = np.concatenate([self._ring(start, tokens), np.arange(first, first + count)])
        slots = on_device(slots, self.k.device)
        self.positions[slots] = positions
        return slots

    def _ring(self, start: int, tokens: int) -> np.ndarray:
        """The slots of ``tokens`` behind the first ``start``."""
        return np.arange(start, start + tokens) % self.window + self.fixed

    def mask(self, tokens: int = 1, columns: int = 0) -> Tensor:
        """[n + due, slots] for a pass of n tokens and the summaries due with them: a token attends to what it would
        without the summaries but not to those after it, each summary to the tokens of its span and itself. columns: so
        many slots, the last of them unseen."""
        count, summarised = self.summaries_due(tokens), self.summarised(tokens)
        visible, first = self.visible(self.generated + tokens), self.fixed + self.window + self.summaries
        mask = np.zeros((tokens + count, columns or (first + count if count else visible)), dtype=bool)
        mask[:tokens, :visible] = True
        mask[:, self._visible : self.fixed] = False
        mask[:tokens, self._ring(self.generated, tokens)] &= ~np.triu(np.ones((tokens, tokens), dtype=bool), 1)
        if count:
            spans = np.arange(summarised - count * self.group, summarised) % self.window + self.fixed
            mask[np.arange(tokens, tokens + count)[:, None], spans.reshape(count, self.group)] = True
            mask[tokens:, first : first + count] = np.eye(count, dtype=bool)
        return on_device(mask, self.k.device)

    def rollback(self, n: int) -> None:
        raise ValueError("a ring overwrites its slots: it cannot be rolled back")

    def forget(self, n: int) -> None:
        raise ValueError("a ring evicts by itself: slots cannot be chosen")


def write_columns(decoder: Decoder, kv: Tensor, full_prefix: Tensor, columns: Tensor) -> None:
    """``write_prefix`` in fixed shapes: ``prefix_columns`` [3, C], both memories [layers, 1, 2 kv, S, D]."""
    sources, slots, offsets = columns.unbind()
    key, value = full_prefix.index_select(3, sources).chunk(2, 2)
    key = rotated(key, rotation_by(decoder, offsets))
    kv.index_copy_(3, slots, torch.cat([key, value], 2))


def launch(
    decoder: Decoder,
    cache: RingCache,
    key: Hashable,
    function: Callable[..., Any],
    summary: Tensor,
    sampler: Sampler,
    tokens: Tensor,
    *inputs: Tensor | None,
) -> Any:
    """``function(run, sampler, *inputs)`` in one launch, as ``launch_passes``; ``run(hook=None)`` is a pass over tokens
    [N] and the summaries due -> hidden [1, N, H] of the tokens. summary: [1, H] the embedding of W."""
    count, position, span_ends = len(tokens), cache.next_position, cache.span_ends(len(tokens))
    due = cache.summaries_due(count)
    graph = is_graph(decoder, cache, count + due)
    # a graph has fixed shapes, so its mask says which slots are attended to
    masked = due or count > 1 or cache.has_empty_slots or graph
    mask = cache.mask(count, cache.capacity if graph else 0) if masked else None
    positions = position
    if due:
        summaries = [position - cache.generated + end for end in span_ends]
        positions = on_device(np.array([*range(position, position + count), *summaries]), decoder.device)
    key, columns, full_prefix = (key, due), None, None
    if cache.full_prefix is not None and graph:
        columns, full_prefix = cache.prefix_columns(), cache.full_prefix.kv
        key = *key, full_prefix.data_ptr()  # memory of the pool, as that of the cache: a graph may keep its address
    elif cache.full_prefix is not None:
        cache.write_prefix(decoder)

    def whole(forward: Passes, sampler: Sampler, tokens: Tensor, columns: Tensor | None, *inputs: Tensor | None) -> Any:
        if columns is not None:
            write_columns(decoder, forward.kv, full_prefix, columns)
        x = decoder.embed(tokens)
        x = torch.cat([x, summary.expand(due, -1)]) if due else x

        def run(hook: Hook | None = None) -> Tensor:
            return forward(x[None], hook=hook)[:, :count]

        return function(run, sampler, *inputs)

    given = whole, sampler, tokens, columns, *inputs
    return launch_passes(decoder, cache, count + due, key, *given, positions=positions, mask=mask)


def on_device(values: np.ndarray, device: torch.device) -> Tensor:
    """Without waiting for the device."""
    return torch.from_numpy(values).to(device, non_blocking=True)
