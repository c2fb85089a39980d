"""The draft model of SSD: its blocks, its input features, and its decoder."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import LMConfig
from ...lm.decoder import Decoder, fuse
from ...lm.linear import Projection
from ...lm.model import LanguageModel


@dataclass(frozen=True)
class DraftConfig:
    """Which blocks of the base the draft has: ``trained`` ones of its own in front, then the ``shared`` last ones."""

    trained: int
    shared: int
    layers: int  # blocks of the base

    @classmethod
    def of(cls, config: LMConfig) -> DraftConfig:
        """One block in six, half of them its own. The paper's draft has one in three (section 3.1, 2 + 6 of 24),
        because it has to follow the text by itself; this one reads the base model's features, which do."""
        each = max(1, config.layers // 12)
        return cls(each, each, config.layers)


class Draft(nn.Module):
    """The trained parts of the draft: its first blocks and its head, which begin as the base's (section 2.3; the blocks
    as those right before the shared ones, not as the first), and ``feature_projection`` of its input features.

    Unlike the paper's, it reads features as in EAGLE (Li and others, 2024): to each token's embedding the projected
    hidden state of the base model at the position before is added; for tokens that the base has not read yet, the
    draft's own, which is in the same space because its last blocks and its norm are the base's.
    """

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__()
        self.config = c = DraftConfig.of(lm.config)
        first = c.layers - c.shared - c.trained
        self.layers = nn.ModuleList(copy.deepcopy(block) for block in lm.backbone.layers[first : first + c.trained])
        self.feature_projection = nn.Linear(lm.config.hidden, lm.config.hidden, bias=False)
        self.head = copy.deepcopy(lm.head)
        nn.init.zeros_(self.feature_projection.weight)

    def blocks(self, lm: LanguageModel) -> list[nn.Module]:
        """All blocks of the draft in order; the last ones are the base's own."""
        return [*self.layers, *lm.backbone.layers[self.config.layers - self.config.shared :]]


@torch.inference_mode(False)  # built on first use, perhaps inside a run: its weights must stay ordinary tensors
@torch.no_grad()
def draft_decoder(base: Decoder, draft: Draft) -> Decoder:
    """The draft as a decoder of its own. Shared blocks, final norm and embedding are those of the ``base`` decoder."""
    config, backend, bias = draft.config, base.backend, draft.head.bias
    trained = [fuse(block, base.config.head_dim, backend) for block in draft.layers]
    layers = trained + base.layers[config.layers - config.shared :]
    return Decoder(
        replace(base.config, layers=len(layers)),
        layers,
        base.norm,
        base.embedding,
        backend.cast(draft.head.weight),
        None if bias is None else backend.cast(bias),
        backend,
    )


@torch.inference_mode(False)
@torch.no_grad()
def feature_projection(draft: Draft, decoder: Decoder) -> Projection:
    """``projection(features, x)``: hidden states [N, H] of the positions before, and embeddings x [N, H] -> the draft's
    inputs [N, H]."""
    return decoder.backend.projection(draft.feature_projection.weight)


def preceding(hidden: Tensor, start: int) -> Tensor:
    """hidden [..., T, H] -> the features of each row [..., T, H]: for speech, from row ``start`` on, the hidden state
    of the row before it; zero for the prefix."""
    return F.pad(hidden[..., start - 1 : -1, :], (0, 0, start, 0))
