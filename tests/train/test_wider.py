"""A wider model that begins as a narrow one says what that says, and can learn to say more."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tts_demo.config import LMConfig, UserError
from tts_demo.lm.model import LanguageModel
from tts_demo.train.wider import widened

NARROW = LMConfig(
    text_vocab=20, speech_codes=30, hidden=48, layers=2, heads=3, kv_heads=1, ffn=64, speaker=8, max_positions=64
)
WIDE = replace(NARROW, text_vocab=25, hidden=64, heads=4, kv_heads=2, ffn=96)


def narrow() -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel(NARROW)
    for weight in model.parameters():  # norms and biases too, or copying them would show nothing
        torch.nn.init.normal_(weight, std=0.3)
    return model


def test_it_begins_as_the_narrow_one() -> None:
    old = narrow()
    new, x = widened(old, WIDE), torch.randn(2, 9, 48)
    positions, mask = torch.arange(9).expand(2, -1), torch.ones(9, 9).tril().bool().expand(2, -1, -1)
    with torch.no_grad():
        said, wide = old(x, positions, mask), new(F.pad(x, (0, 16)), positions, mask)
    assert torch.allclose(wide[..., :48], said, atol=1e-4) and not wide[..., 48:].any()
    speaker = torch.randn(8)
    assert torch.equal(new.speaker_proj(speaker), F.pad(old.speaker_proj(speaker), (0, 16)))
    assert torch.equal(new.markers.weight, F.pad(old.markers.weight, (0, 16)))


def test_all_that_is_new_can_learn() -> None:
    new = widened(narrow(), WIDE)
    positions, mask = torch.arange(9).expand(2, -1), torch.ones(9, 9).tril().bool().expand(2, -1, -1)
    new(torch.randn(2, 9, 64), positions, mask).square().sum().backward()
    for name, weight in new.backbone.layers.named_parameters():
        if weight.dim() == 2 and "o_proj" in name:
            assert weight.grad[:, 48:].any() and weight.grad[48:].any(), name


def test_what_does_not_fit_is_refused() -> None:
    for shape in (replace(WIDE, layers=3), replace(WIDE, hidden=32, heads=2), replace(WIDE, heads=2)):
        with pytest.raises(UserError):
            widened(narrow(), shape)
    with pytest.raises(UserError, match="keys"):
        widened(LanguageModel(replace(NARROW, hidden=64, heads=4, kv_heads=2)), replace(WIDE, hidden=96, heads=6))
