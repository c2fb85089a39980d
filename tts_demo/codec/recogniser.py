"""Bundled recogniser: a small CTC model, samples -> phonemes. Aligns the training speech, rewards the chunk policy,
and gives the page a quick error rate. It never grades itself: quality tables print another recogniser beside it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn

from ..config import HOP
from .semantic import PhoneticEncoder


@dataclass(frozen=True)
class RecogniserConfig:
    symbols: int = 128  # output classes; 0 is the CTC blank
    mels: int = 80
    width: int = 224
    layers: int = 9


class Recogniser(PhoneticEncoder):
    """Phonetic encoder and a CTC head, 50 frames a second."""

    def __init__(self, config: RecogniserConfig = RecogniserConfig()) -> None:
        super().__init__(config.mels, config.width, config.layers)
        self.config = config
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.symbols)

    def scores(self, features: Tensor) -> Tensor:
        """features [B, 2 * F, mels] -> log probabilities [B, F, symbols]."""
        return F.log_softmax(self.head(self.norm(self.hidden(features))).float(), dim=-1)

    @torch.no_grad()
    def log_probs(self, samples: Tensor) -> Tensor:
        """samples [N] -> [F, symbols]."""
        whole = samples[: len(samples) // HOP * HOP][None]
        return self.scores(self.features(whole))[0]

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
