"""A recording of a voice -> what the released models condition on: speech tokens, speaker vector, mel.

The speech tokenizer and the speaker encoder are the released ONNX files, run by onnxruntime.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor

from ... import audio
from ...config import UserError
from .configs import MEL_HOP, MEL_PER_TOKEN, MELS, SAMPLE_RATE, CosyConfig
from .download import SPEAKER_ENCODER

if TYPE_CHECKING:
    import onnxruntime

N_FFT = 1920  # of the vocoder's log-mel
MAX_SECONDS = 30.0  # the speech tokenizer was trained on no more


@dataclass(frozen=True)
class PromptFeatures:
    """tokens: [F]; speaker: [1, 192]; mel: [1, MELS, 2F]. All on the CPU."""

    tokens: Tensor
    speaker: Tensor
    mel: Tensor
    seconds: float
    notes: tuple[str, ...]
    cut: bool


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


class VoiceEncoder:
    def __init__(self, folder: Path, config: CosyConfig, device: torch.device) -> None:
        self._config = config
        self._tokenizer = _session(folder / config.speech_tokenizer, device)
        self._speaker = _session(folder / SPEAKER_ENCODER, torch.device("cpu"))

    def __call__(self, samples: np.ndarray, sample_rate: int) -> PromptFeatures:
        """samples: float [N] or [N, channels], best at the rate they were recorded at: 16 and 24 kHz are both made of
        them. Raises UserError where it cannot serve as a prompt."""
        recording = audio.read((sample_rate, samples), target=None)
        audio.refuse_short(recording)
        notes, cut = list(recording.notes), recording.seconds > MAX_SECONDS
        if cut:
            notes.append(f"Kept the first {MAX_SECONDS:g} s of {recording.seconds:.1f} s.")
        low, high = (
            torch.from_numpy(audio.resample(recording.samples, sample_rate, rate)[: int(MAX_SECONDS * rate)])
            for rate in (audio.SAMPLE_RATE, SAMPLE_RATE)
        )
        tokens, mel = align(self.tokens(low), prompt_mel(high, self._config.prompt_fmax))
        return PromptFeatures(tokens, self.embedding(low), mel[None], len(low) / audio.SAMPLE_RATE, tuple(notes), cut)

    def tokens(self, wave: Tensor) -> Tensor:
        """[N] at 16 kHz -> [F], 25 a second."""
        feats = whisper_mel(wave)[None].numpy()
        length = np.array([feats.shape[2]], dtype=np.int32)
        return _run(self._tokenizer, feats, length).long().flatten()

    def embedding(self, wave: Tensor) -> Tensor:
        """[N] at 16 kHz -> [1, 192]."""
        return _run(self._speaker, kaldi_bank(wave)[None].numpy()).float().reshape(1, -1)


def align(tokens: Tensor, mel: Tensor) -> tuple[Tensor, Tensor]:
    """Cut both to the same time: [F] and [MELS, 2F]."""
    count = min(mel.shape[1] // MEL_PER_TOKEN, len(tokens))
    return tokens[:count], mel[:, : MEL_PER_TOKEN * count]


def _run(session: onnxruntime.InferenceSession, *inputs: np.ndarray) -> Tensor:
    """Its first output."""
    named = {node.name: value for node, value in zip(session.get_inputs(), inputs)}
    return torch.from_numpy(np.asarray(session.run(None, named)[0]))


def _session(path: Path, device: torch.device) -> onnxruntime.InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    available = onnxruntime.get_available_providers()
    providers = [name for name in (*wanted, "CPUExecutionProvider") if name in available]
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # onnxruntime's own exceptions share no public base class
        raise UserError(f"{path.name} cannot be read ({str(error)[:100]}): delete {path}, download it again.") from None
