"""Captured attention equals what Hugging Face's eager attention computes; scores on maps with known answers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from conftest import base_of
from tts_demo.lm.attention import AttentionMap, Replay, capture, join
from tts_demo.lm.masks import prefix_mask


def test_weights_equal_eager_attention(tiny_lm, tiny_prefix):
    lm = copy.deepcopy(tiny_lm)
    lm.backbone.set_attn_implementation("eager")
    x = torch.cat([tiny_prefix.x, torch.randn(9, 64)])
    mask = prefix_mask(len(tiny_prefix.x), len(x), True)
    bias = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    with torch.no_grad():
        out = lm.backbone(
            inputs_embeds=x[None],
            position_ids=torch.arange(len(x))[None],
            output_attentions=True,
            attention_mask={"full_attention": bias[None, None]},
        )
    rows = torch.tensor([12, 15])
    replay = Replay(x, torch.arange(len(x)), mask, rows, (1, 1), base_of(lm).decoder)
    weights = capture(replay, tiny_prefix.text)
    expected = torch.stack(out.attentions)[:, 0, :, rows, tiny_prefix.text]
    assert weights.shape == (2, 4, 2, 7)
    np.testing.assert_allclose(weights, expected.numpy(), atol=1e-5)


def make_map(w: np.ndarray) -> AttentionMap:
    steps = np.arange(w.shape[0], dtype=np.float32)
    return AttentionMap(np.repeat(w[None, None], 2, 1).astype(np.float32), tuple("x" * w.shape[1]), steps, steps + 1)


def test_scores_of_known_maps():
    straight = make_map(np.eye(20))
    assert straight.diagonality == pytest.approx(1) and straight.monotonicity == 1 and straight.coverage == 1
    flat = make_map(np.full((20, 20), 0.05))
    assert flat.coverage == 1 and 0.1 < flat.diagonality < 0.3
    skipping = make_map(np.repeat(np.eye(20)[:1], 20, 0))
    assert skipping.coverage == pytest.approx(1 / 20)
    zigzag = make_map(np.eye(20)[[i ^ 1 for i in range(20)]])
    assert zigzag.monotonicity == pytest.approx(9 / 19)


def test_scores_use_the_heads_that_follow_time():
    w = np.stack([np.eye(12)] * 4 + [np.full((12, 12), 1 / 12)] * 4)[None]
    steps = np.arange(12.0)
    assert AttentionMap(w, tuple("x" * 12), steps, steps).diagonality == pytest.approx(1)


def test_join_keeps_segments_apart():
    joined = join([make_map(np.eye(3)), make_map(np.eye(2))])
    assert joined.weights.shape == (1, 2, 5, 5) and len(joined.labels) == 5
    np.testing.assert_array_equal(joined.weights[0, 0], np.eye(5))
