"""Discriminators: one backward pass trains both sides, each on its own loss alone."""

from __future__ import annotations

import pytest
import torch

from tts_demo.train.discriminators import Discriminators


def gradients(which: int, light: bool = False) -> tuple[bool, bool]:
    """Whether the loss reaches the discriminators, and the decoder's output."""
    torch.manual_seed(0)
    judge, made, real = Discriminators(light=light), torch.randn(2, 4000, requires_grad=True), torch.randn(2, 4000)
    judge.losses(made, real)[which].backward()
    return any(p.grad is not None and bool(p.grad.any()) for p in judge.parameters()), made.grad is not None and bool(
        made.grad.any()
    )


@pytest.mark.parametrize("light", (False, True))
def test_each_loss_reaches_its_own_side_alone(light: bool) -> None:
    assert gradients(0, light) == (True, False)
    assert gradients(1, light) == (False, True)
    assert gradients(2, light) == (False, True)


def test_the_light_set_is_a_fraction_of_the_whole() -> None:
    whole, light = (sum(p.numel() for p in Discriminators(light=light).parameters()) for light in (False, True))
    assert light < whole / 5


def test_what_is_recorded_is_at_no_distance_from_itself() -> None:
    torch.manual_seed(0)
    real = torch.randn(2, 4000)
    told, _, apart = Discriminators().losses(real, real)
    assert apart == 0 and told > 0


def test_they_learn_to_tell_noise_from_a_tone() -> None:
    torch.manual_seed(0)
    judge, tone = Discriminators(), torch.sin(torch.arange(4000) * 0.1).expand(4, -1)
    optimiser = torch.optim.AdamW(judge.parameters(), lr=1e-3)
    told = []
    for _ in range(12):
        loss = judge.losses(torch.randn(4, 4000) * 0.7, tone)[0]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        told.append(loss.item())
    assert told[-1] < 0.5 * told[0]


def test_wider_ones_have_more_channels_and_the_same_layers() -> None:
    plain, wider = (
        [layer.shape for layer in d(torch.randn(1, 4000))[0]] for d in (Discriminators(), Discriminators(3))
    )
    assert [(b, 3 * c, *rest) for b, c, *rest in plain[:-1]] == [tuple(shape) for shape in wider[:-1]] and plain[
        -1
    ] == wider[-1]
