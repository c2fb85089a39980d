"""The depth decoder (QTTS, sections 2.3 and 3.1): a small Transformer over the K codebooks of one frame.

Its length is known, so decoding is static: K passes of N blocks follow each other in one unrolled computation over a
key-value block of K slots that is allocated once (the paper's stacked decoder). Nothing in it waits for the host, and
no shape depends on the data, so that a CUDA graph can hold it whole."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm import Backend, KVCache
from ...lm.linear import Layer, unit_rms
from .codebooks import QTTSConfig

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
            nn.init.normal_(linear.weight, std=0.02)  # small: a fresh block is nearly the identity

    def forward(self, x: Tensor, heads: int) -> Tensor:
        """x [R, K, W], causal over the codebooks."""
        q, k, v = self.qkv(F.rms_norm(x, self.norm1.shape, self.norm1, EPS)).unflatten(-1, (3, heads, -1)).unbind(-3)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(F.rms_norm(x, self.norm2.shape, self.norm2, EPS)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class DepthDecoder(nn.Module):
    """hidden [R, H] of R frames and contexts of their codebooks -> [R, K, W], from whose row k codebook k is predicted.

    Row 0 has read the hidden state alone; row k also the sum of the contexts of codebooks < k, as in an
    RQ-Transformer."""

    def __init__(self, c: QTTSConfig) -> None:
        super().__init__()
        self.heads = c.depth_heads
        self.project = nn.Linear(c.hidden, c.depth_width, bias=False)
        self.positions = nn.Parameter(torch.randn(c.codebooks, c.depth_width) * 0.3)
        self.blocks = nn.ModuleList(DepthBlock(c.depth_width) for _ in range(c.depth_layers))
        self.norm = nn.Parameter(torch.ones(c.depth_width))

    def forward(self, hidden: Tensor, contexts: Tensor) -> Tensor:
        """contexts [R, K, W] of the single codes, teacher-forced; the last codebook's is not used."""
        below = F.pad(contexts.cumsum(1)[:, :-1], (0, 0, 1, 0))
        x = self.project(hidden)[:, None] + self.positions[: contexts.shape[1]] + below
        for block in self.blocks:
            x = block(x, self.heads)
        return F.rms_norm(x, self.norm.shape, self.norm, EPS)


class StackedDepth:
    """The depth decoder unrolled. Stateless: the key-value block comes from the run (``new_block``)."""

    @torch.inference_mode(False)  # built lazily, perhaps inside a run: it must stay ordinary tensors
    @torch.no_grad()
    def __init__(self, module: DepthDecoder, contexts: Tensor, backend: Backend) -> None:
        """contexts [K, entries + 1, W], of every code. CUDA graphs of a frame are captured over its pool's blocks."""
        self.pool = backend.buffer_pool()
        self.module, self.contexts, self.norm = module, contexts, module.norm.detach()
        self.blocks = [
            Layer(
                qkv=backend.projection(block.qkv.weight * block.norm1),
                out=backend.projection(block.out.weight),
                gate_up=backend.projection(block.gate_up.weight * block.norm2),
                down=backend.projection(block.down.weight),
            )
            for block in module.blocks
        ]
        self.project = backend.projection(module.project.weight)

    def new_block(self, codebooks: int, rows: int = 1) -> KVCache:
        """K slots that every frame fills anew: claimed once, as static memory is."""
        width, heads = self.contexts.shape[-1], self.module.heads
        sizes = len(self.blocks), rows, heads, codebooks, width // heads, self.contexts.dtype, self.contexts.device
        make = lambda kv: KVCache(*sizes, kv=kv)
        block = make(None) if self.pool is None else self.pool.lease(make, (codebooks, rows))
        block.claim(torch.arange(codebooks, device=self.contexts.device))
        return block

    def unrolled(self, hidden: Tensor, kv: Tensor, codebooks: int, sample: Callable[[int, Tensor], Tensor]) -> Tensor:
        """hidden [R, H] -> codes [R, K]. ``sample(k, y [R, W])``: codes [R]; ids past the entries are padding."""
        start = self.module.positions[:codebooks, None] + self.project(hidden)
        pad, below, codes = self.contexts.shape[1] - 1, None, []
        for k in range(codebooks):
            codes.append(sample(k, self._blocks(kv, k, start[k] if below is None else start[k] + below)))
            if k + 1 < codebooks:
                context = F.embedding(codes[-1].clamp(max=pad), self.contexts[k])
                below = context if below is None else below + context
        return torch.stack(codes, -1)

    def _blocks(self, kv: Tensor, k: int, x: Tensor) -> Tensor:
        """All blocks and the norm on row k, x [R, W]; kv [layers, R, 2 heads, slots, D]."""
        heads = self.module.heads
        for layer, memory in zip(self.blocks, kv.unbind(0)):
            y = layer.qkv(unit_rms(x, EPS)).view(len(x), 3 * heads, 1, -1)
            memory[:, :, k : k + 1] = y[:, heads:]
            keys, values = memory[:, :, : k + 1].chunk(2, 1)
            y = F.scaled_dot_product_attention(y[:, :heads], keys, values)
            x = layer.out(y.reshape(len(x), -1), x)
            gate, up = layer.gate_up(unit_rms(x, EPS)).chunk(2, -1)
            x = layer.down(F.silu(gate) * up, x)
        return unit_rms(x, EPS) * self.norm
