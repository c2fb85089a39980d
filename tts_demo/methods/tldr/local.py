"""Decoding inside a patch: the trained modules, fused so that one local token costs a few small operators.

What depends only on the patch is computed once a patch. Cross-attention to J slots then costs a token two products with
[A J, H] matrices: the query projection is folded into the slots' keys and the output projection into their values.
Norms' weights are folded into what follows, the head into the extractor's output projection, and the base model's share
of the logits of all P positions is one product. Tests hold all of it equal to modules.py. On CUDA a whole patch is one
graph, captured over a pooled buffer of keys and values."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ...config import Sampling
from ...lm import KVCache, Sampler, Workspace
from ...lm.decoder import Decoder, fuse
from ...lm.launch import is_graph, launch, launch_passes
from ...lm.linear import Layer, direction, direction_scale, unit_rms
from .modules import AT_ONCE, LARGEST, Compressor, Extractor, ExtractorLayer, later_rows, window_mask

GREEDY = Sampler(Sampling(temperature=0))  # of a launch that samples nothing
LogitsAt = Callable[..., Tensor]  # ``PatchDecoder._logits_at`` or what does the same
SampleToken = Callable[[Tensor], Tensor]  # logits [R, V] float32 -> tokens [R]


class PatchDecoder:
    """The extractor at inference, for R rows in lockstep: fused weights. The cache passed in holds the patches at
    hand."""

    @torch.inference_mode(False)  # built when first needed, perhaps inside a run: its weights stay ordinary tensors
    @torch.no_grad()
    def __init__(self, extractor: Extractor, base: Decoder) -> None:
        """base: of the base model. Computes in its dtype, on its device; a patch is a graph if its steps are."""
        self.config, self.backend = extractor.config, base.backend
        layers, head = extractor.layers, extractor.head
        self.root = direction_scale(extractor.norm.weight.to(base.device), base.dtype)
        cast, project = base.backend.cast, base.backend.projection
        self.parallel = self.config.ablate in AT_ONCE
        self.future = None if extractor.future is None else cast(extractor.future)
        self.table = F.linear(base.embedding, cast(extractor.enter.weight))  # [V, H]: token -> input row
        self.position, self.base = cast(extractor.position), cast(extractor.base)
        self.fuse = project(extractor.fuse.weight)
        self.fuse_bias = cast(extractor.fuse.bias)
        speaker = extractor.speaker_projection
        self.speaker_projection = None if speaker is None else cast(speaker.weight)
        slots = [layer.slots for layer in layers]
        self.slots = project(torch.cat([slot.weight for slot in slots]), torch.cat([slot.bias for slot in slots]))
        self.cross = [project(self._fold_cross(layer)) for layer in layers]
        self.layers = [
            Layer(
                qkv=project(layer.qkv.weight * layer.self_norm.weight * self.root, layer.qkv.bias),
                out=project(layer.self_out.weight),
                gate_up=project(layer.gate_up.weight * layer.ffn_norm.weight * self.root),
                down=project(layer.down.weight),
            )
            for layer in layers
        ]
        self.head = project(head.weight, head.bias)
        out = extractor.out.weight * extractor.norm.weight
        self.out_head = project(head.weight.float() @ out.float() * self.root)
        self.counter = torch.arange(LARGEST, device=base.device)
        self.pool = base.backend.buffer_pool()
        width = self.config.hidden // self.config.heads
        self.no_rotation = torch.ones(1, width // 2, dtype=torch.complex64)  # positions are not rotated
        own = dict(layers=len(layers), heads=self.config.heads, kv_heads=self.config.heads, ffn=self.config.ffn)
        self.shape = replace(base.config, **own) if base.backend.lean else None

    def _fold_cross(self, layer: ExtractorLayer) -> Tensor:
        """[2 A H, slot width]: slot -> its key folded with the query, its value folded with the output projection."""
        heads = self.config.cross_heads
        by_head = lambda t, dim: t.detach().float().unflatten(dim, (heads, -1))
        # [A, D, ...]
        key, query = by_head(layer.key.weight, 0), by_head(layer.query.weight * layer.cross_norm.weight, 0)
        value, out = by_head(layer.value.weight, 0), by_head(layer.cross_out.weight, 1)  # [A, D, slot], [H, A, D]
        scale = key.shape[1] ** -0.5 * self.root
        return torch.cat(
            [
                torch.einsum("ads,adh->ahs", key, query).flatten(0, 1) * scale,
                torch.einsum("ads,had->ahs", value, out).flatten(0, 1),
            ]
        )

    def new_cache(self, rows: int = 1) -> KVCache:
        """Room for one patch of each row."""
        c, backend = self.config, self.backend
        sizes = c.layers, rows, c.heads, LARGEST, c.hidden // c.heads, backend.dtype, backend.device
        make = lambda kv: KVCache(*sizes, kv=kv)
        return make(None) if self.pool is None else self.pool.lease(make, rows)

    @torch.no_grad()
    def speaker_term(self, speaker: Tensor | None) -> Tensor:
        """speaker [E] -> the constant part of every patch context of a run [1, H]. None: a vector of zeros."""
        if self.speaker_projection is None or speaker is None:
            return self.fuse_bias[None]
        return F.linear(self.backend.cast(speaker)[None], self.speaker_projection, self.fuse_bias)

    @torch.no_grad()
    def decode(
        self, g: Tensor, speaker_term: Tensor, size: int, cache: KVCache, sample: SampleToken, confidence: float = 0.0
    ) -> Tensor:
        """Decode one patch of each row: g [R, H], ``speaker_term`` [R, H] -> tokens [R, P]. ``size`` tokens, whether or
        not speech ends among them; with a ``confidence`` the patch of a single row ends before a token (its first
        aside) whose likeliest value is less probable."""
        self._claim(cache, size)
        lean = self.shape is not None and len(g) == 1
        at = partial(self._workspace_logits, cache) if lean else self._logits_at
        tokens: list[Tensor] = []
        for logits in self._unrolled(*self._shared(g, speaker_term, size), cache.kv, at, tokens):
            if tokens and confidence and likeliest(logits) < confidence:
                break
            tokens.append(sample(logits))
        return torch.stack(tokens, 1)

    @torch.no_grad()
    def launch(
        self,
        g: Tensor,
        speaker_term: Tensor,
        size: int,
        cache: KVCache,
        sampler: Sampler,
        choose: Callable[..., SampleToken],
        *inputs: Tensor | None,
        confidence: float = 0.0,
    ) -> Tensor:
        """``decode`` of one row as one CUDA graph over a cache of the pool, without a host sync. Returns [1 + size]:
        the number n of tokens in the patch, then ``size`` tokens, of which those after the first n are to be ignored.
        ``choose(sampler, *inputs)`` returns the function that samples a token from logits [1, V]."""
        extractor = weakref.proxy(self)  # graphs live in buffers of this extractor's own pool
        self._claim(cache, size)

        def whole(kv: Tensor, sampler: Sampler, g: Tensor, speaker_term: Tensor, *inputs: Tensor | None) -> Tensor:
            sample, of_patch, tokens, sure = choose(sampler, *inputs), extractor._shared(g, speaker_term, size), [], []
            for logits in extractor._unrolled(*of_patch, kv, extractor._logits_at, tokens):
                if tokens and confidence:
                    sure.append((likeliest(logits) >= confidence).long()[None])
                tokens.append(sample(logits))
            last = torch.cat(sure).cumprod(0).sum(0, keepdim=True) if sure else torch.full_like(tokens[0], size - 1)
            return torch.cat([1 + last, *tokens])

        return launch(self.pool, cache, (size, confidence), whole, sampler, g, speaker_term, *inputs)

    def _claim(self, cache: KVCache, size: int) -> None:
        """Make the cache hold ``size`` slots, to be overwritten by the next patch."""
        if cache.length != size:
            cache.rollback(cache.length)
            cache.claim(self.counter[:size])

    def _shared(self, g: Tensor, speaker_term: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """What all tokens of a patch share: the context [R, H]; cross-attention to the J slots, folded keys and folded
        values of A heads [layers, R, 2, J A, H]; the base model's share of the logits [R, P, V]."""
        c, rows = self.config, len(g)
        context = self.fuse(g, speaker_term)
        slots = self.slots(context).view(rows, c.layers, c.slots, -1).transpose(0, 1).flatten(1, 2)
        folded = [fold(slot).view(rows, c.slots, 2, -1, c.hidden) for fold, slot in zip(self.cross, slots.unbind(0))]
        cross = torch.stack(folded).transpose(2, 3).reshape(c.layers, rows, 2, -1, c.hidden)
        base = self.head((self.base[size - 1, :size] * g[:, None]).flatten(0, 1))
        return context, cross, base.view(rows, size, -1)

    def _unrolled(
        self, context: Tensor, cross: Tensor, base: Tensor, kv: Tensor, logits_at: LogitsAt, tokens: Sequence[Tensor]
    ) -> Iterator[Tensor]:
        """Logits [R, V] of the patch's tokens, one after the other; ``tokens``: those sampled so far, each [R]. The
        context stands in place of a token before the first; in a patch decoded at once before all of them."""
        rows, size, _ = base.shape
        positions = self.position[size - 1, :size]
        if self.parallel:
            x = context[:, None] + (positions if self.future is None else positions[:1])
            logits = self._logits_at(x.flatten(0, 1), cross, base.flatten(0, 1), kv, 0)
            yield from logits.view(rows, size, -1).unbind(1)
            return
        for i, (position, start) in enumerate(zip(positions.unbind(0), base.unbind(1))):
            x = position + (F.embedding(tokens[-1], self.table) if i else context)
            yield logits_at(x, cross, start, kv, i)

    def _logits_at(self, x: Tensor, cross: Tensor, base: Tensor, kv: Tensor, start: int) -> Tensor:
        """Logits [R n, V] at positions ``start`` on, from inputs x [R n, H]: those of a row see every earlier position
        and each other (n is 1 unless parallel). base [R n, V]: the base model's share. Leaves keys and values in
        kv."""
        c, rows = self.config, kv.shape[1]
        stop = start + len(x) // rows
        for layer, slots, memory in zip(self.layers, cross.unbind(0), kv.unbind(0)):
            score, add = slots.unbind(1)  # [R, J A, H]
            weights = torch.bmm(direction(x, c.eps).view(rows, -1, c.hidden), score.transpose(1, 2))
            weights = weights.unflatten(2, (c.slots, c.cross_heads)).softmax(2).flatten(2)
            x = torch.baddbmm(x.view(rows, -1, c.hidden), weights, add).flatten(0, 1)
            y = layer.qkv(direction(x, c.eps)).view(rows, -1, 3 * c.heads, c.hidden // c.heads)
            y = y.transpose(1, 2)  # [R, 3 heads, n, D]
            live = memory[:, :, :stop]
            live[:, :, start:] = y[:, c.heads :]
            y = F.scaled_dot_product_attention(y[:, : c.heads], live[:, : c.heads], live[:, c.heads :])
            x = layer.out(y.transpose(1, 2).reshape(x.shape), x)
            gate, up = layer.gate_up(direction(x, c.eps)).chunk(2, -1)
            x = layer.down(F.silu(gate) * up, x)
        if self.future is not None:
            x = later_rows(x[:, None], self.future[: len(base) // rows - 1]).flatten(0, 1)
        return self.out_head(direction(x, c.eps), base).float()

    def _workspace_logits(self, cache: KVCache, x: Tensor, cross: Tensor, base: Tensor, kv: Tensor, i: int) -> Tensor:
        """``_logits_at`` for one position of one row, on the CPU in float32, over the memory kv of ``cache``."""
        c = self.config
        space = cache.scratch.get(1) or cache.scratch.setdefault(1, Workspace(self.shape, LARGEST, 1))

        def attend_to_slots(layer: int) -> None:
            score, add = cross[layer, 0].unbind(0)
            weights = torch.mm(space.normal(), score.t()).view(c.slots, c.cross_heads).softmax(0)
            space.x.addmm_(weights.view(1, -1), add)

        space.run(self.layers, x, cache, slice(i, i + 1), i + 1, self.no_rotation, before=attend_to_slots)
        return self.out_head(space.normal(), base)


def likeliest(logits: Tensor) -> Tensor:
    """The probability of the likeliest token of logits [1, V]: []."""
    return (logits.max() - logits.logsumexp(-1)[0]).exp()


class PatchEncoder:
    """The compressor at inference: encodes patches as they come, keeping the tokens that its window reaches."""

    SPARE = 32  # slots the cache may hold beyond the window before the oldest are evicted

    @torch.inference_mode(False)
    @torch.no_grad()
    def __init__(self, compressor: Compressor, base: Decoder) -> None:
        """base: of the base model."""
        embedding = base.embedding
        self.compressor, self.embedding = compressor.to(embedding.device, embedding.dtype), embedding
        self.config = compressor.config
        self.pool_only = self.config.ablate == "mean-pool"
        if self.pool_only:
            return
        project = base.backend.projection
        self.query = project(compressor.query.weight * compressor.query_norm.weight)
        self.key_value, self.out = project(compressor.key_value.weight), project(compressor.out.weight)
        local, shape = compressor.local, compressor.local_config
        layer = fuse(local.layers[0], shape.head_dim, base.backend)
        norm = base.backend.cast(local.norm.weight)
        self.decoder = Decoder(shape, [layer], norm, embedding, embedding, None, base.backend)
        self.reach = self.config.window + self.SPARE
        self.band = window_mask(self.reach + LARGEST, self.config.window, embedding.device)

    def new_cache(self, prompt: int) -> KVCache | None:
        """For a run whose prompt has ``prompt`` tokens; None where the compressor has no memory."""
        return None if self.pool_only else self.decoder.new_cache(max(prompt, self.reach) + LARGEST)

    @torch.no_grad()
    def encode(self, tokens: Tensor, size: int, cache: KVCache | None) -> Tensor:
        """tokens [N P], the next N patches of a run -> z [N, H]. As one CUDA graph where steps run as graphs."""
        if self.pool_only or not len(tokens):
            return self._pool(F.embedding(tokens, self.embedding).view(-1, size, self.config.hidden))
        live, count = cache.length, len(tokens)
        if len(self.band) < max(cache.capacity, live + count):
            self.band = window_mask(max(cache.capacity, live + count), self.config.window, tokens.device)
        columns = cache.capacity if is_graph(self.decoder, cache, count) else live + count
        encoder = weakref.proxy(self)

        def whole(forward: Callable[[Tensor], Tensor], sampler: Sampler, tokens: Tensor) -> Tensor:
            embedded = F.embedding(tokens, encoder.embedding).view(-1, size, encoder.config.hidden)
            x = (embedded + encoder.compressor.position[size - 1, :size]).view(1, count, -1)
            return encoder._gather(encoder._pool(embedded), forward(x)[0])

        mask = self.band[live : live + count, :columns]
        z = launch_passes(self.decoder, cache, count, size, whole, GREEDY, tokens, mask=mask)
        if cache.length > self.reach:
            cache.forget(cache.length - (self.config.window - 1))
        return z

    def _pool(self, embedded: Tensor) -> Tensor:
        """embedded [N, P, H] -> RMSNorm of each patch's mean [N, H]."""
        return unit_rms(embedded.mean(1), self.config.eps) * self.compressor.pool_norm.weight

    def _gather(self, pooled: Tensor, states: Tensor) -> Tensor:
        """``Compressor.gather`` of N patches: queries pooled [N, H], keys states [N P, H] of the same patch."""
        heads, patches = self.config.cross_heads, len(pooled)
        query = self.query(unit_rms(pooled, self.config.eps)).view(patches, heads, 1, -1)
        both = self.key_value(states).view(patches, len(states) // patches, 2, heads, -1)
        key, value = both.permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(query, key, value).reshape(patches, -1), pooled)


class PatchRows:
    """Compressor and extractor of B rows decoded in lockstep, whose patches all have ``size`` tokens."""

    def __init__(
        self,
        encoder: PatchEncoder,
        decoder: PatchDecoder,
        size: int,
        prompts: Sequence[Tensor],
        speakers: Sequence[Tensor | None],
    ) -> None:
        """prompts: tokens [N P] before the first patch of each row; speakers: [E] of each, None: a vector of zeros."""
        self.encoder, self.decoder, self.size = encoder, decoder, size
        self.speaker_terms = torch.cat([decoder.speaker_term(speaker) for speaker in speakers])
        self.patches = decoder.new_cache(len(prompts))
        self.cache, before = None, encoder.config.window - 1
        if encoder.pool_only:
            return
        self.cache = encoder.decoder.new_cache(before + encoder.reach, len(prompts))
        self.valid = torch.stack([torch.arange(before) >= before - len(prompt) for prompt in prompts])
        self.valid = self.valid.to(encoder.embedding.device)  # [B, live] which columns hold a token of the row
        # What the window of the first patch reaches. Rows of shorter prompts begin with columns that nothing sees.
        tokens = torch.stack([F.pad(p[-before:], (max(0, before - len(p)), 0)) for p in prompts])
        places = torch.arange(-before, 0, device=tokens.device) % size
        self._states(F.embedding(tokens, encoder.embedding) + encoder.compressor.position[size - 1, places])

    @torch.no_grad()
    def encode(self, tokens: Tensor) -> Tensor:
        """tokens [B, P] of the next patch of each row -> z [B, H]."""
        encoder, size = self.encoder, self.size
        embedded = F.embedding(tokens, encoder.embedding)
        pooled = encoder.compressor.pool(embedded)
        if self.cache is None:
            return pooled
        self.valid = F.pad(self.valid, (0, size), value=True)
        states = self._states(embedded + encoder.compressor.position[size - 1, :size])
        gone = self.cache.length - (encoder.config.window - 1)
        if self.cache.length + size > self.cache.capacity:
            self.cache.forget(gone)
            self.valid = self.valid[:, gone:]
        return encoder.compressor.gather(pooled, states)

    def _states(self, x: Tensor) -> Tensor:
        """What the local block makes of the next tokens x [B, n, H]; each sees those of its window that are there."""
        live, count = self.cache.length, x.shape[1]
        band = window_mask(live + count, self.encoder.config.window, x.device)[live:]
        itself = torch.ones(count, live + count, dtype=torch.bool, device=x.device).tril(live).triu(live)
        mask = band & self.valid[:, None] | itself  # so that no row of it is empty
        positions = (self.cache.next_position + torch.arange(count, device=x.device)).expand(len(x), -1)
        return self.encoder.decoder.forward(x, self.cache, positions, mask)

    def decode(self, g: Tensor, sample: SampleToken) -> Tensor:
        """g [B, H] -> tokens [B, P]."""
        return self.decoder.decode(g.to(self.speaker_terms.dtype), self.speaker_terms, self.size, self.patches, sample)
