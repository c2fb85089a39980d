"""Bench on a tiny random stack: rows, exact memory, the peer, the batch, the last line."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace

import pytest
import soundfile
import torch
from stacks import cosyvoice_tiny
from stacks.nano_tiny import voice

from conftest import TINY
from tts_demo import engine
from tts_demo.cli.main import main
from tts_demo.config import Sampling
from tts_demo.measure import speed as bench
from tts_demo.measure import speed_analyses as bench_analyses
from tts_demo.measure import speed_command as bench_command
from tts_demo.measure import turns
from tts_demo.measure.cases import Case, rows_for
from tts_demo.measure.peer import Peer
from tts_demo.metrics import Meter
from tts_demo.report import analyses as results_analyses
from tts_demo.report import results
from tts_demo.report import speed_table as bench_table
from tts_demo.stacks import random as bench_stack
from tts_demo.stacks.random import SHAPES, ShapeStack


@pytest.fixture(scope="module")
def measured():
    stack = ShapeStack("tiny", replace(TINY, max_positions=2048), 50, torch.device("cpu"), torch.float32)
    rows = rows_for(["baseline", "tldr"], {"patch_size": "4"})
    run = bench.Bench(stack, stack.prompt, rows, seconds=0.5, seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "ROUNDS", 2)
        run.run(peer=True)
        report = run.report()
        report["batch"] = run.batch(2)
    return run, report


def test_report_is_json_and_complete(measured):
    _, report = measured
    again = json.loads(json.dumps(report))
    assert {"device", "dtype", "runtime", "bandwidth_gb_s", "torch", "load_average"} <= again["conditions"].keys()
    base, tldr = again["rows"].values()
    assert base["lm_gain"] > 0 and base["frames_per_step"] == 1 and again["conditions"]["random_weights"]
    assert tldr["frames_per_step"] > 3.5 and 0 < base["ceiling_share"] < 1.5
    low, high = tldr["spread"]["lm_gain"]
    assert 0 < low <= tldr["lm_gain"] <= high and again["peer"]["ours_over_peer"] > 0


def test_runs_in_turn_say_what_they_say_alone(measured):
    """And keep level: none is ever further ahead of another than a chunk of audio."""
    stack, run = measured[0].stack, measured[0]
    requests = [run.request(row, 2.0, 3) for row in run.rows]
    alone = [engine.run(stack, request) for request in requests]
    assert all((a.codes == b.codes).all() for a, b in zip(alone, turns.in_turn(stack, requests)))


def test_a_machine_that_slows_down_gives_no_gain(monkeypatch):
    """Every look at the clock takes longer than the one before: of two equal runs the second would seem slow, were they
    not side by side; two methods apart by a factor still are."""
    stack = ShapeStack("tiny", TINY, 50, torch.device("cpu"), torch.float32)
    rows = rows_for(["baseline", "dcar"], {"chunk_range": "2"})
    run, now, tick = bench.Bench(stack, stack.prompt, rows, 2.0, 0), [0.0], [1.0]

    def slower() -> float:
        now[0] += tick[0]
        tick[0] *= 1.002
        return now[0]

    monkeypatch.setattr(engine, "Meter", lambda rate: Meter(rate, slower))
    monkeypatch.setattr(engine, "STATS_EVERY", 0)
    request = run.request(rows[0], 2.0, 0)
    first, second = (engine.run(stack, request).snapshot.lm_rtf for _ in range(2))
    assert second > 1.5 * first
    run.round(0)
    gains = [m.lm_gain[0] for m in run.measured.values()]
    assert gains == pytest.approx([1, 2], rel=0.1)


def test_kv_bytes_are_exact(measured):
    _, report = measured
    token = 2 * 2 * 2 * 16 * 4  # K and V, layers, kv heads, width, bytes
    base, tldr = report["rows"].values()
    assert base["kv_prompt_and_text"] == (63 + 150) * token
    assert (base["kv_speech_12s"], base["kv_speech_20s"]) == (599 * token, 999 * token)
    assert tldr["kv_speech_20s"] < 0.27 * base["kv_speech_20s"]
    # the last patch is not fed back
    assert base["kv_small_12s"] == 0 and tldr["kv_speech_12s"] - tldr["kv_small_12s"] == 149 * token
    batch = report["batch"]
    assert batch["kv_bytes_live"] == 2 * (63 + 150 + 24) * token and batch["size"] == 2


def test_table_shows_every_row_and_what_the_weights_were(measured):
    run, report = measured
    text = bench_table.table(report)
    assert all(row.label in text for row in run.rows) and "Random weights" in text and "transformers generate" in text


def test_a_stopped_bench_goes_on_behind_its_last_round(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "KV_SECONDS", (0.2, 0.4))
    stack = ShapeStack("tiny", TINY, 50, torch.device("cpu"), torch.float32)
    rows = rows_for(["baseline", "ssd-draft-alone"], {})
    first = bench.Bench(stack, stack.prompt, rows, 0.4, 0, rounds=1, store=tmp_path / "bench.json")
    first.run(peer=False)
    again = bench.Bench(stack, stack.prompt, rows, 0.4, 0, rounds=2, store=tmp_path / "bench.json")
    assert again.measured == first.measured
    again.run(peer=False)
    assert [len(m.lm_rtf) for m in again.measured.values()] == [2, 2]
    assert again.measured["baseline"].lm_rtf[0] == first.measured["baseline"].lm_rtf[0]
    again.rounds, again._until = 3, 0.0  # the time is up
    again.run(peer=False)
    assert again.conditions()["rounds"] == 2
    other = bench.Bench(stack, stack.prompt, rows, 0.5, 0, store=tmp_path / "bench.json")
    assert not other.measured["baseline"].lm_rtf  # another length: stored rounds do not count


def test_first_frame_and_codes_per_second(measured):
    base, tldr = measured[1]["rows"].values()
    assert 0 < base["first_frame_ms"] < 1000 * base["lm_rtf"] * 0.5
    assert base["codes_per_second"] == pytest.approx(50 / base["lm_rtf"], rel=0.2)


def test_long_speech_costs_the_baseline_its_bytes(measured):
    run, _ = measured
    found = bench_analyses.lengths(run, (1, 2, 3, 4))
    token = 2 * 2 * 2 * 16 * 4
    assert found["baseline"]["kv_bytes_per_second"] == pytest.approx(50 * token)
    long = found["compressed window=50 group=10 text=0"]
    assert long["kv_bytes_per_second"] <= 0.12 * 50 * token and set(long["at"]) == set("1234")
    assert all(at["lm_rtf"] > 0 for at in long["at"].values())
    shown = results_analyses.render({"rows": {"lengths": found}})
    assert "| baseline |" in shown and "KV MB 4 s" in shown


def test_draft_length_follows_from_costs():
    passes = {n: 1 + 0.05 * (n - 1) for n in range(1, 10)}
    assert bench_analyses.best_length(0.95, passes, 0.1)["best"] > bench_analyses.best_length(0.5, passes, 0.1)["best"]
    assert bench_analyses.best_length(0.3, passes, 0.9) == {"best": 0, "gain": 1.0}
    for rate in (0.2, 0.9):
        share = (rate + rate**2 + rate**3) / 3
        assert bench_analyses.acceptance_rate(share, 3) == pytest.approx(rate, abs=1e-6)


def test_drafts_are_timed_between_the_passes_that_judge_them(measured):
    """A slow draft is seen in the draft's time alone, and a pass over more tokens is not taken for one over fewer."""
    method = copy.copy(measured[0].stack.method("ssd"))
    usual, passes = bench_analyses.step_milliseconds(method, 3)
    assert set(passes) == set(range(9)) and usual > 0 and min(passes.values()) > 0
    quick = method.listen
    method.__dict__["listen"] = lambda heard, x: time.sleep(0.02) or quick(heard, x)
    slow, same = bench_analyses.step_milliseconds(method, 1)
    assert slow >= 20 and max(same.values()) < 20


def test_passes_are_timed(measured):
    found = bench_analyses.draft_lengths(measured[0])
    assert set(found["pass_ms"]) == set("123456789") and found["draft_ms"] > 0 and found["tolerances"] == {}
    found["tolerances"] = {"0.4": {"rate": 0.9, "best": 3, "gain": 1.5, "gain_if_even": 1.75}}
    assert "| 0.4 | 0.9 | 3 | 1.5 | 1.75 |" in results_analyses.render({"rows": {"draft lengths": found}})


def test_everything_in_one_command(tmp_path, monkeypatch, capsys):
    stack = ShapeStack("tiny", replace(TINY, max_positions=2048), 50, torch.device("cpu"), torch.float32)
    stack.encode_prompt = lambda *_: stack.prompt
    soundfile.write(tmp_path / "a.wav", voice(), 16000)
    readme = tmp_path / "README.md"
    readme.write_text(f"{results.BEGIN}\n{results.END}\n")
    for module, name, value in (
        (results, "RESULTS", tmp_path / "results.json"),
        (results, "README", readme),
        (results, "STORES", tmp_path),
        (bench_command, "load_stack", lambda *_: stack),
        (bench_command, "read_cases", lambda *_: [Case("a", str(tmp_path / "a.wav"))]),
        (bench_command, "EVERYTHING", ("compressed",)),
        (bench_analyses, "extra_rows", list),
        (bench_analyses, "lengths", lambda run, real=bench_analyses.lengths: real(run, (1, 2, 3, 4))),
        (bench_analyses, "draft_lengths", lambda run: None),
    ):
        monkeypatch.setattr(module, name, value)
    assert main(["bench", "--all", "--seconds", "0.5", "--limit", "1", "--set", "window=50"]) == 0
    kept = results.load(tmp_path / "results.json")
    assert set(kept["bench"]["rows"]) == {"baseline", "compressed window=50 group=10 text=0"} and kept["bench"]["peer"]
    assert kept["bench"]["conditions"]["rounds"] == 1 and kept["analyses"]["rows"]["lengths"]
    assert results.shown(readme) == results.render(kept) and "load average" in results.shown(readme)
    assert "bench --all --shape nano --batch 1 --seconds 0.5 --runtime eager --rounds 1" in kept["bench"]["command"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["analyses"]
    before = results.load(tmp_path / "results.json")
    assert main(["bench", "--all", "--changed", "--seconds", "0.5", "--limit", "1", "--set", "window=50"]) == 0
    again = results.load(tmp_path / "results.json")  # the baseline alone was measured anew
    label = "compressed window=50 group=10 text=0"
    assert (
        again["bench"]["rows"][label] == before["bench"]["rows"][label]
        and again["analyses"]["rows"] == before["analyses"]["rows"]
    )
    assert (
        again["bench"]["rows"]["baseline"] != before["bench"]["rows"]["baseline"]
        and "--changed" in again["bench"]["made_by"]["baseline"]
    )
    stack.checkpoint_hash = "other"  # all that it would be compared with is gone
    assert main(["bench", "--all", "--changed", "--seconds", "0.5", "--limit", "1", "--set", "window=50"]) == 0
    assert results.load(tmp_path / "results.json")["bench"]["rows"][label] != before["bench"]["rows"][label]


def test_peer_generates_with_our_weights(measured):
    """Greedy, causal: transformers' generate must say what our baseline says."""
    stack = measured[0].stack
    prefix = stack.prefix(stack.prompt, "")
    peer, x = Peer(stack.lm), torch.cat([prefix.x, stack.lm.embed_speech(prefix.prompt_codes[:, 0])])[None]
    first = peer.model.lm_head(peer.model.model(inputs_embeds=x).last_hidden_state[:, -1])
    cache = stack.decoder.new_cache(x.shape[1])
    with torch.inference_mode():
        ours = stack.decoder.logits(stack.decoder.forward(x, cache, 0)[:, -1])
    torch.testing.assert_close(first, ours, atol=1e-4, rtol=1e-4)
    assert peer.seconds_per_token(prefix, 6, Sampling(0.0), 0) > 0
    assert stack.lm.backbone.embed_tokens is not stack.lm.speech_embedding  # put back


def test_paper_shape():
    config, rate = SHAPES["qwen2-0.5b"]
    assert (config.vocab, config.head_dim, rate) == (6564, 64, 25)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--runtime", "graph", "--device", "cpu"], "needs a CUDA device"),
        (["--batch", "0"], "--batch must be 1 or more"),
        (["--methods", "nonsense"], "nonsense"),
    ],
)
def test_mistakes_are_one_sentence(words, said, capsys):
    assert main(["bench", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_whole_released_model_of_random_weights_is_timed_by_part(monkeypatch, capsys):
    monkeypatch.setitem(bench_stack.RELEASED, "cosyvoice3", lambda: cosyvoice_tiny.tiny(3))
    assert (
        main(
            [
                "bench",
                "--shape",
                "cosyvoice3",
                "--device",
                "cpu",
                "--seconds",
                "1",
                "--rounds",
                "1",
                "--methods",
                "baseline,ssd,qtts",
            ]
        )
        == 2
    )  # a person named a method that this model cannot speak with
    assert "several codebooks" in capsys.readouterr().err
    assert (
        main(
            [
                "bench",
                "--shape",
                "cosyvoice3",
                "--device",
                "cpu",
                "--seconds",
                "1",
                "--rounds",
                "1",
                "--methods",
                "ssd",
                "--set",
                "tolerance=0",
                "draft_length=2",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    report = json.loads(out.splitlines()[-1])
    assert report["conditions"]["random_weights"] and "seconds a second of audio: lm" in out
    for row in report["rows"].values():
        assert row["parts"].keys() == {"lm", "flow", "other acoustics"} and min(row["parts"].values()) > 0
        assert row["parts"]["flow"] + row["parts"]["other acoustics"] + row["parts"]["lm"] < row["rtf"]
