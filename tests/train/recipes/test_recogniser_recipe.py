"""The ears' recipe: a step on natural and taught speech, labels that follow the change of pace, an alignment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from taught import UNITS, teach

from tts_demo import checkpoints
from tts_demo.codec.recogniser import PhonemeRecogniser, RecogniserConfig
from tts_demo.config import SAMPLE_RATE
from tts_demo.text.symbols import IDS
from tts_demo.train.loop import fit
from tts_demo.train.progress import Progress
from tts_demo.train.recipes import recogniser as module
from tts_demo.train.recipes.recogniser import RecogniserTask
from tts_demo.train.task import TrainOptions

TINY = RecogniserConfig(width=16, lower=1, upper=1, middle=1, middle_width=16, heads=2)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainOptions:
    monkeypatch.setattr(module, "RecogniserConfig", lambda: TINY)
    natural = tmp_path / "natural" / "bdl"
    natural.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("arctic_a0001", "arctic_a0002", "arctic_b0441"):
        soundfile.write(natural / f"{name}.wav", 0.1 * rng.standard_normal(17_000), SAMPLE_RATE)
    rows = ("arctic_a0001|Ho ho!|1", "arctic_a0002|Hello there|1", "arctic_b0441|Ho.|1")
    (natural / "metadata.csv").write_text("\n".join(rows) + "\n")
    teacher = teach(tmp_path / "teacher", {"a": 1, "b": 2, "c": 24})
    return TrainOptions(
        data=tmp_path / "natural",
        out=tmp_path / "out",
        work=tmp_path / "work",
        steps=4,
        batch=4,
        settings={"teacher": str(teacher)},
    )


def test_a_few_steps_and_every_held_out_set_is_scored(options: TrainOptions) -> None:
    task, losses = RecogniserTask(options), []
    watched = task.loss
    task.loss = lambda batch, step: (losses.append(watched(batch, step)), losses[-1])[1]
    scores = fit(task, options)
    assert len(losses) == 4 and all(0 < loss.item() < 1000 for loss, _ in losses)
    assert {"ctc", "frame"} == set().union(*(parts for _, parts in losses))
    assert set(scores) == {
        "phonemes wrong, natural sentences unheard",
        "phonemes wrong, teacher's voices unheard",
        "frames wrong, teacher",
    }
    assert checkpoints.load_module(options.out, "ears").config == TINY


def test_labels_follow_the_pace(options: TrainOptions) -> None:
    task = RecogniserTask(options)
    index = next(i for i, u in enumerate(task.speech.utterances) if u.id == "a")
    plain, slow = (task._make([index], np.asarray([pace]), np.ones(1)) for pace in (1.0, 1.13))
    assert slow.labels.shape[1] == int(1.13 * plain.labels.shape[1])
    runs = lambda row: torch.unique_consecutive(row).tolist()
    assert runs(slow.labels[0]) == runs(plain.labels[0])
    assert torch.equal(plain.samples, slow.samples) and plain.frames.item() == sum(UNITS) * 400 // 320


def test_ears_of_an_earlier_run_tell_the_times_of_natural_speech(options: TrainOptions, tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoints.save_module(tmp_path / "made", "ears", PhonemeRecogniser(TINY), facts={}, scores={}, log=[])
    task = RecogniserTask(
        replace(options, settings=options.settings | {"align": str(tmp_path / "made"), "natural": "1"})
    )
    speech = task.speech
    for i, spoken in enumerate(speech.timings):
        heard = speech.alignment(i)
        assert len(heard) == speech.frames(i)
        assert [s for s in dict.fromkeys(heard.tolist()) if s >= 0 and IDS[speech.texts[i][s]] in speech.sounds(i)]
        if spoken is None:  # every phoneme has its frames
            assert set(speech.sounds(i).tolist()) <= set(speech.labels(i).tolist())
    assert "frame" in task.loss(task.batch(np.random.default_rng(0), 0), Progress(5))[1]
