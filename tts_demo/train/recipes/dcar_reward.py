"""How well a batch of generated codes is understood: the outcome reward of DCAR's policy (section 4.2).

The recogniser gives phonemes, not words, so the error rate is counted over phonemes. It replaces the paper's word error
rate, is finer on short utterances, and has no language model that could correct what was mispronounced. A recogniser
whose error rate is rewarded must not judge the result: ``evaluate`` uses another one.
"""

from collections.abc import Sequence

import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from ...codec.decoder import WaveformDecoder
from ...codec.model import Codec
from ...codec.recogniser import PhonemeRecogniser
from ...codec.refiner import Refiner
from ...config import HOP


class PhonemeErrors:
    """First-codebook codes -> waveform (refiner and codec, all rows at once) -> phonemes -> error rate."""

    def __init__(self, codec: Codec, decoder: WaveformDecoder, refiner: Refiner, recogniser: PhonemeRecogniser) -> None:
        self.codec, self.decoder, self.refiner, self.recogniser = codec, decoder, refiner, recogniser

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
        recognised = self.recogniser.phonemes(samples) if len(samples) >= HOP else []
        return Levenshtein.distance(recognised, truth) / max(1, len(truth))
