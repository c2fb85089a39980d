"""Training recipes, one file each. ``RECIPES`` names the task class behind ``python -m tts_demo train NAME``."""

from __future__ import annotations

import importlib
from typing import Any

from ..config import UserError

RECIPES = {
    "recogniser": "recogniser.RecogniserTask",
    "codec": "codec.CodecTask",
    "codec-decoder": "codec.CodecDecoderTask",
    "lm": "lm.LMTask",
    "tldr": "tldr.TLDRTask",
    "tldr-no-lora": "tldr.WithoutLora",
    "tldr-no-speaker": "tldr.WithoutSpeaker",
    "tldr-mean-pool": "tldr.MeanPooled",
    "tldr-parallel": "tldr.Parallel",
    "dcar-heads": "dcar_heads.HeadsTask",
    "dcar-policy": "dcar_policy.PolicyTask",
    "qtts-delay": "qtts_delay.QTTSDelayTask",
    "qtts-hierarchical": "qtts_hierarchical.QTTSHierarchicalTask",
    "compressed": "compressed.CompressedTask",
    "ssd-draft": "ssd_draft.DraftTask",
}


def load_task(name: str, options: Any) -> Any:
    """The recipe's task, built. Raises UserError for an unknown name."""
    if name not in RECIPES:
        raise UserError(f"Unknown recipe {name!r}; the recipes are: {', '.join(RECIPES)}.")
    module, task = RECIPES[name].split(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), task)(options)
