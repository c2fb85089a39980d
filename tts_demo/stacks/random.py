"""Stacks of random weights in a given shape, for speed and memory: a fixed prefix, no text.

``nano`` and ``qwen2-0.5b`` are language models alone, their vocoder is silence; ``cosyvoice2`` and ``cosyvoice3`` are
the released models whole, flow and vocoder included.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..config import LMConfig, Sampling, UserError
from ..engine import Prompt
from ..lm import LanguageModel, Prefix
from ..lm.cost import fastest_dtype
from ..methods import Method
from ..runtime import candidate_dtypes
from .base import LanguageModelStack
from .cosyvoice.configs import MEL_PER_TOKEN, MELS, VERSION_2, VERSION_3, CosyConfig
from .cosyvoice.flow import build_flow, flow_noise
from .cosyvoice.hift import Hift
from .cosyvoice.lm import CosyLanguageModel
from .cosyvoice.prompt import PromptFeatures
from .cosyvoice.stack import CosyVoiceStack

RANDOM = "random weights"  # in place of a checkpoint's hash
TEXT_TOKENS, PROMPT_SECONDS = 60, 3
SHAPES = {  # frames a second beside them; the second: of CosyVoice 2, but with a speaker's vector
    "nano": (LMConfig(), 50),
    "qwen2-0.5b": (replace(VERSION_2.lm, text_vocab=TEXT_TOKENS, max_positions=8192, speaker=192), 25),
}
RELEASED = {"cosyvoice2": VERSION_2, "cosyvoice3": VERSION_3}


class Silence:
    """A vocoder that costs nothing: figures of this stack are the language model's."""

    def __init__(self, hop: int) -> None:
        self.hop = hop

    def push(self, frames: Tensor) -> np.ndarray:
        return np.zeros(len(frames) * self.hop, np.float32)

    def prepare(self) -> None:
        """Nothing: there are no graphs."""

    def end_segment(self) -> np.ndarray:
        return np.zeros(0, np.float32)

    def finish(self) -> np.ndarray:
        return np.zeros(0, np.float32)


class OneText:
    """A stack's one prompt and one text, whatever it is asked for."""

    def split(self, text: str) -> list[str]:
        return [text]

    def preview(self, text: str) -> list[tuple[str, str]]:
        return [(text, "")]

    def encode_prompt(self, samples: np.ndarray, sample_rate: int, text: str | None = None) -> Prompt:
        return self.prompt

    def prefix(self, prompt: Prompt, segment: str) -> Prefix:
        return self.lm.prefix(self.text, tuple(map(str, range(TEXT_TOKENS))), prompt.speaker, prompt.codes)


class ShapeStack(OneText, LanguageModelStack):
    """A language model of random weights."""

    sample_rate, checkpoint_hash, sampling = 24_000, RANDOM, Sampling()
    parts: Mapping[str, torch.nn.Module] = {}

    def __init__(
        self, name: str, config: LMConfig, rate: int, device: torch.device, dtype: torch.dtype, graphs: bool = True
    ) -> None:
        torch.manual_seed(0)
        super().__init__(LanguageModel(config), device, dtype, graphs=graphs)
        self.name, self.frame_rate = name, rate
        self.prompt = Prompt(
            torch.randint(config.speech_codes, (PROMPT_SECONDS * rate, 8), device=device),
            torch.randn(config.speaker, device=device),
            None,
            PROMPT_SECONDS,
            RANDOM,
        )
        self.text = torch.randint(config.text_vocab, (TEXT_TOKENS,), device=device)

    def vocoder(self, prompt: Prompt, codebooks: int, live: bool = True) -> Silence:
        return Silence(self.sample_rate // self.frame_rate)


class RandomCosyVoice(OneText, CosyVoiceStack):
    """The released model of ``config`` with random weights, on a prompt of random tokens: no file is needed."""

    checkpoint_hash = RANDOM

    def __init__(
        self, name: str, config: CosyConfig, device: torch.device, dtype: torch.dtype, graphs: bool = True
    ) -> None:
        torch.manual_seed(0)
        lm = CosyLanguageModel(config.lm, config.marker_rows)
        LanguageModelStack.__init__(self, lm, device, dtype, graphs=graphs)  # not the parent's, which reads files
        self.name, self.config = name, config
        self._flow = build_flow(config.flow).to(device).eval().requires_grad_(False)
        self.hift = Hift(config.hift).prepare().to(device)
        self._in_graphs(graphs)
        self._noise = flow_noise().to(device)
        tokens = torch.randint(config.flow.tokens, (PROMPT_SECONDS * self.frame_rate,))
        speaker, mel = torch.randn(1, config.flow.speaker), torch.randn(1, MELS, MEL_PER_TOKEN * len(tokens))
        voice = PromptFeatures(tokens, speaker, mel, PROMPT_SECONDS, (), False)
        codes, known = tokens[:, None].to(device), {"voice": voice}
        self.prompt = Prompt(codes, speaker[0].to(device), "", PROMPT_SECONDS, RANDOM, known)
        self.text = torch.randint(config.lm.text_vocab, (TEXT_TOKENS,), device=device)

    def _trained(self, kind: type[Method], part: str, module: torch.nn.Module) -> torch.nn.Module:
        if kind.output_codebooks(kind.Options()) > 1:
            raise UserError(f"{kind.name} needs several codebooks, and this model speaks one.")
        return self._placed(module)


def shape_stack(
    shape: str, device: torch.device, dtype: torch.dtype | None = None, graphs: bool = True
) -> ShapeStack | RandomCosyVoice:
    """The stack of a shape. dtype None: the fastest here, measured; of a whole released model, float32 on a CPU."""
    if shape in SHAPES:
        config, frame_rate = SHAPES[shape]
        return ShapeStack(shape, config, frame_rate, device, dtype or fastest_dtype(config, device), graphs)
    return RandomCosyVoice(shape, RELEASED[shape], device, dtype or candidate_dtypes(device)[0], graphs)
