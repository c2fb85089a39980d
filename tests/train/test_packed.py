"""One file to train from: what goes in comes out, crops are gathered as a loop would make them, runs go on from it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.train.recipes.test_codec_recipe import options, place  # noqa: F401  (a fixture)
from tts_demo import checkpoints
from tts_demo.cli.main import main
from tts_demo.config import HOP, UserError
from tts_demo.train import state
from tts_demo.train.data import packed
from tts_demo.train.loop import fit
from tts_demo.train.recipes.decoder import CROP, DecoderTask


def row(number: int, frames: int, voice: str) -> packed.PackedUtterance:
    """Everything of utterance ``number`` says which frame of which utterance it is."""
    rng, count = np.random.default_rng(number), np.arange(frames)
    wave = 0.2 * np.sin(np.arange(frames * HOP) * 0.02 * (number + 1))
    codes = np.stack([number * 100 + count, rng.integers(0, 99, frames)], 1)
    return packed.PackedUtterance(
        wave.astype(np.float32), codes, count - 100, count % 48, count.astype(float), np.full(4, number), voice
    )


ROWS = [(0, 30, "b"), (1, 12, "a"), (2, 50, "b"), (3, 9, "c"), (4, 40, "a")]


def set_of(folder: Path, sound: str = "flac", limit: int = 10**7) -> packed.Packed:
    (folder / "weights").mkdir()
    (folder / "weights" / "w.bin").write_bytes(b"1234")
    rows = {"train": [partial(row, *of) for of in ROWS], "test": [partial(row, 5, 30, "d")]}
    packed.write(folder / "set", rows, folder / "weights", lambda count: {"data": f"{count}"}, limit, sound)
    return packed.read(folder / "set", folder / "work", "cpu")


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    found = set_of(tmp_path)
    assert found.meta["data"] == "5" and (found.checkpoint / "w.bin").read_bytes() == b"1234"
    for at, (number, frames, voice) in enumerate(sorted(ROWS, key=lambda of: of[2])):
        made, part = row(number, frames, voice), found.train
        index = part.begins[at] + torch.arange(frames)
        assert part.lengths[at] == frames and np.array_equal(part.codes[index], made.codes)
        assert np.array_equal(part.labels[index], made.labels) and np.array_equal(part.f0[index], made.f0)
        assert np.abs(part.wave(index[None])[0].numpy() - made.samples).max() < 1 / 30_000
        assert (part.speakers[at] == number).all()
    assert len(found.test.lengths) == 1


def test_opus_keeps_time_and_takes_less(tmp_path: Path) -> None:
    found, made = set_of(tmp_path, "opus"), row(4, 40, "a")
    begin = int((found.train.codes[:, 0] == 400).nonzero())
    wave = found.train.wave(begin + torch.arange(40)[None])[0].numpy()
    assert np.corrcoef(wave, made.samples)[0, 1] > 0.99
    assert len(packed._encoded(np.random.default_rng(0).normal(0, 0.1, 16000), "opus")) < 8000


def test_crops_lie_within_utterances_and_cover_all_of_them(tmp_path: Path) -> None:
    part, frames = set_of(tmp_path).train, 10
    chosen, index = part.stretches(4000, frames, torch.Generator().manual_seed(1))
    codes = part.codes[index][..., 0].numpy()
    assert (np.diff(codes, axis=1) == 1).all()  # one utterance, frame after frame
    assert (codes[:, 0] // 100 == part.speakers[chosen][:, 0].numpy()).all()
    starts, counts = np.unique(codes[:, 0], return_counts=True)
    rooms = {number: n - frames + 1 for number, n, _ in ROWS if n >= frames}  # utterance 3 is too short
    assert set(starts) == {100 * number + k for number, room in rooms.items() for k in range(room)}
    assert counts.max() < 3 * 4000 / sum(rooms.values())
    again = part.stretches(4000, frames, torch.Generator().manual_seed(1))[1]
    assert torch.equal(index, again)


def test_prompts_are_of_the_same_speaker_and_short_ones_are_repeated(tmp_path: Path) -> None:
    part = set_of(tmp_path).train
    voice = {number: name for number, _, name in ROWS}
    chosen = torch.arange(5).repeat(200)
    other, index = part.others(chosen, 35, torch.Generator().manual_seed(0))
    number = part.codes[index][..., 0] // 100
    assert (number == number[:, :1]).all() and (number[:, 0] == part.speakers[other][:, 0]).all()
    speaks = [int(n) for n in part.speakers[:, 0]]
    assert all(voice[speaks[a]] == voice[speaks[b]] for a, b in zip(chosen.tolist(), other.tolist()))
    assert {speaks[b] for a, b in zip(chosen.tolist(), other.tolist()) if speaks[a] == 0} == {0, 2}
    short = part.codes[index[number[:, 0] == 3]][:, :, 0] - 300
    assert (short == torch.arange(35) % 9).all()


def test_the_file_keeps_its_limit_or_says_that_it_cannot(tmp_path: Path) -> None:
    whole = set_of(tmp_path)
    size = (tmp_path / "set").stat().st_size
    (tmp_path / "less").mkdir()
    less = set_of(tmp_path / "less", limit=size * 2 // 3)
    assert (tmp_path / "less" / "set").stat().st_size <= size * 2 // 3
    assert 0 < len(less.train.lengths) < len(whole.train.lengths)
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match="--mib"):
        set_of(tmp_path / "none", limit=1000)
    (tmp_path / "text").write_text("no set")
    with pytest.raises(UserError, match="--pack"):
        packed.read(tmp_path / "text", tmp_path, "cpu")


def test_state_in_pieces_is_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PIECE", 1000)
    module = nn.Linear(30, 30)
    optimiser = torch.optim.AdamW(module.parameters())
    module(torch.ones(30)).sum().backward()
    optimiser.step()
    average = state.Average(list(module.parameters()), 0.9)
    run = lambda of, pieces: state.Run(tmp_path, of, optimiser, average, True, pieces)
    run(module, True).save(7, [{"step": 7}], 1.5)
    run(module, True).save(8, [{"step": 8}], 2.5)
    files = [path for path in tmp_path.iterdir() if path.name != "state.pt"]
    assert len(files) > 5 and all(path.stat().st_size <= 1000 and path.name.startswith("state-8-") for path in files)
    other = nn.Linear(30, 30)
    assert run(other, True).load() == (8, [{"step": 8}], 2.5) and torch.equal(other.weight, module.weight)
    run(module, False).save(9, [], 3.0)
    assert run(other, True).load()[0] == 9


def test_the_decoder_trains_and_goes_on_from_a_packed_file(place: Path, tmp_path: Path) -> None:
    small = {"width": "16", "layers": "2", "fine_width": "8", "fine_layers": "1", "recognised": "1", "refined": "0.5"}
    cached = DecoderTask(options(place, 3, **small))
    assert cached.pack(tmp_path / "set", 55 << 20, "flac") == len(cached.train)
    told = replace(options(place, 3, **small), packed=tmp_path / "set", work=tmp_path / "w", out=tmp_path / "out")
    told = replace(told, data=tmp_path / "none", checkpoint=tmp_path / "none")
    task = DecoderTask(told)
    batch, like = task.batch(np.random.default_rng(0), 0), cached.batch(np.random.default_rng(0), 0)
    for name in ("codes", "prompt", "speaker", "pitch", "f0", "labels", "samples"):
        one, other = getattr(batch, name), getattr(like, name)
        assert one.shape == other.shape and one.dtype == other.dtype, name
    wave = batch.samples[0].numpy()
    sources = [cached.data.speech.samples(i) for i in cached.train]
    assert any(
        np.abs(source[k * HOP : (k + CROP) * HOP] - wave).max() < 1 / 30_000
        for source in sources
        for k in range(len(source) // HOP - CROP + 1)
    )
    scores = fit(task, told)
    assert all(np.isfinite(value) for value in scores.values())
    fit(DecoderTask(replace(told, steps=5, resume=True)), replace(told, steps=5, resume=True))
    card = (tmp_path / "out/decoder/README.md").read_text()
    assert "5 of 5" in card and "train decoder --packed set" in card
    assert checkpoints.read_extra(tmp_path / "out")["through"]["decoder"]
    with pytest.raises(UserError, match="codec's"):
        bare = DecoderTask(options(place, 3, **small | {"recognised": "0"}))
        bare.pack(tmp_path / "bare", 55 << 20, "opus")
        DecoderTask(replace(told, packed=tmp_path / "bare"))


def test_what_cannot_be_packed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["train", "lm", "--pack", str(tmp_path / "x")]) == 2 and "decoder" in capsys.readouterr().err
    assert main(["train", "lm", "--packed", str(tmp_path / "x")]) == 2 and "--data" in capsys.readouterr().err
