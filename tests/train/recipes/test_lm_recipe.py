"""Pieces of the base recipe: guidance, the spoken phoneme, noise."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from tts_demo.config import UserError
from tts_demo.train.data.sequences import SpeechBatch
from tts_demo.train.recipes.lm import (
    NEAR,
    LMSettings,
    add_noise,
    aligned_phonemes,
    attended_symbol,
    attention_guide,
    attention_guide_to,
    shape,
)


def batch() -> SpeechBatch:
    text = torch.arange(10, 22)[None]
    return SpeechBatch(
        text,
        torch.tensor([12]),
        torch.zeros(1, 4, 8, dtype=torch.long),
        torch.tensor([4]),
        torch.zeros(1, 8),
        torch.tensor([[0, 5, 11, -1]]),
    )


def test_guidance_is_the_mass_near_the_aligned_symbol() -> None:
    weights = torch.full((1, 5, 12), 1 / 12).log()
    # frames 0, 1, 2 have 3, 5 and 3 columns within reach; the unknown frame does not count
    near = torch.tensor([NEAR + 1, 2 * NEAR + 1, NEAR + 1]) / 12
    assert attention_guide([weights], batch()).item() == pytest.approx(float(-near.log().mean()), abs=1e-6)


def test_guidance_has_finite_gradients_where_attention_is_forbidden() -> None:
    """As a window on the text forbids it: all that is near an unknown frame's, or even a known frame's phoneme."""
    logits = torch.randn(1, 5, 12, requires_grad=True)
    hidden = torch.zeros(1, 5, 12, dtype=torch.bool)
    hidden[0, 3, :6] = hidden[0, 2, 6:] = True
    loss = attention_guide([logits.masked_fill(hidden, float("-inf")).log_softmax(-1)], batch())
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logits.grad).all()
    assert logits.grad[0, :2].abs().min() > 0 and not logits.grad[0, 2:].any()
    nowhere = replace(batch(), alignment=torch.full((1, 4), -1))
    assert attention_guide([logits.log_softmax(-1)], nowhere).item() == 0


def test_what_is_looked_at_is_where_most_of_the_attention_lies_if_it_lies_anywhere() -> None:
    """And guidance to it: of rows that are about several symbols each, the mass near any of them."""
    weights = torch.tensor([[[0.9, 0.1, 0, 0, 0, 0, 0], [0.3, 0.3, 0.2, 0.2, 0, 0, 0], [0, 0, 0, 0, 0.2, 0.1, 0.7]]])
    assert attended_symbol([weights.log(), weights.log()]).tolist() == [[0, -1, 6]]
    places = torch.tensor([[[0, 6], [3, -1], [-1, -1]]])  # near: columns 0 to 2 and 4 to 6, 1 to 5, nothing
    assert attention_guide_to([weights.log()], places).item() == pytest.approx(-math.log(0.7) / 2, abs=1e-6)


def test_the_spoken_phoneme_is_looked_up_in_the_items_own_text() -> None:
    assert aligned_phonemes(batch()).tolist() == [[10, 15, 21, -100]]


def test_noise_replaces_about_its_share() -> None:
    torch.manual_seed(0)
    codes = torch.zeros(100, 100, dtype=torch.long)
    assert torch.equal(add_noise(codes, 1000, 0.0), codes)
    assert (add_noise(codes, 1000, 0.1) != 0).float().mean().item() == pytest.approx(0.1, abs=0.02)


def test_shapes_follow_the_width() -> None:
    for width in (64, 192, 256, 384):
        made = shape(width, 1024)
        assert made.hidden == width and made.head_dim == 64 and made.heads % made.kv_heads == 0
    with pytest.raises(UserError, match="64"):
        LMSettings.parse({"width": "100"})
