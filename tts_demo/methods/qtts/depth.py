"""The depth decoder (QTTS, sections 2.3 and 3.1): a small Transformer over the K codebooks of one frame.

Its length is known, so decoding is static: K passes of N blocks follow each other in one unrolled computation over a
key-value block of K slots that is allocated once (the paper's stacked decoder). Nothing in it waits for the host, and
no shape depends on the data, so that a CUDA graph can hold it whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm.cache import KVCache
from .books import QTTSConfig

EPS = 1e-6


class DepthBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        for linear in (self.out, self.down):
            nn.init.normal_(linear.weight, std=0.02)  # small: the residual stream starts as what was put in

    def forward(self, x: Tensor, heads: int) -> Tensor:
        """x [R, K, W], causal over the books."""
        q, k, v = self.qkv(F.rms_norm(x, self.norm1.shape, self.norm1, EPS)).unflatten(-1, (3, heads, -1)).unbind(-3)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(F.rms_norm(x, self.norm2.shape, self.norm2, EPS)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class DepthDecoder(nn.Module):
    """hidden [R, H] of R frames and what is known of their books -> [R, K, W], from whose row k book k is predicted.

    Row 0 has read the hidden state alone; row k also the sum of the contexts of books < k, as in an RQ-Transformer.
    """

    def __init__(self, c: QTTSConfig) -> None:
        super().__init__()
        self.heads = c.depth_heads
        self.project = nn.Linear(c.hidden, c.depth_width, bias=False)
        self.places = nn.Parameter(torch.randn(c.books, c.depth_width) * 0.3)
        self.blocks = nn.ModuleList(DepthBlock(c.depth_width) for _ in range(c.depth_layers))
        self.norm = nn.Parameter(torch.ones(c.depth_width))

    def forward(self, hidden: Tensor, contexts: Tensor) -> Tensor:
        """contexts [R, K, W] of the single codes, teacher-forced; the last book's is not used."""
        below = F.pad(contexts.cumsum(1)[:, :-1], (0, 0, 1, 0))
        x = self.project(hidden)[:, None] + self.places[:contexts.shape[1]] + below
        for block in self.blocks:
            x = block(x, self.heads)
        return F.rms_norm(x, self.norm.shape, self.norm, EPS)


@dataclass(frozen=True)
class StackedDepth:
    """The depth decoder unrolled. Stateless: the key-value block comes from the run (``new_block``)."""

    module: DepthDecoder
    contexts: Tensor  # [K, entries + 1, W], the context of every code

    def new_block(self, books: int) -> KVCache:
        """K slots that every frame fills anew: claimed once, as static memory is."""
        width, heads = self.contexts.shape[-1], self.module.heads
        block = KVCache(len(self.module.blocks), 1, heads, books, width // heads, self.contexts.dtype,
                        self.contexts.device)
        block.claim(torch.arange(books, device=self.contexts.device))
        return block

    def unroll(self, hidden: Tensor, block: KVCache, draw: Callable[[int, Tensor], Tensor]) -> Tensor:
        """hidden [1, H] -> codes [K]. ``draw(k, y [1, W])`` picks book k's code [1]; ids past the entries count as padding."""
        start = self.module.project(hidden) + self.module.places[:block.capacity]
        pad, below, codes = self.contexts.shape[1] - 1, None, []
        for k in range(block.capacity):
            x = start[k:k + 1] if below is None else start[k:k + 1] + below
            for layer, (keys, values) in zip(self.module.blocks, block.layers):
                x = self._block(layer, x, keys, values, k)
            codes.append(draw(k, F.rms_norm(x, self.module.norm.shape, self.module.norm, EPS)))
            if k + 1 < block.capacity:
                context = F.embedding(codes[-1].clamp(max=pad), self.contexts[k])
                below = context if below is None else below + context
        return torch.cat(codes)

    def _block(self, layer: DepthBlock, x: Tensor, keys: Tensor, values: Tensor, k: int) -> Tensor:
        """One block on row k [1, W]; keys, values [1, heads, K, D]."""
        qkv = F.linear(F.rms_norm(x, layer.norm1.shape, layer.norm1, EPS), layer.qkv.weight)
        query, key, value = qkv.view(3, 1, self.module.heads, 1, -1)
        keys[:, :, k:k + 1], values[:, :, k:k + 1] = key, value
        y = F.scaled_dot_product_attention(query, keys[:, :, :k + 1], values[:, :, :k + 1])
        x = torch.addmm(x, y.view(1, -1), layer.out.weight.t())
        gate, up = F.linear(F.rms_norm(x, layer.norm2.shape, layer.norm2, EPS), layer.gate_up.weight).chunk(2, -1)
        return torch.addmm(x, F.silu(gate) * up, layer.down.weight.t())
