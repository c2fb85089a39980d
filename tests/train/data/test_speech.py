"""Teacher and natural speech behind one door: labels follow the durations, and what is held out stays out."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from taught import UNITS, WORDS, record, teach

from tts_demo.config import FRAME_RATE, HOP, UserError
from tts_demo.text.symbols import IDS
from tts_demo.train.data.speech import (
    PAUSE,
    UNKNOWN,
    Speech,
    TeacherTiming,
    labels_of,
    phonemes_of_labels,
    punctuated,
    read_teacher,
    silences,
)


def test_every_frame_says_the_symbol_its_middle_lies_in() -> None:
    frames = int(sum(UNITS) * 0.025 * FRAME_RATE)
    places = TeacherTiming(WORDS, UNITS).alignment(frames)
    starts = np.cumsum((0, *UNITS)) * 0.025
    middle = lambda n: places[int((starts[n] + starts[n + 1]) / 2 * FRAME_RATE)]
    assert [middle(n) for n in range(len(UNITS))] == [-1, *range(len(WORDS)), -1]
    assert len(places) == frames and (np.diff(places[places >= 0]) >= 0).all()


def test_labels_are_sounds_pauses_and_seams() -> None:
    text = "hˈO, hˈO."
    places = np.repeat([-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, -1], (5, 2, 2, 3, 6, 1, 2, 1, 4, 9, 2))
    h, o = IDS["h"], IDS["O"]
    wanted = np.repeat([PAUSE, h, o, PAUSE, UNKNOWN, h, o, PAUSE], (5, 2, 5, 6, 1, 2, 5, 11))
    assert labels_of(places, text).tolist() == wanted.tolist()
    assert phonemes_of_labels(wanted, 9).tolist() == [h, o, h, o] and phonemes_of_labels(wanted, 3).tolist() == [
        h,
        o,
        h,
    ]


def test_a_pause_belongs_to_the_mark_that_stands_there() -> None:
    text = "hˈO, hˈO hˈO"  # places of sounds: 0 2 5 7 9 11
    path = np.asarray([-1, 0, 2, -1, -1, 5, 7, -1, 9, 11, -1])
    assert silences(path, text).tolist() == [-1, 0, 2, 3, 3, 5, 7, 8, 9, 11, -1]
    assert silences(np.asarray([0, -1, 2, -1]), "hˈO.").tolist() == [0, -1, 2, 3]


def test_a_text_without_marks_gets_them_where_the_voice_pauses() -> None:
    text = "hˈO hˈO hˈO hˈO"
    counts = {-1: 4, 0: 3, 2: 5, 3: 7, 4: 3, 6: 5, 7: 8, 8: 3, 10: 5, 11: 25, 12: 3, 14: 5}
    places = np.r_[np.repeat(list(counts), list(counts.values())), [-1] * 6]
    written, found = punctuated(text, places)
    assert written == "hˈO hˈO, hˈO. hˈO."
    assert {n: int((found == n).sum()) for n in set(found.tolist())} == (
        {-1: 4, 0: 3, 2: 5, 3: 7, 4: 3, 6: 5, 7: 8} | {9: 3, 11: 5, 12: 25} | {14: 3, 16: 5, 17: 6}
    )
    assert [written[n] for n in found if n >= 0 and written[n] in ",."] == [","] * 8 + ["."] * 31
    known = [(text[a], written[b]) for a, b in zip(places, found) if a >= 0 and text[a] != " "]
    assert all(a == b for a, b in known)


class _Ears(torch.nn.Module):
    """Hear two phonemes with a pause between them, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv1d(1, 1, 1)

    def align(self, samples: torch.Tensor, phonemes: torch.Tensor) -> torch.Tensor:
        if len(phonemes) > 2:
            raise RuntimeError("targets length is too long")
        return torch.tensor([0] * (len(samples) // HOP - 20) + [-1] * 10 + [1] * 10)


def test_ears_tell_the_times_of_natural_speech(tmp_path: Path) -> None:
    record(tmp_path / "natural" / "own", {"a": "Oh, oh!", "b": "Hello there."})
    speech = Speech(tmp_path / "natural", [], tmp_path / "cache", _Ears())
    assert speech.texts[0] == "ˈO, ˈO!"
    assert speech.alignment(0).tolist() == [1] * 42 + [2] * 10 + [5] * 10
    assert speech.labels(0).tolist() == [IDS["O"]] * 42 + [PAUSE] * 10 + [IDS["O"]] * 10
    assert speech.alignment(1) is None and speech.labels(1) is None  # more phonemes than frames


def test_times_follow_a_front_end_that_reads_a_text_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept of the earlier reading would lie on other symbols, or behind the last."""
    record(tmp_path / "natural" / "own", {"a": "one", "b": "two"})
    aligned = []

    class PhonemeRecogniser(_Ears):
        def align(self, samples: torch.Tensor, sounds: torch.Tensor) -> torch.Tensor:
            aligned.append(len(sounds))
            return super().align(samples, sounds)

    ears = PhonemeRecogniser()
    for said, places in (("ˈO ˈO.", [1, 4]), ("ˈO, ˈO.", [1, 5])):
        monkeypatch.setattr("tts_demo.train.data.speech.phonemes_of", lambda text: said if text == "one" else "ˈI ˈI.")
        speech = Speech(tmp_path / "natural", [], tmp_path / "cache", ears)
        found = [n for n in dict.fromkeys(speech.alignment(0).tolist()) if speech.texts[0][n] == "O"]
        assert found == places and speech.texts[1] == "ˈI ˈI."
    assert len(aligned) == 3, "the text that is read as before is not aligned again"


def test_the_teachers_voices_are_held_out_by_both_lists(tmp_path: Path) -> None:
    folder = teach(tmp_path / "t", {"a": 1, "b": 5, "c": 24, "d": 97})
    (folder / "held_out_voices.json").write_text("[5]")
    found = {u.id: u.held_out for u, _ in read_teacher([folder])}
    assert found == {"a": False, "b": True, "c": True, "d": True}


def test_only_whole_utterances_are_read_and_a_half_written_line_is_no_error(tmp_path: Path) -> None:
    shared = teach(tmp_path / "shared", {"a": 1, "b": 2, "c": 3})
    (shared / "a.flac").unlink()
    grown = tmp_path / "grown"
    grown.mkdir()
    (shared / "b.flac").rename(grown / "b.flac")
    with open(grown / "align-1.jsonl", "w") as file:
        file.write('{"id": "a", "lead": 1, "fra')
    assert [u.id for u, _ in read_teacher([shared, grown])] == ["b", "c"]
    (grown / "plan.jsonl").write_text((shared / "plan.jsonl").read_text())  # what both list is there once
    assert [u.id for u, _ in read_teacher([shared, grown])] == ["b", "c"]


def test_natural_and_taught_speech_through_one_door(tmp_path: Path) -> None:
    natural = record(tmp_path / "natural" / "bdl", {"arctic_a0001": "Ho ho!", "arctic_b0441": "Ho."})
    folder = teach(tmp_path / "t", {"k": 1}, rate=24_000)
    speech = Speech(tmp_path / "natural", [folder], tmp_path / "cache")
    assert [(u.corpus, u.held_out) for u in speech.utterances] == [("bdl", False), ("bdl", True), ("teacher", False)]
    assert speech.sounds(0).tolist() == speech.sounds(2).tolist() == [IDS["h"], IDS["O"]] * 2
    assert speech.ids(2).tolist() == [IDS[c] for c in WORDS]
    assert speech.labels(0) is None and len(speech.labels(2)) == speech.frames(2) == sum(UNITS) * 400 // HOP
    assert np.sqrt(np.mean(speech.samples(0) ** 2)) == pytest.approx(0.07, rel=0.02)
    assert len(speech.samples(0)) == 20_100 and len(speech.samples(0, 100, 50)) == 50
    teach(tmp_path / "more", {"l": 2})
    grown = Speech(tmp_path / "natural", [folder, tmp_path / "more"], tmp_path / "cache")
    assert len(grown) == 4 and (grown.samples(2) == speech.samples(2)).all()
    (tmp_path / "more").rename(tmp_path / "natural" / "teacher")
    assert [u.id for u in Speech(tmp_path / "natural", [], tmp_path / "cache").utterances][2:] == ["l"]
    shutil.rmtree(natural)
    assert [u.id for u in Speech(tmp_path / "natural", [], tmp_path / "cache").utterances] == ["l"]


def test_a_folder_without_a_plan_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"plan\.jsonl"):
        read_teacher([tmp_path])
