"""The one owner of KV memory: static buffers, logical positions, rollback, eviction, exact byte counts."""

from typing import Any

import torch
from torch import Tensor


class KVCache:
    """Keys and values of every layer in one buffer ``kv`` [layers, B, 2 kv_heads, S, D]: keys first, then values, so
    that a step stores both with one copy. ``k`` and ``v`` are views of it.

    ``positions`` [S] holds the logical position of each slot, -1 = unused: after an eviction they differ from the
    slots' indices, and rotary embedding needs the position. ``length`` is the number of live slots, which are always
    the first ones, in order."""

    def __init__(
        self,
        layers: int,
        batch: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        kv: Tensor | None = None,
    ) -> None:
        """kv: memory to use instead of new memory, with finite contents (see graphs.py)."""
        shape = (layers, batch, 2 * kv_heads, capacity, head_dim)
        # zeros: a masked slot must still hold a finite number
        self.kv = kv if kv is not None else torch.zeros(shape, dtype=dtype, device=device)
        self.k, self.v = self.kv.split(kv_heads, dim=2)
        self.positions = torch.full((capacity,), -1, dtype=torch.long, device=device)
        self.capacity, self.batch, self.length = capacity, batch, 0
        self.next_position = 0  # position of the next token of a sequence without gaps
        self.scratch: dict[int, Any] = {}  # the decoder's workspaces for passes over this cache, by number of tokens

    @property
    def slot_bytes(self) -> int:
        """Bytes of K and V of one slot over all layers and the whole batch."""
        return self.kv.numel() // self.capacity * self.kv.element_size()

    @property
    def nbytes(self) -> int:
        """Bytes of live K and V slots."""
        return self.length * self.slot_bytes

    def bytes_from(self, position: int) -> int:
        """Bytes of live slots of tokens at this logical position or behind it."""
        return int((self.positions[: self.length] >= position).sum()) * self.slot_bytes

    @property
    def allocated_nbytes(self) -> int:
        return self.capacity * self.slot_bytes

    @property
    def attended(self) -> int:
        """Number of slots, from the first, that the tokens claimed last may attend to."""
        return self.length

    def claim(self, positions: Tensor) -> slice | Tensor:
        """Take the next T slots for tokens at ``positions`` [T] and return their slice; the decoder fills them."""
        start, end = self.length, self.length + positions.shape[0]
        if end > self.capacity:
            raise ValueError(f"the KV cache holds {self.capacity} slots, {end} are needed: allocate a larger one")
        self.positions[start:end] = positions
        self.length = end
        self.next_position += end - start
        return slice(start, end)

    def rollback(self, n: int) -> None:
        """Remove the last ``n`` tokens."""
        assert 0 <= n <= self.length, (n, self.length)
        self.length -= n
        self.next_position -= n
        self.positions[self.length : self.length + n] = -1

    def forget(self, n: int) -> None:
        """Remove the first ``n`` tokens; the others move to the front and keep their positions."""
        left, old = self.length - n, self.length
        self.kv[:, :, :, :left] = self.kv[:, :, :, n:old].clone()  # source and target may overlap
        self.positions[:left] = self.positions[n:old].clone()
        self.positions[left:old] = -1
        self.length = left

    def keep(self, order: Tensor) -> None:
        """Of each sequence keep the slots ``order`` [B, n], in this order. Where sequences keep different ones,
        ``positions`` says nothing any more."""
        index = order[:, None, :, None].expand(-1, self.kv.shape[2], -1, self.kv.shape[4])
        for layer in self.kv:  # one after the other: their copies take memory
            layer[:, :, : order.shape[1]] = layer.gather(2, index)
        self.positions[order.shape[1] : self.length] = -1
        self.length = order.shape[1]
