"""Two analyses that ``evaluate`` runs: which head predicts a position best, and which fixed chunk sizes have the fewest
word errors (the guidance range)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lm import Prefix
from ..base import plain_replay, token_inputs
from .method import Dcar
from .ranges import LONGEST


@dataclass(frozen=True)
class HeadPreference:
    """Shares [7] of positions at which each head (0 = the base head) had the lowest and the highest loss."""

    best: tuple[float, ...]
    worst: tuple[float, ...]
    loss: tuple[float, ...]  # mean cross-entropy of each head over the same positions
    positions: int


@torch.no_grad()
def head_losses(method: Dcar, prefix: Prefix, codes: Tensor) -> Tensor:
    """Cross-entropy [7, F - 6] of every head on the tokens codes[6:] of a recording, codes [F] of its first codebook,
    under teacher forcing. Column p holds seven predictions of the same token, made 1 to 7 tokens ahead (section 3.2.3).
    """
    decoder = method.decoder
    replay = plain_replay(decoder, prefix, token_inputs(decoder, prefix, codes[:-1]), [1] * len(codes))
    hidden, _ = decoder.full(replay.x[None], replay.positions, replay.mask)
    hidden = hidden[0, replay.rows]  # row t decides codes[t] and, by the heads, codes[t + 1 .. t + 6]
    logits = torch.cat([decoder.logits(hidden)[None], method.heads(hidden).float()])
    positions = len(codes) - LONGEST + 1
    aligned = [row[LONGEST - 1 - j : LONGEST - 1 - j + positions] for j, row in enumerate(logits)]
    return torch.stack([F.cross_entropy(row, codes[LONGEST - 1 :], reduction="none") for row in aligned])


def head_preference(losses: Sequence[Tensor]) -> HeadPreference:
    """Join ``head_losses`` of many recordings, each [7, n]."""
    joined = torch.cat(list(losses), 1)
    counted = [
        torch.bincount(index, minlength=LONGEST) / joined.shape[1] for index in (joined.argmin(0), joined.argmax(0))
    ]
    return HeadPreference(
        tuple(counted[0].tolist()), tuple(counted[1].tolist()), tuple(joined.mean(1).tolist()), joined.shape[1]
    )


@dataclass(frozen=True)
class GuidanceProfile:
    """Error rate of each fixed chunk size, and the sizes that score best: the guidance range (appendix B.1)."""

    error_rates: dict[int, float]
    best: tuple[int, ...]


def guidance_profile(error_rate: Callable[[int], float], keep: int = 3) -> GuidanceProfile:
    """error_rate: fixed chunk size 1..7 -> error rate of speech made with it. ``keep``: sizes in the guidance range."""
    rates = {size: error_rate(size) for size in range(1, LONGEST + 1)}
    return GuidanceProfile(rates, tuple(sorted(sorted(rates, key=rates.get)[:keep])))
