"""Prefix columns that rows see at other positions than their own: the rotary arithmetic of the text window.

``Shifts``: for consecutive groups of columns from the first, the number of columns and the positions [..., T] by which
each row sees them later. In decoding the keys are rotated in the cache (``RingCache.write_prefix``), here the
queries."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...config import LMConfig
from ...lm.block import Products, rotary_factors, rotate
from ...lm.decoder import Decoder, Hook

Shifts = Sequence[tuple[int, Tensor]]


def rotation_by(decoder: Decoder, offsets: Tensor) -> Tensor:
    """offsets [...] in positions, of either sign -> the rotation [..., D/2] that moves a key or a query so far on."""
    rotation = decoder.rotation[offsets.abs()]
    return torch.where(offsets[..., None] < 0, rotation.conj(), rotation)


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """x [..., D], pairs adjacent as in decoder.py, times complex rotation [..., D/2]; computed in float32."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)


def replay_hook(decoder: Decoder, shifts: Shifts) -> Hook:
    """For ``Decoder.full``: the products of queries and keys as each row of a finished run saw them."""
    rotations = [(count, rotation_by(decoder, -offsets)[:, None]) for count, offsets in shifts]

    def products(layer: int, query: Tensor, key: Tensor) -> Tensor:
        """query [1, T, A, D], key [1, kv, T, D] -> [A, T, T]."""
        key = key[0].repeat_interleave(query.shape[2] // key.shape[1], 0).transpose(1, 2)
        queries = [(count, rotated(query, rotation)[0].transpose(0, 1)) for count, rotation in rotations]
        return _by_group(queries, query[0].transpose(0, 1), key)

    return products


def training_products(config: LMConfig, shifts: Shifts, dtype: torch.dtype) -> Products:
    """For ``training_forward``, whose queries and keys have their rotary pairs in halves; offsets [B, T]."""
    factors = [(count, rotary_factors(config, -offsets, dtype)) for count, offsets in shifts]

    def products(query: Tensor, key: Tensor, rows: slice) -> Tensor:
        queries = [(count, rotate(query, cos[:, :, rows], sin[:, :, rows])) for count, (cos, sin) in factors]
        return _by_group(queries, query, key.transpose(-1, -2))

    return products


def _by_group(queries: Sequence[tuple[int, Tensor]], query: Tensor, key: Tensor) -> Tensor:
    """query [..., T, D], key [..., D, S] -> [..., T, S]: each group with its own query, the rest with ``query``."""
    parts, start = [], 0
    for count, shifted in queries:
        parts.append(shifted @ key[..., start : start + count])
        start += count
    return torch.cat([*parts, query @ key[..., start:]], -1)
