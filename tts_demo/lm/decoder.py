"""Inference through a Qwen2 backbone: fused weights, static cache slices, no autograd, few operators a layer.

The methods choose inputs, positions and masks. Tests compare it with the forward pass of transformers (model.py)."""

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import LMConfig
from .backend import Backend
from .cache import KVCache
from .linear import Layer, Projection, direction, direction_scale, unit_rms
from .lora import LoraFactors, LoraSum
from .masks import ALIGNED, additive, empty_bias
from .model import LanguageModel
from .workspace import Workspace

Cache = TypeVar("Cache", bound=KVCache)
# (layer, query [B, T, A, D], key [B, kv, S, D], both rotated): called in every layer of a pass. May return the products
# [A, T, S] of queries and keys to use instead of the plain ones, for one sequence.
Hook = Callable[[int, Tensor, Tensor], Tensor | None]
FEW = 16  # new tokens up to which a pass is a step: its causal bias is kept, and on CUDA it is a graph
CAPACITY_STEP = 256  # pooled capacities are multiples of this, so that runs of about one length share buffers


def _pair_up(weight: Tensor, head_dim: int) -> Tensor:
    """Reorder rows (heads x D) from [first halves | second halves] to neighbouring rotary pairs."""
    rows = weight.reshape(-1, 2, head_dim // 2, *weight.shape[1:])
    return rows.transpose(1, 2).reshape(weight.shape)


def fuse(
    block: torch.nn.Module, head_dim: int, backend: Backend, index: int = 0, lora: LoraFactors | LoraSum | None = None
) -> Layer:
    """One Qwen2 block with fused weights, with what ``lora`` adds to block number ``index`` merged in. Merged and fused
    in float32, then rounded once. Rows of query and key are ordered so that the two elements of a rotary pair are
    adjacent: the rotation is then one complex product. Scores do not change, as both are permuted alike."""
    attention, mlp = block.self_attn, block.mlp

    def weight(module: torch.nn.Module, name: str) -> Tensor:
        module = getattr(module, "base_layer", module)  # look through a LoRA wrapper that training may have left on
        delta = lora.delta(index, name) if lora is not None else None
        base = module.weight.detach().float()
        return base if delta is None else base + delta.to(base.device)

    def bias(module: torch.nn.Module) -> Tensor:
        return getattr(module, "base_layer", module).bias.detach()

    q, k, v = (weight(getattr(attention, n), n) for n in ("q_proj", "k_proj", "v_proj"))
    qb, kb, vb = (bias(getattr(attention, n)) for n in ("q_proj", "k_proj", "v_proj"))
    root = direction_scale(block.input_layernorm.weight, backend.dtype)
    norms = block.input_layernorm, block.post_attention_layernorm
    norm1, norm2 = (norm.weight.detach().float() * root for norm in norms)
    qkv = torch.cat([_pair_up(q, head_dim), _pair_up(k, head_dim), v]) * norm1
    gate_up = torch.cat([weight(mlp.gate_proj, "gate_proj"), weight(mlp.up_proj, "up_proj")]) * norm2
    return Layer(
        qkv=backend.projection(qkv, torch.cat([_pair_up(qb, head_dim), _pair_up(kb, head_dim), vb])),
        out=backend.projection(weight(attention.o_proj, "o_proj")),
        gate_up=backend.projection(gate_up),
        down=backend.projection(weight(mlp.down_proj, "down_proj")),
    )


class Decoder:
    """Weights only. Everything that changes during a run is in the KVCache that is passed in. Only the pool of cache
    buffers for CUDA graphs and the causal bias of a few new tokens outlive a run."""

    def __init__(
        self,
        config: LMConfig,
        layers: Sequence[Layer],
        norm: Tensor,
        embedding: Tensor,
        head: Tensor,
        head_bias: Tensor | None,
        backend: Backend,
    ) -> None:
        """Of ``backend``'s device and dtype."""
        self.config, self.layers, self.norm, self.backend = config, list(layers), norm, backend
        self.scaled_norm = norm * direction_scale(norm, norm.dtype)
        self.embedding, self.head, self.head_bias = embedding, head, head_bias  # [V, H], [V, H], [V] or None
        self.device, self.dtype = backend.device, backend.dtype
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        angles = torch.arange(config.max_positions, dtype=torch.float64)[:, None] * config.rope_theta**-half
        self.rotation = torch.polar(torch.ones_like(angles), angles).to(torch.complex64).to(self.device)  # [pos, D/2]
        self.counter = torch.arange(config.max_positions, device=self.device)
        self.pool = backend.buffer_pool()
        # causal bias, the last columns of a wide one, by the number of new tokens and the remainder of the columns
        self._triangles: dict[tuple[int, int], Tensor] = {}
        self._no_rotation = self.rotation.new_ones(1, config.kv_heads, config.head_dim // 2)  # values are not rotated

    @cached_property
    @torch.inference_mode(False)  # first asked for inside a run, and outlives it
    @torch.no_grad()
    def to_vocabulary(self) -> Projection:
        """float32 -> float32, whatever the layers compute in: bfloat16 would round a logit of 16 to steps of 0.125."""
        return self.backend.with_dtype(torch.float32).projection(self.head, self.head_bias)

    @property
    def graphed(self) -> bool:
        """Whether steps run as CUDA graphs."""
        return self.pool is not None

    @property
    def precision(self) -> str:
        """The dtype of activations, and of the weights where that differs."""
        matrices = [m for layer in self.layers for m in (layer.qkv, layer.out, layer.gate_up, layer.down)]
        halved = any(matrix.halved for matrix in (*matrices, self.to_vocabulary))
        return str(self.dtype).removeprefix("torch.") + (", weights float16" if halved else "")

    @classmethod
    @torch.inference_mode(False)  # built lazily, perhaps inside a run: its weights must stay ordinary tensors
    @torch.no_grad()
    def from_model(
        cls, lm: LanguageModel, lora: LoraFactors | LoraSum | None = None, backend: Backend | None = None
    ) -> "Decoder":
        """Fuse (and merge LoRA into) the weights of ``lm``. backend: None = of the model's device and dtype. Weights
        that need no fusing are shared with ``lm`` in memory."""
        backend = backend or Backend(lm.device, lm.dtype)
        fused = [fuse(block, lm.config.head_dim, backend, i, lora) for i, block in enumerate(lm.backbone.layers)]
        return cls(
            lm.config,
            fused,
            backend.cast(lm.backbone.norm.weight),
            backend.cast(lm.speech_embedding.weight),
            backend.cast(lm.head.weight),
            backend.cast(lm.head.bias),
            backend,
        )

    def new_cache(self, capacity: int, batch: int = 1) -> KVCache:
        """An empty cache of at least ``capacity`` slots."""
        c = self.config
        make = lambda kv, slots: KVCache(c.layers, batch, c.kv_heads, slots, c.head_dim, self.dtype, self.device, kv)
        return self.lease(make, capacity, batch)

    def lease(self, make: Callable[[Tensor | None, int], Cache], capacity: int, batch: int = 1) -> Cache:
        """``make(kv, capacity)``: an empty cache of at least ``capacity`` slots over the memory kv, None = new memory.
        Where steps run as graphs, the memory is the pool's."""
        if self.pool is None:
            return make(None, capacity)
        capacity = -(-capacity // CAPACITY_STEP) * CAPACITY_STEP
        return self.pool.lease(lambda kv: make(kv, capacity), (capacity, batch))

    def embed(self, codes: Tensor) -> Tensor:
        """codes [...] of the first codebook -> [..., H]."""
        return F.embedding(codes, self.embedding)

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., H] -> [..., V] in float32."""
        return self.to_vocabulary(hidden.reshape(-1, hidden.shape[-1]).float()).view(*hidden.shape[:-1], -1)

    @torch.no_grad()
    def forward(
        self,
        x: Tensor,
        cache: KVCache,
        positions: Tensor | int,
        mask: Tensor | None = None,
        hook: Hook | None = None,
        last: bool = False,
    ) -> Tensor:
        """x [B, T, H] -> hidden [B, T, H] after the final norm; T slots are appended to the cache.

        positions [T] logical, or an int: consecutive from there. mask [T, live + T] bool, or [B, T, live + T] for rows
        of unequal length (positions [B, T]); None: new tokens are causal among themselves and see every live slot.
        hook: here it only looks (such a pass is a CUDA graph only as a part of a launch, see launch.py). last: only the
        last token's hidden state [B, 1, H] is wanted, so the last block works out no other."""
        n = x.shape[1]
        if isinstance(positions, int):
            if positions + n > self.config.max_positions:
                raise ValueError(f"position {positions + n} lies beyond the model's {self.config.max_positions}")
            rotation, positions = self.rotation[positions : positions + n], self.counter[positions : positions + n]
        else:
            rotation = self.rotation[positions]
        slots = cache.claim(positions if positions.dim() == 1 else positions.amax(0))
        if self.pool is not None and n <= FEW and positions.dim() == 1 and cache in self.pool and hook is None:
            hidden = self._graphed_step(x, cache, self.counter[slots], positions, mask)
            return hidden[:, -1:] if last else hidden
        if self.backend.lean and n <= FEW and len(x) == 1 and positions.dim() == 1 and hook is None:
            bias = None if mask is None and n == 1 else self._bias(mask, n, cache.attended, x)
            workspace = cache.scratch.get(n) or cache.scratch.setdefault(n, Workspace(self.config, cache.capacity, n))
            workspace.run(self.layers, x[0], cache, slots, cache.attended, rotation, bias)
            return workspace.final(self.scaled_norm, last)[None]
        live = cache.kv.narrow(3, 0, cache.attended)
        if isinstance(slots, Tensor):  # apart from each other
            return self._blocks(x, rotation, cache.kv, slots, live, mask, hook, last)
        return self._blocks(x, rotation, cache.kv.narrow(3, slots.start, n), None, live, mask, hook, last)

    def _graphed_step(self, x: Tensor, cache: KVCache, slots: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """A pass over the claimed ``slots`` [T] as a graph; mask [T, live] as ``forward`` takes it."""
        decoder = weakref.proxy(self)  # graphs live in buffers of this decoder's own pool
        step = lambda buffer, x, *inputs: decoder.forward_static(x, buffer.kv, *inputs)
        if mask is not None:
            mask = F.pad(mask, (0, cache.capacity - mask.shape[1]))
        return self.pool.run(cache, "pass", step, x, slots, positions, mask)

    @torch.no_grad()
    def forward_static(
        self,
        x: Tensor,
        kv: Tensor,
        slots: Tensor,
        positions: Tensor,
        mask: Tensor | None = None,
        hook: Hook | None = None,
    ) -> Tensor:
        """``forward`` in fixed shapes, for CUDA graphs: kv of a cache, slots [T] and positions [T] on the device,
        attention over all of kv under mask [T, S] (None: causal by slot). Claims no slots."""
        if mask is None:
            mask = self.counter[: kv.shape[3]] <= slots[:, None]
        return self._blocks(x, self.rotation[positions], kv, slots, kv, mask, hook)

    def _blocks(
        self,
        x: Tensor,
        rotation: Tensor,
        target: Tensor,
        slots: Tensor | None,
        live: Tensor,
        mask: Tensor | None,
        hook: Hook | None = None,
        last: bool = False,
    ) -> Tensor:
        """All blocks and the final norm. rotation [T, D/2] or [B, T, D/2]; target: the buffer [layers, B, 2 kv, T, D]
        for new keys and values (with ``slots`` the whole one); live: what is attended to; mask None: causal."""
        c, (batch, n, _) = self.config, x.shape
        heads = c.heads + c.kv_heads
        rotation = rotation.unsqueeze(-2)
        rotation = torch.cat(
            [rotation.expand(*rotation.shape[:-2], heads, -1), self._no_rotation.expand(*rotation.shape[:-2], -1, -1)],
            -2,
        )  # [(B,) T, A + 2 kv, D/2]
        rotation = rotation.expand(batch, n, -1, -1).reshape(batch * n, -1)  # a row for each row of x
        split = c.heads * c.head_dim, 2 * c.kv_heads * c.head_dim
        bias = None if mask is None and n == 1 else self._bias(mask, n, live.shape[3], x)
        keys, values = live.narrow(2, 0, c.kv_heads).unbind(0), live.narrow(2, c.kv_heads, c.kv_heads).unbind(0)
        x = x.reshape(batch * n, -1)
        for index, (layer, into, key, value) in enumerate(zip(self.layers, target.unbind(0), keys, values)):
            query, new = self._rotate(layer.qkv(direction(x, c.rms_eps)), rotation).split_with_sizes(split, -1)
            new = new.view(batch, -1, 1, c.head_dim) if n == 1 else new.view(batch, n, -1, c.head_dim).transpose(1, 2)
            into.copy_(new) if slots is None else into.index_copy_(2, slots, new)
            query = query.view(batch, n, c.heads, c.head_dim)
            products = None if hook is None else hook(index, query, key)
            # of the other tokens only keys and values are needed
            if last and n > 1 and index == len(self.layers) - 1:
                query, x, n = query[:, -1:], x.view(batch, n, -1)[:, -1], 1
                bias = None if mask is None else bias[:, :, -(c.heads // c.kv_heads) :]
            attended = self._attend(query, key, value, bias) if products is None else self._weigh(products, value, mask)
            x = layer.out(attended, x)
            gate, up = layer.gate_up(direction(x, c.rms_eps)).chunk(2, -1)
            x = layer.down(F.silu(gate).mul_(up), x)
        return self._final_norm(x).view(batch, n, -1)

    def _final_norm(self, x: Tensor) -> Tensor:
        """x [R, H] normalised in float32 and rounded once."""
        if x.dtype == torch.float32:
            return unit_rms(x, self.config.rms_eps) * self.norm
        return F.rms_norm(x.float(), self.norm.shape, self.norm.float(), self.config.rms_eps).to(x.dtype)

    def _bias(self, mask: Tensor | None, rows: int, columns: int, x: Tensor) -> Tensor:
        """A mask [T, S] or [B, T, S], None = causal, as what is added to scores [B or 1, 1, T groups, S]: heads that
        share a KV head are rows of one query. Made once a pass; for the few tokens of a step once a decoder."""
        if mask is None:
            if rows > FEW:
                return self._grouped(x.new_full((1, rows, columns), float("-inf")).triu_(columns - rows + 1))
            key = rows, columns % ALIGNED  # so that the columns begin where a vector does
            wide = self._triangles.get(key)
            if wide is None or wide.shape[-1] < columns:
                wide = self._triangles[key] = self._triangle(rows, columns + columns // ALIGNED * ALIGNED)
            return wide.narrow(-1, wide.shape[-1] - columns, columns)
        bias = additive(mask, x.dtype)
        return self._grouped(bias if mask.dim() == 3 else bias[None])

    @torch.inference_mode(False)  # it outlives the run that first asks for it
    def _triangle(self, rows: int, columns: int) -> Tensor:
        bias = torch.full((1, rows, columns), float("-inf"), dtype=self.dtype, device=self.device)
        return self._grouped(bias.triu_(columns - rows + 1))

    def _grouped(self, bias: Tensor) -> Tensor:
        """[B, T, S] -> [B, 1, T groups, S], as CUDA's attention takes it."""
        groups, (batch, rows, columns) = self.config.heads // self.config.kv_heads, bias.shape
        grouped = empty_bias(bias, batch, 1, rows * groups, columns)
        grouped.unflatten(2, (rows, groups)).copy_(bias[:, None, :, None])
        return grouped

    def _rotate(self, y: Tensor, rotation: Tensor) -> Tensor:
        """Rotary embedding of y [..., D'] by complex rotation [..., D'/2]; float32 in place."""
        if y.dtype == torch.float32:
            y.view(torch.complex64).mul_(rotation)
            return y
        return (y.float().view(torch.complex64) * rotation).view(torch.float32).to(y.dtype)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        """query [B, T, A, D], key and value [B, kv, S, D] -> [B T, A D]. Grouped heads become rows of one query."""
        batch, n, heads, dim = query.shape
        kv_heads = key.shape[1]
        if n == 1 or kv_heads == 1:  # the rows lie as they should
            query = query.reshape(batch, kv_heads, -1, dim)
            return F.scaled_dot_product_attention(query, key, value, attn_mask=bias).reshape(batch * n, -1)
        query = query.reshape(batch, n, kv_heads, -1, dim).transpose(1, 2).reshape(batch, kv_heads, -1, dim)
        y = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return y.unflatten(2, (n, -1)).transpose(1, 2).reshape(batch * n, heads * dim)

    def _weigh(self, products: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Attention by a hook's products [A, T, S], mask [T, S]; value [1, kv, S, D] -> [T, A D]."""
        values = value[0].repeat_interleave(self.config.heads // self.config.kv_heads, 0)
        return (self._weights(products, mask).to(values.dtype) @ values).transpose(0, 1).flatten(1)

    def _weights(self, products: Tensor, mask: Tensor) -> Tensor:
        """products [A, T, S] -> attention weights, float32."""
        return (products.float() * self.config.head_dim**-0.5 + additive(mask, torch.float32)).softmax(-1)

    @torch.no_grad()
    def full(
        self,
        x: Tensor,
        positions: Tensor,
        mask: Tensor,
        capture: slice | None = None,
        hook: Hook | None = None,
        past: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Teacher-forced pass without a cache: x [1, T, H], positions [T], mask [T, T] -> hidden [1, T, H], and with
        ``capture`` the attention weights of those columns, float32 [layers, A, T, columns]. past
        [layers, 1, 2 kv, P, D]: keys and values of P columns in front, of which there are no inputs; mask
        [T, P + T]."""
        c, captured = self.config, []

        def captured_hook(layer: int, query: Tensor, key: Tensor) -> Tensor | None:
            products = None if hook is None else hook(layer, query, key)
            scores = products
            if scores is None:
                keys = key[0].repeat_interleave(c.heads // c.kv_heads, 0)
                scores = query[0].transpose(0, 1) @ keys.transpose(1, 2)
            captured.append(self._weights(scores, mask)[:, :, capture].clone())
            return products

        new = x.new_empty(c.layers, 1, 2 * c.kv_heads, x.shape[1], c.head_dim)
        kv = new if past is None else torch.cat([past, new], 3)
        hidden = self._blocks(
            x,
            self.rotation[positions],
            kv.narrow(3, kv.shape[3] - x.shape[1], x.shape[1]),
            None,
            kv,
            mask,
            hook if capture is None else captured_hook,
        )
        return hidden, torch.stack(captured) if captured else None


class Base:
    """A language model with the decoder that every method uses. Make it after the weights are loaded and moved: the
    decoder holds fused copies, which later changes of the model do not reach."""

    def __init__(self, lm: LanguageModel, exact: bool = False, graphed: bool = True) -> None:
        """exact, graphed: see ``Backend``."""
        self.lm, self.config = lm, lm.config
        self.backend = Backend(lm.device, lm.dtype, exact, graphed)

    @cached_property
    def decoder(self) -> Decoder:
        """Of the weights without any adapter."""
        return Decoder.from_model(self.lm, backend=self.backend)

    def merged(self, lora: LoraFactors | LoraSum) -> Decoder:
        """A decoder of its own with ``lora`` merged into the weights."""
        return Decoder.from_model(self.lm, lora, backend=self.backend)
