"""Evaluation on a tiny random model: what is recorded, what is not measured again, and what a stopped one leaves."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from conftest import TinyStack
from tts_demo.measure import analyses, quality
from tts_demo.measure.quality import NATURAL, TEACHER, Evaluation, Measurement, measurements
from tts_demo.measure.records import Records
from tts_demo.measure.rows import Row, chosen
from tts_demo.measure.texts import Case
from tts_demo.methods import METHODS
from tts_demo.report import papers
from tts_demo.voices import Voice


class Judge:
    """Hears every word but the last, and takes speech for its length."""

    def __init__(self, text: str = "red green blue black") -> None:
        self.text = text

    def transcribe(self, samples: np.ndarray) -> str:
        return " ".join(self.text.split()[:-1])

    def distilmos(self, samples: np.ndarray) -> float | None:
        return 3.5 if len(samples) else None

    dnsmos = distilmos

    def voice(self, samples: np.ndarray) -> np.ndarray:
        return np.array([1.0, 0.0])


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    time = np.arange(32000) / 16000
    soundfile.write(tmp_path / "voice.wav", (0.1 * np.sin(800 * time)).astype(np.float32), 16000)
    voice = Voice("a voice", tmp_path / "voice.wav")
    return [Case(f"text-{i}", "red green blue black", voice, "everyday") for i in range(3)]


class Brief(Evaluation):
    """An evaluation whose runs end after 0.4 s of speech."""

    def request(self, *args: Any, **more: Any) -> Any:
        return dataclasses.replace(super().request(*args, **more), max_seconds=0.4)


@pytest.fixture
def evaluation(tiny_lm: Any, tmp_path: Path) -> Evaluation:
    return Brief(TinyStack(tiny_lm), Judge(), Records(tmp_path / "records.jsonl"))


def test_a_run_is_recorded_with_what_every_judge_says(evaluation: Evaluation, cases: list[Case]) -> None:
    evaluation.measure(Measurement(cases[0], chosen(["tldr"], {})[0]))
    (record,) = evaluation.records.read()
    figures = record["figures"]
    assert (record["kind"], record["row"], record["text"]) == ("quality", "tldr patch_size=4", "text-0")
    assert (figures["errors"], figures["words"], figures["heard"]) == (1, 4, "red green blue")
    assert figures["sim"] == 1 and figures["frames_per_step"] > 1 and figures["cpu_seconds"] > 0
    assert record["checkpoint"] == "0" * 12 and "cores" in record["machine"] and record["torch"]


def test_what_stands_in_the_records_is_not_measured_again(
    evaluation: Evaluation, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = measurements(chosen(METHODS, {}), cases[:1])
    quality.run(quality.Setup(), evaluation, todo)
    assert len(evaluation.records.read()) == len(METHODS)
    monkeypatch.setattr(Evaluation, "measure", lambda *_: pytest.fail("measured again"))
    quality.run(quality.Setup(), evaluation, todo)
    evaluation.where = dataclasses.replace(evaluation.where, checkpoint="other")
    assert len(evaluation.missing(todo)) == len(todo), "other weights are measured anew, and nothing is thrown away"


def test_weights_from_beside_the_checkpoint_are_measured_anew_when_they_change(
    evaluation: Evaluation, cases: list[Case]
) -> None:
    todo = measurements(chosen(["baseline", "compressed"], {}), cases[:1])
    beside = evaluation.stack.method("compressed")
    for trained in ("first", "second"):
        beside.weights_hash = trained
        for measurement in evaluation.missing(todo):
            evaluation.measure(measurement)
        assert not evaluation.missing(todo)
    made_of = [(r["row"].split()[0], r.get("adapters")) for r in evaluation.records.read()]
    assert made_of == [("baseline", None), ("compressed", "first"), ("compressed", "second")]


def test_runs_go_text_by_text_and_rows_of_secondary_interest_speak_the_first(cases: list[Case]) -> None:
    main, other = Row.of(METHODS["tldr"]), Row.of(METHODS["tldr"], patch_size=8)
    many = [dataclasses.replace(cases[0], id=str(i), seed=i % 2) for i in range(12)]
    todo = measurements([main, other], many, most={other: 7})
    assert [measurement.row for measurement in todo[:4]] == [main, other, main, other] and todo[-1].row == main
    rows = [measurement.row for measurement in todo]
    assert rows.count(other) == 7 and rows.count(main) == len(many)
    assert [measurement.seed for measurement in measurements([main], many[:3])] == [0, 1, 0]


def test_recordings_are_judged_once_for_all_weights(evaluation: Evaluation, cases: list[Case]) -> None:
    natural = dataclasses.replace(cases[0], recording=cases[0].voice.path)
    teacher = dataclasses.replace(natural, kind="teacher", id="k000-1")
    todo = measurements([], [], [natural, teacher])
    assert [measurement.label for measurement in todo] == [NATURAL, TEACHER]
    quality.run(quality.Setup(), evaluation, todo)
    assert {(r["row"], r["checkpoint"]) for r in evaluation.records.read()} == {(NATURAL, ""), (TEACHER, "")}
    evaluation.where = dataclasses.replace(evaluation.where, checkpoint="other")
    assert not evaluation.missing(todo)


def test_nothing_new_starts_when_the_time_is_up(
    evaluation: Evaluation, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(quality.time, "time", lambda: now.__setitem__(0, now[0] + 40) or now[0])
    quality.run(quality.Setup(), evaluation, measurements(chosen(["baseline"], {}), cases), minutes=1.5)
    assert 0 < len(evaluation.records.read()) < 3


def test_the_plan_counts_what_is_missing_by_measured_seconds(evaluation: Evaluation, cases: list[Case]) -> None:
    todo = measurements(chosen(["baseline"], {}), cases)
    empty = quality.plan(evaluation, todo, 2)
    assert "3 to do" in " ".join(empty.split()) and "nothing being measured yet" in empty
    slow = evaluation.measure(todo[0])["figures"] | {"cpu_seconds": 3600.0}
    for seed in range(2):
        evaluation.records.append("quality", "baseline", "slow", seed, evaluation.where, slow)
    assert "2 to do" in " ".join(quality.plan(evaluation, todo, 2).split())
    assert "about 60 minutes with 2 processes, by 3 measured runs" in quality.plan(evaluation, todo, 2)


class Patient(quality.Setup):
    """A setup whose stack is tiny, in this process and in others."""

    def build(self) -> Evaluation:
        from conftest import make_lm

        return Brief(TinyStack(make_lm()), Judge(), Records(self.records))


def test_two_processes_share_the_texts(cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Patient(records=tmp_path / "records.jsonl")
    evaluation = setup.build()
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    rows = chosen(["baseline", "tldr"], {})
    todo = [*measurements(rows, cases), *analyses.measurements(rows[:1], cases[:1], [], [])]
    quality.run(setup, evaluation, todo, processes=2)
    assert len(evaluation.records.read()) == len(evaluation.records.keys()) == 7 and not evaluation.missing(todo)


def test_thirds_of_a_text_are_aligned_as_a_whole() -> None:
    text = "a b c d e f g h i"
    assert analyses.thirds(text, text) == [[0, 3]] * 3
    assert analyses.thirds(text, "a b c d e f g") == [[0, 3], [0, 3], [2, 3]]
    assert analyses.thirds(text, "x b c d e f g h i j") == [[1, 3], [0, 3], [1, 3]]
    assert analyses.thirds("a " * 600, "a " * 590) == [[0, 120]] * 4 + [[10, 120]]


def test_analyses_are_records_like_any_other(evaluation: Evaluation, cases: list[Case]) -> None:
    baseline = chosen(["baseline"], {})
    todo = analyses.measurements(baseline, cases[:2], baseline, [])
    assert [measurement.case.id for measurement in todo][:4] == ["text-0", "text-1", "paragraph-1", "paragraph-2"]
    todo = [*todo[:2], dataclasses.replace(todo[2], case=dataclasses.replace(cases[0], id="paragraph-1"))]
    assert "long: baseline" in quality.plan(evaluation, todo, 1)
    for _ in range(2):
        quality.run(quality.Setup(), evaluation, todo)
    found = [(r["kind"], r["text"]) for r in evaluation.records.read()]
    assert found == [("alignment", "text-0"), ("alignment", "text-1"), ("long", "paragraph-1")]
    aligned, long = evaluation.records.read()[0]["figures"], evaluation.records.read()[-1]["figures"]
    assert set(aligned) == {*analyses.SCORES, "cpu_seconds"}
    assert long["thirds"] == [[0, 2], [0, 1], [1, 1]] and long["kv_peak"] > 0
    long, endless = papers.long_rows(), papers.long_rows("endless")
    assert long[0].method.name == "baseline" and len(long) > 1 and endless and set(endless) < set(long)
    found = [measurement.case for measurement in analyses.measurements([], cases, long, endless[:1])]
    whole = [case for case in found if case.id.startswith("all")]
    assert len(whole) == analyses.VOICES and len(whole[0].text) > 4 * len(todo[2].case.text)
