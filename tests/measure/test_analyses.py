"""``evaluate --all`` on a tiny random stack: every analysis gives figures, the store goes on, what is missing is
said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch
from stacks.nano_tiny import make_checkpoint, voice

from conftest import TINY, TinyStack, make_lm
from tts_demo import checkpoints
from tts_demo.cli.main import main
from tts_demo.config import Sampling
from tts_demo.measure import analyses as evaluate_analyses
from tts_demo.measure import cases as evaluate_rows
from tts_demo.measure import judges
from tts_demo.measure import processes as evaluate_processes
from tts_demo.measure import quality as evaluate
from tts_demo.measure.cases import Case, rows_for
from tts_demo.measure.quality import Evaluation
from tts_demo.methods import find
from tts_demo.report import analyses as results_analyses
from tts_demo.report import results
from tts_demo.stacks.nano import NanoStack


class Judges:
    """Hears the same words in everything."""

    made_of = "ears"

    def transcribe(self, samples: np.ndarray) -> str:
        return "the bridge was closed for"

    def phoneme_errors(self, samples: np.ndarray, text: str) -> tuple[int, int]:
        return 1, 10

    def voice(self, samples: np.ndarray) -> np.ndarray:
        return np.array([1.0, 0.0])

    def mos(self, samples: np.ndarray) -> float:
        return 3.0


class Short(Evaluation):
    """A random model never ends by itself."""

    def request(self, *args, **more):
        return replace(super().request(*args, **more), max_seconds=0.4)


@pytest.fixture(scope="module")
def roomy() -> TinyStack:
    """A tiny stack whose positions reach to the end of a paragraph."""
    return TinyStack(make_lm(replace(TINY, max_positions=4096)))


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    paths = [tmp_path / "a.wav", tmp_path / "b.wav"]
    for path, pitch in zip(paths, (120.0, 180.0)):
        soundfile.write(path, voice(pitch=pitch), 16000)
    return [Case("The bridge was closed", str(paths[0]), "", str(paths[1])), Case("for repairs today", str(paths[1]))]


def evaluation(stack, cases, store=None) -> Evaluation:
    return Short(stack, cases, Sampling(), 0, store, Judges())


def test_guidance_and_chunks_come_from_the_rows(tiny_stack, cases):
    run = evaluation(tiny_stack, cases[:1])
    assert evaluate_analyses.guidance(run) is None
    rows = rows_for(["dcar"], {"chunk_range": "2,3,4"}) + [
        r for n in range(1, 8) for r in rows_for(["dcar"], {"chunk_range": str(n)})
    ]
    run.run(rows, show=False)
    profile = evaluate_analyses.guidance(run)
    assert list(profile["error_rates"]) == list("1234567") and len(profile["best"]) == 3
    assert profile["error_rates"]["3"] == run.table()["dcar chunk_range=3"]["wer"]
    chunks = evaluate_analyses.chunks(run)
    assert chunks["dcar chunk_range=3"]["mean"] == 3 and 2 <= chunks["dcar chunk_range=2,3,4"]["mean"] <= 4
    assert set(chunks["dcar chunk_range=2,3,4"]["sizes"]) <= set("234")


def test_heads_alignment_and_long_form(roomy, cases, tmp_path):
    run = evaluation(roomy, cases, tmp_path / "store.json")
    heads = evaluate_analyses.heads(run)
    assert (
        heads["recordings"] == 1 and sum(heads["best"]) == pytest.approx(1) and sum(heads["worst"]) == pytest.approx(1)
    )
    scores = evaluate_analyses.alignment(run)
    assert set(scores) == {"baseline", "tldr patch_size=4", "compressed window=50 group=10 text=0"}
    assert all(
        0 <= row[name] <= 1 and row["runs"] == 2
        for row in scores.values()
        for name in ("diagonality", "monotonicity", "coverage")
    )
    long = evaluate_analyses.long_form(run)
    assert (
        long["baseline"]["runs"] == 2
        and long["baseline"]["truncated"] == 2
        and len(long["baseline"]["wer_of_thirds"]) == 3
    )
    again = evaluation(roomy, cases, tmp_path / "store.json")
    again.allow(1e-9)  # nothing may be measured now: everything comes from the store
    assert (evaluate_analyses.heads(again), evaluate_analyses.alignment(again), evaluate_analyses.long_form(again)) == (
        heads,
        scores,
        long,
    )
    fresh = evaluation(roomy, cases)
    fresh.allow(1e-9)
    assert evaluate_analyses.alignment(fresh) is None


def test_thirds_put_an_error_where_it_happened():
    text = "one two three four five six seven eight nine"
    assert evaluate_analyses.thirds(text, text) == [[0, 3], [0, 3], [0, 3]]
    assert evaluate_analyses.thirds(text, "one two three four five six seven eight") == [[0, 3], [0, 3], [1, 3]]
    assert evaluate_analyses.thirds(text, "one six three four five six seven ate mine") == [[1, 3], [0, 3], [2, 3]]
    assert sum(e for e, _ in evaluate_analyses.thirds(text, "")) == 9


def test_the_refiner_is_measured_with_and_without_its_window(cases, tmp_path):
    stack = NanoStack.load(make_checkpoint(tmp_path / "nano"), "cpu", torch.float32)
    before = stack.refiner.config
    found = evaluate_analyses.refiner_window(evaluation(stack, cases[:1]))
    assert list(found)[:2] == ["no window", "7 frames, as trained"] and stack.refiner.config == before
    assert all(row["runs"] == 1 and row["ms_per_second"] > 0 and row["sim"] == 1 for row in found.values())
    assert "| 7 frames, as trained |" in results_analyses.render({"rows": {"refiner window": found}})
    codes = torch.randint(32, (1, 60))
    endless = evaluate_analyses.copy.copy(stack.refiner)
    endless.config = replace(before, left=10**6, right=10**6)
    speaker = torch.randn(1, 8)
    assert not torch.allclose(endless(codes, speaker), stack.refiner(codes, speaker))


def test_finer_books_are_decoded_in_three_ways(cases, tmp_path):
    root = make_checkpoint(tmp_path / "nano")
    stack = NanoStack.load(root, "cpu", torch.float32)
    assert evaluate_analyses.finer_books(evaluation(stack, cases[:1])) is None  # nobody says them here
    for folder, module in find("qtts").build_modules(stack.lm).items():
        checkpoints.save_module(root, folder, module)
    stack = NanoStack.load(root, "cpu", torch.float32)
    made = []
    judging = evaluation(stack, cases[:1])
    judging.judged = lambda samples, rate, case: made.append(samples) or {"words": (1, 2), "sim": 0.5}
    found = evaluate_analyses.finer_books(judging)
    assert len(found) == 6 == len(made) and all(row == {"runs": 1, "wer": 0.5, "sim": 0.5} for row in found.values())
    for same in (made[:3], made[3:]):  # three sounds of one run, as long as each other
        assert len({len(samples) for samples in same}) == 1 and len({samples.tobytes() for samples in same}) == 3
    assert "all books, refined | 50 |" in results_analyses.render({"rows": {"finer books": found}})
    stack.books = None
    assert evaluate_analyses.finer_books(judging) is None


def test_everything_in_one_command(roomy, cases, tmp_path, monkeypatch, capsys):
    write_manifest(tmp_path, lm="1", recogniser="1")
    listing = run_everything(roomy, cases, tmp_path, monkeypatch, capsys)


def run_everything(roomy, cases, tmp_path, monkeypatch, capsys) -> Path:
    """Measures all there is of two methods and checks what was kept; -> the list of texts."""
    monkeypatch.setattr("tts_demo.stacks.load_stack", lambda *_: roomy)
    monkeypatch.setattr(evaluate, "Evaluation", Short)
    monkeypatch.setattr(evaluate, "EVERYTHING", ("baseline", "compressed", "tldr-no-lora"))
    monkeypatch.setattr(judges.Judges, "of_checkpoint", lambda root: Judges())
    readme = tmp_path / "README.md"
    readme.write_text(f"{results.BEGIN}\n{results.END}\n")
    for name, value in (("RESULTS", tmp_path / "results.json"), ("README", readme), ("STORES", tmp_path / "stores")):
        monkeypatch.setattr(results, name, value)
    listing = tmp_path / "list.txt"
    listing.write_text("".join(f"{c.text}|{c.prompt}|{c.prompt_text}|{c.recording}\n" for c in cases))
    assert main(["evaluate", "--all", "--list", str(listing), "--limit", "1"]) == 0
    kept = json.loads((tmp_path / "results.json").read_text())
    assert {"recordings", "baseline", "dcar chunk_range=7", "compressed window=50 group=10 text=0"} <= set(
        kept["evaluate"]["rows"]
    )
    assert {"heads", "alignment", "long form"} <= set(kept["analyses"]["rows"]) and (
        tmp_path / "stores" / "evaluate.json"
    ).is_file()
    assert kept["evaluate"]["command"] == "python -m tts_demo evaluate --all --limit 1 --list LIST"
    assert results.shown(readme) == results.render(results.load(tmp_path / "results.json"))
    out = capsys.readouterr().out
    assert "skipped" in out and "monotonicity" in out and json.loads(out.splitlines()[-1])["analyses"]
    return listing


def write_manifest(folder: Path, **modules: str) -> None:
    (folder / "manifest.json").write_text(
        json.dumps({"files": {f"{name}/model.safetensors": sha for name, sha in modules.items()}})
    )


def test_without_the_store_only_what_changed_is_measured_again(roomy, cases, tmp_path, monkeypatch, capsys):
    write_manifest(tmp_path, lm="1", recogniser="1", compressed="1", dcar="1")
    listing = run_everything(roomy, cases, tmp_path, monkeypatch, capsys)
    before = json.loads((tmp_path / "results.json").read_text())
    (tmp_path / "stores" / "evaluate.json").unlink()
    write_manifest(tmp_path, lm="1", recogniser="1", compressed="2", dcar="1")
    measured = []
    monkeypatch.setattr(
        Short, "measure", lambda self, job, measure=Short.measure: measured.append(job.label) or measure(self, job)
    )
    assert main(["evaluate", "--all", "--changed", "--list", str(listing), "--limit", "1"]) == 0
    after = json.loads((tmp_path / "results.json").read_text())
    assert {label.split()[0] for label in measured} == {"recordings", "baseline", "compressed"}
    assert list(after["evaluate"]["rows"]) == list(before["evaluate"]["rows"])
    held = "dcar chunk_range=7"
    assert after["evaluate"]["rows"][held] == before["evaluate"]["rows"][held]
    assert (
        "--changed" not in after["evaluate"]["made_by"][held]
        and "--changed" in after["evaluate"]["made_by"]["baseline"]
    )
    assert after["analyses"]["rows"].keys() == before["analyses"]["rows"].keys()
    assert (
        "--changed" in after["analyses"]["made_by"]["long form"]
        and "--changed" not in after["analyses"]["made_by"]["heads"]
    )
    assert after["analyses"]["rows"]["chunks"] == before["analyses"]["rows"]["chunks"]  # from rows, kept or measured
    write_manifest(tmp_path, lm="2", recogniser="1", compressed="2", dcar="1")
    assert not results.unchanged("evaluate")["recordings"].keys() - before["evaluate"]["rows"]["recordings"].keys()
    assert set(results.unchanged("evaluate")) == {"recordings"} and not results.unchanged(
        "evaluate", lambda conditions: False
    )


def test_rows_that_would_read_another_module_now_are_measured_again(roomy, cases, tmp_path, monkeypatch, capsys):
    write_manifest(tmp_path, lm="1", recogniser="1", compressed="1", dcar="1", added="1")
    listing = run_everything(roomy, cases, tmp_path, monkeypatch, capsys)
    monkeypatch.setattr(
        Short,
        "reads",
        lambda self, *labels, reads=Short.reads: sorted(
            {*reads(self, *labels), *["added"] * any(label.startswith("compressed") for label in labels)}
        ),
    )
    judge = evaluation(roomy, cases[:1])
    assert judge.would_read("nobody knows this") is None
    held = results.unchanged("evaluate", reads=judge.would_read)
    everything = json.loads((tmp_path / "results.json").read_text())["evaluate"]["rows"]
    assert (
        {label for label in everything if label not in held}
        == {label for label in everything if label.startswith("compressed")}
        != set()
    )


def test_rows_of_the_store_that_nobody_asked_for_are_not_claimed(roomy, cases, tmp_path, monkeypatch, capsys):
    write_manifest(tmp_path, lm="1", recogniser="1")
    listing = run_everything(roomy, cases, tmp_path, monkeypatch, capsys)
    before = json.loads((tmp_path / "results.json").read_text())["evaluate"]
    words = ["--limit", "1", "--list", str(listing), "--json", str(tmp_path / "stores" / "evaluate.json"), "--keep"]
    assert main(["evaluate", "--methods", "baseline", "--takes", "2", *words]) == 0
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]) == {"recordings", "baseline"}
    after = json.loads((tmp_path / "results.json").read_text())["evaluate"]
    assert after["rows"].keys() == before["rows"].keys() and after["rows"]["baseline"]["runs"] == 2
    assert [label for label, command in after["made_by"].items() if "--takes 2" in command] == [
        "recordings",
        "baseline",
    ]


def test_results_of_another_stack_are_not_kept():
    for words in (
        SimpleNamespace(all=True, keep=False, stack="elsewhere"),
        SimpleNamespace(all=False, keep=True, stack="nano", shape="qwen2-0.5b"),
    ):
        with pytest.raises(results.UserError, match="bundled stack"):
            results.check_keep(words)
    assert not results.check_keep(SimpleNamespace(all=False, keep=False, stack="elsewhere"))


def test_the_bundled_paragraphs_take_a_minute():
    lines = (evaluate_rows.ASSETS / "texts" / "paragraphs.txt").read_text().splitlines()
    texts = [line for line in lines if line and not line.startswith("#")]
    assert len(texts) == 5 and all(len(t) * evaluate.SECONDS_PER_CHARACTER >= 60 for t in texts)


def build(cases: list[Case]) -> Evaluation:
    """In another process."""
    return evaluation(TinyStack(make_lm()), cases)


def test_several_processes_measure_what_one_does(tiny_stack, cases, tmp_path):
    rows, store = rows_for(["baseline", "tldr"], {}), tmp_path / "store.json"
    alone, dealt = evaluation(tiny_stack, cases), evaluation(tiny_stack, cases, store)
    alone.run(rows, show=False)
    dealt.records = dict(list(alone.records.items())[:3])  # these are there already
    evaluate_processes.run(dealt, rows, 2, partial(build, cases), show=False)
    assert set(dealt.records) == set(alone.records) and len(alone.records) == 2 * len(rows) + 1
    figures = ("row", "heard", "words", "seconds", "frames_per_step", "kv_peak")
    assert all(dealt.records[k].get(f) == alone.records[k].get(f) for k in alone.records for f in figures)
    # goes on from its store
    assert evaluation(tiny_stack, cases, store).records == json.loads(json.dumps(dealt.records))
    assert dealt.conditions["processes"] == 2


def test_a_module_trained_anew_is_measured_anew_and_nothing_else_is(cases, tmp_path):
    stack, rows, store = TinyStack(make_lm()), rows_for(["baseline", "tldr"], {}), tmp_path / "store.json"
    first = evaluation(stack, cases, store)
    first.run(rows, show=False)
    first.once("piece", lambda: {"figure": 1}, "tldr"), first.once("other", lambda: {"figure": 1})
    made_of, stack.made_of = (
        stack.made_of,
        lambda name, options: made_of(name, options) + ", trained further" * (name == "tldr"),
    )
    again = evaluation(stack, cases, store)
    # recordings, baseline
    assert {job.row.method.name for job in again.missing(rows)} == {"tldr"} and len(again.table()) == 2
    assert again.once("piece", lambda: {"figure": 2}, "tldr") == {"figure": 2}
    assert again.once("other", lambda: {"figure": 2}) == {"figure": 1}
    again.judge.made_of = "other ears"
    assert not Evaluation(stack, cases, Sampling(), 0, store, again.judge).records


def test_takes_are_other_seeds_and_add_to_what_is_stored(tiny_stack, cases, tmp_path):
    rows, store = rows_for(["baseline"], {}), tmp_path / "store.json"
    first = evaluation(tiny_stack, cases, store)
    first.run(rows, show=False)
    assert [first.request(rows[0], cases[0], take).seed for take in range(3)] == [0, 1, 2]
    more = evaluation(tiny_stack, cases, store)
    assert [job.take for job in more.missing(rows, 3)] == [1, 2, 1, 2]
    evaluate_processes.run(more, rows, 2, partial(build, cases), 3, show=False)
    table = more.table()
    assert table["baseline"]["texts"] == 2 and table["baseline"]["runs"] == 6 and table["recordings"]["runs"] == 1
    # a recording is somebody else's than the voice asked for: only what it says is judged
    assert {"sim", "nearest"} <= table["baseline"].keys() and not {"sim", "nearest", "sim_others"} & table[
        "recordings"
    ].keys()
    assert not more.missing(rows, 3) and all(
        more.records[key]["seconds"] == record["seconds"]
        for key, record in first.records.items()
        if record["row"] != "recordings"
    )
    assert [len(takes) for takes in more.of_row("baseline", cases[1:])] == [3]


def broken(cases: list[Case]) -> Evaluation:
    raise SystemExit(3)


def test_a_process_that_dies_is_said_and_time_that_is_up_stops_all(tiny_stack, cases):
    with pytest.raises(RuntimeError, match="has died"):
        evaluate_processes.run(
            evaluation(tiny_stack, cases), rows_for(["baseline"], {}), 2, partial(broken, cases), show=False
        )
    late = evaluation(tiny_stack, cases)
    late.allow(1e-9)
    evaluate_processes.run(late, rows_for(["baseline"], {}), 2, partial(build, cases), show=False)
    assert not late.records


ORPHAN = """
import multiprocessing, sys, time
from tts_demo.measure.processes import end_with_parent

def work(ready):
    end_with_parent()
    ready.set()
    time.sleep(120)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    worker = context.Process(target=work, args=(ready,), daemon=True)
    worker.start()
    ready.wait(120)
    print("ready", flush=True)
    time.sleep(120)
"""


def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    (tmp_path / "orphan.py").write_text(ORPHAN)
    search = os.pathsep.join([str(Path(evaluate.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "orphan.py")], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": search}
    )
    assert parent.stdout.readline() == b"ready\n"
    parent.kill()
    assert parent.communicate(timeout=60)[0] == b""  # the pipe ends with the last who could write to it: the worker
