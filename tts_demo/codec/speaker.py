"""Speaker encoder: a voice prompt -> one vector. Conditions the LM, the refiner and the methods' own modules."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import HOP, SAMPLE_RATE, SpeakerConfig
from .layers import ConvNeXtBlock, MelFeatures, ShiftedConv


class SpeakerEncoder(nn.Module):
    """Log-mel -> ConvNeXt blocks -> attentive statistics pooling -> unit vector."""

    def __init__(self, config: SpeakerConfig = SpeakerConfig()) -> None:
        super().__init__()
        self.config = config
        self.mel = MelFeatures(SAMPLE_RATE, 1024, HOP, config.mels)
        self.stem = ShiftedConv(config.mels, config.width, 5)
        dilations = (1, 2, 3, 4)[: config.layers]
        self.blocks = nn.Sequential(*(ConvNeXtBlock(config.width, expansion=2, dilation=d) for d in dilations))
        self.attention = nn.Sequential(nn.Linear(config.width, 64), nn.Tanh(), nn.Linear(64, 1))
        self.project = nn.Linear(2 * config.width, config.embedding)

    def forward(self, samples: Tensor) -> Tensor:
        """samples [B, N] (cut to whole frames) -> [B, embedding], unit length times sqrt(embedding)."""
        mel = self.mel(samples[:, : samples.shape[1] // HOP * HOP])
        # The mean spectrum over time carries the channel as much as the voice; keep it, but at unit scale.
        x = self.blocks(self.stem(((mel + 5.0) / 4.0).transpose(1, 2)).transpose(1, 2))
        weights = self.attention(x).float().softmax(dim=1)
        mean = (weights * x).sum(1)
        spread = ((weights * x.square()).sum(1) - mean.square()).clamp(min=1e-5).sqrt()
        vector = F.normalize(self.project(torch.cat([mean, spread], -1)), dim=-1)
        return vector * self.config.embedding**0.5
