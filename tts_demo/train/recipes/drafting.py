"""A draft's hidden states after every token and at every depth of a drafting pass, with the attention that decoding
has.

While drafting, a token at depth j attends to the tokens up to the first of its pass with features of the base model,
and to the j tokens of its own pass with the draft's own features (features as in EAGLE, trained at every depth as in
EAGLE-3's training-time test: Li and others, 2024 and 2025). Here every token stands at every depth: one pass over all
tokens a depth, in which the drafted ones add j columns to the attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lm.block import (
    Attend,
    BlockModel,
    RotaryFactors,
    additive,
    attend_under,
    block,
    compute_dtype,
    rms_norm,
    rotary_factors,
)
from ...lm.masks import causal_mask
from ..data.sequences import PrefixBatch


@dataclass
class _Memory:
    """A block's keys and values [B, A, T, D]: of all rows from the base's hidden states, and of the speech rows at each
    depth from the draft's own."""

    base: tuple[Tensor, Tensor] | None = None
    drafted: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def attend(self, bias: Tensor, deep: bool) -> Attend:
        """Attention under ``bias`` that also stores the keys and values it is given."""
        plain = attend_under(bias)

        def first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.base = k, v
            return plain(q, k, v)

        def later(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.drafted.append((k, v))
            return self._with_drafted(q, bias)

        return later if deep else first

    def _with_drafted(self, q: Tensor, bias: Tensor) -> Tensor:
        """Attention of q [B, A, F, D] to the base's rows, under ``bias`` [B, 1, F, C + F], and to the row's own
        pass."""
        keys, values = self.base
        own = [(_later(k, back), _later(v, back)) for back, (k, v) in enumerate(reversed(self.drafted))]
        scores = [q @ keys.transpose(-1, -2) + bias, *((q * k).sum(-1, keepdim=True) for k, _ in own)]
        weights = torch.softmax(torch.cat(scores, -1), -1).to(values.dtype)
        y = weights[..., : keys.shape[2]] @ values
        return y + sum(weights[..., keys.shape[2] + i, None] * v for i, (_, v) in enumerate(own))


def at_every_depth(
    draft: BlockModel,
    project: Callable[[Tensor], Tensor],
    prefix: PrefixBatch,
    inputs: Sequence[Tensor],
    features: Tensor,
    deepest: int,
) -> list[Tensor]:
    """The draft's hidden states that decide what comes after TASK and every token, at depth 0 (first of a pass) to
    ``deepest``: each [B, F + 1, H]. At depth j the first j rows are undefined: so few tokens cannot have been drafted.

    project: features to what is added to the embeddings. inputs: of the base, x [B, C + F, H], positions and mask;
    features [B, C + F, H]: the base's hidden states of the row before (``methods.ssd.preceding``).
    """
    (x, positions, mask), task = inputs, prefix.x.shape[1] - 1
    dtype = compute_dtype(x)
    factors = rotary_factors(draft.config, positions, dtype)
    memories = [_Memory() for _ in draft.backbone.layers]
    hidden = _through(draft, memories, x + project(features), factors, additive(mask, dtype), False)[:, task:]
    found, count = [hidden], hidden.shape[1] - 1
    fed, factors = x[:, task + 1 :], tuple(t[:, :, task + 1 :] for t in factors)
    for depth in range(1, deepest + 1):
        known = causal_mask(count, count, x.device).tril(-depth).expand(len(x), -1, -1)
        seen = torch.cat([prefix.valid[:, None].expand(-1, count, -1), known], 2)
        hidden = _through(draft, memories, fed + project(hidden[:, :-1]), factors, additive(seen, dtype), True)
        hidden = F.pad(hidden, (0, 0, 1, 0))
        found.append(hidden)
    return found


def _through(
    draft: BlockModel, memories: Sequence[_Memory], x: Tensor, factors: RotaryFactors, bias: Tensor, deep: bool
) -> Tensor:
    """x [B, T, H] through all blocks and the final norm."""
    for module, memory in zip(draft.backbone.layers, memories, strict=True):
        x = block(module, draft.config, x, factors, memory.attend(bias, deep))
    return rms_norm(x, draft.backbone.norm, draft.config.rms_eps)


def _later(x: Tensor, rows: int) -> Tensor:
    """x [B, A, F, D] shifted by so many rows, zeros in front."""
    return F.pad(x[:, :, : x.shape[2] - rows], (0, 0, rows, 0))
