"""The draft model of SSD: its blocks, its input features, and its decoder."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import LMConfig
from ...lm import KVCache, LanguageModel, Projection
from ...lm.decoder import Decoder, fuse


@dataclass(frozen=True)
class DraftConfig:
    """Which blocks of the base the draft has: ``trained`` ones of its own in front, then the ``shared`` last ones."""

    trained: int
    shared: int
    layers: int  # blocks of the base
    # the block of the base whose keys and values the draft's own block attends to; the shared one attends to those of
    # its own. None: the draft has a cache of its own, of keys and values that it has made itself.
    attends: int | None = None

    def __post_init__(self) -> None:
        if self.attends is None:
            return
        if (self.trained, self.shared) != (1, 1) or not 0 <= self.attends < self.layers - 1:
            raise ValueError("A draft that attends to the base's cache has one block of its own and one shared one.")

    @classmethod
    def of(cls, config: LMConfig, base_cache: bool | None = None) -> "DraftConfig":
        """One block in six, half of them its own. The paper's draft has one in three (section 3.1, 2 + 6 of 24),
        because it has to follow the text by itself; this one reads the base model's features, which do. ``base_cache``:
        it attends to the base's keys and values (middle and last block); None: if it has one own block."""
        each = max(1, config.layers // 12)
        base_cache = each == 1 if base_cache is None else base_cache
        return cls(each, each, config.layers, max(0, config.layers // 2 - 1) if base_cache else None)

    @property
    def base_layers(self) -> slice | None:
        """The blocks of the base whose keys and values its blocks attend to, in order."""
        last = self.layers - 1
        return None if self.attends is None else slice(self.attends, self.layers, last - self.attends)


class Draft(nn.Module):
    """The trained parts of the draft: its first blocks and its head, which begin as the base's (section 2.3; the blocks
    as those right before the shared ones, not as the first), and ``feature_projection`` of its input features.

    Unlike the paper's, it reads features as in EAGLE (Li and others, 2024): to each token's embedding the projected
    hidden state of the base model at the position before is added; for tokens that the base has not read yet, the
    draft's own, which is in the same space because its last blocks and its norm are the base's.

    It has a cache of its own, or attends to the base's keys and values (``DraftConfig.attends``): then it has nothing
    to keep, and nothing to catch up with after a verification."""

    def __init__(self, lm: LanguageModel, config: DraftConfig | None = None) -> None:
        super().__init__()
        self.config = c = config or DraftConfig.of(lm.config)
        first = c.layers - c.shared - c.trained
        self.layers = nn.ModuleList(copy.deepcopy(block) for block in lm.backbone.layers[first : first + c.trained])
        self.feature_projection = nn.Linear(lm.config.hidden, lm.config.hidden, bias=False)
        self.head = copy.deepcopy(lm.head)
        nn.init.zeros_(self.feature_projection.weight)

    def use_config(self, stored: Mapping[str, Any]) -> None:
        """Be the kind of draft that a checkpoint's configuration says; older ones do not name it."""
        self.config = replace(self.config, attends=stored.get("attends"))

    def blocks(self, lm: LanguageModel) -> list[nn.Module]:
        """All blocks of the draft in order; the last ones are the base's own."""
        return [*self.layers, *lm.backbone.layers[self.config.layers - self.config.shared :]]


@torch.inference_mode(False)  # built on first use, perhaps inside a run: its weights must stay ordinary tensors
@torch.no_grad()
def draft_decoder(base: Decoder, draft: Draft) -> Decoder:
    """The draft as a decoder of its own. Shared blocks, final norm and embedding are those of the ``base`` decoder."""
    config, backend = draft.config, base.backend
    trained = [fuse(block, base.config.head_dim, backend) for block in draft.layers]
    layers = trained + base.layers[config.layers - config.shared :]
    return Decoder(
        replace(base.config, layers=len(layers)),
        layers,
        base.norm,
        base.embedding,
        backend.cast(draft.head.weight),
        backend.cast(draft.head.bias),
        backend,
    )


def cache_over(draft: Decoder, base: KVCache, layers: slice) -> KVCache:
    """The draft's cache, over the memory of ``layers`` of the base's: it attends to what the base has read, and writes
    its own keys and values behind that, where the next verification writes the base's. One for each memory of the base,
    for its graphs."""
    kv, config = base.kv[layers], draft.config
    shape = config.layers, base.batch, config.kv_heads, base.capacity, config.head_dim
    make = lambda _: KVCache(*shape, draft.dtype, draft.device, kv)
    return make(None) if draft.pool is None else draft.pool.lease(make, (base.kv.data_ptr(), *base.kv.shape))


def catch_up(cache: KVCache, base: KVCache) -> None:
    """Let a cache over the base's memory begin its next token behind what the base has read."""
    cache.length, cache.next_position = base.length, base.next_position


@torch.inference_mode(False)
@torch.no_grad()
def feature_projection(draft: Draft, decoder: Decoder) -> Projection:
    """``projection(hidden states [N, H] of the positions before, embeddings [N, H])`` -> the draft's inputs [N, H]."""
    return decoder.backend.projection(draft.feature_projection.weight)


def preceding(hidden: Tensor, start: int) -> Tensor:
    """hidden [..., T, H] -> features [..., T, H]: from row ``start`` on those of the row before, else zero."""
    return F.pad(hidden[..., start - 1 : -1, :], (0, 0, start, 0))
