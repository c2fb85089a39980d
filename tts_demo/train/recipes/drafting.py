"""What a draft says after every token, first of a pass and at every depth of it, in one go: the attention that decoding
has.

Drafting, a token at depth j sees the tokens up to the first of its pass as the base was heard about them, and the j of
its own pass as they were drafted (features as in EAGLE; learnt at every depth at once as in EAGLE-3's training-time
test: Li and others, 2025). All tokens stand at every depth: one pass over the tokens a depth, where what is drafted
adds j columns to the attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm.masks import causal_mask
from ..data.sequences import PrefixBatch
from ..forward import norm, rope_table, rotate


@dataclass
class _Block:
    """A block's keys and values [B, A, T, D]: of all rows, heard, and of the speech rows at each depth, drafted."""

    module: nn.Module
    heard: tuple[Tensor, Tensor] | None = None
    drafted: list[tuple[Tensor, Tensor]] = field(default_factory=list)


def at_every_depth(
    shallow: object,
    listen: Callable[[Tensor], Tensor],
    prefix: PrefixBatch,
    inputs: Sequence[Tensor],
    heard: Tensor,
    deepest: int,
) -> list[Tensor]:
    """The draft's hidden states that decide what comes after TASK and every token, at depth 0 (first of a pass) to
    ``deepest``: each [B, F + 1, H]. At depth j the first j rows mean nothing: so few tokens cannot have been drafted.

    shallow: its blocks and norm. inputs: of the base, x [B, C + F, H], positions and mask; heard [B, C + F, H]: see
    ``methods.ssd.before``.
    """
    (x, positions, mask), task = inputs, prefix.x.shape[1] - 1
    kind = torch.bfloat16 if torch.is_autocast_enabled(x.device.type) else x.dtype
    rope = tuple(t.to(kind) for t in rope_table(shallow, positions))
    blocks = [_Block(module) for module in shallow.backbone.layers]
    hidden = _through(shallow, blocks, x + listen(heard), rope, _bias(mask, kind))[:, task:]
    found, count = [hidden], hidden.shape[1] - 1
    fed, rope = x[:, task + 1 :], tuple(t[:, :, task + 1 :] for t in rope)
    for depth in range(1, deepest + 1):
        known = causal_mask(count, count, x.device).tril(-depth).expand(len(x), -1, -1)
        seen = torch.cat([prefix.valid[:, None].expand(-1, count, -1), known], 2)
        hidden = _through(shallow, blocks, fed + listen(hidden[:, :-1]), rope, _bias(seen, kind), depth)
        hidden = F.pad(hidden, (0, 0, 1, 0))
        found.append(hidden)
    return found


def _bias(mask: Tensor, kind: torch.dtype) -> Tensor:
    return torch.zeros(mask.shape, dtype=kind, device=mask.device).masked_fill_(~mask, float("-inf"))[:, None]


def _through(
    shallow: object, blocks: Sequence[_Block], x: Tensor, rope: tuple[Tensor, Tensor], bias: Tensor, depth: int = 0
) -> Tensor:
    """x [B, T, H] through all blocks and the norm; keys and values are kept."""
    c = shallow.config
    for block in blocks:
        attention, mlp = block.module.self_attn, block.module.mlp
        h = norm(x, block.module.input_layernorm, c.rms_eps)
        q, k, v = (
            p(h).unflatten(-1, (-1, c.head_dim)).transpose(1, 2)
            for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = rotate(q, *rope) * c.head_dim**-0.5, rotate(k, *rope)
        k, v = (t.repeat_interleave(c.heads // c.kv_heads, 1) for t in (k, v))
        if depth:
            block.drafted.append((k, v))
            y = _among_drafted(q, block, bias)
        else:
            block.heard = k, v
            y = torch.softmax(q @ k.transpose(-1, -2) + bias, -1).to(v.dtype) @ v
        x = x + attention.o_proj(y.transpose(1, 2).flatten(2))
        h = norm(x, block.module.post_attention_layernorm, c.rms_eps)
        x = x + mlp.down_proj(F.silu(mlp.gate_proj(h)) * mlp.up_proj(h))
    return norm(x, shallow.backbone.norm, c.rms_eps)


def _among_drafted(q: Tensor, block: _Block, bias: Tensor) -> Tensor:
    """Attention of q [B, A, F, D] to what was heard, under ``bias`` [B, 1, F, C + F], and to the row's own pass."""
    keys, values = block.heard
    own = [(_later(k, back), _later(v, back)) for back, (k, v) in enumerate(reversed(block.drafted))]
    scores = [q @ keys.transpose(-1, -2) + bias, *((q * k).sum(-1, keepdim=True) for k, _ in own)]
    weights = torch.softmax(torch.cat(scores, -1), -1).to(values.dtype)
    y = weights[..., : keys.shape[2]] @ values
    return y + sum(weights[..., keys.shape[2] + i, None] * v for i, (_, v) in enumerate(own))


def _later(x: Tensor, rows: int) -> Tensor:
    """x [B, A, F, D] moved on by so many rows."""
    return F.pad(x[:, :, : x.shape[2] - rows], (0, 0, rows, 0))
