"""Spectra of a prompt as the released models were trained on them. Knows no models.

Three kinds: log-mel of the vocoder (24 kHz), Whisper's log-mel (16 kHz, for the speech tokenizer) and Kaldi's filter
bank (16 kHz, for the speaker encoder).
"""

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor

from .configs import MEL_HOP, MELS, SAMPLE_RATE

N_FFT = 1920


def _filters(bins: int, mels: int, rate: int, fmax: float) -> Tensor:
    """Slaney's triangles on Slaney's scale. [bins, mels]"""
    return torchaudio.functional.melscale_fbanks(bins, 0.0, fmax, mels, rate, norm="slaney", mel_scale="slaney")


def prompt_mel(wave: Tensor, fmax: float) -> Tensor:
    """wave: [N] at 24 kHz -> [MELS, N // 480], natural logarithm."""
    side = (N_FFT - MEL_HOP) // 2
    padded = F.pad(wave[None, None], (side, side), mode="reflect")[0, 0]
    spectrum = torch.stft(padded, N_FFT, MEL_HOP, window=torch.hann_window(N_FFT), center=False, return_complex=True)
    magnitude = (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()
    return (_filters(N_FFT // 2 + 1, MELS, SAMPLE_RATE, fmax).T @ magnitude).clamp(min=1e-5).log()


def whisper_mel(wave: Tensor, mels: int = 128) -> Tensor:
    """wave: [N] at 16 kHz -> [mels, N // 160]: log10 power, floored 80 dB under the peak, scaled to about -1..1."""
    spectrum = torch.stft(wave, 400, 160, window=torch.hann_window(400), return_complex=True)
    power = spectrum[:, :-1].abs().square()
    logs = (_filters(201, mels, 16_000, 8_000.0).T @ power).clamp(min=1e-10).log10()
    return (logs.clamp(min=float(logs.max()) - 8.0) + 4.0) / 4.0


def kaldi_bank(wave: Tensor) -> Tensor:
    """wave: [N] at 16 kHz -> [T, 80] with the mean over time taken off."""
    bank = torchaudio.compliance.kaldi.fbank(wave[None], num_mel_bins=80, dither=0.0, sample_frequency=16_000)
    return bank - bank.mean(dim=0, keepdim=True)
