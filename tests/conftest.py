"""Tiny random models that every test shares: no weights on disk are needed."""

from __future__ import annotations

import pytest
import torch

from tts_demo.config import LMConfig
from tts_demo.lm import LanguageModel, Prefix

TINY = LMConfig(text_vocab=20, speech_codes=32, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, speaker=8,
                max_positions=512)


@pytest.fixture(scope="session")
def tiny_config() -> LMConfig:
    return TINY


@pytest.fixture(scope="session")
def tiny_lm() -> LanguageModel:
    """Random weights, shared by all tests: do not change them (deep-copy first)."""
    return make_lm()


@pytest.fixture(scope="session")
def tiny_prefix(tiny_lm: LanguageModel) -> Prefix:
    return make_prefix(tiny_lm)


def make_lm(config: LMConfig = TINY, seed: int = 0) -> LanguageModel:
    """A random language model whose logits are spread enough that greedy decoding does not hang on rounding."""
    torch.manual_seed(seed)
    lm = LanguageModel(config).eval().requires_grad_(False)
    for name, weight in lm.named_parameters():
        if name.endswith("bias") or "norm" in name:
            weight.add_(torch.randn_like(weight) * 0.1)
        elif name.startswith("backbone.layers"):
            weight.mul_(6)
    for weight in (lm.speech_embedding.weight, lm.text_embedding.weight, lm.markers.weight):
        weight.mul_(30)
    lm.head.weight.mul_(10)
    return lm


def make_prefix(lm: LanguageModel, text: int = 7, prompt: int = 5, codebooks: int = 8, seed: int = 1) -> Prefix:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(lm.config.text_vocab, (text,), generator=generator)
    codes = torch.randint(lm.config.speech_codes, (prompt, codebooks), generator=generator)
    speaker = torch.randn(lm.config.speaker, generator=generator)
    return lm.prefix(ids, tuple(f"t{i}" for i in range(text)), speaker, codes)
