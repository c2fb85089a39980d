"""Rotary embedding: the factors of codec and language model, bit for bit what their own copies computed before."""

from __future__ import annotations

import pytest
import torch

from tts_demo.rotary import rotary_factors, rotate


def test_factors_of_a_sequence_are_those_the_codec_had() -> None:
    for count, width, base in ((7, 64, 10_000.0), (31, 32, 1000.0)):
        angles = torch.arange(count)[:, None] * base ** -(torch.arange(0, width, 2) / width)
        angles = torch.cat([angles, angles], -1)
        cos, sin = rotary_factors(torch.arange(count), width, base)
        assert torch.equal(cos, angles.cos()) and torch.equal(sin, angles.sin())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_factors_of_a_batch_are_those_the_language_model_had(dtype: torch.dtype) -> None:
    positions = torch.tensor([[0, 1, 5, 900], [3, 3, -2, 7]])
    angles = positions[:, None, :, None] * 10_000.0 ** -(torch.arange(0, 64, 2) / 64)
    angles = torch.cat([angles, angles], -1)
    cos, sin = rotary_factors(positions[:, None], 64, 10_000.0, dtype)
    assert torch.equal(cos, angles.cos().to(dtype)) and torch.equal(sin, angles.sin().to(dtype))
    x = torch.randn(2, 4, 4, 64).to(dtype)
    a, b = x.chunk(2, -1)
    turned = rotate(x, cos, sin)
    assert turned.dtype == dtype and torch.equal(turned, x * cos + torch.cat([-b, a], -1) * sin)


def test_products_depend_on_the_distance_alone() -> None:
    q, k = torch.randn(2, 1, 8, dtype=torch.float64)
    at = lambda x, position: rotate(x, *rotary_factors(torch.tensor([position]), 8, 100.0, torch.float64))
    torch.testing.assert_close(at(q, 5) @ at(k, 2).T, at(q, 13) @ at(k, 10).T, atol=1e-5, rtol=1e-5)
