"""A draft's hidden states after every token and at every depth of a drafting pass, with the attention that decoding
has.

While drafting, a token at depth j attends to the tokens up to the first of its pass with features of the base model,
and to the j tokens of its own pass with the draft's own features (features as in EAGLE, trained at every depth as in
EAGLE-3's training-time test: Li and others, 2024 and 2025). Here every token stands at every depth: one pass over all
tokens a depth, in which the drafted ones add j columns to the attention. A draft that attends to the base's keys and
values has those of all tokens before its pass, and its own of the pass alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lm.block import Attend, BlockModel, RotaryFactors, attend_under, block, compute_dtype, rms_norm
from ...lm.masks import additive, causal_mask
from ...rotary import rotary_factors
from ..data.sequences import PrefixBatch


@dataclass
class _Memory:
    """A block's keys and values [B, A, T, D]: of all rows, the base's own or from its hidden states, and of the speech
    rows at each depth from the draft's own."""

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
    base: Sequence[tuple[Tensor, Tensor]] | None = None,
) -> list[Tensor]:
    """The draft's hidden states that decide what comes after TASK and every token, at depth 0 (first of a pass) to
    ``deepest``: each [B, F + 1, H]. At depth j the first j rows are undefined: so few tokens cannot have been drafted.

    project: features to what is added to the embeddings. inputs: of the base, x [B, C + F, H], positions and mask;
    features [B, C + F, H]: the base's hidden states of the row before (``methods.ssd.preceding``). base: keys and
    values [B, kv, C + F, D] of the base that each block attends to (``base_memory``), None: the draft makes its own. A
    draft that has them decides nothing without a token of its own: one more row is undefined at each depth.
    """
    (x, positions, mask), task = inputs, prefix.x.shape[1] - 1
    dtype = compute_dtype(x)
    factors = rotary_factors(positions[:, None], draft.config.head_dim, draft.config.rope_theta, dtype)
    found, fed, count = [], x[:, task + 1 :], x.shape[1] - task - 1
    if base is None:
        memories = [_Memory() for _ in draft.backbone.layers]
        bias = additive(mask[:, None], dtype)
        found.append(_through(draft, memories, x + project(features), factors, bias, False)[:, task:])
        features = found[0][:, :-1]
    else:
        groups = draft.config.heads // draft.config.kv_heads
        memories = [_Memory(tuple(t.to(dtype).repeat_interleave(groups, 1) for t in kept)) for kept in base]
        features = features[:, task + 1 :]
    factors = tuple(t[:, :, task + 1 :] for t in factors)
    for own in range(1, deepest + 2 - len(found)):  # tokens of the pass so far, the row's included
        known = causal_mask(count, count, x.device).tril(-own).expand(len(x), -1, -1)
        seen = torch.cat([prefix.valid[:, None].expand(-1, count, -1), known], 2)
        hidden = _through(draft, memories, fed + project(features), factors, additive(seen[:, None], dtype), True)
        found.append(F.pad(hidden, (0, 0, 1, 0)))
        features = found[-1][:, :-1]
    return found


@torch.no_grad()
def base_memory(lm: BlockModel, inputs: Sequence[Tensor], layers: slice) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
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
    for index, module in enumerate(lm.backbone.layers):
        x = block(module, config, x, factors, keep if index in chosen else plain)
    return rms_norm(x, lm.backbone.norm, config.rms_eps), kept


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
