"""A matrix gives the same product in whatever layout it is kept, and how many rows there are changes nothing."""

from __future__ import annotations

import pytest
import torch

from tts_demo.lm import linear
from tts_demo.lm.linear import Projection, unit_rms


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("shape", [(1024, 192), (192, 512), (96, 96)])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_every_layout_gives_the_product(monkeypatch: pytest.MonkeyPatch, packing: bool, shape: tuple[int, int], rows: int) -> None:
    monkeypatch.setattr(linear, "_packing_pays", lambda *_: packing)
    torch.manual_seed(0)
    weight, bias, x, residual = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1]), torch.randn(rows, shape[0])
    assert torch.allclose(Projection(weight, bias)(x), x @ weight.t() + bias, atol=1e-4)
    assert torch.allclose(Projection(weight)(x, residual), x @ weight.t() + residual, atol=1e-4)


def test_a_shape_is_measured_once() -> None:
    linear._packing_pays.cache_clear()
    first = linear._packing_pays(32, 128)
    assert isinstance(first, bool) and linear._packing_pays(32, 128) is first and linear._packing_pays.cache_info().hits == 1


@pytest.mark.parametrize("rows", [1, 3])
def test_unit_rms_is_the_norm(rows: int) -> None:
    x = torch.randn(rows, 48)
    assert torch.allclose(unit_rms(x, 1e-6), torch.nn.functional.rms_norm(x, (48,), None, 1e-6), atol=1e-6)
