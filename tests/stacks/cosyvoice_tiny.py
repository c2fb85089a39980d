"""Tiny CosyVoice-shaped configurations and the released keys and shapes, for the tests of this stack."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import torch
from stacks.tiny_onnx import write_speaker_encoder, write_speech_tokenizer
from tokenizers import pre_tokenizers

from tts_demo.stacks.cosyvoice.configs import (
    VERSION_2,
    VERSION_3,
    ConformerFlowConfig,
    CosyConfig,
    DiTFlowConfig,
    HiftConfig,
    with_sizes,
)
from tts_demo.stacks.cosyvoice.flow import build_flow
from tts_demo.stacks.cosyvoice.hift import Hift
from tts_demo.stacks.cosyvoice.lm import TEXT_HEAD, CosyLanguageModel

LM = dict(text_vocab=560, hidden=32, layers=2, heads=4, kv_heads=2, ffn=48, max_positions=2048)
HIFT = dict(
    channels=16,
    f0_channels=8,
    rates=(4, 3, 2),
    kernels=(8, 5, 4),
    res_kernels=(3, 5),
    source_res_kernels=(5, 3, 5),
    dilations=(1, 3),
)  # 96 samples a mel frame, not 480
STREAM = dict(steps=3, block_tokens=5)
ENCODER = dict(token_width=16, heads=2, ffn=24, blocks=2, up_blocks=1)
UNET = dict(channels=8, unet_heads=2, unet_head_dim=4, transformers=1, mid_blocks=1)
DIT = dict(lookahead_channels=12, width=64, depth=2, heads=4, time_width=8, rotary=16)
FLOWS = {2: STREAM | ENCODER | UNET, 3: STREAM | DIT | dict(position_kernel=5, position_groups=4)}
HIFT_2, HIFT_3 = HiftConfig(causal=False, **HIFT), HiftConfig(causal=True, **HIFT)
FLOW_2, FLOW_3 = ConformerFlowConfig(**FLOWS[2]), DiTFlowConfig(**FLOWS[3])


def tiny_sizes(version: int) -> dict[str, dict]:
    """What ``sizes.json`` of a tiny model says."""
    return {"lm": LM, "flow": FLOWS[version], "hift": HIFT}


def tiny(version: int) -> CosyConfig:
    """The released layout at a size that runs in milliseconds. Speech codes keep their number, text ids do not."""
    return with_sizes({2: VERSION_2, 3: VERSION_3}[version], tiny_sizes(version))


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


def released_lm_state(lm: CosyLanguageModel) -> dict[str, torch.Tensor]:
    """The weights under the released names, the alias of the text head included."""
    own = lm.state_dict()
    state = {theirs: own[ours].clone() for theirs, ours in lm.released_names()}
    return state | {TEXT_HEAD: state["llm.model.model.embed_tokens.weight"]}


def write_model(folder: Path, config: CosyConfig, seed: int = 0, released: bool = False) -> Path:
    """A complete model folder with random weights. ``released``: ``config`` has the released sizes."""
    torch.manual_seed(seed)
    lm = CosyLanguageModel(config.lm, config.marker_rows)
    with torch.no_grad():
        lm.head.weight.mul_(8)
        lm.speech_embedding.weight.mul_(30)
        lm.text_embedding.weight.mul_(30)
    torch.save(released_lm_state(lm), folder / "llm.pt")
    torch.save(randomise(build_flow(config.flow), seed, 0.1).state_dict(), folder / "flow.pt")
    torch.save(randomise(Hift(config.hift), seed, 0.12).state_dict(), folder / "hift.pt")
    write_speech_tokenizer(folder / config.speech_tokenizer)
    write_speaker_encoder(folder / "campplus.onnx")
    (folder / config.yaml).write_text("sample_rate: 24000\n")
    if not released:
        (folder / "sizes.json").write_text(json.dumps(tiny_sizes(config.version)))
    write_vocabulary(folder / "CosyVoice-BlankEN")
    return folder


def write_vocabulary(folder: Path) -> None:
    """All bytes, and merges for a few letters."""
    folder.mkdir()
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("in", "g")]
    vocabulary = {s: i for i, s in enumerate(symbols + ["".join(pair) for pair in merges])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(pair) for pair in merges) + "\n")


def speech_like(seconds: float, rate: int, seed: int = 0) -> np.ndarray:
    """A voiced, slowly changing sound: float32 [N]."""
    t = np.arange(int(seconds * rate)) / rate
    pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 0.7 * t)) / rate
    noise = np.random.default_rng(seed).normal(size=len(t)) * 0.01
    loudness = 0.2 + 0.1 * np.sin(2 * np.pi * 3 * t)
    return (loudness * sum(np.sin(k * pitch) / k for k in range(1, 9)) + noise).astype(np.float32) * 0.5
