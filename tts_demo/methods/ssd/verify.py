"""The acceptance rule of speculative decoding (SSD, algorithm 1)."""

import torch
from torch import Tensor

from ...lm.sampling import Distribution


def verify(r: Tensor, drafted: Tensor, p: Distribution, q: Distribution, tolerance: Tensor, vocab: int) -> Tensor:
    """Accept drafted tokens [L] one after the other until the first rejection. r [L + 1]: uniform random numbers; p:
    the draft's distributions of these tokens [L, M]; q: the base model's, and of the token after them [L + 1, M];
    tolerance []. Returns [2 + L]: the number n of accepted tokens, these n, the token after them, then L - n entries to
    be ignored: the shapes are fixed, so that a CUDA graph can hold it."""
    p_full, q_full = p.full(vocab), q.full(vocab)
    ratio = (q_full[:-1].gather(-1, drafted[:, None]) / p_full.gather(-1, drafted[:, None]))[:, 0]
    # r < min(1, q / p) + tolerance, as r is below 1 anyway; and never where q is 0
    accepted = ((r[:-1] - tolerance).clamp(min=0) < ratio).long().cumprod(0).sum(0, keepdim=True)  # [1]
    residual = (q_full[:-1] - p_full).clamp(min=0)
    # an empty residual: p = q but for rounding; behind the last of the drafted tokens there is no p
    left = torch.cat([torch.where(residual.any(-1, keepdim=True), residual, q_full[:-1]), q_full[-1:]])
    weights, ids = left.gather(-1, q.ids)[accepted], q.ids[accepted]  # [1, M]
    cumulative = weights.cumsum(-1)
    index = torch.searchsorted(cumulative, r[-1] * cumulative[:, -1:], right=True)
    index = torch.where(index < ids.shape[-1], index, weights.argmax(-1, keepdim=True))  # rounding left nothing
    tokens = torch.cat([drafted, drafted[:1]]).scatter(0, accepted, ids.gather(-1, index)[0])
    return torch.cat([accepted, tokens])
