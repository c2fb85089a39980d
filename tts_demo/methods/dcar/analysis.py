"""Which head predicts a position best (DCAR, section 3.2.3 and figure 4)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lm import Prefix
from ..base import plain_replay, token_inputs
from .method import Dcar
from .ranges import LONGEST


@torch.no_grad()
def head_logits(method: Dcar, prefix: Prefix, codes: Tensor) -> Tensor:
    """Predictions [7, F - 6, V] of the tokens codes[6:] of a recording, codes [F] of its first codebook, under teacher
    forcing. Column p holds seven predictions of the same token: head j (0 = the base head) makes its own j tokens
    earlier than the base head."""
    decoder = method.decoder
    replay = plain_replay(decoder, prefix, token_inputs(decoder, prefix, codes[:-1]), [1] * len(codes))
    hidden, _ = decoder.full(replay.x[None], replay.positions, replay.mask)
    hidden = hidden[0, replay.rows]  # row t decides codes[t] and, by the heads, codes[t + 1 .. t + 6]
    logits = torch.cat([decoder.logits(hidden)[None], method.heads(hidden).float()])
    positions = len(codes) - LONGEST + 1
    return torch.stack([row[LONGEST - 1 - j : LONGEST - 1 - j + positions] for j, row in enumerate(logits)])


def head_scores(logits: Tensor, codes: Tensor) -> dict[str, Tensor]:
    """logits [7, N, V] of ``head_logits`` and the tokens [N] they predict -> sums over these tokens, each [7]: how
    often each head has the lowest cross-entropy of all, how often the highest, how often its likeliest token is the
    right one, and its cross-entropy in nats."""
    losses = torch.stack([F.cross_entropy(row, codes, reduction="none") for row in logits])  # [7, N]
    count = lambda index: torch.bincount(index, minlength=len(losses)).double()
    return {
        "best": count(losses.argmin(0)),
        "worst": count(losses.argmax(0)),
        "right": (logits.argmax(-1) == codes).double().sum(1),
        "loss": losses.double().sum(1),
    }
