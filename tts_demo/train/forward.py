"""Training forward through a Qwen2 backbone with fewer, larger operators than transformers' own, and attention weights
of chosen heads on request (for guided attention). A test holds it equal to ``LanguageModel.forward``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..lm.model import LanguageModel


def rope_table(lm: LanguageModel, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [B, 1, T, D] in the half-split layout of Qwen2."""
    c = lm.config
    frequencies = c.rope_theta ** -(torch.arange(0, c.head_dim, 2, device=positions.device) / c.head_dim)
    angles = positions[:, None, :, None] * frequencies
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def norm(x: Tensor, module: nn.Module, eps: float) -> Tensor:
    return F.rms_norm(x, module.weight.shape, module.weight, eps)


def train_forward(
    lm: LanguageModel,
    x: Tensor,
    positions: Tensor,
    mask: Tensor,
    guided: tuple[int, ...] = (),
    rows: slice = slice(0),
    columns: slice = slice(0),
    dropout: float = 0.0,
) -> tuple[Tensor, list[Tensor]]:
    """x [B, T, H], positions [B, T], mask [B, T, T] -> hidden [B, T, H] and, for each layer in ``guided``, the log
    attention weights of head 0 from ``rows`` to ``columns`` [B, R, C]. ``dropout``: share of what a block adds that is
    left out."""
    c = lm.config
    cos, sin = (
        t.to(torch.bfloat16 if torch.is_autocast_enabled(x.device.type) else x.dtype) for t in rope_table(lm, positions)
    )
    bias = torch.zeros(mask.shape, dtype=cos.dtype, device=x.device).masked_fill_(~mask, float("-inf"))[:, None]
    weights = []
    for index, block in enumerate(lm.backbone.layers):
        attention, mlp = block.self_attn, block.mlp
        h = norm(x, block.input_layernorm, c.rms_eps)
        q, k, v = (
            p(h).unflatten(-1, (-1, c.head_dim)).transpose(1, 2)
            for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if index in guided:
            scores = q[:, 0, rows].float() @ k[:, 0].float().transpose(1, 2) * c.head_dim**-0.5
            weights.append((scores + bias[:, 0, rows].float()).log_softmax(-1)[..., columns])
        groups = c.heads // c.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        # Written out: with a mask, the CPU's fused attention takes twice the time in training.
        y = torch.softmax(q * c.head_dim**-0.5 @ k.transpose(-1, -2) + bias, -1).to(v.dtype) @ v
        x = x + F.dropout(attention.o_proj(y.transpose(1, 2).flatten(2)), dropout)
        h = norm(x, block.post_attention_layernorm, c.rms_eps)
        x = x + F.dropout(mlp.down_proj(F.silu(mlp.gate_proj(h)) * mlp.up_proj(h)), dropout)
    return norm(x, lm.backbone.norm, c.rms_eps), weights
