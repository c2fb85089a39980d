"""What the engine needs of a model stack, whoever trained it: text and voice in, a language model, codes to samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..config import Sampling
from ..lm import Decoder, LanguageModel, Prefix
from ..methods import Method, Options


@dataclass(frozen=True)
class Prompt:
    """An encoded voice. codes: [F, K]; speaker: [E] or None. ``key`` is a hash of everything it was made from,
    ``extra`` what only its own stack reads, ``notes`` what a person should know about the recording."""

    codes: Tensor
    speaker: Tensor | None
    text: str | None
    seconds: float
    key: str
    extra: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Vocoder(Protocol):
    """Codes of one segment to samples while they are being made. One object a run."""

    def push(self, frames: Tensor) -> np.ndarray:
        """frames [n, K] -> the float32 samples [N] that later frames cannot change any more, N >= 0."""

    def finish(self) -> np.ndarray:
        """The samples still owed; nothing may be pushed afterwards."""


class Stack(Protocol):
    name: str
    sample_rate: int
    frame_rate: int
    sampling: Sampling  # how it speaks when a person sets nothing
    device: torch.device
    dtype: torch.dtype
    checkpoint_hash: str
    lm: LanguageModel

    @property
    def decoder(self) -> Decoder: ...
    def made_of(self, name: str, options: Options) -> str: ...
    def tokenize(self, text: str) -> tuple[Tensor, tuple[str, ...]]: ...
    def split(self, text: str) -> list[str]: ...
    def encode_prompt(self, samples: np.ndarray, sample_rate: int, text: str | None = None) -> Prompt: ...
    def prefix(self, prompt: Prompt, segment: str) -> Prefix: ...
    def method(self, name: str) -> Method: ...
    def vocoder(self, prompt: Prompt, codebooks: int) -> Vocoder: ...
