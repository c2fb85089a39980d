"""A stack of random weights in a given shape, for speed and memory: no text, no codec, a fixed prefix and silence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .config import LMConfig
from .lm import Decoder, LanguageModel, Prefix
from .lm.cost import fastest_dtype
from .methods import Method, find

TEXT_TOKENS, PROMPT_SECONDS = 60, 3
SHAPES = {
    "nano": (LMConfig(), 50),
    # CosyVoice2-0.5B: Qwen2-0.5B with 6561 codes and 3 special ids, 25 tokens a second
    "qwen2-0.5b": (LMConfig(text_vocab=TEXT_TOKENS, speech_codes=6561, extra_codes=3, hidden=896, layers=24, heads=14,
                            kv_heads=2, ffn=4864, rope_theta=1e6, max_positions=8192, bidirectional_text=False), 25),
}


@dataclass(frozen=True)
class ShapePrompt:
    codes: Tensor  # [F, K]
    speaker: Tensor
    seconds: float = PROMPT_SECONDS


class Silence:
    """A vocoder that costs nothing: figures of this stack are the language model's."""

    def __init__(self, hop: int) -> None:
        self.hop = hop

    def push(self, frames: Tensor) -> np.ndarray:
        return np.zeros(len(frames) * self.hop, np.float32)

    def finish(self) -> np.ndarray:
        return np.zeros(0, np.float32)


class ShapeStack:
    """``stacks.Stack`` as far as the engine asks."""

    sample_rate, checkpoint_hash = 24_000, "random weights"

    def __init__(self, name: str, config: LMConfig, frame_rate: int, device: torch.device, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        self.name, self.frame_rate, self.device, self.dtype = name, frame_rate, device, dtype
        self.lm = LanguageModel(config).to(device, dtype).eval().requires_grad_(False)
        self.prompt = ShapePrompt(torch.randint(config.speech_codes, (PROMPT_SECONDS * frame_rate, 8), device=device),
                                  torch.randn(config.speaker, device=device))
        self.text = torch.randint(config.text_vocab, (TEXT_TOKENS,), device=device)
        self._methods: dict[str, Method] = {}

    @classmethod
    def of(cls, shape: str, device: torch.device, dtype: torch.dtype | None = None) -> ShapeStack:
        """dtype None: the fastest here, measured."""
        config, frame_rate = SHAPES[shape]
        return cls(shape, config, frame_rate, device, dtype or fastest_dtype(config, device))

    @property
    def decoder(self) -> Decoder:
        return self.lm.decoder

    def split(self, text: str) -> list[str]:
        return [text]

    def prefix(self, prompt: ShapePrompt, segment: str) -> Prefix:
        return self.lm.prefix(self.text, tuple(map(str, range(TEXT_TOKENS))), prompt.speaker, prompt.codes)

    def method(self, name: str) -> Method:
        if name not in self._methods:
            modules = find(name).build_modules(self.lm)
            for module in modules.values():
                module.to(self.device, self.dtype).eval().requires_grad_(False)
            self._methods[name] = find(name)(self.lm, modules)
        return self._methods[name]

    def vocoder(self, prompt: ShapePrompt, codebooks: int) -> Silence:
        return Silence(self.sample_rate // self.frame_rate)
