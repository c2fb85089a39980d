"""Independent judges of speech: PocketSphinx for words, Resemblyzer for the voice, DNSMOS for quality, and the bundled
recogniser for phonemes. None of them conditioned anything here, except the last, which is why it never stands alone.

Each is loaded when first asked. ``tts_demo/requirements-quality.txt`` lists what needs a compiler to install; where a
judge is absent its figure is None, and ``missing`` says what to install.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein

from ..config import SAMPLE_RATE
from ..text import sentences as front_end

PACKAGES = {"WER": "pocketsphinx", "SIM": "resemblyzer", "MOS": "speechmos"}


def words(text: str) -> list[str]:
    """Lower-case words without punctuation, numbers written out: what error rates are counted on."""
    return re.sub(r"[^a-z' ]+", " ", front_end.normalise(text).lower().replace("-", " ")).split()


def missing() -> dict[str, str]:
    """Figure -> what to install for it, for every judge that is not there."""
    return {
        figure: f"pip install {name}" for figure, name in PACKAGES.items() if importlib.util.find_spec(name) is None
    }


class Judges:
    """samples are float32 [N] at 16 kHz throughout. ``recogniser``: the bundled one, or None; ``made_of``: its hash."""

    def __init__(self, recogniser: Any | None = None, made_of: str = "") -> None:
        self.recogniser, self.made_of, self._absent = recogniser, made_of, missing()

    @classmethod
    def of_checkpoint(cls, root: Path) -> Judges:
        from .. import checkpoints

        if not checkpoints.available(root, "recogniser"):
            return cls()
        return cls(
            checkpoints.load_module(root, "recogniser").eval(), checkpoints.checkpoint_hash(root, ("recogniser",))
        )

    @cached_property
    def _sphinx(self) -> Any:
        from pocketsphinx import Decoder

        return Decoder(samprate=SAMPLE_RATE, loglevel="FATAL")

    @cached_property
    def _voices(self) -> Any:
        from resemblyzer import VoiceEncoder

        return VoiceEncoder("cpu", verbose=False)

    def transcribe(self, samples: np.ndarray) -> str | None:
        """What PocketSphinx (US English, its own language model) hears."""
        if "WER" in self._absent:
            return None
        if not len(samples):
            return ""  # PocketSphinx will not take an empty buffer
        decoder = self._sphinx
        # else it remembers the level of what it heard before, and words depend on the order of runs
        decoder.reinit_feat()
        decoder.start_utt()
        decoder.process_raw((np.clip(samples, -1, 1) * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        heard = decoder.hyp()
        return heard.hypstr if heard else ""

    def phoneme_errors(self, samples: np.ndarray, text: str) -> tuple[int, int] | None:
        """Edit distance between what the bundled recogniser hears and the text's phonemes, and their number."""
        if self.recogniser is None:
            return None
        sounds = set(map(front_end.IDS.get, front_end.VOWELS + front_end.CONSONANTS))
        truth = [i for i in front_end.encode(text)[0] if i in sounds]
        heard = self.recogniser.phonemes(torch.from_numpy(np.ascontiguousarray(samples))) if len(samples) > 3200 else []
        return Levenshtein.distance(heard, truth), len(truth)

    def voice(self, samples: np.ndarray) -> np.ndarray | None:
        """Resemblyzer's unit vector [256]; None for less than half a second of sound."""
        if "SIM" in self._absent:
            return None
        from resemblyzer import preprocess_wav

        speech = preprocess_wav(samples.astype(np.float32), source_sr=SAMPLE_RATE)
        return self._voices.embed_utterance(speech) if len(speech) > SAMPLE_RATE // 2 else None

    def mos(self, samples: np.ndarray) -> float | None:
        """DNSMOS overall, 1 to 5 (higher is better)."""
        if "MOS" in self._absent or len(samples) < SAMPLE_RATE // 2:
            return None
        from speechmos import dnsmos

        peak = max(1.0, float(np.abs(samples).max()))
        # It doubles what is short until it is long enough, and then judges the surplus again, window by window.
        enough = max(len(samples), int(dnsmos.INPUT_LENGTH * SAMPLE_RATE))
        return float(dnsmos.run(np.resize(samples / peak, enough), sr=SAMPLE_RATE)["ovrl_mos"])


def word_errors(reference: str, heard: str) -> tuple[int, int]:
    """Substitutions + insertions + deletions, and the number of reference words."""
    truth = words(reference)
    return Levenshtein.distance(words(heard) if heard.strip() else [], truth), len(truth)


def character_errors(reference: str, heard: str) -> tuple[int, int]:
    truth = " ".join(words(reference))
    return Levenshtein.distance(" ".join(words(heard)) if heard.strip() else "", truth), len(truth)


def similarity(a: np.ndarray | None, b: np.ndarray | None) -> float | None:
    """Cosine of two unit vectors."""
    return None if a is None or b is None else float(np.dot(a, b))
