"""A pass of a few tokens on the CPU in float32, where launching operators takes longer than computing: every result has
one place for the length of a run, its views are made once, each operator writes where the next one reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..config import LMConfig
from .linear import Layer, root_of_eps

if TYPE_CHECKING:
    from .cache import KVCache


class Workspace:
    """For passes of T = ``n`` tokens over one cache of one sequence. Grouped heads are rows of one query
    [kv, T groups, D], so that no key or value is repeated; a query's scale lies in its rotation."""

    def __init__(self, config: LMConfig, capacity: int, n: int) -> None:
        c, groups, pairs = config, config.heads // config.kv_heads, config.head_dim // 2
        rotated = c.heads + c.kv_heads
        self.config, self.n, self.groups = c, n, groups
        self.direction, self.added = torch.empty(2, n, c.hidden).unbind(0)
        self.longer, self.norm = torch.empty(n, c.hidden + 1), torch.empty(n, 1)
        self.x, eps = self.longer.split((c.hidden, 1), -1)
        eps.copy_(root_of_eps(c.hidden, c.rms_eps))  # within the length of ``longer``
        factors = torch.ones(n, rotated + c.kv_heads, pairs, dtype=torch.complex64)  # values are not rotated
        self.rotated_factors = factors[:, :rotated]
        self.scale = torch.ones(rotated, 1, dtype=torch.complex64)  # complex: a real one is made so at every pass
        self.scale[: c.heads] = c.head_dim**-0.5
        self.qkv = torch.empty(n, (rotated + c.kv_heads) * c.head_dim)
        self.query, self.new = self._heads(self.qkv.view(torch.complex64).view(factors.shape))
        self.query_factors, self.new_factors = self._heads(factors)
        self.rows, self.heads = torch.empty(2, c.kv_heads, n * groups, c.head_dim).unbind(0)
        self.rotated_query = self._tokens(self.rows.view(torch.complex64))
        self.scores_and_weights = torch.empty(2, c.kv_heads * n * groups * capacity)
        self.joined = torch.empty(n, c.heads * c.head_dim) if n > 1 else self.heads.view(1, -1)
        self.joins = self.joined.view(n, c.kv_heads, groups, -1), self._tokens(self.heads)
        self.wide, self.act = torch.empty(n, 2 * c.ffn), torch.empty(n, c.ffn)
        self.gate, self.up = self.wide.chunk(2, -1)

    def _heads(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """[T, A + 2 kv, D/2] -> those of queries [T, kv, groups, D/2], and of keys and values [2 kv, T, D/2]."""
        query, new = pairs.split((self.config.heads, 2 * self.config.kv_heads), 1)
        return query.unflatten(1, (-1, self.groups)), new.transpose(0, 1)

    def _tokens(self, rows: Tensor) -> Tensor:
        """[kv, T groups, ...] -> [T, kv, groups, ...], a view."""
        return rows.unflatten(1, (self.n, self.groups)).transpose(0, 1)

    def run(
        self,
        layers: Sequence[Layer],
        x: Tensor,
        cache: KVCache,
        slots: slice | Tensor,
        live: int,
        rotation: Tensor,
        bias: Tensor | None = None,
        before: Callable[[int], None] | None = None,
    ) -> None:
        """x [T, H] through all ``layers``, their keys and values into ``slots``; the first ``live`` slots are attended
        to. rotation [T, D/2]; bias [1, 1, T groups, live] is added to the scores; ``before`` each layer something else
        may change ``self.x``, which holds the result [T, H] until the next pass."""
        kv, n = self.config.kv_heads, self.n
        self.x.copy_(x)
        torch.mul(rotation[:, None], self.scale, out=self.rotated_factors)
        buffer = cache.kv.select(1, 0)  # [layers, 2 kv, S, D]
        targets = buffer.view(torch.complex64)
        scattered = isinstance(slots, Tensor)
        targets = (targets if scattered else targets.narrow(2, slots.start, n)).unbind(0)
        visible = buffer.narrow(2, 0, live)
        keys, values = visible.narrow(1, 0, kv).transpose(2, 3).unbind(0), visible.narrow(1, kv, kv).unbind(0)
        bias = None if bias is None else bias[0]
        rows = n * self.groups
        used = self.scores_and_weights.narrow(1, 0, kv * rows * live)
        scores, weights = used.view(2, kv, rows, live).unbind(0)
        for index, (layer, target, key, value) in enumerate(zip(layers, targets, keys, values)):
            if before is not None:
                before(index)
            layer.qkv.into(self.normal(), self.qkv)
            torch.mul(self.query, self.query_factors, out=self.rotated_query)
            if scattered:
                target.index_copy_(1, slots, self.new.mul_(self.new_factors))
            else:
                torch.mul(self.new, self.new_factors, out=target)
            self._attend(key, value, bias, scores, weights)
            self.x.add_(layer.out.into(self.joined, self.added))
            layer.gate_up.into(self.normal(), self.wide)
            torch.mul(torch.nn.functional.silu(self.gate, inplace=True), self.up, out=self.act)
            self.x.add_(layer.down.into(self.act, self.added))

    def normal(self) -> Tensor:
        """``direction`` of x, to be used before the next call."""
        torch.linalg.vector_norm(self.longer, dim=-1, keepdim=True, out=self.norm)
        return torch.div(self.x, self.norm, out=self.direction)

    def final(self, norm: Tensor, last: bool) -> Tensor:
        """The final norm of x: [T, H], or [1, H] of the ``last`` token alone, in new memory. norm [H]: its weight times
        ``direction_scale``. By the operators that the layers have just used: between passes weights have driven all
        others from the CPU's cache, and each that is new takes ten times as long."""
        normal = self.normal()
        return (normal[-1:] if last else normal) * norm

    def _attend(self, key: Tensor, value: Tensor, bias: Tensor | None, scores: Tensor, weights: Tensor) -> None:
        """key [kv, D, S], value [kv, S, D], bias [1, T groups, S]: from the queries to ``joined``."""
        torch.bmm(self.rows, key, out=scores)
        if bias is not None:  # two operators: ``baddbmm`` takes longer than both
            scores.add_(bias)
        torch.bmm(torch.softmax(scores, -1, out=weights), value, out=self.heads)
        if self.n > 1:
            joined, heads = self.joins
            joined.copy_(heads)
