"""Rotary positions of keys and queries whose pairs are adjacent, as decoder.py keeps them."""

from __future__ import annotations

import torch
from torch import Tensor


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """x [..., D] turned by complex rotation [..., D/2], pairs adjacent; worked out in float32."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)
