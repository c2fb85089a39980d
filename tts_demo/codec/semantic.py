"""What the first codebook listens with: the lower blocks of the recogniser, samples -> phonetic features, 50 a
second."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..config import HOP, SAMPLE_RATE
from .layers import ConvNeXtBlock, MelFeatures


class PhoneticEncoder(nn.Module):
    """Log-mel at 100 Hz, stride 2, ConvNeXt blocks with growing dilation: samples [B, F * hop] -> [B, F, width]."""

    def __init__(self, mels: int, width: int, layers: int) -> None:
        super().__init__()
        self.mel = MelFeatures(SAMPLE_RATE, 512, HOP // 2, mels)
        self.stem = nn.Conv1d(mels, width, 6, stride=2, padding=2)
        self.blocks = nn.ModuleList(ConvNeXtBlock(width, kernel=9, dilation=(1, 1, 2)[i % 3]) for i in range(layers))
        # chance that a block is left out of one item in training (stochastic depth; G. Huang and others, 2016)
        self.skip = 0.0

    def features(self, samples: Tensor) -> Tensor:
        """[B, F * hop] -> [B, 2 * F, mels], each utterance at zero mean per band (takes the channel away)."""
        mel = self.mel(samples)
        return (mel - mel.mean(1, keepdim=True)) / 3.0

    def hidden(self, features: Tensor) -> Tensor:
        """[B, 2 * F, mels] -> [B, F, width]."""
        x = self.stem(features.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            if self.training and self.skip:
                x = x + (block(x) - x) * (torch.rand(len(x), 1, 1, device=x.device) >= self.skip) / (1 - self.skip)
            else:
                x = block(x)
        return x

    def forward(self, samples: Tensor) -> Tensor:
        return self.hidden(self.features(samples))
