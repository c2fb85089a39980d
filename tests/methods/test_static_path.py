"""The path that CUDA graphs are captured from, run as plain code on the CPU: every part of every method's step has it,
and says what the eager path says."""

from __future__ import annotations

import gc
import json
from types import SimpleNamespace

import pytest
import torch

from conftest import STEPS, make_prefix, random_stack
from tts_demo import engine
from tts_demo.cli import bench
from tts_demo.config import Request, Sampling
from tts_demo.lm import graphs
from tts_demo.lm import sampling as sampling_module
from tts_demo.measure.graphs import device_facts, difference, parts, table
from tts_demo.methods import METHODS
from tts_demo.methods.ssd import Draft
from tts_demo.methods.ssd import method as ssd_module
from tts_demo.methods.ssd.draft import DraftConfig

CASES = [
    *STEPS,
    ("qtts", {"strategy": "hierarchical", "codebooks": 4}),
    ("dcar-compressed", {"chunk_range": "3", "window": 30, "group": 0}),
]


@pytest.mark.parametrize("sampling", [Sampling(0.0, repeat_window=0), Sampling()], ids=["greedy", "sampled"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_method_says_the_same(tiny_lm, tiny_prompt, guided, name, options, sampling, monkeypatch):
    """Twice, so that the second run uses what the first one captured over the first one's memory."""
    request = Request(
        "Hello there, all of you who came.", tiny_prompt, name, METHODS[name].Options(**options), sampling, 3
    )
    request = Request(**{**vars(request), "forced_frames": 90 if "compressed" in name else 40})
    monkeypatch.setattr(ssd_module, "round_costs", lambda *_: (1.0, 1.5, 2.0, 2.5, 3.0))  # auto measures: no two alike
    monkeypatch.setattr(sampling_module, "host_may_read", lambda device: False)  # both make the draws of a GPU
    expected = engine.run(random_stack(tiny_lm), request)
    monkeypatch.setattr(graphs, "available", lambda device: True)
    stack = random_stack(tiny_lm)
    for _ in range(2):
        done = engine.run(stack, request)
        assert (done.codes == expected.codes).all() and done.codes.shape == expected.codes.shape
        gc.collect()
    assert any(part["graphs"] for part in parts([stack.method(name)]))


def test_a_text_that_moves_says_the_same(tiny_lm, guided, monkeypatch):
    """Codes, hidden states and positions in the text, also near its ends, where fewer symbols are visible."""
    options = METHODS["compressed"].Options(window=30, group=5, text=20)
    prefix, runs = make_prefix(tiny_lm, text=50), []
    for static in (False, True, True):
        monkeypatch.setattr(graphs, "available", lambda device: static)
        monkeypatch.setattr(sampling_module, "host_may_read", lambda device: False)
        if len(runs) < 2:
            method = random_stack(tiny_lm).method("compressed")
        with torch.inference_mode():
            state = method.prefill(prefix, options, Sampling(), torch.Generator().manual_seed(2), 260, True)
            hidden = [(method.step(state), state.hidden)[1] for _ in range(260)]
        runs.append((torch.cat(state.tokens), torch.cat(hidden), torch.tensor(state.indices)))
        assert bool(method.windowed.pool and method.windowed.pool.keys) == static
    plain, *others = runs
    assert plain[2].min() < 20 and plain[2].max() > 30, "both ends of the text are visible in turn"
    for found in others:
        assert torch.equal(found[0], plain[0]) and torch.equal(found[2], plain[2])
        torch.testing.assert_close(found[1], plain[1], atol=1e-4, rtol=1e-4)


def test_many_summaries_in_one_pass_are_no_graph(tiny_lm, tiny_prefix, monkeypatch):
    """Forty: more tokens than a graph holds. The steps between them are graphs."""
    options, tokens = METHODS["compressed"].Options(window=200, group=5), []
    monkeypatch.setattr(sampling_module, "host_may_read", lambda device: False)
    for static in (False, True):
        monkeypatch.setattr(graphs, "available", lambda device: static)
        method = random_stack(tiny_lm).method("compressed")
        with torch.inference_mode():
            state = method.prefill(tiny_prefix, options, Sampling(), torch.Generator().manual_seed(2), 230, True)
            tokens.append(torch.cat([method.step(state).frames for _ in range(230)]))
        assert state.caches["backbone"].summaries == 40
    assert torch.equal(*tokens)


def test_a_draft_with_a_cache_of_its_own_says_the_same(tiny_lm, tiny_prompt, guided, monkeypatch):
    """Drafts of older checkpoints and of deeper models: the others attend to the base's cache."""
    own = classmethod(lambda cls, lm: {"ssd-draft": Draft(lm, DraftConfig.of(lm.config, base_cache=False))})
    monkeypatch.setattr(METHODS["ssd"], "build_modules", own)
    options = {"tolerance": 0.0, "draft_length": "3"}
    with monkeypatch.context() as patch:
        test_every_method_says_the_same(tiny_lm, tiny_prompt, guided, "ssd", options, Sampling(), patch)


def test_the_table_is_what_ran(tiny_lm, tiny_prompt, guided, monkeypatch):
    """After every method has run: each part has graphs, or is one that says it never has."""
    monkeypatch.setattr(graphs, "available", lambda device: True)
    stack = random_stack(tiny_lm)
    methods = [stack.method(name) for name in METHODS]
    assert "not run yet" in table(methods)
    for name, options in CASES:
        engine.run(stack, Request("Hello.", tiny_prompt, name, METHODS[name].Options(**options), forced_frames=60))
    for part in parts(methods):
        if (part["method"], part["name"]) == ("qtts", "backbone, logits and sampling"):
            assert part["graphs"] is not None  # of its single codebook, which no case runs
        else:
            assert part["graphs"], part
    assert "not run yet" not in table([m for m in methods if m.name != "qtts"])


def test_graphs_are_compared_with_plain_code(tiny_lm, monkeypatch):
    """The two paths differ by rounding alone, and a graph that computed something else would be noticed."""
    monkeypatch.setattr(graphs, "available", lambda device: True)
    stack = random_stack(tiny_lm)
    found = difference(stack)
    assert found["largest difference"] < 1e-4 < 0.1 < found["of"]
    static = stack.decoder.forward_static
    monkeypatch.setattr(stack.decoder, "forward_static", lambda *inputs: 1.1 * static(*inputs))
    stack.decoder.pool = graphs.BufferPool(enabled=False)
    assert difference(stack)["largest difference"] > 0.05


def test_the_facts_of_a_device(monkeypatch):
    properties = SimpleNamespace(name="GPU", major=9, minor=0, multi_processor_count=132, total_memory=80 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 2)
    facts = device_facts(torch.device("cuda:0"))
    assert facts["device"] == "GPU" and facts["capability"] == "9.0" and json.dumps(facts)


def test_bench_prints_what_it_found(tiny_lm, tiny_prompt, monkeypatch, capsys):
    monkeypatch.setattr(graphs, "available", lambda device: True)
    monkeypatch.setattr("tts_demo.measure.graphs.device_facts", lambda device: {"device": "GPU"})
    stack = random_stack(tiny_lm)
    engine.run(stack, Request("Hello.", tiny_prompt, forced_frames=5))
    found = bench._graphs(stack, [SimpleNamespace(method=METHODS["baseline"])] * 2)
    part = found["parts"][0]  # of steps, and of a first pass as short as a few steps
    assert part == {"method": "baseline", "name": "backbone, logits and sampling", "graphs": 2}
    printed = capsys.readouterr().out
    assert (
        "| baseline | backbone, logits and sampling | 2 captured |" in printed
        and "largest difference" in printed
        and "GPU" in printed
    )


def test_without_graphs_nothing_has_a_pool(tiny_lm):
    stack = random_stack(tiny_lm)
    assert all(part["graphs"] is None for part in parts([stack.method(name) for name in METHODS]))
