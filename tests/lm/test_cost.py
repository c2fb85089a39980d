"""The cost model against the real tensors, and the known size of the CosyVoice backbone."""

from __future__ import annotations

import pytest
import torch

from conftest import base_of
from tts_demo.config import LMConfig
from tts_demo.lm.backend import Backend
from tts_demo.lm.cost import Cost, fastest_dtype, probe_bandwidth
from tts_demo.lm.linear import fbgemm_is_here


def test_parameters_are_counted_exactly(tiny_lm):
    cost = Cost.of(tiny_lm.config, Backend(torch.device("cpu"), torch.float32))
    layers = sum(p.numel() for n, p in tiny_lm.backbone.named_parameters() if "embed_tokens" not in n)
    assert cost.parameters == layers + tiny_lm.head.weight.numel() and cost.weight_bytes == 4 * cost.parameters
    assert cost.kv_bytes_per_token == base_of(tiny_lm).decoder.new_cache(4).slot_bytes


@pytest.mark.skipif(not fbgemm_is_here(), reason="float16 weights are multiplied by FBGEMM")
def test_matrices_kept_as_float16_count_half():
    config = LMConfig(speech_codes=1024, hidden=192, layers=2, heads=3, kv_heads=1, ffn=512)
    exact, halved = (Cost.of(config, Backend(torch.device(device), torch.float32)) for device in ("cuda", "cpu"))
    assert halved.parameters == exact.parameters and halved.kv_bytes_per_token == exact.kv_bytes_per_token
    assert 0.5 < halved.weight_bytes / exact.weight_bytes < 0.51  # biases and norms are not


def test_qwen2_half_a_billion():
    config = LMConfig(speech_codes=6561, extra_codes=3, hidden=896, layers=24, heads=14, kv_heads=2, ffn=4864)
    cost = Cost.of(config, Backend(torch.device("cuda"), torch.bfloat16))
    assert cost.parameters == 363_779_456 and cost.kv_bytes_per_token == 12_288
    assert cost.ceiling_seconds(4e12, 0) == cost.weight_bytes / 4e12
    assert cost.step_bytes(500, batch=64) - cost.weight_bytes == 64 * 500 * 12_288


def test_probe_and_choice_of_precision(tiny_config):
    assert 1e8 < probe_bandwidth(torch.device("cpu"), 1 << 22, 0.02) < 1e13
    assert fastest_dtype(tiny_config, torch.device("cpu"), live=8, steps=3) in (torch.float32, torch.bfloat16)
