"""Teacher and natural speech behind one door: labels follow the durations, and what is held out stays out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from taught import UNITS, WORDS, teach

from tts_demo.config import FRAME_RATE, HOP, SAMPLE_RATE, UserError
from tts_demo.text.symbols import IDS
from tts_demo.train.data.speech import PAUSE, UNKNOWN, Speech, Spoken, read_teacher


def test_every_frame_has_the_sound_its_middle_lies_in() -> None:
    frames = int(sum(UNITS) * 0.025 * FRAME_RATE)
    labels = Spoken(WORDS, UNITS).labels(frames)
    assert len(labels) == frames
    h, o = IDS["h"], IDS["O"]
    at = lambda seconds: labels[int(seconds * FRAME_RATE)]
    starts = np.cumsum((0, *UNITS)) * 0.025
    middle = lambda place: at((starts[place] + starts[place + 1]) / 2)
    assert [middle(p) for p in range(len(UNITS))] == [PAUSE, h, o, o, PAUSE, UNKNOWN, h, o, o, PAUSE, PAUSE]
    assert set(labels.tolist()) == {PAUSE, UNKNOWN, h, o}  # a stress mark is the beginning of its vowel


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


def test_natural_and_taught_speech_through_one_door(tmp_path: Path) -> None:
    natural = tmp_path / "natural" / "bdl"
    natural.mkdir(parents=True)
    for name in ("arctic_a0001", "arctic_b0441"):
        soundfile.write(natural / f"{name}.wav", 0.5 * np.sin(np.arange(20_100) * 0.05), SAMPLE_RATE)
    (natural / "metadata.csv").write_text("arctic_a0001|Ho ho!|1\narctic_b0441|Ho.|1\n")
    folder = teach(tmp_path / "t", {"k": 1}, rate=24_000)
    speech = Speech(tmp_path / "natural", [folder], tmp_path / "cache")
    assert [(u.corpus, u.held_out) for u in speech.utterances] == [("bdl", False), ("bdl", True), ("teacher", False)]
    assert speech.sounds(0).tolist() == speech.sounds(2).tolist() == [IDS["h"], IDS["O"]] * 2
    assert speech.symbols(2).tolist() == [IDS[c] for c in WORDS]
    assert speech.labels(0) is None and len(speech.labels(2)) == speech.frames(2) == sum(UNITS) * 400 // HOP
    assert np.sqrt(np.mean(speech.samples(0) ** 2)) == pytest.approx(0.07, rel=0.02)
    assert len(speech.samples(0)) == 20_100 and len(speech.samples(0, 100, 50)) == 50
    teach(tmp_path / "more", {"l": 2})
    grown = Speech(tmp_path / "natural", [folder, tmp_path / "more"], tmp_path / "cache")
    assert len(grown) == 4 and (grown.samples(2) == speech.samples(2)).all()


def test_a_folder_without_a_plan_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"plan\.jsonl"):
        read_teacher([tmp_path])
