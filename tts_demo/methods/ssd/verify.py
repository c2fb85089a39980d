"""The acceptance rule of speculative decoding (SSD, algorithm 1)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...lm.sampling import Distribution


def verify(
    drafted: Tensor, p: Distribution, q: Distribution, tolerance: float, generator: torch.Generator | None
) -> list[int]:
    """drafted [L]; the draft's distributions p of them [L, M]; the base's q of them and of the token after them
    [L + 1, M] -> the drafted tokens that are accepted, and the one after them.

    Decided on the host: this is the one place where a step waits for the device, which has nothing left to do by then
    (six small copies on a GPU, none on a CPU); on a CPU the same decision in small tensor operators is slower.
    """
    r = torch.rand(len(drafted) + 1, generator=generator, device=drafted.device)
    r, p_weights, p_ids, q_weights, q_ids = (x.cpu().numpy() for x in (r, p.weights, p.ids, q.weights, q.ids))
    p_probs, q_probs = (weights / weights.sum(-1, keepdims=True) for weights in (p_weights, q_weights))
    tokens = drafted.tolist()
    for i, token in enumerate(tokens):
        ratio = _probability(token, q_probs[i], q_ids[i]) / _probability(token, p_probs[i], p_ids[i])
        # r < min(1, q / p) + tolerance, as r is below 1 anyway; and never where q is 0
        if not max(0.0, float(r[i]) - tolerance) < ratio:
            taken = np.zeros(1 + max(p_ids[i].max(), q_ids[i].max()), dtype=q_probs.dtype)
            taken[p_ids[i]] = p_probs[i]
            residual = (q_probs[i] - taken[q_ids[i]]).clip(0)
            # an empty residual: p = q but for rounding
            return tokens[:i] + [_pick(residual if residual.any() else q_probs[i], q_ids[i], r[-1])]
    return tokens + [_pick(q_probs[-1], q_ids[-1], r[-1])]


def _probability(token: int, probs: np.ndarray, ids: np.ndarray) -> float:
    """Of one token under probs [M] of ids [M]."""
    found = probs[ids == token]
    return float(found[0]) if len(found) else 0.0


def _pick(weights: np.ndarray, ids: np.ndarray, r: float) -> int:
    """The id drawn by r, uniform in [0, 1), from weights [M] of ids [M], which need not sum to 1."""
    cumulative = weights.cumsum()
    place = int(cumulative.searchsorted(r * cumulative[-1], side="right"))
    return int(ids[place if place < len(ids) else weights.argmax()])  # rounding left nothing
