"""A wider language model that begins as a narrow one: what a small model learnt of following a text is not learnt twice
(T. Chen and others, "Net2Net", 2016, section 2.3)."""

import torch

from ..config import LMConfig, UserError
from ..lm.model import LanguageModel

NEW = ("embed_tokens", "text_embedding", "speech_embedding", "head")
SILENT = ("o_proj", "down_proj", "markers", "speaker_proj")  # new dimensions of their outputs begin at 0


@torch.no_grad()
def widened(narrow: LanguageModel, config: LMConfig) -> LanguageModel:
    """A model of shape ``config`` that does with inputs whose new dimensions are 0 what ``narrow`` does: its blocks,
    markers and voice are those of ``narrow``, with weights beside them that have no say yet. Text and speech tables and
    the head are new. Raises UserError where heads do not fit."""
    old, wide = narrow.config, LanguageModel(config)
    if config.layers != old.layers or config.hidden < old.hidden or config.head_dim != old.head_dim:
        raise UserError(f"A model of width {config.hidden} cannot begin as one of width {old.hidden}.")
    dim, into = config.head_dim, wide.state_dict()
    same = torch.cat([torch.arange(key * dim, (key + 1) * dim) for key in _keys(old, config)])
    for name, weight in narrow.state_dict().items():
        part = name.split(".")[-2]
        if part in NEW or name not in into:
            continue
        if part in ("k_proj", "v_proj"):
            weight = weight[same]
        elif "norm" in part:  # new dimensions that are 0 lower the mean square that a norm divides by
            weight = weight * (len(weight) / len(into[name])) ** 0.5
        elif part in SILENT:
            into[name].zero_()
        into[name][tuple(slice(size) for size in weight.shape)] = weight
    return wide


def _keys(old: LMConfig, new: LMConfig) -> list[int]:
    """Which key head of the old model each of the new one's is."""
    group, was = new.heads // new.kv_heads, old.heads // old.kv_heads
    served = [[min(h, old.heads - 1) // was for h in range(j * group, (j + 1) * group)] for j in range(new.kv_heads)]
    if any(len(set(some)) > 1 for some in served):
        raise UserError(f"{old.heads} heads on {old.kv_heads} keys do not fit {new.heads} on {new.kv_heads}.")
    return [some[0] for some in served]
