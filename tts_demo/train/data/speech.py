"""Speech to train on, natural and a teacher's, behind one door: samples, phonemes, and what is known of their times.

Natural corpora are read by ``corpora.py``, their phonemes made of their texts. A teacher's folder (``teacher.py`` makes
one) has ``plan.jsonl`` with the phonemes it was given, ``align*.jsonl`` with how long it spoke each, and the audio.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...config import FRAME_RATE, HOP, SAMPLE_RATE, UserError
from ...text.sentences import preview
from ...text.symbols import BOUNDARY, CONSONANTS, IDS, STRESS, VOWELS, encode
from .corpora import Corpus, Utterance, load_audio, read_corpora
from .rows import Rows

TEACHER = "teacher"
UNIT = 0.025  # seconds in which a teacher's durations are counted
HELD_OUT_VOICES = frozenset({24, 25, 26, 27, 96, 97, 98, 99})  # and those of its held_out_voices.json
PAUSE, UNKNOWN = 0, -100  # labels of a frame beside the phonemes
SHORT_PAUSE = 3  # a blank or mark of at most so many units is a seam between words, not a pause
LOUDNESS, LOUDEST = 0.07, 0.95  # root mean square that every recording is brought to, and what its peak may reach
SOUNDS = {symbol: IDS[symbol] for symbol in VOWELS + CONSONANTS}  # what can be heard: no stress, blanks, punctuation


@dataclass(frozen=True)
class Spoken:
    """What a teacher was given and how long each symbol took."""

    phonemes: str
    durations: tuple[int, ...]  # in UNITs: of the silence before, of each symbol, of the silence after

    def labels(self, frames: int) -> np.ndarray:
        """int16 [F]: the sound of each codec frame by its middle. A stress mark is the beginning of its vowel."""
        sounds, of = [], ["", *self.phonemes, ""]
        for place, (symbol, units) in enumerate(zip(of, self.durations)):
            if symbol in STRESS:
                symbol = next((s for s in of[place:] if s in SOUNDS), "")
            pause = PAUSE if units > SHORT_PAUSE or place in (0, len(of) - 1) else UNKNOWN
            sounds += [SOUNDS.get(symbol, pause)] * units
        middles = ((np.arange(frames) + 0.5) / FRAME_RATE / UNIT).astype(int)
        return np.asarray(sounds, dtype=np.int16)[np.minimum(middles, len(sounds) - 1)]


class Speech(Corpus):
    """Natural corpora under ``data`` and what teachers' folders hold; samples are decoded once."""

    def __init__(self, data: Path | None, teachers: Iterable[Path], cache: Path) -> None:
        natural = read_corpora(data) if data else []
        spoken = read_teacher([Path(t) for t in teachers])
        self.utterances = natural + [u for u, _ in spoken]
        self.spoken: list[Spoken | None] = [None] * len(natural) + [s for _, s in spoken]
        self.keys = [f"{u.corpus}/{u.id}:{Path(u.path).stat().st_size}" for u in self.utterances]
        self.cache = cache
        paths = {key: u.path for key, u in zip(self.keys, self.utterances)}
        self._samples = Rows(cache / "samples").fill(self.keys, lambda key: _decoded(paths[key]), "decoding speech")
        self.texts = [s.phonemes if s else phonemes_of(u.text) for u, s in zip(self.utterances, self.spoken)]

    def samples(self, index: int, start: int = 0, count: int | None = None) -> np.ndarray:
        """float32 [N] in -1..1: the whole utterance, or ``count`` samples of it from ``start`` on."""
        row = self._samples[self.keys[index]]
        return row[start : None if count is None else start + count].astype(np.float32) / 32768.0

    def seconds(self, index: int) -> float:
        return self._samples.length(self.keys[index]) / SAMPLE_RATE

    def frames(self, index: int) -> int:
        """Whole codec frames."""
        return self._samples.length(self.keys[index]) // HOP

    def sounds(self, index: int) -> np.ndarray:
        """int64 [T]: the phonemes that can be heard, without stress, blanks or punctuation."""
        return np.asarray(encode(s for s in self.texts[index] if s in SOUNDS), dtype=np.int64)

    def symbols(self, index: int) -> np.ndarray:
        """int64 [T]: all symbols of the text."""
        return np.asarray(encode(self.texts[index]), dtype=np.int64)

    def labels(self, index: int) -> np.ndarray | None:
        """int16 [F]: the sound of each frame, where its times are known."""
        spoken = self.spoken[index]
        return spoken.labels(self.frames(index)) if spoken else None


def phonemes_of(text: str) -> str:
    """Written text -> phonemes, one character a symbol."""
    return BOUNDARY.join(sentence.phonemes for sentence in preview(text))


def _decoded(path: str) -> np.ndarray:
    """int16 [N]: one loudness for all corpora, never clipped."""
    samples = load_audio(path)
    peak, rms = max(float(np.abs(samples).max()), 1e-4), float(np.sqrt(np.mean(samples**2))) + 1e-6
    return (samples * min(LOUDNESS / rms, LOUDEST / peak) * 32767).astype(np.int16)


def read_teacher(folders: list[Path]) -> list[tuple[Utterance, Spoken]]:
    """Every utterance that is whole: planned, aligned, and there. Its order is the plan's."""
    plans = [folder / "plan.jsonl" for folder in folders if (folder / "plan.jsonl").exists()]
    if folders and not plans:
        raise UserError(f"There is no plan.jsonl in {', '.join(map(str, folders))}: make the teacher's speech first.")
    held_out, durations, audio = set(HELD_OUT_VOICES), {}, {}
    for folder in folders:
        listed = folder / "held_out_voices.json"
        held_out |= set(json.loads(listed.read_text())) if listed.exists() else set()
        for path in sorted(folder.glob("align*.jsonl")):
            for row in _lines(path):
                durations[row["id"]] = (row["lead"], *row["frames"], row["tail"])
        for path in [*folder.glob("*.flac"), *folder.glob("audio/*.flac"), *folder.glob("audio/*.opus")]:
            audio[path.stem] = path
    found = []
    for row in (row for plan in plans for row in _lines(plan)):
        name, voice = row["id"], int(row["voice"])
        if name in durations and name in audio and len(durations[name]) == len(row["phonemes"]) + 2:
            speaker = f"{TEACHER}-{voice:03d}"
            utterance = Utterance(TEACHER, name, row["text"], speaker, str(audio[name]), voice in held_out)
            found.append((utterance, Spoken(row["phonemes"], durations[name])))
    return found


def _lines(path: Path) -> Iterable[dict]:
    """Records of a file that another process may be writing: its last line may not be whole."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
