"""Every method under CUDA's rules (tests/cuda_double.py), in both precisions, as plain code and on the path that graphs
are captured from."""

from __future__ import annotations

import gc

import cuda_double
import pytest
import torch
import torch.nn.functional as F

from conftest import STEPS, TinyStack, make_prefix, random_stack
from tts_demo import engine
from tts_demo.config import Request, Sampling
from tts_demo.lm import graphs
from tts_demo.lm import sampling as sampling_module
from tts_demo.methods import METHODS
from tts_demo.methods.batched import BatchedBaseline

CASES = [*STEPS, ("tldr", {"patch_size": 3}), ("qtts", {"strategy": "single"})]
TEXT = "Hello there, all of you who came."
PATHS, DTYPES = ["plain", "static"], [torch.float32, torch.bfloat16]


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_double.obey(monkeypatch)
    monkeypatch.setattr(sampling_module, "host_may_read", lambda device: False)


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
    stack = random_stack(tiny_lm, dtype, [name])
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
    stack = random_stack(tiny_lm, dtype, [])
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
