"""Version 2's token encoder: Transformer blocks with relative positions, then the same again at twice the rate.

The relative-position scores are those of Transformer-XL (Dai et al. 2019, section 3.3): a query meets a key's content
and, apart from it, the distance to it.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configs import ConformerFlowConfig
from .layers import Lookahead, PaddedConv1d, block_mask


def relative_positions(length: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Sinusoids of the distances length-1 .. -(length-1), sines on even channels. [2 length - 1, width]."""
    distance = torch.arange(length - 1, -length, -1, device=device, dtype=torch.float32)
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000) / width))
    angles = distance[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).to(dtype)


def shift_to_keys(scores: Tensor) -> Tensor:
    """Scores by distance -> scores by key. [B, A, T, 2T-1] -> [B, A, T, T].

    Row t wants the columns T-1-t .. 2T-2-t, one earlier per row. Padding one column on the left and reading the
    memory with rows one element longer does just that, without an index table.
    """
    b, a, t, _ = scores.shape
    padded = F.pad(scores, (1, 0)).view(b, a, 2 * t, t)
    return padded[:, :, 1:].reshape(b, a, t, 2 * t - 1)[..., :t]


class RelativeAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.linear_q = nn.Linear(width, width)
        self.linear_k = nn.Linear(width, width)
        self.linear_v = nn.Linear(width, width)
        self.linear_out = nn.Linear(width, width)
        self.linear_pos = nn.Linear(width, width, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(heads, width // heads))
        self.pos_bias_v = nn.Parameter(torch.zeros(heads, width // heads))

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """x: [B, T, C]; positions: [2T-1, C]; mask: [T, T] bool, True = may attend, or None. -> [B, T, C]."""
        q, k, v = (self._split(layer(x)) for layer in (self.linear_q, self.linear_k, self.linear_v))
        p = self._split(self.linear_pos(positions)[None])  # [1, A, 2T-1, D]
        bias = shift_to_keys((q + self.pos_bias_v[:, None]) @ p.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        if mask is not None:
            bias = bias.masked_fill(~mask, float("-inf"))
        y = F.scaled_dot_product_attention(q + self.pos_bias_u[:, None], k, v, attn_mask=bias)
        return self.linear_out(y.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(width, inner)
        self.w_2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(F.silu(self.w_1(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.self_attn = RelativeAttention(width, heads)
        self.feed_forward = FeedForward(width, ffn)
        self.norm_ff = nn.LayerNorm(width, eps=1e-12)
        self.norm_mha = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.norm_mha(x), positions, mask)
        return x + self.feed_forward(self.norm_ff(x))


class InputEmbedding(nn.Module):
    """Linear, LayerNorm and a scale of sqrt(width). Keys ``out.0`` and ``out.1``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width))
        self.scale = math.sqrt(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) * self.scale


class Upsample(nn.Module):
    """Every token twice, then a convolution over the past. [B, T, C] -> [B, 2T, C]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = PaddedConv1d(width, width, 5, left=4)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.transpose(1, 2).repeat_interleave(2, dim=-1)).transpose(1, 2)


class ConformerEncoder(nn.Module):
    def __init__(self, config: ConformerFlowConfig) -> None:
        super().__init__()
        width = config.token_width
        self.block_tokens = config.block_tokens
        self.embed = InputEmbedding(width)
        self.pre_lookahead_layer = Lookahead(width, width, config.lookahead)
        self.encoders = nn.ModuleList(Block(width, config.heads, config.ffn) for _ in range(config.blocks))
        self.up_layer = Upsample(width)
        self.up_embed = InputEmbedding(width)
        self.up_encoders = nn.ModuleList(Block(width, config.heads, config.ffn) for _ in range(config.up_blocks))
        self.after_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, future: Tensor | None = None, blocks: bool = False) -> Tensor:
        """Embedded tokens -> features at the mel rate. [B, T, C] -> [B, 2T, C].

        future: [B, lookahead, C] or None at the end. blocks: attention in blocks, as while streaming.
        """
        x = self.embed(x)
        x = self.pre_lookahead_layer(x, None if future is None else self.embed(future))
        x = self._run(self.encoders, x, self.block_tokens if blocks else None)
        x = self.up_embed(self.up_layer(x))
        x = self._run(self.up_encoders, x, 2 * self.block_tokens if blocks else None)
        return self.after_norm(x)

    def _run(self, layers: nn.ModuleList, x: Tensor, block: int | None) -> Tensor:
        length = x.shape[1]
        positions = relative_positions(length, x.shape[2], x.device, x.dtype)
        mask = None if block is None else block_mask(length, block, x.device)
        for layer in layers:
            x = layer(x, positions, mask)
        return x
