"""Bench on a tiny random stack: rows, exact memory, the peer, the batch, the last line."""

import json
from dataclasses import replace

import pytest
import torch
from stacks import cosyvoice_tiny

from conftest import TINY
from tts_demo import engine
from tts_demo.cli.main import main
from tts_demo.config import Sampling
from tts_demo.measure import launches, parts, speed, summary, texts, turns
from tts_demo.measure.peer import Peer
from tts_demo.measure.records import Records
from tts_demo.measure.rows import Row, chosen
from tts_demo.methods import METHODS
from tts_demo.methods.tldr.local import PatchEncoder
from tts_demo.metrics import Meter
from tts_demo.runtime import CUDAGraphed, launches_inside
from tts_demo.stacks import random as bench_stack
from tts_demo.stacks.random import SHAPES, ShapeStack


def tiny_stack() -> ShapeStack:
    return ShapeStack("tiny", replace(TINY, max_positions=2048), 50, torch.device("cpu"), torch.float32)


ROWS = chosen(["baseline", "tldr"], {})


@pytest.fixture(scope="module")
def measured():
    stack = tiny_stack()
    bench = speed.Bench(stack, [(speed.TEXT, stack.prompt)], Records(), seconds=0.5)
    bench.run(ROWS, rounds=2, peer=True)
    return bench, summary.speed_table(summary.frame(bench.records.read()))


def test_every_round_is_a_record(measured):
    bench, table = measured
    assert [(r["row"], r["seed"]) for r in bench.records.read()[:4]] == [(row.label, n) for n in (0, 1) for row in ROWS]
    base, tldr = (table.loc[row.label] for row in ROWS)
    assert base["lm_gain"] > 0 and base["frames_per_step"] == 1 and tldr["frames_per_step"] > 3.5
    assert 0 < base["ceiling_share"] < 1.5 and 0 < base["first_frame_ms"] < 1000 * base["lm_rtf"] * 0.5
    assert table.loc[speed.PEER, "ours_over_peer"] > 0 and table.loc[speed.PEER, "rounds"] == 2
    assert all(0.2 < base[f"pass_of_{n}"] < 20 for n in (2, 4, 8))
    record, other = bench.records.read()[:2]
    assert "pass_of_2" not in other["figures"]
    assert record["checkpoint"] == "random weights" and record["text"] == "0.5 s, eager" and record["machine"]


def test_each_round_says_the_next_text_with_the_next_prompt(monkeypatch):
    """And the row and the baseline beside it the same, as in the warm-up right before: in a bench of many rows the
    others have run since, and the baseline beside each of them."""
    stack, seen, began = tiny_stack(), [], []
    other = stack.encode_prompt(torch.zeros(16000).numpy(), 16000)
    bench = speed.Bench(stack, [("One.", stack.prompt), ("Two.", other)], Records(), 0.5, seed=3)

    def spied(stack, asked, *more, begins=0):
        seen.append(asked)
        began.append(begins)
        return turns.in_turn(stack, asked, *more, begins=begins)

    monkeypatch.setattr(speed, "in_turn", spied)
    bench._kv = {row.label: {} for row in ROWS}  # not measured here
    said = [bench.measure(ROWS[1], number)["figures"]["said"] for number in range(3)]
    assert said == ["One.", "Two.", "One."]
    assert len(seen) == 6 and began[1::2] == [0, 1, 0]  # who begins finds the cache cold
    for number, asked in enumerate(seen):
        number //= 2  # a warm-up and a round
        assert len({(r.text, id(r.prompt), r.seed) for r in asked}) == 1 and asked[0].seed == 3 + number
        assert asked[0].prompt is (stack.prompt, other)[number % 2]
        assert [r.method for r in asked] == ["tldr", "baseline"]


def test_runs_in_turn_say_what_they_say_alone(measured):
    """And keep level: none is ever further ahead of another than a chunk of audio."""
    bench = measured[0]
    requests = [bench.request(row, 2.0, 3) for row in ROWS]
    alone = [engine.run(bench.stack, request) for request in requests]
    assert all((a.codes == b.codes).all() for a, b in zip(alone, turns.in_turn(bench.stack, requests)))


@pytest.mark.parametrize("begins", (0, 1))
def test_the_run_that_begins_says_the_same(measured, begins):
    bench = measured[0]
    requests = [bench.request(row, 1.0, 3) for row in ROWS]
    assert next(turns.turns(bench.stack, requests, begins=begins))[0] == begins
    usual, done = turns.in_turn(bench.stack, requests), turns.in_turn(bench.stack, requests, begins=begins)
    assert all((a.codes == b.codes).all() for a, b in zip(usual, done))


def test_a_machine_that_slows_down_gives_no_gain(monkeypatch):
    """Every look at the clock takes longer than the one before: of two equal runs the second would seem slow, were they
    not side by side; two methods apart by a factor still are."""
    stack = tiny_stack()
    rows = chosen(["baseline", "dcar"], {"chunk_range": "2"})
    bench, now, tick = speed.Bench(stack, [(speed.TEXT, stack.prompt)], Records(), 2.0), [0.0], [1.0]

    def slower() -> float:
        now[0] += tick[0]
        tick[0] *= 1.002
        return now[0]

    monkeypatch.setattr(engine, "Meter", lambda rate, work: Meter(rate, slower))
    monkeypatch.setattr(engine, "STATS_EVERY", 0)
    request = bench.request(rows[0], 2.0, 0)
    first, second = (engine.run(stack, request).snapshot.lm_rtf for _ in range(2))
    assert second > 1.5 * first
    bench._kv = {row.label: {} for row in rows}  # not measured here
    tick[0] = 1.0
    gains = [bench.measure(row, 0)["figures"]["lm_gain"] for row in rows]
    assert gains == pytest.approx([1, 2], rel=0.1)


def test_kv_bytes_are_exact(measured):
    bench, table = measured
    token = 2 * 2 * 2 * 16 * 4  # K and V, layers, kv heads, width, bytes
    base, tldr = (bench._kv[row.label] for row in ROWS)
    assert base["kv_prefix"] == (63 + 150) * token
    assert (base["kv_12s"], base["kv_20s"]) == (599 * token, 999 * token)
    assert tldr["kv_20s"] - tldr["kv_small_20s"] == 249 * token < 0.25 * base["kv_20s"]
    # the last patch is not fed back
    assert base["kv_small_12s"] == 0 and tldr["kv_12s"] - tldr["kv_small_12s"] == 149 * token
    # the extractor keeps the patch at hand; the compressor its window at least, and the prompt no longer
    small = bench.begin(ROWS[1])[1].caches
    kept = [
        (tldr[f"kv_small_{s}s"] - 4 * small["extractor"].slot_bytes) / small["compressor"].slot_bytes for s in (12, 20)
    ]
    window, most = 16, 16 + PatchEncoder.SPARE
    assert all(window - 1 <= slots <= most and slots == int(slots) for slots in kept)
    assert small["compressor"].length <= most
    assert table.loc[ROWS[1].label, "kv_big_12s_share"] == pytest.approx(149 / 599, rel=1e-3)
    batch = bench.batch(2)
    assert batch["kv_bytes_live"] == 2 * (63 + 150 + 24) * token and batch["size"] == 2
    patches = bench.batch(2, "tldr", 4)
    assert patches["kv_bytes_live"] == 2 * (63 + 150 // 4 + 24 // 4) * token
    assert patches["lm_rtf_each"] == pytest.approx(patches["ms_per_step"] * 50 / 1000 / 8)
    chunks = bench.batch(2, "dcar", 3)
    assert chunks["kv_bytes_live"] == 2 * (63 + 150 + 24) * token  # the first chunk is not fed until the second step
    assert chunks["lm_rtf_each"] == pytest.approx(chunks["ms_per_step"] * 50 / 1000 / 6)


def test_a_stopped_bench_goes_on_where_it_stopped(tmp_path, monkeypatch):
    stack, path = tiny_stack(), tmp_path / "records.jsonl"
    monkeypatch.setattr(speed, "KV_SECONDS", (1, 2))
    bench = lambda seconds=0.4: speed.Bench(stack, [(speed.TEXT, stack.prompt)], Records(path), seconds)
    rows = chosen(["baseline"], {})
    bench().run(rows, rounds=1)
    first = path.read_text()
    assert [n for _, n in bench().missing(rows, 2)] == [1] and len(bench(0.5).missing(rows, 2)) == 2
    bench().run(rows, rounds=2)
    assert path.read_text().startswith(first) and len(path.read_text().splitlines()) == 2
    clock = iter([0.0, 10.0, 100.0, 1000.0])
    monkeypatch.setattr(speed.time, "monotonic", lambda: next(clock))
    bench().run(rows, rounds=4, minutes=1)
    assert len(path.read_text().splitlines()) == 3, "one round more began in the minute"


def test_every_row_says_every_sentence():
    """Gains over fewer sentences would not stand beside the others'."""
    stack = tiny_stack()
    bench = speed.Bench(stack, [(speed.TEXT, stack.prompt)], Records())
    other = Row.of(METHODS["tldr"], patch_size=8)
    todo = bench.missing([*ROWS, other])
    assert len(todo) == 3 * speed.ROUNDS and speed.ROUNDS == texts.BUNDLED_VOICES
    assert "12 rounds of 6 s" in speed.plan(bench, [*ROWS, other])


def test_operators_of_a_step_are_counted(measured):
    bench, _ = measured
    found = parts.operators(*bench.begin(ROWS[0]))
    names = {name.removeprefix("aten::").split("_fp16")[0] for name in found}
    assert names & {"linear", "addmm", "mm", "fbgemm_linear"}
    longer = parts.operators(*bench.begin(Row.of(METHODS["ssd"])))
    assert longer.total() > found.total(), "three drafts and a verdict"


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in METHODS), ("compressed", {"text": 20})])
def test_what_a_step_asks_of_a_host_is_counted(measured, guided, name, options):
    """On the path of a GPU: few launches and operators, tokens come back once, and CUDA could capture every launch."""
    bench, _ = measured
    stack = bench.stack
    method, prefix = stack.method(name), stack.prefix(stack.prompt, "")
    counted = launches.launches(method, prefix, METHODS[name].Options(**options), 400)
    found = counted.a_step
    assert 1 <= found["graph launches"] <= 3 and found["host synchronisations"] == 1
    assert 0 < found["eager operators"] <= 20 and not counted.refused
    assert method.decoder.pool is None, "the stack's own is untouched"


def test_waits_and_launches_are_told_apart():
    found = launches.Launches()
    double = CUDAGraphed(lambda x: 2 * x, enabled=False)
    x = torch.ones(3)
    with launches_inside(found.launch), launches._Waits(found), launches._Operators(found):
        y = double(x)  # a launch, and its input copied
        int(y[0]), y.tolist(), x[x > 0]  # three waits, one comparison
        y.view(-1)[None]  # nothing
    assert found.graphs == 1 and found.waits.total() == 3 and not found.refused
    with launches_inside(found.launch), launches._Waits(found):
        CUDAGraphed(lambda x: x * int(x[0]) + torch.tensor([1.0]), enabled=False)(x)
    assert found.refused == {"__int__": 1, "tensor": 1}
    assert found.operators["_foreach_copy_"] == 1 and found.operators["gt"] == 1 and "mul" not in found.operators


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
    peer.seconds_per_token(prefix, 4, Sampling(0.0), 0)  # its first run takes longer, as in ``measure_peer``
    assert peer.seconds_per_token(prefix, 32, Sampling(0.0), 0) > 0
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
    monkeypatch.setitem(bench_stack.RELEASED, "cosyvoice3", cosyvoice_tiny.tiny(3))
    shape = "bench --shape cosyvoice3 --device cpu --seconds 1 --rounds 1 --json --methods".split()
    assert main([*shape, "baseline,ssd,qtts"]) == 2  # a person named a method that this model cannot speak with
    assert "several codebooks" in capsys.readouterr().err
    assert main([*shape, "ssd", "--set", "tolerance=0", "draft_length=2", "--batch", "2"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["conditions"]["checkpoint"] == "random weights"
    assert [(found["row"], found["size"]) for found in report["batch"]] == [("baseline", 1), ("baseline", 2)]
    assert set(report["rows"]) == {"baseline", "ssd tolerance=0.0 draft_length=2"}
    for row in report["rows"].values():
        assert 0 < row["acoustics_rtf"] < row["rtf"] and row["lm_rtf"] + row["acoustics_rtf"] < row["rtf"]
