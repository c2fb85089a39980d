"""The delay pattern (QTTS, section 2.2): codebook k is delayed by k * d steps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def delay(codes: Tensor, d: int, fill: int) -> Tensor:
    """codes [..., F, K] -> [..., F + (K - 1) d, K]: step s holds, of book k, frame s - k d, or ``fill`` where there is
    no such frame."""
    last = codes.shape[-1] - 1
    return torch.stack([F.pad(codes[..., k], (k * d, (last - k) * d), value=fill) for k in range(last + 1)], -1)


def undelay(steps: Tensor, d: int) -> Tensor:
    """steps [..., S, K] -> codes [..., S - (K - 1) d, K]: the whole frames in them."""
    books = steps.shape[-1]
    count = steps.shape[-2] - (books - 1) * d
    return torch.stack([steps[..., k * d : k * d + count, k] for k in range(books)], -1)
