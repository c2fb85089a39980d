"""A teacher's corpus is made, interrupted and gone on with, and read back with exact times; the session is a fake."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from tts_demo.cli.main import main
from tts_demo.config import SAMPLE_RATE, UserError
from tts_demo.text.symbols import SYMBOLS
from tts_demo.train.data import teacher as module
from tts_demo.train.data.speech import read_teacher
from tts_demo.train.data.teacher import Teacher, mixtures, synthesise_plan, write_plan

NUMBERS = {symbol: n for n, symbol in enumerate(SYMBOLS, 1)}


class FakeSession:
    """Speaks each symbol for as many units as its number modulo 4, and one more."""

    def __init__(self, outputs: tuple[str, ...] = ("waveform", "durations"), short: int = 0) -> None:
        self.outputs, self.short, self.heard = outputs, short, []

    def get_inputs(self) -> list:
        return [SimpleNamespace(name=name) for name in ("input_ids", "style", "speed")]

    def get_outputs(self) -> list:
        return [SimpleNamespace(name=name) for name in self.outputs]

    def run(self, names, feeds) -> list[np.ndarray]:
        self.heard.append(feeds)
        assert feeds["input_ids"].dtype == np.int64 and feeds["style"].shape == (1, 256)
        durations = feeds["input_ids"][0] % 4 + 1
        samples = 0.5 * np.sin(np.arange(durations.sum() * 600 - self.short) * 0.05)
        return [samples.astype(np.float32)[None], durations.astype(np.float32)]


def fake(**kw) -> Teacher:
    styles = {name: np.full((510, 1, 256), n, np.float32) for n, name in enumerate(("af_a", "am_b", "bf_c"), 1)}
    return Teacher(FakeSession(**kw), NUMBERS, styles)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sentences = ["Who is it?", "Hello there.", "...", "Who is it?", "", "It is 5 o'clock."]
    write_plan(tmp_path / "t", sentences, mixtures(["af_a", "am_b", "bf_c"], 7))
    return tmp_path / "t"


def test_mixtures_are_the_voices_first_and_then_new_ones() -> None:
    found = mixtures(["a", "b", "c"], 40)
    assert found[:3] == [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}] and found == mixtures(["a", "b", "c"], 40)
    assert all(len(m) in (2, 3) and sum(m.values()) == pytest.approx(1.0) for m in found[3:])


def test_a_plan_is_spoken_and_read_back(folder: Path) -> None:
    plan = [json.loads(line) for line in open(folder / "plan.jsonl", encoding="utf-8")]
    assert sorted(row["text"] for row in plan) == ["Hello there.", "It is 5 o'clock.", "Who is it?"]
    teacher = fake()
    seconds = list(synthesise_plan(teacher, folder))
    found = {u.id: spoken for u, spoken in read_teacher([folder])}
    assert len(found) == len(plan) == len(seconds)
    for row in plan:
        spoken, info = found[row["id"]], soundfile.info(folder / f"{row['id']}.flac")
        assert spoken.phonemes == row["phonemes"] and info.samplerate == SAMPLE_RATE
        assert spoken.durations == (1, *(NUMBERS[s] % 4 + 1 for s in row["phonemes"]), 1)
        assert info.frames == sum(spoken.durations) * 400
    voices = json.loads((folder / "voices.json").read_text())
    mixed = sum(teacher.styles[name][0, 0, 0] * w for name, w in voices[plan[0]["voice"]].items())
    assert teacher.session.heard[0]["style"][0, 0] == pytest.approx(mixed)


def test_it_goes_on_where_it_stopped_and_in_several_processes(folder: Path) -> None:
    first = synthesise_plan(fake(), folder, shard=0, of=2)
    next(first)
    first.close()
    with open(folder / "align-0.jsonl", "a", encoding="utf-8") as file:
        file.write('{"id": "half')  # killed while it wrote
    teachers = fake(), fake()
    for shard, teacher in enumerate(teachers):
        list(synthesise_plan(teacher, folder, shard, of=2))
    assert len(read_teacher([folder])) == 3
    assert [len(t.session.heard) for t in teachers] == [1, 1]
    assert not list(folder.glob("*.part"))


def test_a_model_that_tells_no_times_or_wrong_ones_is_refused(folder: Path) -> None:
    for told in ({"outputs": ("waveform",)}, {"short": 5000}):
        with pytest.raises(UserError, match=r"durations|how long"):
            list(synthesise_plan(fake(**told), folder))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(module.Teacher, "load", classmethod(lambda cls, source: fake()))
    (tmp_path / "sentences.txt").write_text("Who is it?\nHello there.\n")
    command = ["teach", str(tmp_path / "sentences.txt"), "-o", str(tmp_path / "out"), "--voices", "5"]
    assert main(command) == 0 and "h of speech" in capsys.readouterr().out
    assert len(read_teacher([tmp_path / "out"])) == 2
    assert main(command) == 0  # goes on
    assert main([*command, "--shard", "2", "--of", "2"]) == 2
    capsys.readouterr()
    assert main([*command[:-1], "6", "--seed", "3"]) == 2
    assert "made with other voices and seed" in capsys.readouterr().err
    (tmp_path / "sentences.txt").write_text("Who was it?\n")
    assert main(command) == 2 and "other sentences" in capsys.readouterr().err
    (tmp_path / "out" / "asked.json").unlink()  # a plan of an older version
    assert main(command) == 0
    assert main(["teach", str(tmp_path / "none.txt"), "-o", str(tmp_path)]) == 2


def test_a_folder_without_a_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.onnx"):
        Teacher.load(str(tmp_path))
