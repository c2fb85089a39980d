"""How well a batch of generated codes is understood: the outcome reward of DCAR's policy (section 4.2).

The recogniser gives phonemes, not words, so the error rate is counted over phonemes. It replaces the paper's word error
rate, is finer on short utterances, and has no language model that could correct what was mispronounced. A recogniser
whose error rate is rewarded must not judge the result: ``evaluate`` uses another one.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from ...codec.decoder import WaveformDecoder
from ...codec.model import Codec
from ...codec.refiner import Refiner
from ...config import HOP, SAMPLE_RATE, UserError
from ...runtime import autocast
from ...text.symbols import SYMBOLS

AT_ONCE = 4  # rows whose speech fits into a CPU's cache

# Phonemes by which two recognisers can be compared: ``hama`` writes IPA, our symbols are misaki's.
COARSE = {
    **{"eɪ": "A", "aɪ": "I", "oʊ": "O", "aʊ": "W", "ɔɪ": "Y", "d͡ʒ": "ʤ", "t͡ʃ": "ʧ", "ɝ": "əɹ", "ɚ": "əɹ", "g": "ɡ"},
    **{"r": "ɹ", "a": "ɑ", "ɒ": "ɑ", "ɔ": "ɑ", "ʌ": "ə", "ɜ": "ə", "ɐ": "ə", "ᵊ": "ə", "ᵻ": "ɪ", "T": "t"},
}


class Recogniser(Protocol):
    def phonemes(self, samples: Tensor) -> list[Hashable]:
        """samples [N] at 16 kHz -> the phonemes recognised."""


class Hama:
    """The phoneme recogniser of the package ``hama`` (Apache 2.0), which no table is judged by. ``reference``: the
    phonemes of a text as it would write them."""

    def __init__(self) -> None:
        try:
            from hama.asr import ASRModel
        except ImportError:
            raise UserError("ear=hama needs the package hama: 'pip install hama', or leave the setting out.") from None
        self.model = ASRModel()

    def phonemes(self, samples: Tensor) -> list[Hashable]:
        return coarse(self.model(samples.cpu().numpy(), SAMPLE_RATE).phonemes)

    @staticmethod
    def reference(truth: Sequence[int]) -> list[Hashable]:
        return coarse([SYMBOLS[index] for index in truth])


def coarse(phonemes: Sequence[str]) -> list[Hashable]:
    """IPA or our symbols -> one character each, what the two write differently made alike."""
    return list("".join(COARSE.get(phoneme, phoneme) for phoneme in phonemes))


class PhonemeErrors:
    """First-codebook codes -> waveform (refiner and codec, a few rows at a time) -> phonemes -> error rate."""

    def __init__(self, codec: Codec, decoder: WaveformDecoder, refiner: Refiner, recogniser: Recogniser) -> None:
        self.codec, self.decoder, self.refiner, self.recogniser = codec, decoder, refiner, recogniser
        self.reference = getattr(recogniser, "reference", list)

    @torch.no_grad()
    def of_codes(
        self, codes: Sequence[Tensor], speaker: Tensor, prompt: Tensor, truth: Sequence[Sequence[int]]
    ) -> Tensor:
        """codes: [n] a row, speaker [R, E], prompt [R, F, K] codes of the same voices, truth: the
        phonemes of each row's text -> error rates [R]. A row that said nothing gets every phoneme wrong."""
        errors: list[float] = []
        for start in range(0, len(codes), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            waves = self._say(codes[rows], speaker[rows], prompt[rows])
            errors += map(self.of_samples, waves, truth[rows])
        return torch.tensor(errors)

    def _say(self, codes: Sequence[Tensor], speaker: Tensor, prompt: Tensor) -> list[Tensor]:
        """Samples of a few rows."""
        longest = max(1, max(len(c) for c in codes))
        padded = torch.stack([torch.cat([c, c.new_zeros(longest - len(c))]) for c in codes])
        with autocast(padded.device):
            latent = self.refiner(padded, speaker, self.codec.quantizer.decode(prompt))
            samples = self.decoder.whole(latent.float())
        return [wave[: len(c) * HOP].float() for wave, c in zip(samples, codes)]

    def of_samples(self, samples: Tensor, truth: Sequence[int]) -> float:
        """samples [N] at 16 kHz -> error rate against ``truth``."""
        recognised = self.recogniser.phonemes(samples) if len(samples) >= HOP else []
        wanted = self.reference(truth)
        return Levenshtein.distance(recognised, wanted) / max(1, len(wanted))
