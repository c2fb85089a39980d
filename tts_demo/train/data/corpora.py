"""Speech corpora: reading, the hold-out rules, and one decoded copy on disk that every recipe samples from.

A corpus is a folder with ``metadata.csv`` (``id|text|seconds`` or LJSpeech's ``id|text|normalised text``) and one audio
file per id beside it or under ``wavs/``. A data folder is one corpus, a folder of corpora, or LibriTTS as it is
released (``<subset>/<speaker>/<chapter>/<id>.wav`` with ``<id>.normalized.txt`` beside it).
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
import torchaudio
from tqdm import tqdm

from ...config import SAMPLE_RATE, UserError
from ...text.sentences import encode_batch, sounds

LICENCES = {
    "librispeech": "mini LibriSpeech train-clean-5, CC BY 4.0 (V. Panayotov and others, 2015)",
    "kathleen": "rhasspy Kathleen, CC0 1.0",
    "bdl": "CMU ARCTIC bdl, free to use with Carnegie Mellon's notice",
    "slt": "CMU ARCTIC slt, free to use with Carnegie Mellon's notice",
    "ljspeech": "LJ Speech, public domain",
    **dict.fromkeys(
        ("train-clean-100", "train-clean-360", "train-other-500"), "LibriTTS, CC BY 4.0 (H. Zen and others, 2019)"
    ),
}
_SOUNDS = sounds()
HELD_OUT_SPEAKERS = {"librispeech-32", "librispeech-669"}
TRANSCRIPT = ".normalized.txt"


def is_sound(symbol: int) -> bool:
    """True for phonemes a recogniser can hear; False for stress, punctuation and word boundaries."""
    return symbol in _SOUNDS


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
        found.append(
            Utterance(subset, name, transcript.read_text(encoding="utf-8").strip(), speaker, str(path), held_out)
        )
    return found


def _read_corpus(folder: Path) -> list[Utterance]:
    corpus, rows = folder.name, []
    with open(folder / "metadata.csv", encoding="utf-8") as file:
        for row in csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE):
            utterance, text = row[0], row[1]
            path = _audio_path(folder, utterance)
            if path is None:
                raise UserError(
                    f"{folder / 'metadata.csv'} lists {utterance}, but there is no such audio file beside it."
                )
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
    """Utterances, and how long each is."""

    utterances: list[Utterance]

    def __len__(self) -> int:
        return len(self.utterances)

    def seconds(self, index: int) -> float:
        raise NotImplementedError

    def indices(self, held_out: bool, corpora: tuple[str, ...] | None = None) -> list[int]:
        return [
            i
            for i, u in enumerate(self.utterances)
            if u.held_out == held_out and (corpora is None or u.corpus in corpora)
        ]

    def split(self, usable: Callable[[int], bool]) -> tuple[list[int], list[int]]:
        """Usable utterances to train on and to test with; without a hold-out rule one in fifty is kept back."""
        train, test = ([i for i in self.indices(held_out) if usable(i)] for held_out in (False, True))
        return (train, test) if test else ([i for n, i in enumerate(train) if n % 50], train[::50])

    def hours(self, indices: list[int]) -> float:
        return sum(self.seconds(i) for i in indices) / 3600


class SpeechCache(Corpus):
    """All utterances of a data folder decoded once into one int16 file, read through a memory map."""

    def __init__(self, data: str | Path, cache: str | Path) -> None:
        self.utterances = read_corpora(data)
        folder = Path(cache) / f"speech-{listing_hash(self.utterances)}"
        if not (folder / "offsets.npy").exists():
            _decode_all(self.utterances, folder)
        self.folder = folder
        self.offsets = np.load(folder / "offsets.npy")
        self.audio = np.memmap(folder / "audio.i16", dtype=np.int16, mode="r")

    def samples(self, index: int, start: int = 0, count: int | None = None) -> np.ndarray:
        """float32 [N] in -1..1: the whole utterance, or ``count`` samples of it from ``start`` on."""
        first, end = int(self.offsets[index]) + start, int(self.offsets[index + 1])
        return self.audio[first : end if count is None else min(end, first + count)].astype(np.float32) / 32768.0

    def seconds(self, index: int) -> float:
        return float(self.offsets[index + 1] - self.offsets[index]) / SAMPLE_RATE


def listing_hash(utterances: list[Utterance]) -> str:
    """Twelve hex digits that name caches made of these utterances."""
    return hashlib.sha256(json.dumps([asdict(u) for u in utterances]).encode()).hexdigest()[:12]


def _decode_all(utterances: list[Utterance], folder: Path) -> None:
    """Written under a temporary name and renamed last, so that a killed run leaves no half cache behind."""
    folder.mkdir(parents=True, exist_ok=True)
    offsets = [0]
    with open(folder / "audio.part", "wb") as out:
        for u in tqdm(utterances, desc="decoding speech", unit="utt"):
            samples = load_audio(u.path)
            peak = max(float(np.abs(samples).max()), 1e-4)
            rms = float(np.sqrt(np.mean(samples**2))) + 1e-6
            gain = min(0.07 / rms, 0.95 / peak)  # one loudness for all corpora, never clipped
            out.write((samples * gain * 32767).astype(np.int16).tobytes())
            offsets.append(offsets[-1] + len(samples))
    (folder / "audio.part").rename(folder / "audio.i16")
    np.save(folder / "offsets.npy", np.asarray(offsets, dtype=np.int64))


class PhonemeCache:
    """Phoneme ids of every utterance of a ``SpeechCache``, computed once."""

    def __init__(self, speech: SpeechCache) -> None:
        path = speech.folder / "phonemes-hibari.json"
        if not path.exists():
            _write_json(path, encode_batch(u.text for u in speech.utterances))
        self.ids: list[list[int]] = json.loads(path.read_text())

    def sounds(self, index: int) -> list[int]:
        """Ids of the phonemes alone: no stress, punctuation or word boundaries (what a recogniser can hear)."""
        return [i for i in self.ids[index] if is_sound(i)]


def _write_json(path: Path, value: object) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(path)


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
    rule = "LibriSpeech speakers 32 and 669, ARCTIC prompts b0440 to b0479 in every voice"
    held_out = rule if speech.indices(held_out=True) else "one utterance in fifty"
    return f"{speech.hours(indices):.2f} h: " + "; ".join(parts) + f". Held out: {held_out}."
