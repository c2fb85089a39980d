"""KV memory: exact bytes, eviction order, refusal to overflow."""

from __future__ import annotations

import pytest
import torch

from tts_demo.lm import KVCache


def filled(n: int = 6) -> KVCache:
    cache = KVCache(layers=2, batch=1, kv_heads=2, capacity=8, head_dim=4)
    slots = cache.claim(torch.arange(n))
    cache.k[:, :, :, slots] = torch.arange(n).float()[None, None, None, :, None]
    return cache


def test_bytes_are_exact():
    cache = filled()
    assert cache.slot_bytes == 2 * 2 * 2 * 4 * 4  # K and V, layers, kv heads, width, bytes
    assert cache.nbytes == 6 * cache.slot_bytes and cache.allocated_nbytes == 8 * cache.slot_bytes
    cache.rollback(2)
    assert cache.nbytes == 4 * cache.slot_bytes and cache.positions.tolist() == [0, 1, 2, 3, -1, -1, -1, -1]


def test_forgetting_preserves_order_positions_and_contents():
    cache = filled()
    cache.forget(2)
    assert cache.length == 4 and cache.next_position == 6
    assert cache.positions.tolist() == [2, 3, 4, 5, -1, -1, -1, -1]
    assert cache.k[1, 0, 0, :4, 0].tolist() == [2, 3, 4, 5]


def test_overflow_is_refused():
    with pytest.raises(ValueError, match="holds 8 slots"):
        filled().claim(torch.arange(3))
