"""A wider language model that begins as a narrow one: what a small model learnt of following a text is not learnt twice
(T. Chen and others, "Net2Net", 2016, section 2.3)."""

import torch
from torch import Tensor, nn

from ..config import LMConfig, UserError
from ..lm.model import LanguageModel


@torch.no_grad()
def widened(narrow: LanguageModel, config: LMConfig) -> LanguageModel:
    """A model of shape ``config`` that does with inputs whose new dimensions are 0 what ``narrow`` does: its blocks,
    markers and voice are those of ``narrow``, with weights beside them that have no say yet. Text and speech tables and
    the head are new. Raises UserError where heads do not fit."""
    old, wide = narrow.config, LanguageModel(config)
    if config.layers != old.layers or config.hidden < old.hidden or config.head_dim != old.head_dim:
        raise UserError(f"A model of width {config.hidden} cannot begin as one of width {old.hidden}.")
    keys, dim = _keys(old, config), config.head_dim
    same = torch.cat([torch.arange(key * dim, (key + 1) * dim) for key in keys])
    for new, known in zip(wide.backbone.layers, narrow.backbone.layers):
        into, out = new.self_attn, known.self_attn
        _copy(into.q_proj, out.q_proj, slice(0, old.heads * dim))
        for name in ("k_proj", "v_proj"):
            _copy(getattr(into, name), getattr(out, name), slice(None), same)
        for name in ("gate_proj", "up_proj"):
            _copy(getattr(new.mlp, name), getattr(known.mlp, name), slice(0, old.ffn))
        for linear, source in ((into.o_proj, out.o_proj), (new.mlp.down_proj, known.mlp.down_proj)):
            nn.init.zeros_(linear.weight)
            _copy(linear, source, slice(0, old.hidden))
        for name in ("input_layernorm", "post_attention_layernorm"):
            _copy_norm(getattr(new, name), getattr(known, name))
    _copy_norm(wide.backbone.norm, narrow.backbone.norm)
    for into, out in ((wide.markers, narrow.markers), (wide.speaker_proj, narrow.speaker_proj)):
        if into is not None and out is not None:
            nn.init.zeros_(into.weight)
            into.weight[tuple(slice(n) for n in out.weight.shape)] = out.weight
            if isinstance(into, nn.Linear):
                nn.init.zeros_(into.bias)
                into.bias[: old.hidden] = out.bias
    return wide


def _keys(old: LMConfig, new: LMConfig) -> list[int]:
    """Which key head of the old model each of the new one's is."""
    group, was = new.heads // new.kv_heads, old.heads // old.kv_heads
    served = [[min(h, old.heads - 1) // was for h in range(j * group, (j + 1) * group)] for j in range(new.kv_heads)]
    if any(len(set(some)) > 1 for some in served):
        raise UserError(f"{old.heads} heads on {old.kv_heads} keys do not fit {new.heads} on {new.kv_heads}.")
    return [some[0] for some in served]


def _copy(into: nn.Linear, out: nn.Linear, rows: slice, source: slice | Tensor = slice(None)) -> None:
    """Rows ``source`` of ``out`` become rows ``rows`` of ``into``, in its first columns."""
    into.weight[rows, : out.in_features] = out.weight[source]
    if out.bias is not None:
        into.bias[rows] = out.bias[source]


def _copy_norm(into: nn.Module, out: nn.Module) -> None:
    """New dimensions that are 0 lower the mean square that a norm divides by."""
    narrow, wide = len(out.weight), len(into.weight)
    into.weight[:narrow] = out.weight * (narrow / wide) ** 0.5
