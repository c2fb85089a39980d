"""Discriminators: one backward pass trains both sides, each on its own loss alone."""

from __future__ import annotations

import pytest
import torch
from learning import learn

from tts_demo.train.discriminators import of_latents, of_waveforms

SORTS = {
    "full": (of_waveforms, (2, 4000)),
    "light": (lambda: of_waveforms(light=True), (2, 4000)),
    "latents": (lambda: of_latents(24), (2, 40, 24)),
}


def gradients(which: int, sort: str) -> tuple[bool, bool]:
    """Whether the loss reaches the discriminators, and the decoder's output."""
    torch.manual_seed(0)
    make, shape = SORTS[sort]
    judge, made, real = make(), torch.randn(shape, requires_grad=True), torch.randn(shape)
    judge.losses(made, real)[which].backward()
    return any(p.grad is not None and bool(p.grad.any()) for p in judge.parameters()), made.grad is not None and bool(
        made.grad.any()
    )


@pytest.mark.parametrize("sort", SORTS)
def test_each_loss_reaches_its_own_side_alone(sort: str) -> None:
    assert gradients(0, sort) == (True, False)
    assert gradients(1, sort) == (False, True)
    assert gradients(2, sort) == (False, True)


def test_the_light_set_is_a_fraction_of_the_whole() -> None:
    whole, light = (sum(p.numel() for p in of_waveforms(light=light).parameters()) for light in (False, True))
    assert light < whole / 5


def test_what_is_recorded_is_at_no_distance_from_itself() -> None:
    torch.manual_seed(0)
    real = torch.randn(2, 4000)
    told, _, apart = of_waveforms().losses(real, real)
    assert apart == 0 and told > 0


def test_they_learn_to_tell_noise_from_a_tone() -> None:
    torch.manual_seed(0)
    judge, tone = of_waveforms(), torch.sin(torch.arange(4000) * 0.1).expand(4, -1)
    told = learn(judge.parameters(), lambda _: (judge.losses(torch.randn(4, 4000) * 0.7, tone)[0], None), 12, 1e-3)
    assert told[-1][0] < 0.5 * told[0][0]


def test_wider_ones_have_more_channels_and_the_same_layers() -> None:
    plain, wider = ([layer.shape for layer in d(torch.randn(1, 4000))[0]] for d in (of_waveforms(), of_waveforms(3)))
    assert [(b, 3 * c, *rest) for b, c, *rest in plain[:-1]] == [tuple(shape) for shape in wider[:-1]] and plain[
        -1
    ] == wider[-1]
