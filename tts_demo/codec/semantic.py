"""The phonetic encoder: samples -> features of the phonemes, 50 frames a second, which the first codebook quantises.

Mel frames at 100 Hz, ConvNeXt blocks at 50 Hz with a context of 0.1 to 0.2 s, then blocks with attention over the whole
utterance at 25 Hz (vowels differ from speaker to speaker), then ConvNeXt blocks at 50 Hz again. It does not stream."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import HOP, SAMPLE_RATE
from ..rotary import rotary_factors, rotate
from .layers import ConvNeXtBlock, MelFeatures


class Attention(nn.Module):
    """[B, T, C] -> [B, T, C]: every frame sees every other, by rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.2))

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, *rotation), rotate(k, *rotation), v)
        return x + self.scale * self.out(y.transpose(1, 2).flatten(2))


class PhoneticEncoder(nn.Module):
    """samples [B, F * hop] -> [B, F, width]: ``layers`` ConvNeXt blocks of local context, ``middle`` blocks with
    attention over the utterance, ``upper`` ConvNeXt blocks."""

    def __init__(
        self,
        mels: int,
        width: int,
        layers: int,
        middle: int = 0,
        middle_width: int = 256,
        upper: int = 0,
        heads: int = 4,
        skip: float = 0.0,
    ) -> None:
        """skip: chance that a block is left out of one item in training (stochastic depth; G. Huang and others,
        2016)."""
        super().__init__()
        self.skip = skip
        self.mel = MelFeatures(SAMPLE_RATE, 512, HOP // 2, mels)
        self.stem = nn.Conv1d(mels, width, 6, stride=2, padding=2)
        self.blocks = nn.ModuleList(ConvNeXtBlock(width, kernel=9, dilation=(1, 1, 2)[i % 3]) for i in range(layers))
        self.head_width = middle_width // heads  # width of a head
        if middle:
            self.down = nn.Linear(2 * width, middle_width)
        self.attention = nn.ModuleList(Attention(middle_width, heads) for _ in range(middle))
        self.middle = nn.ModuleList(ConvNeXtBlock(middle_width, kernel=9) for _ in range(middle))
        if middle:
            self.up = nn.Linear(middle_width, 2 * width)
            nn.init.zeros_(self.up.weight)
            nn.init.zeros_(self.up.bias)
        self.upper = nn.ModuleList(ConvNeXtBlock(width, kernel=9, dilation=1 if i else 2) for i in range(upper))

    def features(self, samples: Tensor) -> Tensor:
        """[B, F * hop] -> [B, 2 * F, mels], each utterance at zero mean per band (takes the channel away)."""
        mel = self.mel(samples)
        return (mel - mel.mean(1, keepdim=True)) / 3.0

    def hidden(self, features: Tensor) -> Tensor:
        """[B, 2 * F, mels] -> [B, F, width]."""
        return self.global_blocks(self.local_blocks(features))

    def local_blocks(self, features: Tensor) -> Tensor:
        """Blocks of local context: [B, 2 * F, mels] -> [B, F, width]."""
        x = self.stem(features.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            x = self._stochastic_depth(x, block(x))
        return x

    def global_blocks(self, x: Tensor) -> Tensor:
        """Blocks with attention over the utterance, then the upper ones: [B, F, width] -> [B, F, width]."""
        if self.middle:
            count = x.shape[1]
            y = self.down(F.pad(x, (0, 0, 0, count % 2)).unflatten(1, (-1, 2)).flatten(2))
            rotation = rotary_factors(torch.arange(y.shape[1], device=y.device), self.head_width, 1000.0)
            for attention, block in zip(self.attention, self.middle):
                y = self._stochastic_depth(y, block(attention(y, rotation)))
            x = x + self.up(y).unflatten(-1, (2, -1)).flatten(1, 2)[:, :count]
        for block in self.upper:
            x = self._stochastic_depth(x, block(x))
        return x

    def _stochastic_depth(self, x: Tensor, y: Tensor) -> Tensor:
        """y; in training x for the items whose block is dropped (stochastic depth)."""
        if not (self.training and self.skip):
            return y
        return x + (y - x) * (torch.rand(len(x), 1, 1, device=x.device) >= self.skip) / (1 - self.skip)

    def forward(self, samples: Tensor) -> Tensor:
        return self.hidden(self.features(samples))
