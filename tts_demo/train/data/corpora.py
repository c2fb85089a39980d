"""Speech corpora: reading, the hold-out rules, and what is made of each utterance once.

A corpus is a folder with ``metadata.csv`` (``id|text|seconds`` or LJSpeech's ``id|text|normalised text``) and one audio
file per id beside it or under ``wavs/``. A data folder is one corpus, a folder of corpora, or LibriTTS as it is
released (``<subset>/<speaker>/<chapter>/<id>.wav`` with ``<id>.normalized.txt`` beside it).
"""

import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
import torchaudio

from ...config import FRAME_RATE, SAMPLE_RATE, UserError
from .rows import Rows

LICENCES = {
    "librispeech": "mini LibriSpeech train-clean-5, CC BY 4.0 (V. Panayotov and others, 2015)",
    "kathleen": "rhasspy Kathleen, CC0 1.0",
    "bdl": "CMU ARCTIC bdl, free to use with Carnegie Mellon's notice",
    "slt": "CMU ARCTIC slt, free to use with Carnegie Mellon's notice",
    "ljspeech": "LJ Speech, public domain",
    "teacher": "synthetic, spoken by Kokoro-82M (hexgrad), Apache 2.0",
    **dict.fromkeys(
        ("train-clean-100", "train-clean-360", "train-other-500"), "LibriTTS, CC BY 4.0 (H. Zen and others, 2019)"
    ),
}
HELD_OUT_SPEAKERS = {"librispeech-32", "librispeech-669"}
TRANSCRIPT = ".normalized.txt"


@dataclass(frozen=True)
class Utterance:
    corpus: str
    id: str
    text: str
    speaker: str
    path: str
    held_out: bool


def is_held_out(corpus: str, utterance: str) -> bool:
    """True for what no recipe may train on: LibriSpeech speakers 32 and 669, and the ARCTIC prompts b0440 to b0479
    in every voice and take (the three ARCTIC voices read the same prompts, so the split is by prompt)."""
    if corpus == "librispeech":
        return f"librispeech-{utterance.split('-')[0]}" in HELD_OUT_SPEAKERS
    prompt = re.match(r"arctic_b(\d{4})", utterance)
    return bool(prompt) and 440 <= int(prompt[1]) <= 479


def read_corpora(root: str | Path) -> list[Utterance]:
    """Every utterance under ``root``, in a fixed order. Raises UserError when there is none."""
    root = Path(root)
    folders = [root] if (root / "metadata.csv").exists() else sorted(p.parent for p in root.glob("*/metadata.csv"))
    found = [u for folder in folders for u in _read_corpus(folder)] or _read_libritts(root)
    if not found:
        raise UserError(
            f"No speech under {root}: it needs a metadata.csv (id|text|...) with the audio files beside it, or "
            "LibriTTS's folders."
        )
    return found


def _read_libritts(root: Path) -> list[Utterance]:
    """Its speakers are LibriSpeech's: the same ones are held out, and so are the subsets for development and test."""
    found = []
    for transcript in sorted(root.rglob(f"*{TRANSCRIPT}")):
        name, subset = transcript.name.removesuffix(TRANSCRIPT), transcript.absolute().parents[2].name
        path = _audio_path(transcript.parent, name)
        if path is None:
            raise UserError(f"There is no recording beside {transcript}: unpack the corpus again.")
        speaker = f"librispeech-{name.split('_')[0]}"
        held_out = speaker in HELD_OUT_SPEAKERS or subset.startswith(("dev", "test"))
        text = transcript.read_text(encoding="utf-8").strip()
        found.append(Utterance(subset, name, text, speaker, str(path), held_out))
    return found


def _read_corpus(folder: Path) -> list[Utterance]:
    corpus, rows = folder.name, []
    with open(folder / "metadata.csv", encoding="utf-8") as file:
        for row in csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE):
            utterance, text = row[0], row[1]
            path = _audio_path(folder, utterance)
            if path is None:
                raise UserError(f"{folder / 'metadata.csv'} lists {utterance}, but no such audio file is beside it.")
            speaker = f"{corpus}-{utterance.split('-')[0]}" if corpus == "librispeech" else corpus
            rows.append(Utterance(corpus, utterance, text, speaker, str(path), is_held_out(corpus, utterance)))
    return rows


def _audio_path(folder: Path, utterance: str) -> Path | None:
    for candidate in (f"{utterance}.opus", f"{utterance}.wav", f"{utterance}.flac", f"wavs/{utterance}.wav"):
        if (folder / candidate).exists():
            return folder / candidate
    return None


def load_audio(path: str | Path) -> np.ndarray:
    """Mono float32 [N] at 16 kHz."""
    samples, rate = soundfile.read(str(path), dtype="float32", always_2d=True)
    mono = torch.from_numpy(samples.mean(axis=1))
    return mono.numpy() if rate == SAMPLE_RATE else torchaudio.functional.resample(mono, rate, SAMPLE_RATE).numpy()


class Corpus:
    """Utterances, and what is made of each once and kept: rows by their keys under ``cache``."""

    def __init__(self, utterances: list[Utterance], cache: Path) -> None:
        self.utterances, self.cache = utterances, cache
        self.keys = [f"{u.corpus}/{u.id}:{Path(u.path).stat().st_size}" for u in utterances]

    def __len__(self) -> int:
        return len(self.utterances)

    def seconds(self, index: int) -> float:
        raise NotImplementedError

    def shares(self, indices: Sequence[int]) -> np.ndarray:
        """Of all their speech [N]: how often each is to be seen."""
        seconds = np.asarray([self.seconds(i) for i in indices])
        return seconds / seconds.sum()

    def ids(self, index: int) -> np.ndarray:
        """int64 [T]: the symbols of an utterance's text."""
        raise NotImplementedError

    def alignment(self, index: int) -> np.ndarray | None:
        """int64 [F]: the index into ``ids`` at each frame, -1 = unknown. None: the utterance is not to be used."""
        raise NotImplementedError

    def kept(
        self,
        name: str,
        make: Callable[[int], np.ndarray],
        chosen: Iterable[int] | None = None,
        texts: Sequence[str] | None = None,
    ) -> "Kept":
        """What ``make`` makes of each utterance (or of those ``chosen``), made once and kept under ``name``. ``texts``:
        what else it is made of; a front end that reads one of them otherwise has that row made anew."""
        digest = lambda text: hashlib.sha256(text.encode()).hexdigest()[:12]
        keys = self.keys if texts is None else [f"{key}#{digest(text)}" for key, text in zip(self.keys, texts)]
        numbers = {key: i for i, key in enumerate(keys)}
        wanted = keys if chosen is None else [keys[i] for i in chosen]
        return Kept(Rows(self.cache / name).fill(wanted, lambda key: make(numbers[key]), name), keys)

    def by_speaker(self, indices: Iterable[int]) -> dict[str, list[int]]:
        """Those of each speaker."""
        found = defaultdict(list)
        for i in indices:
            found[self.utterances[i].speaker].append(i)
        return dict(found)

    def indices(self, held_out: bool) -> list[int]:
        return [i for i, utterance in enumerate(self.utterances) if utterance.held_out == held_out]

    def split(self, usable: Callable[[int], bool]) -> tuple[list[int], list[int]]:
        """Usable utterances to train on and to test with; without a hold-out rule one in fifty is kept back."""
        train, test = ([i for i in self.indices(held_out) if usable(i)] for held_out in (False, True))
        return (train, test) if test else ([i for n, i in enumerate(train) if n % 50], train[::50])

    def hours(self, indices: list[int]) -> float:
        return sum(self.seconds(i) for i in indices) / 3600


@dataclass(frozen=True)
class Kept:
    """Rows by the number of an utterance."""

    rows: Rows
    keys: list[str]

    def __contains__(self, index: int) -> bool:
        return self.keys[index] in self.rows

    def get(self, index: int) -> np.ndarray:
        return self.rows[self.keys[index]]

    def length(self, index: int) -> int:
        return self.rows.length(self.keys[index])


def longer_than(
    least: int, frames: Callable[[int], int], train: Iterable[int], test: Iterable[int]
) -> tuple[list[int], list[int], np.ndarray]:
    """Utterances of more than ``least`` frames to train on and to test with, and the share of all training frames that
    each of the former has. Raises UserError where none is left to train on."""
    kept, tested = ([i for i in side if frames(i) > least] for side in (train, test))
    if not kept:
        raise too_little(least)
    lengths = np.asarray([frames(i) for i in kept])
    return kept, tested, lengths / lengths.sum()


def too_little(least: int) -> UserError:
    """Where no utterance of more than ``least`` frames is left to train on."""
    return UserError(
        f"There is too little speech to train on: at least two recordings over {least / FRAME_RATE:g} s that fit "
        "their text."
    )


def pad_stack(rows: list[np.ndarray], value: float = 0) -> torch.Tensor:
    """Arrays [n_i, ...] -> tensor [B, max n, ...] padded at the end."""
    longest = max(len(r) for r in rows)
    out = np.full((len(rows), longest, *rows[0].shape[1:]), value, dtype=rows[0].dtype)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def describe(speech: Corpus, indices: list[int]) -> str:
    """Corpora, hours and licences, for a model card."""
    names = sorted({speech.utterances[i].corpus for i in indices})
    parts = [
        f"{n} ({speech.hours([i for i in indices if speech.utterances[i].corpus == n]):.2f} h; "
        f"{LICENCES.get(n, 'licence of your own data')})"
        for n in names
    ]
    rule = "LibriSpeech speakers 32 and 669, ARCTIC prompts b0440 to b0479 in every voice, eight voices of the teacher"
    held_out = rule if speech.indices(held_out=True) else "one utterance in fifty"
    return f"{speech.hours(indices):.2f} h: " + "; ".join(parts) + f". Held out: {held_out}."
