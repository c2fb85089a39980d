"""The recogniser's recipe: what is warped keeps its shape and its place, and a step on a buzz gives finite losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import torch

from tts_demo.codec.recogniser import Recogniser, RecogniserConfig
from tts_demo.config import SAMPLE_RATE
from tts_demo.train.loop import TrainOptions, fit
from tts_demo.train.recipes.recogniser import RecogniserTask, mask_bands, noisy, warp


def test_warping_stretches_time_and_bands() -> None:
    features = torch.zeros(2, 200, 80)
    features[:, 100, 40] = 1.0
    slow, low = warp(features, 1.1, 1.0), warp(features, 1.0, 0.9)
    assert slow.shape == (2, 220, 80) and low.shape == features.shape
    assert abs(int(slow[0].sum(1).argmax()) - 110) <= 1 and int(slow[0].sum(0).argmax()) == 40
    assert int(low[0].sum(1).argmax()) == 100 and abs(int(low[0].sum(0).argmax()) - 36) <= 1
    assert torch.equal(warp(features, 1.0, 1.0), features)
    assert warp(features, 0.88, 1.1).shape == (2, 176, 80)


def test_a_step_on_speech_of_unequal_lengths(tmp_path: Path) -> None:
    data = tmp_path / "buzz"
    data.mkdir()
    for i, seconds in enumerate((0.9, 1.3)):
        wave = 0.2 * np.sin(2 * np.pi * 150 * np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE)
        soundfile.write(data / f"b{i}.wav", wave.astype(np.float32), SAMPLE_RATE)
    (data / "metadata.csv").write_text("b0|a bee|0.9\nb1|two bees|1.3\n")
    options = TrainOptions(data=data, out=tmp_path / "out", work=tmp_path / "work", steps=3, batch=10)
    task, seen = RecogniserTask(options), []
    watched = task.loss
    task.loss = lambda batch, step: (seen.append(watched(batch, step)), seen[-1])[1]
    task.test = task.test or [0, 1]
    scores = fit(task, options)
    assert len(seen) == 3 and all(0 < loss.item() < 1000 for loss, _ in seen)
    assert scores["phoneme error rate, held-out"] >= 0


def test_blocks_are_left_out_in_training_alone() -> None:
    torch.manual_seed(0)
    model = Recogniser(RecogniserConfig(width=16, layers=3))
    features = torch.randn(4, 40, model.config.mels)
    model.skip = 1.0 - 1e-9  # all but surely
    stem = model.stem(features.transpose(1, 2)).transpose(1, 2)
    assert torch.allclose(model.train().hidden(features), stem)
    assert not torch.allclose(model.eval().hidden(features), stem, atol=1e-2)


def test_noise_is_below_the_speech() -> None:
    torch.manual_seed(0)
    speech = torch.randn(64, 16000) * torch.rand(64, 1)
    added = noisy(speech) - speech
    below = 10 * torch.log10(speech.square().mean(1) / added.square().mean(1))
    assert (below > 9.5).all() and (below < 60.5).all() and below.std() > 5


def test_bands_and_stretches_are_cut_out_of_every_utterance() -> None:
    torch.manual_seed(0)
    cut = mask_bands(torch.ones(200, 120, 80))
    bands, times = (cut == 0).all(1).sum(1), (cut == 0).all(2).sum(1)  # per utterance
    assert bands.max() <= 32 and 10 < bands.float().mean() < 20 and times.max() <= 90 and 25 < times.float().mean() < 50
    assert ((cut == 0).any(0).float().mean() > 0.9) and len({tuple(row.flatten().tolist()) for row in cut[:20]}) == 20
    assert (mask_bands(torch.ones(50, 40, 80), stretches=0) == 0).all(2).sum() == 0
    assert mask_bands(torch.ones(3, 10, 80)).shape == (3, 10, 80)  # shorter than the longest stretch
