"""Losses and probes of the audio recipes: multi-resolution spectra, and the recogniser that makes a codebook
semantic."""

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn

from ..config import SAMPLE_RATE

UNKNOWN = -100  # label of a frame that nobody knows
HARMONIC, HARMONIC_TOP = 1024, 5000  # the smallest n_fft that tells harmonics apart, Hz up to which they are looked at
RESOLUTIONS = ((256, 40), (512, 64), (1024, 100), (2048, 128))  # n_fft (hop = n_fft / 4), mels


class SpectralLoss(nn.Module):
    """Mean over resolutions of L1 between log-mels plus L1 between compressed magnitudes, and where harmonics are
    resolved between log-magnitudes, which count the valleys between them as much: [B, N] x 2 -> [B], per item."""

    def __init__(self) -> None:
        super().__init__()
        for n_fft, mels in RESOLUTIONS:
            bank = torchaudio.functional.melscale_fbanks(n_fft // 2 + 1, 0.0, SAMPLE_RATE / 2, mels, SAMPLE_RATE)
            self.register_buffer(f"bank{n_fft}", bank, persistent=False)
            self.register_buffer(f"window{n_fft}", torch.hann_window(n_fft), persistent=False)

    def forward(self, made: Tensor, real: Tensor) -> Tensor:
        return self._distance(*(self._views(x) for x in (made, real)))

    def energy(self, made: Tensor, again: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Energy distance of two renderings that differ in their noise alone, [B], and what they lie apart, [B]. A
        plain distance is least for the mean of all that could be said, which is a buzz; half of what renderings lie
        apart taken off, it is least where they vary as recordings do (A. Gritsenko and others, "A spectral energy
        distance for parallel speech synthesis", 2020, section 3)."""
        one, other, true = (self._views(x) for x in (made, again, real))
        distance = self._distance(one, other)
        return (self._distance(one, true) + self._distance(other, true) - distance) / 2, distance

    def _views(self, samples: Tensor) -> list[tuple[Tensor, float]]:
        """What is compared, [B, ...] each, and its weight."""
        views = []
        for n_fft, _ in RESOLUTIONS:
            window, bank = getattr(self, f"window{n_fft}"), getattr(self, f"bank{n_fft}")
            spectrum = torch.stft(samples.float(), n_fft, n_fft // 4, window=window, center=True, return_complex=True)
            power = spectrum.real.square() + spectrum.imag.square() + 1e-9
            views.append((torch.log(torch.matmul(power.transpose(1, 2), bank).clamp(min=1e-5)), 1.0))
            views.append((power.sqrt().sqrt(), 0.5))  # three times as fast as a power of 0.25
            if n_fft >= HARMONIC:
                views.append((power[:, : n_fft * HARMONIC_TOP // SAMPLE_RATE].clamp(min=1e-6).log(), 0.5))
        return views

    @staticmethod
    def _distance(a: list[tuple[Tensor, float]], b: list[tuple[Tensor, float]]) -> Tensor:
        return sum(weight * (x - y).abs().flatten(1).mean(1) for (x, weight), (y, _) in zip(a, b)) / len(RESOLUTIONS)


def known_frames_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of frames whose label is known: logits [B, C, F], labels [B, F] -> []; 0 where none is."""
    total = F.cross_entropy(logits.float(), labels, ignore_index=UNKNOWN, reduction="sum")
    return total / (labels != UNKNOWN).sum().clamp(min=1)


class SemanticProbe(nn.Module):
    """Reads only the first codebook's output and must say what was spoken (QTTS, section 3.1): an autoregressive
    decoder over phonemes, as in the paper, and a frame classifier on aligned phonemes, which makes it converge on short
    crops."""

    def __init__(self, width: int, symbols: int) -> None:
        super().__init__()
        self.frame = nn.Sequential(nn.Conv1d(width, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, symbols, 1))
        self.embedding = nn.Embedding(symbols, width)
        self.position = nn.Embedding(64, width)
        self.decoder = nn.TransformerDecoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(width, symbols)

    def frame_loss(self, first: Tensor, labels: Tensor) -> Tensor:
        """first [B, F, width], labels [B, F] phoneme ids, UNKNOWN where nobody knows -> []."""
        return known_frames_loss(self.frame(first.transpose(1, 2)), labels)

    def frame_error(self, first: Tensor, labels: Tensor) -> float:
        """Share of frames whose phoneme is not the most likely one, of those where it is known."""
        wrong = (self.frame(first.transpose(1, 2)).argmax(1) != labels) & (labels >= 0)
        return float(wrong.sum() / (labels >= 0).sum().clamp(min=1))

    def decoder_loss(self, first: Tensor, targets: Tensor) -> Tensor:
        """targets [B, T] phoneme ids, 0 = padding; next-phoneme cross-entropy -> []."""
        inputs = F.pad(targets[:, :-1], (1, 0), value=1)
        count = targets.shape[1]
        x = self.embedding(inputs) + self.position(torch.arange(count, device=targets.device))
        causal = torch.ones(count, count, dtype=torch.bool, device=targets.device).triu(1)
        h = self.decoder(x, first, tgt_mask=causal)
        return known_frames_loss(self.out(h).transpose(1, 2), targets.where(targets != 0, UNKNOWN))
