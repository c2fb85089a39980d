"""Ears of latents: they learn on recordings alone, what is made learns from them."""

from __future__ import annotations

import pytest
import torch

from tts_demo.train.losses import UNKNOWN, LatentEars


@pytest.mark.parametrize("which, ears, made", ((0, True, False), (1, False, True), (2, False, True)))
def test_each_loss_reaches_its_own_side_alone(which: int, ears: bool, made: bool) -> None:
    torch.manual_seed(0)
    judge, latent, real = LatentEars(8, 10, 16), torch.randn(2, 20, 8, requires_grad=True), torch.randn(2, 20, 8)
    judge.losses(latent, real, torch.randint(10, (2, 20)))[which].backward()
    assert any(p.grad is not None and bool(p.grad.any()) for p in judge.parameters()) == ears
    assert (latent.grad is not None and bool(latent.grad.any())) == made


def test_what_is_heard_of_the_same_lies_nowhere_apart_and_unknown_frames_do_not_count() -> None:
    torch.manual_seed(0)
    judge, real = LatentEars(8, 10, 16), torch.randn(2, 20, 8)
    labels = torch.randint(10, (2, 20))
    ears, said, apart = judge.losses(real, real, labels)
    assert apart == 0 and ears == said > 0
    assert judge.losses(real, real, torch.full((2, 20), UNKNOWN))[:2] == (0, 0)
