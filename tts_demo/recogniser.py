"""Bundled recogniser: a small CTC model, samples -> phonemes. Aligns the training speech, rewards the chunk policy,
and gives the page a quick error rate. It never grades itself: quality tables print another recogniser beside it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn

from .codec.layers import ConvNeXtBlock, MelFeatures, ShiftedConv
from .config import HOP, SAMPLE_RATE


@dataclass(frozen=True)
class RecogniserConfig:
    symbols: int = 128  # output classes; 0 is the CTC blank
    mels: int = 80
    width: int = 224
    layers: int = 9


class Recogniser(nn.Module):
    """Log-mel at 100 Hz -> stride 2 -> ConvNeXt blocks with growing dilation -> CTC, 50 frames a second."""

    def __init__(self, config: RecogniserConfig = RecogniserConfig()) -> None:
        super().__init__()
        self.config = config
        self.mel = MelFeatures(SAMPLE_RATE, 512, HOP // 2, config.mels)
        self.stem = nn.Conv1d(config.mels, config.width, 6, stride=2, padding=2)
        self.blocks = nn.ModuleList(ConvNeXtBlock(config.width, kernel=9, dilation=(1, 1, 2)[i % 3])
                                    for i in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.symbols)

    def features(self, samples: Tensor) -> Tensor:
        """[B, F * hop] -> [B, 2 * F, mels], each utterance at zero mean per band (takes the channel away)."""
        mel = self.mel(samples)
        return (mel - mel.mean(1, keepdim=True)) / 3.0

    def forward(self, features: Tensor) -> Tensor:
        """features [B, 2 * F, mels] -> log probabilities [B, F, symbols]."""
        x = self.stem(features.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return F.log_softmax(self.head(self.norm(x)).float(), dim=-1)

    @torch.no_grad()
    def log_probs(self, samples: Tensor) -> Tensor:
        """samples [N] -> [F, symbols]."""
        whole = samples[: len(samples) // HOP * HOP][None]
        return self(self.features(whole))[0]

    @torch.no_grad()
    def phonemes(self, samples: Tensor) -> list[int]:
        """samples [N] -> best-path phoneme ids."""
        best = torch.unique_consecutive(self.log_probs(samples).argmax(-1))
        return best[best != 0].tolist()

    @torch.no_grad()
    def align(self, samples: Tensor, symbols: Tensor) -> Tensor:
        """Forced alignment: samples [N], symbols [T] -> the index into ``symbols`` spoken at each frame [F].

        A frame of CTC blank belongs to the symbol before it (the first symbol before any). Raises UserError-free
        RuntimeError from torchaudio when the audio has fewer frames than the text has symbols.
        """
        scores = self.log_probs(samples)[None]
        path, _ = torchaudio.functional.forced_align(scores, symbols[None].int(), blank=0)
        path = path[0]
        starts = (path != 0) & (path != F.pad(path[:-1], (1, 0)))
        return (starts.cumsum(0) - 1).clamp(min=0)
