"""Rotary position embedding in the half-split layout of Qwen2: channel i and channel i + D/2 are one pair. Of the
language model in training, and of the codec's attention."""

import torch
from torch import Tensor


def rotary_factors(
    positions: Tensor, width: int, base: float, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """cos and sin [..., T, width] of positions [..., T]."""
    frequencies = base ** -(torch.arange(0, width, 2, device=positions.device) / width)
    angles = positions[..., None] * frequencies
    angles = torch.cat([angles, angles], -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [..., T, D], in the dtype of x."""
    a, b = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat([-b, a], -1) * sin.to(x.dtype)
