"""Version 2's token encoder: Transformer blocks with relative positions, then the same again at twice the rate.

The relative-position scores are those of Transformer-XL (Dai et al. 2019, section 3.3): a query meets a key's content
and, apart from it, the distance to it.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm.masks import empty_bias
from .configs import ConformerFlowConfig
from .layers import Lookahead, PaddedConv1d, attention_mask, chain
from .memory import Memory


def relative_positions(length: int, width: int, device: torch.device, dtype: torch.dtype, past: int = 0) -> Tensor:
    """Sinusoids of the distances from ``length`` queries, behind the first ``past`` positions, to all keys, sines on
    even channels: past + length - 1, ... one less a row. [past + 2 length - 1, width]."""
    distance = torch.arange(past + length - 1, -length, -1, device=device).float()
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000) / width))
    angles = distance[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).to(dtype)


def shift_to_keys(scores: Tensor) -> Tensor:
    """Scores by distance -> scores by key. [B, A, T, S + T - 1] -> [B, A, T, S].

    Row t wants the columns from T-1-t on, one earlier per row. Padding one column on the left and reading the memory
    from element T on with rows of the old length does just that, without an index table.
    """
    rows, columns = scores.shape[-2:]
    shifted = F.pad(scores, (1, 0)).flatten(-2)[..., rows:].unflatten(-1, (rows, columns))
    return shifted[..., : columns - rows + 1]


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

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor | None, memory: Memory | None = None) -> Tensor:
        """x: [B, T, C]; positions: [S + T - 1, C] for S keys; mask: [T, S] bool, True = may attend, or None; memory: of
        what came before x. -> [B, T, C]."""
        q, k, v = (self._split(layer(x)) for layer in (self.linear_q, self.linear_k, self.linear_v))
        if memory is not None:
            k, v = memory.extended(self, k, v)
        p = self._split(self.linear_pos(positions)[None])  # [1, A, S + T - 1, D]
        bias = shift_to_keys((q + self.pos_bias_v[:, None]) @ p.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        if mask is not None:
            bias = bias.masked_fill(~mask, float("-inf"))
        bias = empty_bias(bias, *bias.shape).copy_(bias)
        y = F.scaled_dot_product_attention(q + self.pos_bias_u[:, None], k, v, attn_mask=bias)
        return self.linear_out(y.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.self_attn = RelativeAttention(width, heads)
        self.feed_forward = chain(w_1=nn.Linear(width, ffn), act=nn.SiLU(), w_2=nn.Linear(ffn, width))
        self.norm_ff = nn.LayerNorm(width, eps=1e-12)
        self.norm_mha = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor | None, memory: Memory | None = None) -> Tensor:
        x = x + self.self_attn(self.norm_mha(x), positions, mask, memory)
        return x + self.feed_forward(self.norm_ff(x))


class ScaledProjection(nn.Module):
    """Linear, LayerNorm and a scale of sqrt(width). Keys ``out.0`` and ``out.1``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width))
        self.scale = math.sqrt(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x) * self.scale


class ConformerEncoder(nn.Module):
    def __init__(self, config: ConformerFlowConfig) -> None:
        super().__init__()
        width = config.token_width
        self.block_tokens = config.block_tokens
        self.embed = ScaledProjection(width)
        self.pre_lookahead_layer = Lookahead(width, width, config.lookahead)
        self.encoders = nn.ModuleList(Block(width, config.heads, config.ffn) for _ in range(config.blocks))
        self.up_layer = chain(conv=PaddedConv1d(width, width, 5, left=4))
        self.up_embed = ScaledProjection(width)
        self.up_encoders = nn.ModuleList(Block(width, config.heads, config.ffn) for _ in range(config.up_blocks))
        self.after_norm = nn.LayerNorm(width)

    def forward(
        self,
        x: Tensor,
        future: Tensor | None = None,
        blocks: bool = False,
        memory: Memory | None = None,
        known: int = 0,
    ) -> Tensor:
        """Embedded tokens -> features at the mel rate. [B, T, C] -> [B, 2 (T - known), C].

        future: [B, lookahead, C] or None at the end. blocks: attention in blocks, as while streaming. memory: of the
        tokens before x, of which the first ``known`` of x are the last (the look-ahead layer sees so many back).
        """
        x = self.embed(x)
        x = self.pre_lookahead_layer(x, None if future is None else self.embed(future))[:, known:]
        x = self._run(self.encoders, x, self.block_tokens if blocks else None, memory, 1)
        doubled = x.transpose(1, 2).repeat_interleave(2, dim=-1)  # every token twice
        x = self.up_embed(self.up_layer.conv(doubled, memory and memory.at(2)).transpose(1, 2))
        x = self._run(self.up_encoders, x, 2 * self.block_tokens if blocks else None, memory, 2)
        return self.after_norm(x)

    def _run(self, layers: nn.ModuleList, x: Tensor, block: int | None, memory: Memory | None, rate: int) -> Tensor:
        """rate: positions of x a token."""
        memory = memory and memory.at(rate)
        past, length = 0 if memory is None else memory.past, x.shape[1]
        positions = relative_positions(length, x.shape[2], x.device, x.dtype, past)
        mask = attention_mask(length, block, x.device, past)
        for layer in layers:
            x = layer(x, positions, mask, memory)
        return x
