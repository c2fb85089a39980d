"""Variations keep shape and place, and change what they say they change."""

from __future__ import annotations

import torch

from tts_demo.config import SAMPLE_RATE
from tts_demo.train.data import varied
from tts_demo.train.data.varied import blotted, in_rooms, louder, noisy, warp


def test_warping_stretches_time_and_bands_for_each_item() -> None:
    features = torch.zeros(3, 200, 80)
    features[:, 99:101, 39:41] = 1.0
    one = torch.ones(3)
    warped = warp(features, torch.tensor([1.0, 1.1, 1.0]), torch.tensor([1.0, 1.0, 0.9]), 220)
    assert warped.shape == (3, 220, 80)
    centre = lambda weight: float((weight * (torch.arange(len(weight)) + 0.5)).sum() / weight.sum())
    assert [round(centre(item.sum(1))) for item in warped] == [100, 110, 100]
    assert [round(centre(item.sum(0))) for item in warped] == [40, 40, 36]
    assert torch.allclose(warp(features, one, one, 200), features, atol=1e-5)


def test_noise_is_below_the_speech_and_some_items_have_none() -> None:
    torch.manual_seed(0)
    speech = torch.randn(300, 8000) * torch.rand(300, 1)
    added = noisy(speech) - speech
    below = 10 * torch.log10(speech.square().mean(1) / added.square().mean(1).clamp(min=1e-12))
    assert (below > 4).all() and 0.1 < (below > 60).float().mean() < 0.25


def test_a_room_leaves_the_voice_where_it_is_and_adds_what_comes_after(monkeypatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(varied, "ROOM", 1.0)
    clap = torch.zeros(20, SAMPLE_RATE)
    clap[:, 4000] = 1.0
    heard = in_rooms(clap)
    assert heard.shape == clap.shape and torch.allclose(heard[:, 4000], torch.ones(20), atol=1e-4)
    assert heard[:, :4000].abs().max() < 1e-4
    after = heard[:, 4001:].square().sum(1)
    assert ((after > 10**-1.85) & (after < 10**-0.25)).all()
    assert (heard[:, 4100:6000].square().sum(1) > heard[:, 10_000:].square().sum(1)).all()


def test_levels_and_blots() -> None:
    torch.manual_seed(0)
    levels = 20 * torch.log10(louder(torch.ones(400, 10))[:, 0])
    assert levels.min() > -14.1 and levels.max() < 6.1 and levels.std() > 4
    cut = blotted(torch.ones(200, 120, 80))
    assert 0.1 < (cut == 0).float().mean() < 0.5 and ((cut == 0).any(0).float().mean() > 0.9)
    assert len({tuple(row.flatten().tolist()) for row in cut[:20]}) == 20
