"""Head preference: sums of recordings that add up, by kind of sound."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from stacks.nano_tiny import make_checkpoint, voice

from tts_demo import audio, checkpoints
from tts_demo.measure import heads, quality
from tts_demo.measure.quality import Evaluation
from tts_demo.measure.records import Records
from tts_demo.measure.summary import frame
from tts_demo.measure.texts import Case
from tts_demo.methods.dcar import Dcar
from tts_demo.report.results import _heads
from tts_demo.stacks import load_stack
from tts_demo.text.symbols import IDS
from tts_demo.voices import Voice

WORDS = "red green black"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = make_checkpoint(tmp_path_factory.mktemp("nano"))
    lm = checkpoints.load_module(folder, "lm")
    torch.manual_seed(0)
    modules = Dcar.build_modules(lm)["dcar-heads"]
    torch.nn.init.normal_(modules.weight, std=0.05)
    checkpoints.save_module(folder, "dcar-heads", modules)
    return folder


def test_every_kind_of_sound_is_told_from_the_others():
    frames = torch.tensor([0, IDS["æ"], IDS["t"], IDS["s"], IDS["n"], IDS["w"]])
    found = heads.kinds(frames)
    assert list(found) == [*heads.SOUNDS, heads.PAUSE] and torch.stack(list(found.values())).sum(0).eq(1).all()
    assert found[heads.PAUSE].tolist() == [True] + [False] * 5
    assert found["nasals and approximants"].tolist() == [False] * 4 + [True] * 2


def test_head_scores_count_best_worst_and_right():
    logits = torch.zeros(7, 2, 3)
    logits[0, :, 1], logits[4, 0, 1], logits[6, :, 2] = 2.0, 5.0, 4.0  # the tokens are 1 and 1
    found = heads.head_scores(logits, torch.tensor([1, 1]))
    assert found["best"].tolist() == [1, 0, 0, 0, 1, 0, 0] and found["worst"].tolist() == [0] * 6 + [2]
    assert found["right"][0] == 2 and found["right"][6] == 0 and found["loss"][4] < found["loss"][1]


def test_a_recording_is_measured_once_and_its_sums_make_the_table(root, tmp_path):
    stack = load_stack(str(root), "cpu")
    audio.write_wav(tmp_path / "a.wav", voice(1.6), 16000)
    case = Case("a", WORDS, Voice("v", tmp_path / "a.wav"), "arctic", tmp_path / "a.wav")
    evaluation = Evaluation(stack, None, Records())
    for _ in range(2):
        quality.run(quality.Setup(), evaluation, heads.measurements(stack, [case]))
    (record,) = evaluation.records.read()
    figures = record["figures"]
    frames = stack.codes(torch.from_numpy(audio.level(voice(1.6)).samples)[None], WORDS).shape[1]
    assert figures[heads.ALL]["tokens"] == frames - 6 == sum(figures[heads.ALL]["best"])
    kinds = [figures[kind]["tokens"] for kind in (*heads.SOUNDS, heads.PAUSE) if kind in figures]
    assert sum(kinds) in (0, frames - 6)
    table = heads.table(frame([record, record]))
    assert table[heads.ALL]["tokens"] == 2 * (frames - 6)
    for name in ("best", "worst"):
        assert sum(table[heads.ALL][name]) == pytest.approx(1) and len(table[heads.ALL][name]) == 7
    shown = heads_shown(frame([record, record]))
    assert "7 ahead" in shown and "best of all, %" in shown


def heads_shown(runs: pd.DataFrame) -> str:
    return _heads(SimpleNamespace(runs=runs))


def test_without_heads_there_is_nothing_to_measure(tmp_path):
    stack = load_stack(str(make_checkpoint(tmp_path)), "cpu")
    assert heads.measurements(stack, [Case("a", WORDS, Voice("v", tmp_path), "arctic", tmp_path)]) == []
    assert heads.table(pd.DataFrame({"kind": ["quality"]})) == {} and heads_shown(pd.DataFrame({"kind": []})) == ""
