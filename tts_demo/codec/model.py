"""The codec: waveform -> residual codes -> waveform, first codebook semantic (QDAC; QTTS, section 3.1).

Encoder: log-mel frames at the codec's rate plus four finer ones per frame, ConvNeXt blocks. The first codebook reads
the recogniser's hidden states (``recogniser.py``) through a small network: on a few hours of speech a codec alone does
not learn phonemes in time. Decoder: ConvNeXt blocks with bounded look-ahead, harmonics and noise shaped by an inverse
STFT. It knows nothing of text, language models or streams (``streaming.py`` does the latter)."""

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn

from ..config import CodecConfig
from .layers import ConvNeXtBlock, MelFeatures, ShiftedConv
from .quantizer import ResidualQuantizer
from .semantic import PhoneticEncoder

FINE_STEPS, FINE_MELS, FINE_FFT = 4, 40, 256


class Encoder(nn.Module):
    def __init__(self, c: CodecConfig) -> None:
        super().__init__()
        self.mel = MelFeatures(c.sample_rate, 1024, c.hop, c.mels)
        self.fine = MelFeatures(c.sample_rate, FINE_FFT, c.hop // FINE_STEPS, FINE_MELS)
        self.stem = ShiftedConv(c.mels + FINE_STEPS * FINE_MELS, c.encoder_width, 3)
        self.blocks = nn.Sequential(*(ConvNeXtBlock(c.encoder_width) for _ in range(c.encoder_layers)))
        self.to_latent = nn.Linear(c.encoder_width, c.latent)

    def features(self, samples: Tensor) -> Tensor:
        """samples [B, F * hop] -> [B, F, mels + fine], about unit scale."""
        mel = self.mel(samples)
        fine = self.fine(samples).unflatten(1, (mel.shape[1], FINE_STEPS)).flatten(2)
        return (torch.cat([mel, fine], dim=-1) + 5.0) / 4.0

    def forward(self, samples: Tensor) -> Tensor:
        """-> latent [B, F, latent]."""
        return self.to_latent(self.blocks(self.stem(self.features(samples).transpose(1, 2)).transpose(1, 2)))


class Codec(nn.Module):
    def __init__(self, config: CodecConfig = CodecConfig()) -> None:
        super().__init__()
        self.config = c = config
        self.encoder = Encoder(c)
        attentive = c.semantic_middle, c.semantic_middle_width, c.semantic_upper
        self.phonetic = PhoneticEncoder(c.semantic_mels, c.semantic_width, c.semantic_layers, *attentive)
        project, mix = nn.Linear(c.semantic_width, c.latent), nn.Linear(c.latent, c.latent)
        self.semantic = nn.Sequential(nn.LayerNorm(c.semantic_width), project, nn.GELU(), mix)
        first = c.first, c.first_by_sound
        self.quantizer = ResidualQuantizer(c.latent, c.codebooks, c.entries, c.code_width, *first)
        self.register_load_state_dict_pre_hook(_without_decoder)

    def pad(self, samples: Tensor) -> Tensor:
        """Zeros to a whole number of frames: [B, N] -> [B, F * hop]."""
        return F.pad(samples, (0, -samples.shape[-1] % self.config.hop))

    @torch.no_grad()
    def encode(self, samples: Tensor, phonetic: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        """samples [B, N] at 16 kHz -> codes [B, F, K], F = ceil(N / hop). ``phonetic`` [B, F, semantic width]: of the
        phonetic encoder, if known; ``labels`` [B, F]: phonemes, if known (``align``)."""
        whole = self.pad(samples)
        phonetic = self.phonetic(whole) if phonetic is None else phonetic
        return self.quantizer.encode(self.encoder(whole), self.semantic(phonetic), labels)

    @torch.no_grad()
    def align(self, phonetic: Tensor, phonemes: list[int]) -> Tensor | None:
        """Which of these phonemes (no stress, blanks, marks) is spoken when: phonetic [1, F, semantic width] as for
        ``encode`` -> the phoneme of each frame [1, F], 0 in a pause; None where they are none or too many."""
        again = sum(one == other for one, other in zip(phonemes, phonemes[1:]))  # which a pause must part
        if not phonemes or len(phonemes) + again > phonetic.shape[1]:
            return None
        scores = self.quantizer.codebooks[0].phoneme_log_probs(self.semantic(phonetic))
        unknown = max(phonemes) + 1 - scores.shape[-1]  # sounds that training never heard
        scores = F.pad(scores, (0, max(0, unknown)), value=float(scores.min()))
        wanted = torch.tensor([phonemes], dtype=torch.int32, device=scores.device)
        return torchaudio.functional.forced_align(scores, wanted, blank=0)[0].long()


def _without_decoder(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Checkpoints from before the waveform decoder had a folder of its own hold one here."""
    for key in [key for key in state if key.startswith(f"{prefix}decoder.")]:
        del state[key]
