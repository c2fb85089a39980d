"""Tiny CosyVoice-shaped configurations and the released keys and shapes, for the tests of this stack."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import torch

from tts_demo.stacks.cosyvoice.configs import (ConformerFlowConfig, CosyConfig, DiTFlowConfig, HiftConfig, version_2,
                                               version_3)

_HIFT = dict(channels=16, f0_channels=8, rates=(4, 3, 2), kernels=(8, 5, 4), res_kernels=(3, 5),
             source_res_kernels=(5, 3, 5), dilations=(1, 3))  # 96 samples a mel frame, not 480
HIFT_2, HIFT_3 = HiftConfig(causal=False, **_HIFT), HiftConfig(causal=True, **_HIFT)
FLOW_2 = ConformerFlowConfig(token_width=16, heads=2, ffn=24, blocks=2, up_blocks=1, channels=8, unet_heads=2,
                             unet_head_dim=4, transformers=1, mid_blocks=1, steps=3, block_tokens=5)
FLOW_3 = DiTFlowConfig(lookahead_channels=12, width=64, depth=2, heads=4, time_width=8, rotary=16, position_kernel=5,
                       position_groups=4, steps=3, block_tokens=5)


def tiny(version: int) -> CosyConfig:
    """The released layout at a size that runs in milliseconds. Speech codes keep their number, text ids do not."""
    config = version_2() if version == 2 else version_3()
    lm = replace(config.lm, hidden=32, layers=2, heads=4, kv_heads=2, ffn=48, max_positions=1024)
    return replace(config, lm=replace(lm, text_vocab=400), flow=FLOW_2 if version == 2 else FLOW_3,
                   hift=HIFT_2 if version == 2 else HIFT_3)


def randomise(module: torch.nn.Module, seed: int = 0, scale: float = 0.3) -> torch.nn.Module:
    """Weights that leave no term of a formula at zero."""
    generator = torch.Generator().manual_seed(seed)
    for weight in module.parameters():
        weight.data.copy_(torch.randn(weight.shape, generator=generator) * scale)
    return module.eval().requires_grad_(False)


def released_keys(name: str) -> dict[str, tuple[int, ...]]:
    """key -> shape of one released state dict; ``[a-b]`` in the stored keys stands for every number a..b."""
    stored = json.loads((Path(__file__).parents[1] / "data" / "cosyvoice_keys.json").read_text())[name]
    keys = {}
    for pattern, shape in stored.items():
        parts = re.split(r"\[(\d+)-(\d+)\]", pattern)
        ranges = [range(int(a), int(b) + 1) for a, b in zip(parts[1::3], parts[2::3])]
        for numbers in itertools.product(*ranges):
            key = "".join(text + str(n) for text, n in zip(parts[::3], numbers)) + parts[-1]
            keys[key] = tuple(shape)
    return keys
