"""The waveform decoder's recipe: it trains the decoder alone, on latents of both kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.train.recipes.test_codec_recipe import options, place  # noqa: F401  (a fixture)
from tts_demo import checkpoints
from tts_demo.config import HOP
from tts_demo.train.loop import fit
from tts_demo.train.recipes.decoder import CROP, DecoderTask


def task_of(root: Path, steps: int = 2, **settings: str) -> DecoderTask:
    small = {"width": "16", "layers": "2", "fine_width": "8", "fine_layers": "1"}
    return DecoderTask(options(root, steps, **small | settings))


def test_it_trains_the_decoder_alone(place: Path, tmp_path: Path) -> None:
    asked = replace(options(place, 3), out=tmp_path)
    task = DecoderTask(asked)
    frozen = [weight.clone() for part in (task.codec, task.refiner) for weight in part.parameters()]
    before = {name: weight.clone() for name, weight in task.decoder.named_parameters()}
    scores = fit(task, asked)
    assert set(checkpoints.modules(tmp_path)) == {"decoder"}
    assert all(map(torch.equal, frozen, [w for part in (task.codec, task.refiner) for w in part.parameters()]))
    moved = {name for name, weight in task.decoder.named_parameters() if not torch.equal(weight, before[name])}
    assert {"source.out.weight", "head.project.weight", "upsample.weight"} <= moved
    assert len(scores) == 2 and all(np.isfinite(score) for score in scores.values())


def test_a_batch_is_of_one_stretch_of_each_recording(place: Path) -> None:
    task = task_of(place)
    batch = task._make(np.random.default_rng(0), np.asarray([task.train[0]]), 1)
    codes, row = batch.codes[0].numpy(), task.data.codes.get(task.train[0])
    start = next(k for k in range(len(row) - CROP + 1) if np.array_equal(row[k : k + CROP], codes))
    samples = task.data.speech.samples(task.train[0], start * HOP, CROP * HOP)
    assert np.array_equal(batch.samples[0].numpy(), samples)
    assert np.array_equal(batch.f0[0].numpy(), task.f0.get(task.train[0])[start : start + CROP])


@pytest.mark.parametrize("refined", ["0", "0.5", "1"])
def test_latents_come_from_the_refiner_and_from_codebooks(refined: str, place: Path) -> None:
    task = task_of(place, refined=refined)
    assert task.refined == round(2 * float(refined))
    batch = task.batch(np.random.default_rng(0), 0)
    latents = task._latents(batch, task.refined)
    assert latents.shape == (2, CROP, task.codec.config.latent)
    whole = task.quantizer.decode(batch.codes)
    books = [
        sum(b.lookup(batch.codes[..., k]) for k, b in enumerate(task.quantizer.codebooks[:n])) for n in range(1, 9)
    ]
    for n in range(task.refined, 2):  # a prefix of the codebooks
        assert any(torch.allclose(latents[n], some[n], atol=1e-5) for some in (*books, whole))


def test_discriminators_are_trained_along_and_not_published(place: Path, tmp_path: Path) -> None:
    asked = replace(options(place, 2, adversarial="1", recognised="1"), out=tmp_path)
    task = DecoderTask(asked)
    before = [weight.clone() for weight in task.helpers["discriminators"].parameters()]
    fit(task, asked)
    assert not all(map(torch.equal, before, task.helpers["discriminators"].parameters()))
    assert set(checkpoints.modules(tmp_path)) == {"decoder"} and not task_of(place).helpers


def test_unvoiced_frames_differ_between_renderings_and_voiced_ones_do_not(place: Path) -> None:
    from tts_demo.train.rendering import recorded_source, renderings

    task, latent = task_of(place), torch.randn(1, 40, 256)
    f0 = torch.cat([torch.full((1, 20), 120.0), torch.zeros(1, 20)], 1)
    source, loss = recorded_source(task.decoder.source, latent, f0)
    one, other = (x[0].unflatten(0, (40, HOP)) for x in renderings(task.decoder, latent, source, f0))
    apart = (one - other).abs().amax(-1)
    assert torch.isfinite(loss) and not apart[:18].any() and (apart[22:] > 0).all()
