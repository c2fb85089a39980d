"""Records: appended whole by several processes at once, found again by their key, and never changed."""

import dataclasses
import json
import multiprocessing
from pathlib import Path

import pytest

from tts_demo.measure.records import Records, Where, key, rounded

HERE = Where("nano", "abc", "a processor", "float32", "2.11", "1234567")


def write(path: Path, process: int, count: int) -> None:
    for number in range(count):
        Records(path).append("quality", f"row {process}", f"text {number}", 0, HERE, {"heard": "words " * 200})


def test_two_processes_append_whole_lines(tmp_path: Path) -> None:
    path, context = tmp_path / "records.jsonl", multiprocessing.get_context("fork")
    workers = [context.Process(target=write, args=(path, i, 50)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(Records(path).keys()) == len(path.read_text().splitlines()) == 100


def test_a_record_is_found_by_everything_that_would_make_it_another(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.jsonl")
    records.append("quality", "baseline", "a text", 0, HERE, {"errors": 1})
    assert key("quality", "baseline", "a text", 0, HERE) in records.keys()
    others = [dataclasses.replace(HERE, **{name: "other"}) for name in ("stack", "checkpoint", "dtype", "adapters")]
    assert not records.keys() & {key("quality", "baseline", "a text", 0, other) for other in others}
    assert not records.keys() & {
        key("speed", "baseline", "a text", 0, HERE),
        key("quality", "tldr", "a text", 0, HERE),
        key("quality", "baseline", "b", 0, HERE),
        key("quality", "baseline", "a text", 1, HERE),
    }
    elsewhere = dataclasses.replace(HERE, machine="other")
    assert key("quality", "baseline", "a text", 0, elsewhere) in records.keys(), "what is said hangs on no machine"
    assert key("speed", "baseline", "a text", 0, elsewhere) != key("speed", "baseline", "a text", 0, HERE)
    same = dataclasses.replace(HERE, torch="2.12", commit="7654321")  # said, but no reason to measure again
    assert key("quality", "baseline", "a text", 0, same) in records.keys()


def test_a_line_that_was_cut_short_spoils_neither_its_neighbours_nor_what_follows(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.jsonl")
    for number in range(2):
        records.append("quality", "row", f"text {number}", 0, HERE, {})
    whole = records.path.read_bytes()
    for cut in range(1, 30, 4):
        records.path.write_bytes(whole[:-cut])
        records.append("quality", "row", "behind", 0, HERE, {})
        assert {r["text"] for r in records.read()} >= {"text 0", "behind"}
        assert records.path.read_bytes().startswith(whole[:-cut])


def test_figures_are_short_and_absent_ones_left_out() -> None:
    assert rounded({"a": 1 / 3, "b": None, "c": {"d": [1 / 7, 2]}, "e": "text"}) == {
        "a": 0.33333,
        "c": {"d": [0.14286, 2]},
        "e": "text",
    }
    assert json.loads(json.dumps(rounded({"cut": True}))) == {"cut": True}


def test_without_a_file_they_are_kept_in_memory() -> None:
    records = Records()
    records.append("quality", "row", "text", 0, HERE, {})
    assert len(records.read()) == len(records.keys()) == 1


@pytest.mark.parametrize("name", ["stack", "checkpoint", "dtype"])
def test_speech_that_is_not_ours_belongs_to_no_weights(name: str) -> None:
    assert getattr(HERE.nobody, name) == "" and HERE.nobody.machine == HERE.machine
