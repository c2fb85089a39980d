"""The delay pattern (QTTS, section 2.2): codebook k is delayed by k * d steps."""

import torch
import torch.nn.functional as F
from torch import Tensor


def delay(codes: Tensor, d: int, fill: int) -> Tensor:
    """codes [..., F, K] -> [..., F + (K - 1) d, K]: step s holds, of codebook k, frame s - k d, or ``fill`` where there
    is no such frame."""
    last = codes.shape[-1] - 1
    return torch.stack([F.pad(codes[..., k], (k * d, (last - k) * d), value=fill) for k in range(last + 1)], -1)
