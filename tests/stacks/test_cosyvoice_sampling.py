"""The shared sampler under the released settings against the released procedure, written out token by token."""

import pytest
import torch

from tts_demo.config import Sampling
from tts_demo.lm.sampling import probabilities, sample
from tts_demo.stacks.cosyvoice.configs import RELEASED_SAMPLING


def literal_law(logits: torch.Tensor, recent: list[int], s: Sampling) -> torch.Tensor:
    """Chance of every token: nucleus (stable descending sort, add while the mass is below top_p and fewer than top_k
    are in), then, if the drawn id fills enough of the window, one draw from the full softmax without it."""
    full = logits.softmax(0).double()
    nucleus, mass = [], 0.0
    for i in sorted(range(len(full)), key=lambda i: -float(full[i])):
        if mass >= s.top_p or len(nucleus) >= s.top_k:
            break
        nucleus.append(i)
        mass += float(full[i])
    law = torch.zeros(len(full), dtype=torch.double)
    for i in nucleus:
        chance = full[i] / mass
        if recent[-s.repeat_window :].count(i) >= s.repeat_window * s.repeat_ratio:
            again = logits.clone()
            again[i] = -float("inf")
            law += chance * again.softmax(0)
        else:
            law[i] += chance
    return law


@pytest.mark.parametrize("spread", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("settings", [RELEASED_SAMPLING, Sampling(1.0, 5, 0.95, 10, 0.2)])
def test_law(spread, settings):
    generator = torch.Generator().manual_seed(int(spread * 10))
    for _ in range(20):
        logits = torch.randn(60, generator=generator) * spread
        recent = [int(logits.argmax()), *torch.randint(60, (13,), generator=generator).tolist(), int(logits.argmax())]
        history = torch.tensor([recent[-settings.repeat_window :]])
        mine = probabilities(logits[None], settings, history=history)[0]
        torch.testing.assert_close(mine.double(), literal_law(logits, recent, settings), rtol=1e-4, atol=1e-6)


def test_draws_follow_the_law():
    logits, recent = torch.tensor([2.0, 1.6, 1.0, 0.2, -1.0, -2.0]), [4, 0, 2]
    history = torch.full((20_000, 10), -1)
    history[:, :3] = torch.tensor(recent)
    drawn = sample(logits.expand(20_000, -1), RELEASED_SAMPLING, torch.Generator().manual_seed(0), history)
    torch.testing.assert_close(
        (torch.bincount(drawn, minlength=6) / 20_000).double(),
        literal_law(logits, recent, RELEASED_SAMPLING),
        atol=0.018,
        rtol=0,
    )  # five deviations
