"""A cache of bounded size: a permanent prefix, a ring of the last tokens, and a growing row of span summaries.

    slots: [ prefix | ring of ``window`` tokens | summary 0, summary 1, ... ]

Attention does not depend on the order of slots (rotary positions are inside the keys), so a token takes the slot of the
one that has just left the window: nothing is moved, nothing is masked, and a token attends to one run of slots from the
first. A summary is computed before it is needed, and is not attended to until its span has left the window.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .cache import KVCache


class RingCache(KVCache):
    """The first pass appends the prefix of ``fixed`` tokens; each later one a token and, after it, ``due`` summaries.
    Summary j stands for tokens j * group .. (j + 1) * group - 1. ``group`` 0: no summaries."""

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
    ) -> None:
        """kv: as for ``KVCache``. capacity: at least so many slots."""
        assert group <= window, (group, window)
        capacity = max(capacity, self.slots(fixed, window, group, tokens))
        super().__init__(layers, batch, kv_heads, capacity, head_dim, dtype, device, kv)
        self.fixed, self.window, self.group = fixed, window, group
        self.spoken = self.summaries = 0  # tokens behind the prefix, and summaries made
        self._attended = 0
        self._together = window // group if group else 0  # summaries made in one pass, all spans still in the ring

    @staticmethod
    def slots(fixed: int, window: int, group: int, tokens: int) -> int:
        """How many a run of ``tokens`` needs."""
        return fixed + window + (tokens // group if group else 0)

    @property
    def attended(self) -> int:
        return self._attended

    @property
    def due(self) -> int:
        """How many summaries the next token's pass must include: several at once, because a pass over a few tokens
        costs little more than a pass over one, and before their spans leave the ring."""
        full = self._together and (self.spoken + 1) % (self._together * self.group) == 0
        return self._together if full else 0

    def visible(self, spoken: int) -> int:
        """Slots, from the first, that the last of ``spoken`` tokens may attend to: the prefix, the window, and the
        summaries of spans wholly before it."""
        if spoken <= self.window:
            return self.fixed + spoken
        return self.fixed + self.window + ((spoken - self.window) // self.group if self.group else 0)

    def claim(self, positions: Tensor) -> slice | Tensor:
        """Slots for the prefix, or for one token and ``due`` summaries at ``positions`` [1 + due]."""
        if self.length < self.fixed:
            slots = super().claim(positions)
            self._attended = self.length
            return slots
        count, token = len(positions) - 1, self.fixed + self.spoken % self.window
        first = self.fixed + self.window + self.summaries
        if first + count > self.capacity:
            raise ValueError(
                f"the KV cache holds {self.capacity} slots, {first + count} are needed: allocate a larger one"
            )
        self.spoken += 1
        self.summaries += count
        self.next_position += 1
        self.length = self.fixed + min(self.spoken, self.window) + self.summaries
        if not count:
            self.positions[token : token + 1] = positions
            self._attended = self.visible(self.spoken)
            return slice(token, token + 1)
        slots = torch.cat([torch.tensor([token]), torch.arange(first, first + count)]).to(self.k.device)
        self.positions[slots] = positions
        self._attended = first + count
        return slots

    def mask(self, count: int) -> Tensor:
        """[1 + count, slots] for a pass of a token and ``count`` summaries: the token attends to what it would without
        them, each summary to the tokens of its span and itself."""
        spoken, first = self.spoken + 1, self.fixed + self.window + self.summaries
        if not count:
            return torch.ones(1, self.visible(spoken), dtype=torch.bool, device=self.k.device)
        mask = torch.zeros(1 + count, first + count, dtype=torch.bool)
        mask[0, : self.visible(spoken)] = True
        spans = torch.arange(spoken - count * self.group, spoken) % self.window + self.fixed
        mask[1:].scatter_(1, spans.view(count, self.group), True)
        mask[1:, first:].fill_diagonal_(True)
        return mask.to(self.k.device)

    def rollback(self, n: int) -> None:
        raise ValueError("a ring overwrites its slots: it cannot be rolled back")

    def keep(self, mask: Tensor) -> None:
        raise ValueError("a ring evicts by itself: slots cannot be chosen")
