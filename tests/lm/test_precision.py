"""What is kept in which precision: float32 where it was asked for, and where bfloat16 would be heard."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from conftest import TinyStack
from tts_demo import engine
from tts_demo.config import Request
from tts_demo.lm import Decoder, linear
from tts_demo.lm.linear import Projection
from tts_demo.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_float32_means_it_in_every_method(tiny_lm, tiny_prompt, name, monkeypatch):
    """With halving at any size: a run asked for float32 makes no float16 matrix, and one that is not does."""
    monkeypatch.setattr(linear, "HALVED", range(1, 1 << 30))
    monkeypatch.setattr(linear, "fbgemm_is_here", lambda: True)
    made = []
    monkeypatch.setattr(linear, "_pack_halves", lambda weight: made.append(weight.shape) or pytest.fail("halved"))

    def speak(exact: bool) -> None:
        engine.run(TinyStack(tiny_lm, exact=exact), Request("Hello there.", tiny_prompt, name, forced_frames=8))

    speak(True)
    assert not made
    with pytest.raises(pytest.fail.Exception):
        speak(False)


@pytest.mark.parametrize("part", ["qkv", "out", "gate_up", "down", "head"])
def test_precision_looks_at_every_matrix(tiny_lm, part):
    decoder = Decoder.from_model(copy.deepcopy(tiny_lm))
    assert decoder.precision == "float32"
    matrix = decoder.to_vocabulary if part == "head" else getattr(decoder.layers[-1], part)
    matrix.handle = object()
    assert decoder.precision == "float32, weights float16"


def test_logits_of_a_bfloat16_model_are_float32(tiny_lm):
    """From its own weights, without a rounding between the final norm and the sampler."""
    decoder = Decoder.from_model(copy.deepcopy(tiny_lm).bfloat16())
    hidden = torch.randn(3, 64).bfloat16()
    exact = F.linear(hidden.float(), decoder.head.float())
    assert decoder.head.dtype == torch.bfloat16 and decoder.logits(hidden).dtype == torch.float32
    torch.testing.assert_close(decoder.logits(hidden), exact, atol=1e-4, rtol=1e-4)
    assert (exact - exact.bfloat16().float()).abs().max() > 1e-2


def test_norms_are_folded_in_float32_and_rounded_once(tiny_lm, monkeypatch):
    lm, kept = copy.deepcopy(tiny_lm).bfloat16(), []
    make = Projection.__init__
    monkeypatch.setattr(
        Projection, "__init__", lambda self, w, *rest, **more: kept.append(w) or make(self, w, *rest, **more)
    )
    Decoder.from_model(lm)
    block = lm.backbone.layers[0]
    expected = torch.cat([block.mlp.gate_proj.weight, block.mlp.up_proj.weight]).float()
    expected = (expected * block.post_attention_layernorm.weight.float()).bfloat16()
    assert any(weight.shape == expected.shape and torch.equal(weight, expected) for weight in kept)


def test_the_final_norm_of_a_bfloat16_model_is_rounded_once(tiny_lm):
    decoder = Decoder.from_model(copy.deepcopy(tiny_lm).bfloat16())
    x = torch.randn(5, 64).bfloat16() * 30
    expected = F.rms_norm(x.float(), (64,), decoder.norm.float(), decoder.config.rms_eps).bfloat16()
    assert torch.equal(decoder._final_norm(x), expected)
