"""The ears: samples -> what is said, 50 frames a second. The codec's first book listens through them, and they align
the training speech.

Mel frames at 100 Hz, ConvNeXt blocks at 50 Hz, blocks with attention over the whole utterance at 25 Hz (what a vowel is
depends on whose it is), ConvNeXt blocks at 50 Hz again. Two heads read the result: one for CTC, which spells, and one
that tells the sound of every frame, pauses included. Nothing here streams: whoever listens has the whole recording.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import HOP
from ..text.symbols import SYMBOLS
from .layers import ConvNeXtBlock
from .semantic import PhoneticEncoder


@dataclass(frozen=True)
class EarsConfig:
    symbols: int = len(SYMBOLS)  # of which phonemes alone are heard; 0 is CTC's blank, and a pause
    mels: int = 80
    width: int = 256  # of the blocks at 50 Hz
    lower: int = 6
    upper: int = 2
    middle: int = 5
    middle_width: int = 256  # of the blocks at 25 Hz
    heads: int = 4


class Attention(nn.Module):
    """[B, T, C] -> [B, T, C]: every frame sees every other, by rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.2))

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(_rotate(q, *turn), _rotate(k, *turn), v)
        return x + self.scale * self.out(y.transpose(1, 2).flatten(2))


class Ears(PhoneticEncoder):
    """``hidden`` is what the first book listens to; ``heads`` read it."""

    def __init__(self, config: EarsConfig = EarsConfig()) -> None:
        super().__init__(config.mels, config.width, config.lower)
        self.config = config
        wide = config.middle_width
        self.down = nn.Linear(2 * config.width, wide)
        self.attention = nn.ModuleList(Attention(wide, config.heads) for _ in range(config.middle))
        self.middle = nn.ModuleList(ConvNeXtBlock(wide, kernel=9) for _ in range(config.middle))
        self.up = nn.Linear(wide, 2 * config.width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)
        self.upper = nn.ModuleList(
            ConvNeXtBlock(config.width, kernel=9, dilation=1 if i else 2) for i in range(config.upper)
        )
        self.norm = nn.LayerNorm(config.width)
        self.spell = nn.Linear(config.width, config.symbols)
        self.frame = nn.Linear(config.width, config.symbols)

    def hidden(self, features: Tensor) -> Tensor:
        """[B, 2 * F, mels] -> [B, F, width]."""
        return self.understood(self.low(features))

    def low(self, features: Tensor) -> Tensor:
        """The blocks that hear a tenth of a second or two: [B, 2 * F, mels] -> [B, F, width]."""
        return super().hidden(features)

    def understood(self, x: Tensor) -> Tensor:
        """[B, F, width] of ``low`` -> [B, F, width], heard in the whole utterance."""
        count = x.shape[1]
        pairs = F.pad(x, (0, 0, 0, count % 2)).unflatten(1, (-1, 2)).flatten(2)
        y = self.down(pairs)
        turn = _turns(y.shape[1], self.config.middle_width // self.config.heads, y.device)
        for attention, block in zip(self.attention, self.middle):
            y = self._left_out(y, block(attention(y, turn)))
        x = x + self.up(y).unflatten(-1, (2, -1)).flatten(1, 2)[:, :count]
        for block in self.upper:
            x = self._left_out(x, block(x))
        return x

    def _left_out(self, x: Tensor, y: Tensor) -> Tensor:
        """y, or x for the items of which training leaves the block out."""
        if not (self.training and self.skip):
            return y
        return x + (y - x) * (torch.rand(len(x), 1, 1, device=x.device) >= self.skip) / (1 - self.skip)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """hidden [B, F, width] -> logits of spelling (CTC) and of the sound of each frame, [B, F, symbols]."""
        x = self.norm(hidden)
        return self.spell(x).float(), self.frame(x).float()

    @torch.no_grad()
    def hear(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """samples [N] -> log probabilities of both heads [F, symbols]."""
        whole = samples[None, : len(samples) // HOP * HOP]
        spell, frame = self.heads(self(whole))
        return spell[0].log_softmax(-1), frame[0].log_softmax(-1)

    @torch.no_grad()
    def phonemes(self, samples: Tensor) -> list[int]:
        """samples [N] -> the phonemes heard (CTC's best path)."""
        return read(self.hear(samples)[0].argmax(-1))


def read(path: Tensor) -> list[int]:
    """A CTC path [F] -> its symbols."""
    best = torch.unique_consecutive(path)
    return best[best != 0].tolist()


def _turns(count: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin [T, width] of rotary positions."""
    speeds = 1000.0 ** -(torch.arange(0, width, 2, device=device) / width)
    angles = torch.arange(count, device=device)[:, None] * speeds
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin
