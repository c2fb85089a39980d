"""One differentiable Qwen2 block, and the forward pass of a backbone made of it.

For training, where fewer and larger operators than transformers' own save time and where attention weights of chosen
heads are wanted. Decoding goes through the fused weights of decoder.py. Tests hold both equal to
``LanguageModel.forward``."""

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LMConfig
from ..rotary import rotary_factors, rotate
from .masks import additive
from .model import LanguageModel

# (query [B, A, T, D] scaled, key and value [B, A, T, D]) -> [B, A, T, D]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
# (query [B, A, T, D], which are ``rows`` of the sequence, key [B, A, S, D], rows) -> their products [B, A, T, S]
Products = Callable[[Tensor, Tensor, slice], Tensor]
RotaryFactors = tuple[Tensor, Tensor]  # cos and sin, each [B, 1, T, D]


def rms_norm(x: Tensor, module: nn.Module, eps: float) -> Tensor:
    return F.rms_norm(x, module.weight.shape, module.weight, eps)


def compute_dtype(x: Tensor) -> torch.dtype:
    """What matrices are multiplied in: bfloat16 under autocast, else that of x."""
    return torch.bfloat16 if torch.is_autocast_enabled(x.device.type) else x.dtype


def plain_products(query: Tensor, key: Tensor, rows: slice = slice(None)) -> Tensor:
    """query [B, A, T, D], key [B, A, S, D] -> [B, A, T, S]."""
    return query @ key.transpose(-1, -2)


def attend_under(bias: Tensor, products: Products = plain_products) -> Attend:
    """Attention under ``bias``, written out: with a mask the CPU's fused one takes twice the time in training."""
    return lambda q, k, v: torch.softmax(products(q, k, slice(None)) + bias, -1).to(v.dtype) @ v


def block(
    module: nn.Module, config: LMConfig, x: Tensor, factors: RotaryFactors, attend: Attend, dropout: float = 0.0
) -> Tensor:
    """One block: x [B, T, H] -> [B, T, H]. ``attend`` is given the rotated queries, keys and values, those of grouped
    heads repeated. dropout: dropout rate of the attention's and the feed-forward's output."""
    c, attention, mlp = config, module.self_attn, module.mlp
    h = rms_norm(x, module.input_layernorm, c.rms_eps)
    q, k, v = (
        project(h).unflatten(-1, (-1, c.head_dim)).transpose(1, 2)
        for project in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    q, k = rotate(q, *factors) * c.head_dim**-0.5, rotate(k, *factors)
    k, v = (t.repeat_interleave(c.heads // c.kv_heads, 1) for t in (k, v))
    x = x + F.dropout(attention.o_proj(attend(q, k, v).transpose(1, 2).flatten(2)), dropout)
    h = rms_norm(x, module.post_attention_layernorm, c.rms_eps)
    return x + F.dropout(mlp.down_proj(F.silu(mlp.gate_proj(h)) * mlp.up_proj(h)), dropout)


def through(
    lm: LanguageModel,
    blocks: Iterable[nn.Module],
    x: Tensor,
    factors: RotaryFactors,
    attends: Iterable[Attend],
    dropout: float = 0.0,
) -> Tensor:
    """x [B, T, H] through ``blocks`` of the shape of ``lm``, each with its own attention, and the norm of ``lm``."""
    for module, attend in zip(blocks, attends, strict=True):
        x = block(module, lm.config, x, factors, attend, dropout)
    return rms_norm(x, lm.backbone.norm, lm.config.rms_eps)


def training_forward(
    lm: LanguageModel,
    x: Tensor,
    positions: Tensor,
    mask: Tensor,
    alignment_layers: Sequence[int] = (),
    rows: slice = slice(0),
    columns: slice = slice(0),
    dropout: float = 0.0,
    products: Products = plain_products,
) -> tuple[Tensor, list[Tensor]]:
    """x [B, T, H], positions [B, T], mask [B, T, T] (True = attend) -> hidden [B, T, H] after the final norm, and for
    each layer in ``alignment_layers`` the log attention weights [B, R, C] of head 0 from ``rows`` to ``columns``."""
    dtype, config = compute_dtype(x), lm.config
    factors = rotary_factors(positions[:, None], config.head_dim, config.rope_theta, dtype)
    bias, weights = additive(mask[:, None], dtype), []
    attend = attend_under(bias, products)

    def observed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = products(q[:, :1, rows].float(), k[:, :1].float(), rows)[:, 0]
        weights.append((found + bias[:, 0, rows].float()).log_softmax(-1)[..., columns])
        return attend(q, k, v)

    attends = (observed if index in alignment_layers else attend for index in range(config.layers))
    return through(lm, lm.backbone.layers, x, factors, attends, dropout), weights
