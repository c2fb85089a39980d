"""How well a batch of generated codes is understood: the outcome reward of DCAR's policy (section 4.2).

The ears name phonemes, not words, so the error rate is counted over phonemes: it stands for the paper's
word error rate, is finer on short utterances, and needs no language model that would guess what was not said. Ears
that earn a reward must not print the quality table: ``evaluate`` uses another judge.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from ...codec.decoder import WaveformDecoder
from ...codec.ears import Ears
from ...codec.model import Codec
from ...codec.refiner import Refiner
from ...config import HOP


class PhonemeErrors:
    """First-codebook codes -> waveform (refiner and codec, all rows at once) -> phonemes -> error rate."""

    def __init__(self, codec: Codec, decoder: WaveformDecoder, refiner: Refiner, ears: Ears) -> None:
        self.codec, self.decoder, self.refiner, self.ears = codec, decoder, refiner, ears

    @torch.no_grad()
    def of_codes(
        self, codes: Sequence[Tensor], speaker: Tensor, prompt: Tensor, truth: Sequence[Sequence[int]]
    ) -> Tensor:
        """codes: [n] a row, speaker [R, E], prompt [R, F, K] codes of the same voices, truth: the
        phonemes of each row's text -> error rates [R]. A row that said nothing gets every phoneme wrong."""
        longest = max(1, max(len(c) for c in codes))
        padded = torch.stack([torch.cat([c, c.new_zeros(longest - len(c))]) for c in codes])
        with torch.autocast(padded.device.type, enabled=False):
            latent = self.refiner(padded, speaker, self.codec.quantizer.decode(prompt))
            samples = self.decoder.whole(latent)
            return torch.tensor(
                [self.of_samples(wave[: len(c) * HOP], phonemes) for wave, c, phonemes in zip(samples, codes, truth)]
            )

    def of_samples(self, samples: Tensor, truth: Sequence[int]) -> float:
        """samples [N] at 16 kHz -> error rate against ``truth``."""
        heard = self.ears.phonemes(samples) if len(samples) >= HOP else []
        return Levenshtein.distance(heard, list(truth)) / max(1, len(truth))
