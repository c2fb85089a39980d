"""Which drafted tokens are accepted, and what is said in place of the first that is not (SSD, algorithm 1)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...lm.sampling import Law


def judge(drafted: Tensor, p: Law, q: Law, tolerance: float, generator: torch.Generator | None) -> list[int]:
    """drafted [L], the draft's laws p of them [L, M], the base's q of them and of the token behind [L + 1, M] -> what
    is said: the drafted tokens that are accepted, and the one behind them.

    Decided on the host: this is the one place where a step waits for the device, which has nothing left to do by then
    (six small copies on a GPU, none on a CPU), and on a CPU the forty small operators of the same decision took longer.
    """
    r = torch.rand(len(drafted) + 1, generator=generator, device=drafted.device)
    r, draft, draft_ids, base, base_ids = (x.cpu().numpy() for x in (r, p.weights, p.ids, q.weights, q.ids))
    draft, base = (weights / weights.sum(-1, keepdims=True) for weights in (draft, base))
    said = drafted.tolist()
    for i, token in enumerate(said):
        doubt, belief = _chance(token, draft[i], draft_ids[i]), _chance(token, base[i], base_ids[i])
        # r < min(1, q / p) + tolerance, as r is below 1 anyway; and never where the base gives no chance at all
        if not max(0.0, float(r[i]) - tolerance) < belief / doubt:
            taken = np.zeros(1 + max(draft_ids[i].max(), base_ids[i].max()), dtype=base.dtype)
            taken[draft_ids[i]] = draft[i]
            residual = (base[i] - taken[base_ids[i]]).clip(0)
            # none: p = q but for rounding
            return said[:i] + [_pick(residual if residual.any() else base[i], base_ids[i], r[-1])]
    return said + [_pick(base[-1], base_ids[-1], r[-1])]


def _chance(token: int, chances: np.ndarray, ids: np.ndarray) -> float:
    """Of one token under chances [M] of ids [M]."""
    found = chances[ids == token]
    return float(found[0]) if len(found) else 0.0


def _pick(chances: np.ndarray, ids: np.ndarray, r: float) -> int:
    """The id at r of the way, r uniform in [0, 1), through chances [M] of ids [M], which need not sum to 1."""
    way = chances.cumsum()
    place = int(way.searchsorted(r * way[-1], side="right"))
    return int(ids[place if place < len(ids) else chances.argmax()])  # rounding left nothing
