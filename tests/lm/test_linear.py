"""A matrix gives the same product in whatever layout it is kept, and how many rows there are changes nothing."""

from __future__ import annotations

import copy
import gc

import pytest
import torch

from tts_demo.lm import linear
from tts_demo.lm.linear import Projection, unit_rms


@pytest.mark.parametrize("shape", [(1024, 192), (192, 512), (96, 96), (1024, 1024)])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_every_layout_gives_the_product(shape: tuple[int, int], rows: int) -> None:
    torch.manual_seed(0)
    weight, bias, x, residual = (torch.randn(s) for s in (shape, shape[0], (rows, shape[1]), (rows, shape[0])))
    kept = weight.half().float() if Projection(weight).halved else weight
    torch.testing.assert_close(Projection(weight, bias)(x), x @ kept.t() + bias, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(Projection(weight)(x, residual), x @ kept.t() + residual, atol=1e-4, rtol=1e-5)


@pytest.mark.skipif(not linear.fbgemm_is_here(), reason="float16 weights are multiplied by FBGEMM")
def test_matrices_of_the_bundled_size_are_halved_and_others_exact() -> None:
    halved = {
        shape: Projection(torch.randn(shape)).halved for shape in ((1025, 192), (192, 192), (96, 96), (4864, 896))
    }
    assert halved == {(1025, 192): True, (192, 192): True, (96, 96): False, (4864, 896): False}


@pytest.mark.skipif(not linear.fbgemm_is_here(), reason="float16 weights are multiplied by FBGEMM")
def test_float32_can_be_insisted_on() -> None:
    weight, x = torch.randn(192, 192), torch.randn(3, 192)
    assert Projection(weight).halved and not Projection(weight, exact=True).halved
    torch.testing.assert_close(Projection(weight, exact=True)(x), x @ weight.t(), atol=1e-5, rtol=1e-5)


def test_without_fbgemm_everything_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "fbgemm_is_here", lambda: False)
    weight, x = torch.randn(192, 192), torch.randn(3, 192)
    projection = Projection(weight)
    assert not projection.halved
    torch.testing.assert_close(projection(x), x @ weight.t(), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("packs", (True, False))
def test_bf16_is_multiplied_on_every_cpu(packs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN refuses to pack bf16 on a CPU that has AVX2 alone: there it stays as it is."""
    if packs and not linear.onednn_packs_bf16():
        pytest.skip("oneDNN packs no bf16 on this CPU")
    monkeypatch.setattr(linear, "onednn_packs_bf16", lambda: packs)
    torch.manual_seed(0)
    weight, bias, x, residual = (torch.randn(s).bfloat16() for s in ((24, 16), (24,), (3, 16), (3, 24)))
    assert (Projection(weight).packed is not None) == packs
    for y, plus in ((Projection(weight, bias)(x), bias), (Projection(weight)(x, residual), residual)):
        torch.testing.assert_close(y.float(), x.float() @ weight.float().t() + plus.float(), atol=0.06, rtol=0.02)


def test_a_copy_lives_longer_than_what_it_copies() -> None:
    weight, x = torch.randn(192, 192), torch.randn(2, 192)
    projection = Projection(weight)
    expected, copied = projection(x), copy.deepcopy(projection)
    del projection
    gc.collect()
    torch.testing.assert_close(copied(x), expected)


@pytest.mark.parametrize("rows", [1, 3])
def test_unit_rms_is_the_norm(rows: int) -> None:
    x = torch.randn(rows, 48)
    assert torch.allclose(unit_rms(x, 1e-6), torch.nn.functional.rms_norm(x, (48,), None, 1e-6), atol=1e-6)
