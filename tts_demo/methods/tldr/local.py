"""Decoding inside a patch: the trained modules refolded so that one local token costs a few small operators.

What depends only on the patch is computed once a patch. Cross-attention to J slots then costs a token two products
with [A J, H] matrices: the query projection is folded into the slots' keys and the output projection into their values.
The head is folded with the extractor's output projection, and the base model's share of the logits of all P places is
one product. Tests hold all of it equal to modules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lm.cache import KVCache
from ...lm.decoder import Decoder, fuse
from .modules import LARGEST, Compressor, Extractor, window_mask

Draw = Callable[[Tensor], Tensor]  # logits [1, V] float32 -> token [1]


@dataclass(frozen=True)
class LocalLayer:
    cross_norm: Tensor
    self_norm: Tensor
    qkv: Tensor  # [3 H, H]
    qkv_bias: Tensor
    out: Tensor
    ffn_norm: Tensor
    gate_up: Tensor
    down: Tensor


class PatchDecoder:
    """Lean extractor. Holds weights only; the keys and values of the patch at hand live in the cache passed in."""

    @torch.no_grad()
    def __init__(self, extractor: Extractor, embedding: Tensor) -> None:
        """embedding: [V, H] of the base model's speech tokens. Computes in its dtype, on its device."""
        self.config, self.dtype, self.device = extractor.config, embedding.dtype, embedding.device
        as_here = lambda t: t.detach().to(self.device, self.dtype)
        self.parallel = self.config.ablate == "parallel"
        full = extractor.enter.weight.float()
        self.table = as_here(embedding.float() @ full.to(self.device).t())  # [V, H]: token -> input row
        self.place, self.base = as_here(extractor.place), as_here(extractor.base)
        self.fuse, self.fuse_bias = as_here(extractor.fuse.weight), as_here(extractor.fuse.bias)
        self.voice = None if extractor.voice is None else as_here(extractor.voice.weight)
        layers = extractor.layers
        self.slots = as_here(torch.cat([layer.slots.weight for layer in layers]))
        self.slots_bias = as_here(torch.cat([layer.slots.bias for layer in layers]))
        self.cross = as_here(torch.stack([t for layer in layers for t in self._fold_cross(layer)]))  # [2 layers, slot, A H]
        self.layers = [LocalLayer(*(as_here(t) for t in (
            layer.cross_norm.weight, layer.self_norm.weight, layer.qkv.weight, layer.qkv.bias, layer.self_out.weight,
            layer.ffn_norm.weight, layer.gate_up.weight, layer.down.weight))) for layer in layers]
        self.norm = as_here(extractor.norm.weight)
        head = extractor.head
        self.head, self.head_bias = as_here(head.weight), None if head.bias is None else as_here(head.bias)
        self.out_head = as_here(head.weight.float() @ extractor.out.weight.float())  # [V, H]
        self.counter = torch.arange(LARGEST, device=self.device)

    def _fold_cross(self, layer: torch.nn.Module) -> tuple[Tensor, Tensor]:
        """Two [slot width, A H] maps of a slot: to what it scores a token by, and to what it adds to the token."""
        heads = self.config.cross_heads
        by_head = lambda t, dim: t.detach().float().unflatten(dim, (heads, -1))
        key, query = by_head(layer.key.weight, 0), by_head(layer.query.weight, 0)  # [A, D, slot], [A, D, H]
        value, out = by_head(layer.value.weight, 0), by_head(layer.cross_out.weight, 1)  # [A, D, slot], [H, A, D]
        scale = key.shape[1] ** -0.5
        return (torch.einsum("ads,adh->sah", key, query).flatten(1) * scale,
                torch.einsum("ads,had->sah", value, out).flatten(1))

    def new_cache(self) -> KVCache:
        c = self.config
        return KVCache(c.layers, 1, c.heads, LARGEST, c.hidden // c.heads, self.dtype, self.device)

    @torch.no_grad()
    def speak_as(self, speaker: Tensor | None) -> Tensor:
        """speaker [E] -> the constant part of every patch context of a run [1, H]. None: a voice of zeros."""
        if self.voice is None or speaker is None:
            return self.fuse_bias[None]
        return F.linear(speaker.to(self.device, self.dtype)[None], self.voice, self.fuse_bias)

    @torch.no_grad()
    def decode(self, g: Tensor, voice: Tensor, size: int, cache: KVCache, draw: Draw) -> Tensor:
        """Speak one patch: g [1, H], voice from ``speak_as`` -> tokens [P]. Always draws ``size`` tokens, whether or not
        speech ends among them: nothing waits for the device before the patch is whole."""
        c = self.config
        context = torch.addmm(voice, g, self.fuse.t())  # [1, H]
        slots = F.linear(context, self.slots, self.slots_bias).view(c.layers, 1, c.slots, -1)
        cross = torch.matmul(slots, self.cross.view(c.layers, 2, c.slot_width, -1))
        cross = cross.view(c.layers, 2, -1, c.hidden).unbind(0)  # per layer [2, J A, H]
        base = F.linear(self.base[size - 1, :size] * g, self.head, self.head_bias)  # [P, V]
        places = self.place[size - 1, :size]
        cache.rollback(cache.length)
        cache.claim(self.counter[:size])
        if self.parallel:
            logits = self._logits(self._rows(context + places, cross, cache, 0), base)
            return torch.cat([draw(row) for row in logits.split(1)])
        tokens: list[Tensor] = []
        for i in range(size):
            x = context if i == 0 else F.embedding(tokens[-1], self.table)
            x = self._rows(x + places[i], cross, cache, i)
            tokens.append(draw(self._logits(x, base[i:i + 1])))
        return torch.cat(tokens)

    def _logits(self, x: Tensor, base: Tensor) -> Tensor:
        x = F.rms_norm(x, self.norm.shape, self.norm, self.config.eps)
        return torch.addmm(base, x, self.out_head.t()).float()

    def _rows(self, x: Tensor, cross: tuple[Tensor, ...], cache: KVCache, start: int) -> Tensor:
        """x [n, H], places ``start`` on; sees every earlier place and all of these n rows (n is 1 unless parallel)."""
        c, n = self.config, x.shape[0]
        width, stop = (c.hidden,), start + n
        for layer, (score, add), (keys, values) in zip(self.layers, cross, cache.layers):
            weights = F.linear(F.rms_norm(x, width, layer.cross_norm, c.eps), score).view(n, c.slots, c.cross_heads)
            x = torch.addmm(x, weights.softmax(1).view(n, -1), add)
            y = F.linear(F.rms_norm(x, width, layer.self_norm, c.eps), layer.qkv, layer.qkv_bias)
            query, key, value = y.view(1, n, 3, c.heads, -1).transpose(1, 3).unbind(2)  # each [1, heads, n, D]
            keys[:, :, start:stop], values[:, :, start:stop] = key, value
            y = F.scaled_dot_product_attention(query, keys[:, :, :stop], values[:, :, :stop])
            x = torch.addmm(x, y.transpose(1, 2).reshape(n, -1), layer.out.t())
            gate, up = F.linear(F.rms_norm(x, width, layer.ffn_norm, c.eps), layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, F.silu(gate) * up, layer.down.t())
        return x


class PatchEncoder:
    """Lean compressor: feeds patches as they come, keeping the few token keys and values its window reaches."""

    SPARE = 32  # slots the cache may hold beyond the window before the oldest are evicted

    @torch.no_grad()
    def __init__(self, compressor: Compressor, embedding: Tensor) -> None:
        self.compressor, self.embedding = compressor.to(embedding.device, embedding.dtype), embedding
        self.config = compressor.config
        self.pool_only = self.config.ablate == "mean-pool"
        if self.pool_only:
            return
        local, shape = compressor.local, compressor.local_config
        layer = fuse(local.layers[0], 0, None, shape.head_dim, embedding.dtype)
        self.decoder = Decoder(shape, [layer], local.norm.weight.detach().to(embedding.dtype), embedding, embedding)
        reach = self.config.window + self.SPARE
        self.band = window_mask(reach + LARGEST, self.config.window, embedding.device)
        self.reach = reach

    def new_cache(self, prompt: int) -> KVCache | None:
        """For a run whose prompt has ``prompt`` tokens; None where the compressor has no memory."""
        return None if self.pool_only else self.decoder.new_cache(max(prompt, self.reach) + LARGEST)

    @torch.no_grad()
    def encode(self, tokens: Tensor, size: int, cache: KVCache | None) -> Tensor:
        """tokens [N P], the next N patches of a run -> z [N, H]."""
        embedded = F.embedding(tokens, self.embedding).view(-1, size, self.config.hidden)
        pooled = self.compressor.pool(embedded)
        if self.pool_only or not len(embedded):
            return pooled
        if cache.length > self.reach:
            old = cache.length - (self.config.window - 1)
            cache.keep(torch.arange(cache.length, device=cache.positions.device) >= old)
        live, count = cache.length, len(tokens)
        fits = live + count <= len(self.band)
        mask = self.band if fits else window_mask(live + count, self.config.window, tokens.device)
        x = (embedded + self.compressor.place[size - 1, :size]).view(1, count, -1)
        states = self.decoder.forward(x, cache, cache.next_position, mask[live:live + count, :live + count])
        return self.compressor.gather(pooled, states.view(-1, size, self.config.hidden))
