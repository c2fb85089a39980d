"""Speech to train on, natural and a teacher's, behind one door: samples, phonemes, and what is known of their times.

Natural corpora are read by ``corpora.py``, their phonemes made of their texts. A teacher's folder (``teacher.py`` makes
one) has ``plan.jsonl`` with the phonemes it was given, ``align*.jsonl`` with how long it spoke each, and the audio.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ... import checkpoints
from ...audio import LEVEL_PEAK, LEVEL_RMS
from ...codec.recogniser import PhonemeRecogniser
from ...config import FRAME_RATE, HOP, SAMPLE_RATE, UserError
from ...runtime import autocast
from ...text.sentences import preview
from ...text.symbols import BOUNDARY, CONSONANTS, IDS, PUNCTUATION, STRESS, VOWELS, encode
from ..losses import UNKNOWN
from .corpora import TRANSCRIPT, Corpus, Kept, Utterance, load_audio, read_corpora, too_little

TEACHER = "teacher"
UNIT = 0.025  # seconds in which a teacher's durations are counted
HELD_OUT_VOICES = frozenset({24, 25, 26, 27, 96, 97, 98, 99})  # and those of its held_out_voices.json
PAUSE = 0  # label of a frame beside the phonemes
SEAM = 3  # frames: a blank or mark that takes no longer is a seam between words, not a pause
COMMA, STOP = 8, 25  # frames: how long a pause at least is at these marks, where a transcript has none
PHONEMES = {symbol: IDS[symbol] for symbol in VOWELS + CONSONANTS}  # without stress, blanks, punctuation


@dataclass(frozen=True)
class TeacherTiming:
    """What a teacher was given and how long each symbol took."""

    phonemes: str
    durations: tuple[int, ...]  # in UNITs: of the silence before, of each symbol, of the silence after

    def alignment(self, frames: int) -> np.ndarray:
        """int16 [F]: the symbol that each codec frame's middle lies in, -1 before and behind the text."""
        units = np.repeat(np.arange(-1, len(self.phonemes) + 1), self.durations)
        middles = ((np.arange(frames) + 0.5) / FRAME_RATE / UNIT).astype(int)
        found = units[np.minimum(middles, len(units) - 1)]
        return np.where(found < len(self.phonemes), found, -1).astype(np.int16)


class Speech(Corpus):
    """Natural corpora and teachers' folders under ``data``, and teachers' folders elsewhere; samples are decoded
    once."""

    def __init__(
        self, data: Path, teachers: Iterable[Path], cache: Path, recogniser: PhonemeRecogniser | None = None
    ) -> None:
        """recogniser: aligns natural speech; without it ``alignment`` is None there."""
        folders = [*map(Path, teachers), *sorted(path.parent for path in data.glob("*/plan.jsonl"))]
        natural = read_corpora(data) if not folders or any(_listings(data)) else []
        timed = read_teacher(folders)
        super().__init__(natural + [u for u, _ in timed], cache)
        self._marked: dict[int, np.ndarray] = {}
        self.timings: list[TeacherTiming | None] = [None] * len(natural) + [s for _, s in timed]
        self._samples = self.kept("samples", lambda i: _decoded(self.utterances[i].path))
        self.texts = [s.phonemes if s else phonemes_of(u.text) for u, s in zip(self.utterances, self.timings)]
        self._aligned = self.align(recogniser) if recogniser else None
        self._marked = self._mark() if recogniser else {}

    def align(self, recogniser: PhonemeRecogniser) -> Kept:
        """Alignments of natural speech by this recogniser."""
        natural = [i for i, timed in enumerate(self.timings) if timed is None]
        device = recogniser.stem.weight.device

        def alignment(index: int) -> np.ndarray:
            samples = torch.from_numpy(self.samples(index)).to(device)
            audible = [n for n, symbol in enumerate(self.texts[index]) if symbol in PHONEMES]
            try:
                with autocast(device):
                    path = recogniser.align(samples, torch.from_numpy(self.sounds(index)).to(device)).cpu().numpy()
            except RuntimeError:  # more phonemes than frames: the text does not fit the recording
                return np.empty(0, dtype=np.int16)
            return silences(np.asarray([*audible, -1])[path], self.texts[index])

        return self.kept(f"places-{tag_of(recogniser)}", alignment, natural, list(self.texts))

    def _mark(self) -> dict[int, np.ndarray]:
        """Add punctuation where the speaker pauses to transcripts without any; returns their new alignments [F]."""
        marked = {}
        for index, text in enumerate(self.texts):
            if not any(symbol in PUNCTUATION for symbol in text) and (alignment := self.alignment(index)) is not None:
                self.texts[index], marked[index] = punctuated(text, alignment)
        return marked

    def samples(self, index: int, start: int = 0, count: int | None = None) -> np.ndarray:
        """float32 [N] in -1..1: the whole utterance, or ``count`` samples of it from ``start`` on."""
        row = self._samples.get(index)
        return row[start : None if count is None else start + count].astype(np.float32) / 32768.0

    def seconds(self, index: int) -> float:
        return self._samples.length(index) / SAMPLE_RATE

    def frames(self, index: int) -> int:
        """Whole codec frames."""
        return self._samples.length(index) // HOP

    def split_longer(self, least: int) -> tuple[list[int], list[int]]:
        """``split`` of the utterances of more than ``least`` frames that fit their text. UserError where none does."""
        train, test = self.split(lambda i: self.frames(i) > least and self.alignment(i) is not None)
        if not train:
            raise too_little(least)
        return train, test

    def ids(self, index: int) -> np.ndarray:
        return np.asarray(encode(self.texts[index]), dtype=np.int64)

    def sounds(self, index: int) -> np.ndarray:
        """int64 [T]: the phonemes, without stress, blanks or punctuation."""
        return np.asarray(encode(s for s in self.texts[index] if s in PHONEMES), dtype=np.int64)

    def alignment(self, index: int) -> np.ndarray | None:
        timed = self.timings[index]
        if timed:
            return timed.alignment(self.frames(index)).astype(np.int64)
        if index in self._marked:
            return self._marked[index]
        if self._aligned is None or index not in self._aligned or not self._aligned.length(index):
            return None
        return self._aligned.get(index).astype(np.int64)

    def labels(self, index: int) -> np.ndarray | None:
        """int64 [F]: the phoneme of each frame, where its times are known."""
        alignment = self.alignment(index)
        return None if alignment is None else labels_of(alignment, self.texts[index])


def labels_of(alignment: np.ndarray, text: str) -> np.ndarray:
    """alignment [F] into ``text`` -> the phoneme of each frame [F]. A stress mark is the beginning of its vowel; a
    blank or mark that is over in a moment is a seam between words, UNKNOWN, a longer one a PAUSE."""
    of, coming = np.full(len(text) + 1, PAUSE, dtype=np.int64), PAUSE
    for n in reversed(range(len(text))):
        coming = PHONEMES.get(text[n], coming)
        of[n] = coming if text[n] in PHONEMES or text[n] in STRESS else PAUSE
    labels, silent = of[alignment], np.asarray([s not in PHONEMES and s not in STRESS for s in text] + [False])
    starts = np.r_[0, np.flatnonzero(alignment[1:] != alignment[:-1]) + 1, len(alignment)]
    for start, end in zip(starts[:-1], starts[1:]):
        if silent[alignment[start]] and end - start <= SEAM:
            labels[start:end] = UNKNOWN
    return labels


def phonemes_of_labels(labels: np.ndarray, most: int) -> np.ndarray:
    """Labels [F] -> the phonemes of that stretch in turn, each once, at most ``most``."""
    known = labels[labels != UNKNOWN]
    if not len(known):
        return known
    runs = known[np.r_[True, known[1:] != known[:-1]]]
    return runs[runs != PAUSE][:most]


def silences(alignment: np.ndarray, text: str) -> np.ndarray:
    """Give each pause (-1) between two phonemes to the mark or blank that stands between them, if there is one:
    int16 [F]."""
    alignment = alignment.astype(np.int16)
    silent = alignment < 0
    edges = np.flatnonzero(np.diff(np.r_[False, silent, False]))
    for start, end in zip(edges[::2], edges[1::2]):
        before = alignment[start - 1] if start else -1
        after = alignment[end] if end < len(alignment) else len(text)
        between = [n for n in range(before + 1, after) if text[n] not in PHONEMES and text[n] not in STRESS]
        if between and start:  # a mark pauses rather than the blank beside it
            alignment[start:end] = next((n for n in between if text[n] != BOUNDARY), between[0])
    return alignment


def punctuated(text: str, alignment: np.ndarray) -> tuple[str, np.ndarray]:
    """A text without marks and the symbol of each frame [F] -> the same with a comma or full stop wherever the speaker
    pauses, and a full stop at the end."""
    frames = np.bincount(alignment[alignment >= 0], minlength=len(text))
    pauses = [n for n, symbol in enumerate(text) if symbol == BOUNDARY and frames[n] >= COMMA]
    marks = {n: "." if frames[n] >= STOP else "," for n in pauses} | {len(text): "."}
    renumbered = np.asarray([n + sum(n > pause for pause in pauses) for n in range(len(text))] + [-1])
    timed = np.flatnonzero(alignment >= 0)
    last = timed[-1] if len(timed) else len(alignment)
    ending = np.arange(len(alignment)) > last
    written = "".join(marks.get(n, "") + symbol for n, symbol in enumerate(text)) + marks[len(text)]
    return written, np.where(ending, len(written) - 1, renumbered[alignment])


def _listings(data: Path) -> Iterator[Path]:
    """What a folder of natural speech has."""
    yield from data.glob("metadata.csv")
    yield from data.glob("*/metadata.csv")
    yield from data.rglob(f"*{TRANSCRIPT}")


def phonemes_of(text: str) -> str:
    """Written text -> phonemes, one character a symbol."""
    return BOUNDARY.join(sentence.phonemes for sentence in preview(text, pace=False))


def _decoded(path: str) -> np.ndarray:
    """int16 [N]: one loudness for all corpora, never clipped."""
    samples = load_audio(path)
    peak, rms = max(float(np.abs(samples).max()), 1e-4), float(np.sqrt(np.mean(samples**2))) + 1e-6
    return (samples * min(LEVEL_RMS / rms, LEVEL_PEAK / peak) * 32767).astype(np.int16)


def read_teacher(folders: list[Path]) -> list[tuple[Utterance, TeacherTiming]]:
    """Every utterance that is whole: planned, aligned, and there. Its order is the plan's; what two plans list counts
    once."""
    plans = [folder / "plan.jsonl" for folder in folders if (folder / "plan.jsonl").exists()]
    if folders and not plans:
        raise UserError(f"There is no plan.jsonl in {', '.join(map(str, folders))}: make the teacher's speech first.")
    held_out, durations, audio = set(HELD_OUT_VOICES), {}, {}
    for folder in folders:
        listed = folder / "held_out_voices.json"
        held_out |= set(json.loads(listed.read_text())) if listed.exists() else set()
        for path in sorted(folder.glob("align*.jsonl")):
            for row in whole_lines(path):
                durations[row["id"]] = (row["lead"], *row["frames"], row["tail"])
        for path in [*folder.glob("*.flac"), *folder.glob("audio/*.flac"), *folder.glob("audio/*.opus")]:
            audio[path.stem] = path
    found = []
    rows = {row["id"]: row for plan in plans for row in whole_lines(plan)}
    for row in rows.values():
        name, voice = row["id"], int(row["voice"])
        if name in durations and name in audio and len(durations[name]) == len(row["phonemes"]) + 2:
            speaker = f"{TEACHER}-{voice:03d}"
            utterance = Utterance(TEACHER, name, row["text"], speaker, str(audio[name]), voice in held_out)
            found.append((utterance, TeacherTiming(row["phonemes"], durations[name])))
    return found


def whole_lines(path: Path) -> Iterable[dict]:
    """Records of a file that another process may be writing: its last line may not be whole."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def tag_of(*modules: torch.nn.Module) -> str:
    """Eight hex digits of the weights, to name what was made with them; renaming a weight changes nothing."""
    digest = hashlib.sha256()
    for module in modules:
        state = checkpoints.renamed(module.state_dict(), type(module).__name__, published=True)
        for key, value in sorted(state.items()):
            digest.update(key.encode() + value.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:8]
