"""Every method under CUDA's rules (tests/cuda_double.py), in both precisions, as plain code and on the path that graphs
are captured from."""

from __future__ import annotations

import copy
import gc

import cuda_double
import pytest
import torch
import torch.nn.functional as F

from conftest import TinyStack, make_prefix
from tts_demo import engine
from tts_demo.config import Request, Sampling
from tts_demo.lm import graphs
from tts_demo.lm import sampling as sampling_module
from tts_demo.methods import METHODS
from tts_demo.methods.batched import BatchedBaseline

CASES = [
    ("baseline", {}),
    ("tldr", {"patch_size": 4}),
    ("tldr", {"patch_size": 3}),
    ("ssd", {"tolerance": 0.0, "draft_length": "3"}),
    ("ssd", {"tolerance": 0.4, "draft_length": "auto"}),
    ("dcar", {"chunk_range": "2,3,4"}),
    ("dcar", {"chunk_range": "7"}),
    ("qtts", {"strategy": "delay"}),
    ("qtts", {"strategy": "delay", "codebooks": 4, "delay": 2}),
    ("qtts", {"strategy": "hierarchical"}),
    ("qtts", {"strategy": "single"}),
    ("compressed", {"window": 30, "group": 10}),
    ("compressed", {"window": 30, "group": 0}),
    ("compressed", {"window": 30, "group": 5, "text": 20}),  # the text moves,
    ("compressed", {"window": 30, "group": 10, "text": 60}),  # and is visible as a whole
    ("dcar-compressed", {"chunk_range": "2,3,4", "window": 30, "group": 10}),
    ("dcar-ssd", {"tolerance": 0.0, "draft_length": "3"}),
]
TEXT = "Hello there, all of you who came."
PATHS, DTYPES = ["plain", "static"], [torch.float32, torch.bfloat16]


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_double.obey(monkeypatch)
    monkeypatch.setattr(sampling_module, "host_may_read", lambda device: False)


def stack_of(lm, dtype: torch.dtype, *names: str) -> TinyStack:
    """A stack whose modules of the methods ``names`` are random: adapters that start as nothing would hide a part."""
    lm = copy.deepcopy(lm).to(dtype)
    torch.manual_seed(5)
    stack = TinyStack(lm)
    for name in names:
        for module in stack.method(name).modules.values():
            module.to(dtype).eval().requires_grad_(False)
            for weight in module.parameters():
                weight.add_(torch.randn_like(weight) * 0.05)
    return stack


def run_twice(stack: TinyStack, request: Request) -> list[engine.Done]:
    """The second run uses the buffers, and the graphs, of the first."""
    done = []
    for _ in range(2):
        done.append(engine.run(stack, request))
        gc.collect()
    return done


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_method_runs_and_looks_at_itself(
    tiny_lm, tiny_prompt, guided, rules, monkeypatch, name, options, dtype, path
):
    """The replay for the attention map included."""
    if path == "static":
        monkeypatch.setattr(graphs, "available", lambda device: True)
    stack = stack_of(tiny_lm, dtype, name)
    frames = 90 if "compressed" in name else 40
    options = METHODS[name].Options(**options)
    request = Request(TEXT, tiny_prompt, name, options, Sampling(), 3, forced_frames=frames, capture_attention=True)
    first, second = run_twice(stack, request)
    assert len(first.codes) == frames and (first.codes == second.codes).all()
    assert first.attention is not None
    decoder = stack.method(name).decoder
    assert not decoder.backend.lean and decoder.dtype == dtype and (decoder.pool is not None) == (path == "static")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
def test_a_batch(tiny_lm, rules, monkeypatch, dtype, path):
    if path == "static":
        monkeypatch.setattr(graphs, "available", lambda device: True)
    stack = stack_of(tiny_lm, dtype)
    lm = stack.lm
    prefixes = [make_prefix(lm, text=t, prompt=p, seed=t) for t, p in ((4, 3), (11, 0), (7, 9))]
    rows, _ = BatchedBaseline(stack.decoder, Sampling(), torch.Generator().manual_seed(0), True).run(prefixes, 20)
    assert [len(row) for row in rows] == [20] * 3


def test_the_rules_say_no(rules):
    """To what CUDA refuses; and to a view of what only a CPU lays out so."""
    q, k = torch.randn(1, 2, 3, 16), torch.randn(1, 2, 16, 16)
    wide = torch.zeros(1, 1, 3, 33)
    with pytest.raises(AssertionError, match="misaligned address"):
        F.scaled_dot_product_attention(q, k, k, attn_mask=wide[..., 17:])
    with pytest.raises(AssertionError, match="strides"):
        F.scaled_dot_product_attention(q, k, k, attn_mask=wide[..., :16])
    with pytest.raises(AssertionError, match="last stride"):
        F.scaled_dot_product_attention(q, k, k, attn_mask=torch.zeros(1, 1, 16, 8).transpose(2, 3)[:, :, :3])
    with pytest.raises(AssertionError, match="last stride"):
        F.scaled_dot_product_attention(q, k.transpose(2, 3), k)
    y = F.scaled_dot_product_attention(q, k, k)
    assert y.shape == q.shape and y.stride() == (96, 16, 32, 1)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        y.view(1, -1)
