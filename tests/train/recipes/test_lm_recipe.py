"""Pieces of the base recipe: guidance, the spoken phoneme, noise."""

from __future__ import annotations

import pytest
import torch

from tts_demo.config import UserError
from tts_demo.train.data.sequences import SpeechBatch
from tts_demo.train.recipes.lm import NEAR, add_noise, guided_loss, shape, spoken


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
    assert guided_loss([weights], batch()).item() == pytest.approx(float(-near.log().mean()), abs=1e-6)


def test_guidance_has_finite_gradients_where_attention_is_forbidden() -> None:
    logits = torch.randn(1, 5, 12, requires_grad=True)
    masked = logits.masked_fill(torch.arange(12) > 11, float("-inf")).log_softmax(-1)
    guided_loss([masked], batch()).backward()
    assert torch.isfinite(logits.grad).all()


def test_the_spoken_phoneme_is_looked_up_in_the_items_own_text() -> None:
    assert spoken(batch()).tolist() == [[10, 15, 21, -100]]


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
        shape(100, 1024)
