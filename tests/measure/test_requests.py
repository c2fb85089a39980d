"""Many requests on a tiny random stack: percentiles of the first audio, throughput, one record."""

import json
from dataclasses import replace

import pytest
import torch

from conftest import TINY
from tts_demo import engine
from tts_demo.cli.main import main
from tts_demo.measure import requests
from tts_demo.measure.records import Records
from tts_demo.measure.rows import Row
from tts_demo.measure.speed import Bench
from tts_demo.methods import METHODS
from tts_demo.stacks.random import ShapeStack

ROW = Row.of(METHODS["qtts"])


@pytest.fixture(scope="module")
def stack() -> ShapeStack:
    return ShapeStack("tiny", replace(TINY, max_positions=2048), 50, torch.device("cpu"), torch.float32)


def test_the_first_audio_is_that_of_a_whole_run_and_the_rest_is_not_made(stack, monkeypatch):
    request = engine.Request("Hello there.", stack.prompt, forced_frames=100)
    alone, steps = engine.run(stack, request).snapshot, []
    method = stack.method("baseline")
    step = method.step
    monkeypatch.setattr(method, "step", lambda state: steps.append(1) or step(state))
    assert 0 < requests.first_audio(stack, request) < 20 * alone.ttfa_seconds
    assert 0 < len(steps) < 60


def test_percentiles_and_throughput_are_of_the_requests_asked_for(stack, monkeypatch):
    times = iter(range(1, 101))
    monkeypatch.setattr(requests, "first_audio", lambda stack, request: float(next(times)))
    seeds = []
    runs = lambda stack, asked: seeds.append([r.seed for r in asked]) or [engine.run(stack, r) for r in asked]
    monkeypatch.setattr(requests, "in_turn", runs)
    bench = Bench(stack, [("Hello.", stack.prompt)], Records(), 0.5, seed=7)
    record = requests.measure(bench, ROW, 100)
    figures = record["figures"]
    assert (figures["ttfa_p50"], figures["ttfa_p95"], figures["ttfa_p99"]) == pytest.approx((50.5, 95.05, 99.01))
    assert seeds == [[7], [7, 8], [7, 8, 9, 10]] and all(figures[f"throughput_{n}"] > 0 for n in requests.AT_ONCE)
    assert record["kind"] == "requests" and record["text"] == "100 requests, 0.5 s" and figures["requests"] == 100
    assert requests.measure(bench, ROW, 100) == record and len(bench.records.read()) == 1, "kept, not made again"


def test_throughput_is_speech_over_time(stack, monkeypatch):
    clock = iter((10.0, 14.0))
    monkeypatch.setattr(requests, "work_clock", lambda device: lambda: next(clock))
    asked = [engine.Request("Hello.", stack.prompt, seed=n, forced_frames=50) for n in range(3)]
    assert requests.throughput(stack, asked) == pytest.approx(3 * 50 / stack.frame_rate / 4)


def test_bench_prints_them(capsys):
    shape = "bench --shape nano --device cpu --seconds 0.5 --rounds 1 --methods baseline".split()
    assert main([*shape, "--requests", "3", "--json"]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed.splitlines()[-1])["requests"]["baseline"]
    assert "baseline: first audio of 3 requests P50" in printed and found["ttfa_p50"] <= found["ttfa_p99"]
    assert main([*shape, "--requests", "-1"]) == 2
