"""Lean inference through a Qwen2 backbone: fused weights, static cache slices, no autograd, few operators a layer.

Knows tensors, not tokens' meaning: what to feed, where, and under which mask is a method's business. The Hugging Face
forward in model.py is the slow oracle that tests compare this with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import LMConfig
from .cache import KVCache
from .masks import causal_mask

if TYPE_CHECKING:
    from .lora import LoraDelta
    from .model import LanguageModel


@dataclass(frozen=True)
class Layer:
    """Weights of one block. Query, key and value rows are one matrix, gate and up rows another. Rows of query and key
    are ordered so that a rotary pair lies side by side: the rotation is then one complex product, and scores do not
    change because queries and keys are permuted alike."""

    norm1: Tensor  # [H]
    qkv: Tensor  # [(A + 2 kv) D, H]
    qkv_bias: Tensor
    out: Tensor  # [H, A D]
    norm2: Tensor
    gate_up: Tensor  # [2 FFN, H]
    down: Tensor  # [H, FFN]


def _pair_up(weight: Tensor, head_dim: int) -> Tensor:
    """Reorder rows (heads x D) from [first halves | second halves] to neighbouring rotary pairs."""
    rows = weight.reshape(-1, 2, head_dim // 2, *weight.shape[1:])
    return rows.transpose(1, 2).reshape(weight.shape)


def fuse(block: torch.nn.Module, index: int, lora: LoraDelta | None, head_dim: int, dtype: torch.dtype) -> Layer:
    """One Qwen2 block as a lean layer, with what ``lora`` adds to block number ``index`` merged in."""
    attention, mlp = block.self_attn, block.mlp

    def weight(module: torch.nn.Module, name: str) -> Tensor:
        module = getattr(module, "base_layer", module)  # look through a LoRA wrapper that training may have left on
        merged = module.weight.detach()
        delta = lora.delta(index, name) if lora is not None else None
        return merged if delta is None else (merged.float() + delta.to(merged.device)).to(merged.dtype)

    def bias(module: torch.nn.Module) -> Tensor:
        return getattr(module, "base_layer", module).bias.detach()

    q, k, v = (weight(getattr(attention, n), n) for n in ("q_proj", "k_proj", "v_proj"))
    qb, kb, vb = (bias(getattr(attention, n)) for n in ("q_proj", "k_proj", "v_proj"))
    return Layer(
        norm1=block.input_layernorm.weight.detach().to(dtype),
        qkv=torch.cat([_pair_up(q, head_dim), _pair_up(k, head_dim), v]).to(dtype),
        qkv_bias=torch.cat([_pair_up(qb, head_dim), _pair_up(kb, head_dim), vb]).to(dtype),
        out=weight(attention.o_proj, "o_proj").to(dtype),
        norm2=block.post_attention_layernorm.weight.detach().to(dtype),
        gate_up=torch.cat([weight(mlp.gate_proj, "gate_proj"), weight(mlp.up_proj, "up_proj")]).to(dtype),
        down=weight(mlp.down_proj, "down_proj").to(dtype),
    )


class Decoder:
    """Stateless: weights only. Everything that changes during a run lives in the KVCache that is passed in."""

    def __init__(self, config: LMConfig, layers: Sequence[Layer], norm: Tensor, embedding: Tensor, head: Tensor,
                 head_bias: Tensor | None = None) -> None:
        self.config, self.layers, self.norm = config, list(layers), norm
        self.embedding, self.head, self.head_bias = embedding, head, head_bias  # [V, H], [V, H], [V] or None
        self.device, self.dtype = norm.device, norm.dtype
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        angles = torch.arange(config.max_positions, dtype=torch.float64)[:, None] * config.rope_theta ** -half
        self.rotation = torch.polar(torch.ones_like(angles), angles).to(torch.complex64).to(self.device)  # [pos, D/2]
        self.counter = torch.arange(config.max_positions, device=self.device)

    @classmethod
    @torch.inference_mode(False)  # built lazily, perhaps inside a run: its weights must stay ordinary tensors
    @torch.no_grad()
    def from_model(cls, lm: LanguageModel, lora: LoraDelta | None = None, layers: Sequence[int] | None = None,
                   dtype: torch.dtype | None = None) -> Decoder:
        """Fuse (and merge LoRA into) the weights of ``lm``. ``layers`` picks blocks, in order (a draft model keeps a
        few). Weights that need no fusing are shared with ``lm`` in memory."""
        dtype = dtype or lm.dtype
        chosen = range(lm.config.layers) if layers is None else layers
        fused = [fuse(lm.backbone.layers[i], i, lora, lm.config.head_dim, dtype) for i in chosen]
        bias = lm.head.bias.detach().to(dtype) if lm.head.bias is not None else None
        return cls(replace(lm.config, layers=len(fused)), fused, lm.backbone.norm.weight.detach().to(dtype),
                   lm.speech_embedding.weight.detach().to(dtype), lm.head.weight.detach().to(dtype), bias)

    def new_cache(self, capacity: int, batch: int = 1) -> KVCache:
        c = self.config
        return KVCache(c.layers, batch, c.kv_heads, capacity, c.head_dim, self.dtype, self.device)

    def embed(self, codes: Tensor) -> Tensor:
        """codes [...] of the first codebook -> [..., H]."""
        return F.embedding(codes, self.embedding)

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., H] -> [..., V] in float32."""
        return F.linear(hidden, self.head, self.head_bias).float()

    @torch.no_grad()
    def forward(self, x: Tensor, cache: KVCache, positions: Tensor | int, mask: Tensor | None = None) -> Tensor:
        """x [B, T, H] -> hidden [B, T, H] after the final norm; T slots are appended to the cache.

        positions [T] logical, or an int: consecutive from there. mask [T, live + T] bool, or [B, T, live + T] for rows
        of unequal length; None: new tokens are causal among themselves and see every live slot.
        """
        batch, n, _ = x.shape
        if isinstance(positions, int):
            rotation, positions = self.rotation[positions:positions + n], self.counter[positions:positions + n]
        else:
            rotation = self.rotation[positions]
        slots = cache.claim(positions if positions.dim() == 1 else positions.amax(0))
        if mask is None and n > 1:
            mask = causal_mask(n, slots.stop, self.device)
        groups = self.config.heads // self.config.kv_heads
        if mask is not None:
            mask = (mask if mask.dim() == 3 else mask[None]).repeat(1, groups, 1)[:, None]  # [B or 1, 1, groups T, S]
        rotation = rotation.unsqueeze(-2)  # over heads: [T, 1, D/2] or [B, T, 1, D/2]
        x = x.reshape(batch * n, -1)
        for layer, kv in zip(self.layers, cache.layers):
            x = self._block(layer, x, batch, rotation, kv, slots, mask)
        return F.rms_norm(x, self.norm.shape, self.norm, self.config.rms_eps).view(batch, n, -1)

    def _block(self, layer: Layer, x: Tensor, batch: int, rotation: Tensor, kv: tuple[Tensor, Tensor], slots: slice,
               mask: Tensor | None) -> Tensor:
        """One block over x [B T, H]."""
        c, n = self.config, x.shape[0] // batch
        heads, kv_heads, dim = c.heads, c.kv_heads, c.head_dim
        y = F.linear(F.rms_norm(x, layer.norm1.shape, layer.norm1, c.rms_eps), layer.qkv, layer.qkv_bias)
        y = y.view(batch, n, heads + 2 * kv_heads, dim)
        turned = self._rotate(y[:, :, :heads + kv_heads], rotation)
        keys, values = kv
        keys[:, :, slots] = turned[:, :, heads:].transpose(1, 2)
        values[:, :, slots] = y[:, :, heads + kv_heads:].transpose(1, 2)
        # Heads that share a KV head become rows of one query, so no key or value is repeated: [B, kv, groups T, D].
        query = turned[:, :, :heads].reshape(batch, n, kv_heads, -1, dim).permute(0, 2, 3, 1, 4)
        query = query.reshape(batch, kv_heads, -1, dim)
        y = F.scaled_dot_product_attention(query, keys[:, :, :slots.stop], values[:, :, :slots.stop], attn_mask=mask)
        y = y.view(batch, kv_heads, -1, n, dim).permute(0, 3, 1, 2, 4).reshape(batch * n, heads * dim)
        x = torch.addmm(x, y, layer.out.t())
        gate, up = F.linear(F.rms_norm(x, layer.norm2.shape, layer.norm2, c.rms_eps), layer.gate_up).chunk(2, -1)
        return torch.addmm(x, F.silu(gate) * up, layer.down.t())

    def _rotate(self, y: Tensor, rotation: Tensor) -> Tensor:
        """Rotary embedding of y [B, T, heads, D] by rotation [T, 1, D/2] complex."""
        pairs = torch.view_as_complex(y.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * rotation).flatten(-2).to(y.dtype)

    @torch.no_grad()
    def full(self, x: Tensor, positions: Tensor, mask: Tensor,
             capture: slice | None = None) -> tuple[Tensor, Tensor | None]:
        """Teacher-forced pass without a cache: x [1, T, H], positions [T], mask [T, T] -> hidden [1, T, H], and with
        ``capture`` the attention weights of those columns, float32 [layers, A, T, columns]. Slow and exact."""
        c, n = self.config, x.shape[1]
        rotation = self.rotation[positions].unsqueeze(-2)
        bias = torch.zeros(mask.shape, device=x.device).masked_fill_(~mask, float("-inf"))
        captured = []
        x = x.reshape(n, -1)
        for layer in self.layers:
            y = F.linear(F.rms_norm(x, layer.norm1.shape, layer.norm1, c.rms_eps), layer.qkv, layer.qkv_bias)
            y = y.view(1, n, c.heads + 2 * c.kv_heads, c.head_dim)
            turned = self._rotate(y[:, :, :c.heads + c.kv_heads], rotation)[0].transpose(0, 1)  # [heads, T, D]
            groups = c.heads // c.kv_heads
            keys = turned[c.heads:].repeat_interleave(groups, 0)
            values = y[0, :, c.heads + c.kv_heads:].transpose(0, 1).repeat_interleave(groups, 0)
            scores = (turned[:c.heads] @ keys.transpose(1, 2)).float() * c.head_dim ** -0.5 + bias
            weights = scores.softmax(-1)
            if capture is not None:
                captured.append(weights[:, :, capture])
            y = (weights.to(x.dtype) @ values).transpose(0, 1).reshape(n, -1)
            x = torch.addmm(x, y, layer.out.t())
            gate, up = F.linear(F.rms_norm(x, layer.norm2.shape, layer.norm2, c.rms_eps), layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, F.silu(gate) * up, layer.down.t())
        hidden = F.rms_norm(x, self.norm.shape, self.norm, c.rms_eps)[None]
        return hidden, torch.stack(captured) if capture is not None else None
