"""The acceptance rule of speculative decoding (SSD, algorithm 1)."""

import numpy as np
import torch
from torch import Tensor

from ...lm.sampling import Distribution


def verify(
    drafted: Tensor, p: Distribution, q: Distribution, tolerance: float, generator: torch.Generator | None
) -> list[int]:
    """drafted [L]; the draft's distributions p of them [L, M]; the base's q of them and of the token after them
    [L + 1, M] -> the drafted tokens that are accepted, and the one after them.

    Decided on the host: on a CPU the same in small tensor operators is slower."""
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


def verify_on_device(
    r: Tensor, drafted: Tensor, p: Distribution, q: Distribution, tolerance: Tensor, vocab: int
) -> Tensor:
    """``verify`` in operators of fixed shapes, with uniform random numbers r [L + 1] and tolerance []. Returns [2 + L]:
    the number n of accepted tokens, these n, the token after them, then L - n entries to be ignored."""
    p_full, q_full = p.full(vocab), q.full(vocab)
    ratio = (q_full[:-1].gather(-1, drafted[:, None]) / p_full.gather(-1, drafted[:, None]))[:, 0]
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


def _probability(token: int, probs: np.ndarray, ids: np.ndarray) -> float:
    """Probability of one token under probs [M] of ids [M]."""
    found = probs[ids == token]
    return float(found[0]) if len(found) else 0.0


def _pick(weights: np.ndarray, ids: np.ndarray, r: float) -> int:
    """The id that r, uniform in [0, 1), selects from weights [M] of ids [M], which need not sum to 1."""
    cumulative = weights.cumsum()
    index = int(cumulative.searchsorted(r * cumulative[-1], side="right"))
    return int(ids[index if index < len(ids) else weights.argmax()])  # rounding left nothing
