"""A draft's hidden states after every token and at every depth of a drafting pass, with the attention that decoding
has.

While drafting, a token at depth j attends to the tokens up to the first of its pass with features of the base model,
and to the j tokens of its own pass with the draft's own features (features as in EAGLE, trained at every depth as in
EAGLE-3's training-time test: Li and others, 2024 and 2025). Here every token stands at every depth: one pass over all
tokens a depth, in which the drafted ones add j columns to the attention. A draft that attends to the base's keys and
values has those of all tokens before its pass, and its own of the pass alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lm import LanguageModel
from ...lm.block import attend_under, compute_dtype, through
from ...lm.masks import additive, causal_mask
from ...methods.ssd import Draft
from ...rotary import rotary_factors
from ..data.sequences import PrefixBatch


@dataclass
class _Memory:
    """A block's keys and values [B, A, T, D]: of all rows, the base's own or from its hidden states, and of the speech
    rows at each depth from the draft's own."""

    base: tuple[Tensor, Tensor] | None = None
    drafted: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def attend(self, bias: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of all rows under ``bias``, whose keys and values are the base's from then on; then of the speech
        rows, q [B, A, F, D], to the base's, under ``bias`` [B, 1, F, C + F], and to those of the row's own pass."""
        if self.base is None:
            self.base = k, v
            return attend_under(bias)(q, k, v)
        self.drafted.append((k, v))
        keys, values = self.base
        own = [(_later(k, back), _later(v, back)) for back, (k, v) in enumerate(reversed(self.drafted))]
        scores = [q @ keys.transpose(-1, -2) + bias, *((q * k).sum(-1, keepdim=True) for k, _ in own)]
        weights = torch.softmax(torch.cat(scores, -1), -1).to(values.dtype)
        y = weights[..., : keys.shape[2]] @ values
        return y + sum(weights[..., keys.shape[2] + i, None] * v for i, (_, v) in enumerate(own))


def at_every_depth(
    lm: LanguageModel,
    draft: Draft,
    prefix: PrefixBatch,
    inputs: Sequence[Tensor],
    features: Tensor,
    deepest: int,
    base: Sequence[tuple[Tensor, Tensor]] | None = None,
) -> list[Tensor]:
    """The draft's hidden states that decide what comes after TASK and every token, at depth 0 (first of a pass) to
    ``deepest``: each [B, F + 1, H]. At depth j the first j rows are undefined: so few tokens cannot have been drafted.

    inputs: of the base ``lm``, x [B, C + F, H], positions and mask; features [B, C + F, H]: its hidden states of the
    row before (``methods.ssd.preceding``). base: keys and values [B, kv, C + F, D] of the base that each block attends
    to (``base_memory``), None: the draft makes its own. A draft that has them decides nothing without a token of its
    own: one more row is undefined at each depth.
    """
    (x, positions, mask), task = inputs, prefix.x.shape[1] - 1
    dtype, config, blocks = compute_dtype(x), lm.config, draft.blocks(lm)
    factors = rotary_factors(positions[:, None], config.head_dim, config.rope_theta, dtype)
    found, fed, count = [], x[:, task + 1 :], x.shape[1] - task - 1

    def read(x: Tensor, features: Tensor, mask: Tensor) -> Tensor:
        bias = additive(mask[:, None], dtype)
        attends = [partial(memory.attend, bias) for memory in memories]
        return through(lm, blocks, x + draft.feature_projection(features), factors, attends)

    if base is None:
        memories = [_Memory() for _ in blocks]
        found.append(read(x, features, mask)[:, task:])
        features = found[0][:, :-1]
    else:
        groups = config.heads // config.kv_heads
        memories = [_Memory(tuple(t.to(dtype).repeat_interleave(groups, 1) for t in kept)) for kept in base]
        features = features[:, task + 1 :]
    factors = tuple(t[:, :, task + 1 :] for t in factors)
    for own in range(1, deepest + 2 - len(found)):  # tokens of the pass so far, the row's included
        known = causal_mask(count, count, x.device).tril(-own).expand(len(x), -1, -1)
        seen = torch.cat([prefix.valid[:, None].expand(-1, count, -1), known], 2)
        found.append(F.pad(read(fed, features, seen), (0, 0, 1, 0)))
        features = found[-1][:, :-1]
    return found


@torch.no_grad()
def base_memory(
    lm: LanguageModel, inputs: Sequence[Tensor], layers: slice
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """The base over its ``inputs``: its hidden states [B, T, H], and rotated keys and values [B, kv, T, D] of
    ``layers``."""
    (x, positions, mask), config = inputs, lm.config
    dtype, groups, kept = compute_dtype(x), config.heads // config.kv_heads, []
    factors = rotary_factors(positions[:, None], config.head_dim, config.rope_theta, dtype)
    plain = attend_under(additive(mask[:, None], dtype))

    def keep(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        kept.append((k[:, ::groups], v[:, ::groups]))
        return plain(q, k, v)

    chosen = range(config.layers)[layers]
    attends = (keep if index in chosen else plain for index in range(config.layers))
    return through(lm, lm.backbone.layers, x, factors, attends), kept


def _later(x: Tensor, rows: int) -> Tensor:
    """x [B, A, F, D] shifted by so many rows, zeros in front."""
    return F.pad(x[:, :, : x.shape[2] - rows], (0, 0, rows, 0))
