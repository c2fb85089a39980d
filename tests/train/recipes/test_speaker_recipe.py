"""The speaker encoder's recipe: margins, error rates, shifted voices, and that a few steps tell two voices apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tts_demo import checkpoints
from tts_demo.config import HOP, SAMPLE_RATE
from tts_demo.train.loop import fit
from tts_demo.train.recipes import speaker as module
from tts_demo.train.recipes.speaker import CROP, MARGIN, SpeakerTask, equal_error, with_margin
from tts_demo.train.task import TrainOptions


@pytest.fixture
def options(tmp_path: Path) -> TrainOptions:
    """Two voices to hear, two that are held out."""
    folder, rows = tmp_path / "librispeech", []
    folder.mkdir()
    for voice, hertz in ((1, 100), (2, 180), (32, 120), (669, 220)):
        for take in range(2):
            time = np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE
            wave = sum(np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 8)) * 0.1
            name = f"{voice}-1-{take:04d}"
            soundfile.write(folder / f"{name}.wav", wave.astype(np.float32), SAMPLE_RATE)
            rows.append(f"{name}|a bee|3.0")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n")
    return TrainOptions(data=tmp_path, out=tmp_path / "out", work=tmp_path / "work", steps=30, batch=8, lr=3e-3)


def test_it_learns_voices_and_scores_those_it_never_heard(options: TrainOptions) -> None:
    task, seen = SpeakerTask(options), []
    watched = task.loss
    task.loss = lambda batch, step: (seen.append(watched(batch, step)), seen[-1])[1]
    scores = fit(task, options)
    losses = [loss.item() for loss, _ in seen]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert set(task.unheard) == {"librispeech-32", "librispeech-669"} and len(task.names) == 2
    assert len(scores) == 3 and all(0 <= v <= 1 for k, v in scores.items() if "error" in k)
    assert checkpoints.load_module(options.out, "speaker")(torch.randn(1, 3200)).shape == (1, 192)


def test_a_voice_played_faster_is_higher_and_another_voice(options: TrainOptions) -> None:
    task = SpeakerTask(options)
    index = task.by_speaker["librispeech-1"][0]

    def pitch(faster: float) -> float:
        crop = task._crop(np.random.default_rng(0), index, faster)
        assert crop.shape == (CROP * HOP,)
        return float(torch.fft.rfft(crop).abs().argmax()) * SAMPLE_RATE / len(crop)

    assert [round(pitch(f)) for f in (1.0, 1.15)] == [100, 115]
    assert task.voices.weight.shape[0] == 2 * len(module.SHIFTS)


def test_a_margin_makes_the_own_voice_harder_alone() -> None:
    cosines = torch.tensor([[0.5, 0.2], [-0.3, 0.9]])
    harder = with_margin(cosines, torch.tensor([0, 1]))
    assert harder[0, 1] == cosines[0, 1] and harder[1, 0] == cosines[1, 0]
    assert torch.allclose(harder.diagonal().arccos() - cosines.diagonal().arccos(), torch.full((2,), MARGIN), atol=1e-4)


def test_the_error_rate_of_scores() -> None:
    same = torch.arange(100) < 50
    assert equal_error(same.float(), same) == 0
    assert equal_error(-same.float(), same) == 1
    torch.manual_seed(0)
    assert 0.35 < equal_error(torch.rand(100), same) < 0.65
