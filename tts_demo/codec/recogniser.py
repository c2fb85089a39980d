"""The phoneme recogniser: samples -> phonemes, 50 frames a second. The codec's first codebook reads its encoder's
hidden states, and it aligns the training speech.

Two heads: CTC over the phonemes, and a classifier of the phoneme of every frame, pauses included."""

from dataclasses import dataclass

import torch
import torchaudio
from torch import Tensor, nn

from ..config import HOP
from ..text.symbols import SYMBOLS
from .semantic import PhoneticEncoder


@dataclass(frozen=True)
class RecogniserConfig:
    symbols: int = len(SYMBOLS)  # of which phonemes alone are recognised; 0 is CTC's blank, and a pause
    mels: int = 80
    width: int = 256  # of the blocks at 50 Hz
    lower: int = 6
    upper: int = 2
    middle: int = 5
    middle_width: int = 256  # of the blocks at 25 Hz
    heads: int = 4


class PhonemeRecogniser(PhoneticEncoder):
    """``forward`` gives the hidden states that the first codebook quantises; ``heads`` classify them."""

    def __init__(self, config: RecogniserConfig = RecogniserConfig(), skip: float = 0.0) -> None:
        """skip: of stochastic depth in training (``PhoneticEncoder``)."""
        c = self.config = config
        super().__init__(c.mels, c.width, c.lower, c.middle, c.middle_width, c.upper, c.heads, skip)
        self.norm = nn.LayerNorm(c.width)
        self.spell = nn.Linear(c.width, c.symbols)
        self.frame = nn.Linear(c.width, c.symbols)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """hidden [B, F, width] -> logits of spelling (CTC) and of the phoneme of each frame, [B, F, symbols]."""
        x = self.norm(hidden)
        return self.spell(x).float(), self.frame(x).float()

    @torch.no_grad()
    def log_probs(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """samples [N] -> log probabilities of both heads [F, symbols]."""
        whole = samples[None, : len(samples) // HOP * HOP]
        spell, frame = self.heads(self(whole))
        return spell[0].log_softmax(-1), frame[0].log_softmax(-1)

    @torch.no_grad()
    def phonemes(self, samples: Tensor) -> list[int]:
        """samples [N] -> the recognised phonemes (CTC's best path)."""
        return read(self.log_probs(samples)[0].argmax(-1))

    @torch.no_grad()
    def align(self, samples: Tensor, phonemes: Tensor) -> Tensor:
        """Forced alignment: samples [N], phonemes [T] -> [F], the index into ``phonemes`` of each frame, -1 for pauses.
        Raises RuntimeError where there are more phonemes than frames."""
        scores = self.log_probs(samples)[1][None]
        path = torchaudio.functional.forced_align(scores, phonemes[None].int(), blank=0)[0][0].long()
        starts = (path != 0) & (path != torch.cat([path.new_zeros(1), path[:-1]]))
        return torch.where(path != 0, starts.cumsum(0) - 1, -1)


def read(path: Tensor) -> list[int]:
    """A CTC path [F] -> its symbols."""
    best = torch.unique_consecutive(path)
    return best[best != 0].tolist()
