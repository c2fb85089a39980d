"""The codec's recipes on a second of buzzing: what is frozen stays, what is trained moves, scores are finite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tts_demo import checkpoints
from tts_demo.codec.model import Codec
from tts_demo.codec.recogniser import PhonemeRecogniser, RecogniserConfig
from tts_demo.codec.refiner import CodebookRefiner, Refiner
from tts_demo.config import HOP, SAMPLE_RATE, LMConfig, RefinerConfig, UserError
from tts_demo.lm import LanguageModel
from tts_demo.methods.qtts import QTTS
from tts_demo.train.data.speech import UNKNOWN
from tts_demo.train.loop import fit
from tts_demo.train.progress import Progress
from tts_demo.train.published import begin
from tts_demo.train.recipes import refiner
from tts_demo.train.recipes.codec import VOICE_CROP, CodecTask, fitting, recogniser_distance
from tts_demo.train.recipes.first_codebook import CROP, OPEN, FirstCodebookTask, allocated
from tts_demo.train.recipes.refiner_codebooks import CodebookRefinerTask
from tts_demo.train.task import TrainOptions

EARS = RecogniserConfig(width=32, lower=2, middle=1, middle_width=32, upper=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of three recordings, and a checkpoint with ears and a codec after one step."""
    root = tmp_path_factory.mktemp("codec")
    data, rows = root / "buzz", []
    data.mkdir()
    for i in range(3):
        time = np.arange(3 * SAMPLE_RATE) / SAMPLE_RATE
        wave = sum(np.sin(2 * np.pi * (100 + 20 * i) * k * time) / k for k in range(1, 6)) * (
            0.1 + 0.05 * np.sin(20 * time)
        )
        soundfile.write(data / f"b{i}.wav", wave.astype(np.float32), SAMPLE_RATE)
        rows.append(f"b{i}|a bee|3.0")
    (data / "metadata.csv").write_text("\n".join(rows) + "\n")
    torch.manual_seed(0)
    checkpoints.save_module(root / "out", "ears", PhonemeRecogniser(EARS))
    train(CodecTask, root, 1)
    return root


def options(root: Path, steps: int, **settings: str) -> TrainOptions:
    return TrainOptions(
        data=root / "buzz",
        out=root / "out",
        checkpoint=root / "out",
        work=root / "work",
        steps=steps,
        batch=2,
        settings=settings,
    )


def train(task: type, root: Path, steps: int, **settings: str) -> dict[str, float]:
    return fit(task(options(root, steps, **settings)), options(root, steps, **settings))


def test_going_on_keeps_what_language_models_were_trained_on(place: Path) -> None:
    before = checkpoints.load_module(place / "out", "codec")
    voice = checkpoints.load_module(place / "out", "speaker")
    scores = train(CodecTask, place, 2, start="published")
    after = checkpoints.load_module(place / "out", "codec")
    wave, semantic = torch.randn(1, 20 * before.config.hop), torch.randn(1, 20, before.config.latent)
    assert torch.equal(before.quantizer.codebooks[0].encode(semantic), after.quantizer.codebooks[0].encode(semantic))
    assert torch.equal(before.phonetic(wave), after.phonetic(wave))
    assert torch.equal(voice(wave), checkpoints.load_module(place / "out", "speaker")(wave))
    assert not torch.equal(before.encoder(wave), after.encoder(wave))
    assert set(scores) == {"spectral distance, 8 codebooks", "spectral distance, first codebook refined"}
    assert all(np.isfinite(v) for v in scores.values())


def test_a_better_first_book_leaves_the_rest_and_its_readers_learn_first(place: Path) -> None:
    with pytest.raises(UserError, match="recogniser=new"):
        FirstCodebookTask(options(place, 3, start="published"))
    train(FirstCodebookTask, place, 3, start="published", ears="new")
    before = checkpoints.load_module(place / "out", "codec")
    wave, semantic = torch.randn(1, 20 * before.config.hop), torch.randn(1, 20, before.config.latent)
    scores = train(FirstCodebookTask, place, 1, start="published")
    after = checkpoints.load_module(place / "out", "codec")
    assert torch.equal(before.encoder(wave), after.encoder(wave)) and torch.equal(
        before.phonetic(wave), after.phonetic(wave)
    )
    assert scores["codes as before"] == 1 and 0 <= scores["first codebook, frames wrong, natural"] <= 1
    task = FirstCodebookTask(options(place, 3, start="published"))
    task.loss(task.batch(np.random.default_rng(0), 0), Progress())[0].backward()
    assert not any(weight.grad is not None and weight.grad.any() for weight in task.codec.parameters())
    task.loss(task.batch(np.random.default_rng(0), OPEN), Progress(OPEN))[0].backward()  # from then on
    for part, learns in (
        (task.codec.phonetic, False),
        (task.codec.semantic, True),
        (task.codebook, True),
        (task.codec.encoder, False),
        (task.codec.quantizer.codebooks[1], False),
    ):
        assert any(weight.grad is not None and weight.grad.any() for weight in part.parameters()) == learns
    assert torch.equal(before.quantizer.codebooks[1].encode(semantic), after.quantizer.codebooks[1].encode(semantic))


def test_a_first_book_can_be_the_first_thing_trained(place: Path, tmp_path: Path) -> None:
    checkpoints.save_module(tmp_path, "ears", PhonemeRecogniser(EARS))
    told = TrainOptions(data=place / "buzz", out=tmp_path, checkpoint=tmp_path, work=place / "work", steps=2, batch=2)
    told = replace(told, settings={"entries": "2048", "pitch": "0.2"})
    scores, codec = fit(FirstCodebookTask(told), told), checkpoints.load_module(tmp_path, "codec")
    assert "codes as before" not in scores and codec.config.entries == 1024 and codec.config.first_entries == 2048
    assert [len(book.entries) for book in codec.quantizer.codebooks] == [2048] + 7 * [1024]


def test_common_sounds_have_more_entries_and_every_sound_has_some() -> None:
    spoken = np.asarray([900, 0, 100, 400, 1])
    found = np.bincount(allocated(spoken, 100), minlength=5)
    assert found.sum() == 100 and found[1] == 0 and found[0] > found[3] > found[2] > found[4] >= 4
    with pytest.raises(UserError, match="at least 16"):
        allocated(spoken, 15)


def test_new_ears_leave_the_rest_of_the_codec(place: Path, tmp_path: Path) -> None:
    checkpoints.save_module(
        tmp_path, "codec", checkpoints.load_module(place / "out", "codec"), facts={"command": "train codec"}
    )
    checkpoints.save_module(tmp_path, "ears", PhonemeRecogniser(replace(EARS, width=48)))
    told = TrainOptions(
        data=place / "buzz",
        out=tmp_path / "new",
        checkpoint=tmp_path,
        work=place / "work",
        steps=2,
        batch=2,
        settings={"start": "published", "ears": "new"},
    )
    scores = fit(FirstCodebookTask(told), told)
    old, new = checkpoints.load_module(tmp_path, "codec"), checkpoints.load_module(tmp_path / "new", "codec")
    wave, latent = torch.randn(1, 20 * old.config.hop), torch.randn(1, 20, old.config.latent)
    assert new.config.semantic_width == 48 and "codes as before" not in scores
    assert torch.equal(old.encoder(wave), new.encoder(wave))
    assert torch.equal(old.quantizer.codebooks[1].encode(latent), new.quantizer.codebooks[1].encode(latent))
    assert not torch.equal(old.quantizer.codebooks[0].encode(latent), new.quantizer.codebooks[0].encode(latent))
    assert "train codec" in (tmp_path / "new" / "codec" / "README.md").read_text()  # what made the rest


@pytest.mark.parametrize(
    "more", ({}, {"adversarial": "0.1", "heard": "1"}, {"waveform": "1"}), ids=("distance", "judged", "waveform")
)
def test_the_refiner_learns_on_latents_alone(
    more: dict[str, str], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refiner, "CROP", 60)
    monkeypatch.setattr(refiner, "DECODED", 20)
    monkeypatch.setattr(refiner, "JUDGED", 16)
    told = TrainOptions(
        data=place / "buzz",
        out=tmp_path,
        checkpoint=place / "out",
        work=place / "work",
        steps=12,
        batch=3,
        lr=3e-3,
        settings={"start": "published"} | more,
    )
    task, seen = refiner.RefinerTask(told), []
    watched = task.loss
    task.loss = lambda batch, step: (seen.append(watched(batch, step)), seen[-1])[1]
    scores = fit(task, told)
    first, last = (np.mean([parts["latent"] for _, parts in some]) for some in (seen[:3], seen[-3:]))
    assert more or last < first  # discriminators know nothing yet, and count in full after a tenth of the run
    assert list(task.modules) == ["refiner"] and all(np.isfinite(v) for v in scores.values()) and len(scores) == 3
    assert ("adversarial" in more) == ("matching" in seen[0][1]) == ("phonemes" in seen[0][1])
    assert ("waveform" in more) == ("waveform matching" in seen[0][1]) == ("waveforms" in task.helpers)
    assert all(np.isfinite(v) for v in seen[-1][1].values())
    batch = task._make(np.random.default_rng(0), np.asarray([0, 0]))
    assert batch.codes.shape[:2] == batch.pitch.shape == (2, 60)
    assert batch.prompt.shape[1] == task.refiner.config.prompt_frames and batch.speaker.shape[0] == 2
    assert any(
        torch.equal(batch.codes[0, :, 0], torch.from_numpy(row[k : k + 60, 0]))
        for row in [task.data.codes.get(0)]
        for k in range(len(row) - 59)
    )


def test_the_refiners_share_of_a_batch(place: Path) -> None:
    count = lambda size, **told: CodecTask(replace(options(place, 1, **told), batch=size)).refined
    assert [count(8), count(8, refined="0.75"), count(8, refined="1"), count(2), count(1)] == [4, 6, 7, 1, 1]


@pytest.mark.parametrize("by_sound", (False, True))
def test_what_is_said_counts_once_the_first_book_is_finished(by_sound: bool, place: Path) -> None:
    going_on = CodecTask(options(place, 1, start="published"))
    batch, codec = going_on.batch(np.random.default_rng(0), 0), going_on.codec
    if by_sound:
        codec = Codec(replace(codec.config, first_by_sound=True)).eval().requires_grad_(False)
        sounds = batch.labels[batch.labels >= 0].unique()
        codec.quantizer.codebooks[0].sounds.copy_(sounds[torch.arange(codec.config.first) % len(sounds)])
    other = torch.randn_like(batch.audio) * 0.1
    assert float(recogniser_distance(codec, other, batch.audio, None)[1]) == 0
    (alike, same), (apart, wrong) = (
        recogniser_distance(codec, made, batch.audio, batch.labels) for made in (batch.audio, other)
    )
    assert float(alike) == 0 < float(apart) and (by_sound or float(same) < float(wrong))
    sounding = other.clone().requires_grad_()
    recogniser_distance(codec, sounding, batch.audio, batch.labels)[1].backward()
    assert sounding.grad.abs().max() > 0 and all(w.grad is None for w in codec.quantizer.codebooks[0].parameters())


def test_a_short_voice_is_repeated_and_a_long_one_cut(place: Path) -> None:
    task = CodecTask(options(place, 1))
    rows, samples = task.phonetic.get(0), task.speech.samples(0)
    heard, told = task._voice(np.random.default_rng(0), 0)
    assert len(rows) < VOICE_CROP or len(heard) == VOICE_CROP * HOP
    assert heard.shape == (VOICE_CROP * HOP,) and told.shape == (VOICE_CROP, rows.shape[1])
    start = next(k for k in range(len(rows)) if np.array_equal(rows[k], told[0]))
    assert np.array_equal(heard[:HOP], samples[start * HOP : (start + 1) * HOP])
    assert np.array_equal(task.speech.samples(0, 3 * HOP, 2 * HOP), samples[3 * HOP : 5 * HOP])


def test_a_crop_of_the_first_books_batch_is_what_was_heard_and_said_there(place: Path) -> None:
    task = FirstCodebookTask(options(place, 1))
    index = task.train[0]
    batch = task._make([(index, 40, 30), (index, 40, 20)])
    heard = task.codec.phonetic(torch.from_numpy(task.speech.samples(index)[None, : task.speech.frames(index) * HOP]))
    assert torch.allclose(batch.phonetic[0], heard[0, 40:70], atol=1e-2)
    assert batch.labels[0].tolist() == task.speech.labels(index)[40:70].tolist()
    assert (batch.labels[1, 20:] == UNKNOWN).all() and batch.pitch[1, 20:].isnan().all()
    voiced = batch.pitch[0][~batch.pitch[0].isnan()]
    assert len(voiced) > 20 and voiced.abs().max() < 0.3  # a buzz at one pitch lies at its own mean
    assert task.batch(np.random.default_rng(0), 0).phonetic.shape[:2] == (2, CROP)


def test_too_little_speech_is_said(place: Path) -> None:
    rows = (place / "buzz" / "metadata.csv").read_text().splitlines()
    alone = place / "alone"
    alone.mkdir()
    (alone / "metadata.csv").write_text(rows[0] + "\n")
    (alone / "b0.wav").write_bytes((place / "buzz" / "b0.wav").read_bytes())
    with pytest.raises(UserError, match="too little speech"):
        CodecTask(TrainOptions(data=alone, checkpoint=place / "out", work=place / "work"))


def test_the_refiner_of_several_books_learns_from_draws_and_touches_nothing_else(place: Path) -> None:
    config = LMConfig(hidden=64, layers=1, heads=4, kv_heads=2, ffn=96)
    lm = LanguageModel(config)
    for name, module in {"lm": lm, **QTTS.build_modules(lm)}.items():
        checkpoints.save_module(place / "out", name, module)
    before = checkpoints.read_manifest(place / "out")
    losses = {"adversarial": "0.25", "recognised": "1", "waveform": "1"}
    scores = train(CodebookRefinerTask, place, 2, drawn="1", **losses)
    assert set(scores) == {
        f"distance of the latent, {k} books {who}" for k in (2, 8) for who in ("recorded", "delay", "hierarchical")
    }
    assert all(np.isfinite(v) for v in scores.values())
    after = checkpoints.read_manifest(place / "out")
    assert {name.split("/")[0] for name in after if after[name] != before.get(name)} == {"refiner-books"}
    card = (place / "out" / "refiner-books" / "README.md").read_text()
    assert "**begun with**: python -m tts_demo train codec" in card and "buzz (0.00 h" in card
    plain, books = (checkpoints.load_module(place / "out", name) for name in ("refiner", "refiner-books"))
    moved = {
        name
        for name, weight in books.named_parameters()
        if not torch.equal(weight, plain.state_dict().get(name, weight * 0))
    }
    assert {"finer.weight", "count_embedding.weight", "trust.weight", "out.weight"} <= moved
    # It begins as the plain refiner, or where it was, and its card says which.
    again = lambda **settings: CodebookRefinerTask(options(place, 1, drawn="1", **settings))
    for task, source in ((again(), plain), (again(start="published"), books)):
        assert torch.equal(task.refiner.out.weight, source.out.weight)
        began = begin(task, options(place, 1, **task.settings.model_dump(include={"start"})))
        assert ("train refiner-books" in began["refiner-books"]) == (source is books)
    # What is drawn is kept: a recording's first book in all three, other finer books in two.
    task = CodebookRefinerTask(options(place, 1, drawn="1"))
    codes = task.sampled.get(task.train[0])
    assert (codes[1:, :, 0] == codes[0, :, 0]).all() and not (codes[1:, :, 1:] == codes[0, :, 1:]).all()


def test_a_fresh_refiner_of_several_books_all_but_ignores_them() -> None:
    torch.manual_seed(0)
    c = RefinerConfig(
        entries=32, latent=16, speaker=8, width=32, layers=2, heads=2, ffn=48, left=5, right=1, prompt_frames=20
    )
    plain, books = Refiner(c), CodebookRefiner(c)
    books.load_state_dict(plain.state_dict(), strict=False)
    codes, voice, finer = torch.randint(32, (2, 12)), torch.randn(2, 8), torch.randn(2, 12, 16)
    said, _ = books.refine_codebooks(codes, finer, torch.tensor([2, 8]), voice)
    torch.testing.assert_close(said - torch.tensor(-5.0).sigmoid() * finer, plain(codes, voice), atol=1e-5, rtol=1e-5)


def test_a_refiner_follows_a_first_book_with_other_entries() -> None:
    torch.manual_seed(0)
    old = Refiner(RefinerConfig(entries=32, width=32, layers=2, heads=2, ffn=48))
    new = fitting(old, 64)
    assert new.config.entries == len(new.embedding.weight) == 64
    kept = {name for name, weight in new.state_dict().items() if torch.equal(weight, old.state_dict()[name])}
    assert set(new.state_dict()) - kept == {"embedding.weight", "base.weight"}
