"""Corpora, hold-out rules, batches: on a folder of tones made here."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import soundfile
import torch

from tts_demo.config import LMConfig, UserError
from tts_demo.lm.model import LanguageModel
from tts_demo.text.symbols import BOUNDARY, IDS
from tts_demo.train.data.corpora import is_held_out, read_corpora
from tts_demo.train.data.sequences import Sequences, attention_mask, begun, piece, prefix_batch, speech_targets
from tts_demo.train.data.speech import Speech


@pytest.mark.parametrize(
    ("corpus", "utterance", "held"),
    [
        ("librispeech", "32-21631-0016", True),
        ("librispeech", "669-1-0", True),
        ("librispeech", "3240-1-0", False),
        ("bdl", "arctic_b0440", True),
        ("slt", "arctic_b0479", True),
        ("kathleen", "arctic_b0450_1592748339", True),
        ("bdl", "arctic_b0439", False),
        ("bdl", "arctic_b0480", False),
        ("bdl", "arctic_a0450", False),
    ],
)
def test_hold_out_rules(corpus: str, utterance: str, held: bool) -> None:
    assert is_held_out(corpus, utterance) is held


@pytest.fixture(scope="module")
def speech(tmp_path_factory) -> Speech:
    root = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(0)
    for corpus, ids in (("bdl", ["arctic_a0001", "arctic_a0002", "arctic_b0441"]), ("own", ["x1", "x2"])):
        (root / corpus).mkdir()
        rows = []
        for n, name in enumerate(ids):
            seconds = 0.6 + 0.2 * n
            soundfile.write(root / corpus / f"{name}.wav", 0.1 * rng.standard_normal(int(16000 * seconds)), 16000)
            rows.append(f"{name}|The cat sat {n}.|{seconds}")
        (root / corpus / "metadata.csv").write_text("\n".join(rows) + "\n")
    speech = Speech(root, [], tmp_path_factory.mktemp("cache"))
    speech.alignment = lambda i: np.arange(speech.frames(i)) % 5  # every frame says symbol 0, then 1, ... one a frame
    return speech


def test_a_folder_of_corpora_is_read_decoded_and_split(speech: Speech) -> None:
    assert len(speech) == 5 and len(speech.indices(held_out=True)) == 1
    assert speech.seconds(1) == pytest.approx(0.8, abs=0.01)
    assert 0.05 < np.sqrt(np.mean(speech.samples(0) ** 2)) < 0.08  # one loudness for all


def test_a_missing_recording_and_an_empty_folder_are_said(tmp_path) -> None:
    with pytest.raises(UserError, match="metadata.csv"):
        read_corpora(tmp_path)
    (tmp_path / "metadata.csv").write_text("gone|text|1\n")
    with pytest.raises(UserError, match="gone"):
        read_corpora(tmp_path)


class _Codes:
    def __init__(self, lengths: list[int]) -> None:
        self.rows = [np.random.default_rng(i).integers(0, 32, (n, 8)) for i, n in enumerate(lengths)]
        self.speakers = np.random.default_rng(9).standard_normal((len(lengths), 8)).astype(np.float32)

    def get(self, index: int) -> np.ndarray:
        return self.rows[index]


@pytest.fixture(scope="module")
def sequences(speech: Speech) -> Sequences:
    return Sequences(speech, _Codes([speech.frames(i) for i in range(len(speech))]), frames=80, pairs=1.0)


def test_batches_are_a_function_of_the_seed_and_never_hold_held_out_speech(
    sequences: Sequences, speech: Speech
) -> None:
    a, b = (sequences.batch(np.random.default_rng(3)) for _ in range(2))
    assert torch.equal(a.codes, b.codes) and torch.equal(a.text, b.text)
    assert not set(sequences.train) & set(speech.indices(held_out=True))
    assert a.codes.shape[:2] == a.alignment.shape and a.text.shape[0] == len(a.frames)


def test_the_second_half_of_a_pair_is_not_held_out_either(sequences: Sequences, speech: Speech) -> None:
    (held,) = speech.indices(held_out=True)
    shared = [i for i in sequences.train if speech.utterances[i].speaker == speech.utterances[held].speaker]
    assert (
        shared
        and all(held not in sequences.same_speaker(i) for i in sequences.train)
        and sequences.same_speaker(held) == [held]
    )
    said = {tuple(sequences._item(np.random.default_rng(seed), shared[0], 400, 10**6)[1][-5:, 0]) for seed in range(40)}
    assert tuple(sequences.codes.get(held)[-5:, 0]) not in said and len(said) > 1


def test_a_prompt_is_a_whole_other_utterance_of_the_voice_and_gives_the_speaker(
    sequences: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    codes = {i: sequences.codes.get(i) for i in sequences.train}
    for seed in range(8):
        batch, prompt = sequences.prompted(np.random.default_rng(seed), 1, 1000)
        shortest = []
        for row, frames, speaker in zip(batch.codes.numpy(), batch.frames.tolist(), batch.speaker.numpy()):
            index = next(i for i, own in codes.items() if np.array_equal(row[: len(own)], own))
            (other,) = [
                i
                for i in sequences.same_speaker(index)
                if i != index and np.array_equal(row[len(codes[index]) : frames], codes[i])
            ]
            assert np.array_equal(speaker, sequences.codes.speakers[index]) and other in sequences.train
            shortest.append(len(codes[index]))
        assert prompt == min(shortest)
        assert int(batch.alignment.max()) < int(batch.text_lengths.max())
    monkeypatch.setattr(sequences, "prompted", lambda rng: ("batch", 7))
    assert begun(sequences, np.random.default_rng(0), 1.0) == ("batch", 7)
    starts = {(kept, int(batch.frames.min())) for batch, kept in (begun(sequences, rng, 0.0) for _ in range(20))}
    monkeypatch.undo()
    assert any(kept for kept, _ in starts) and all(0 <= kept < frames for kept, frames in starts)
    assert any(kept == 0 for kept, _ in starts)
    lengths = sorted(map(len, codes.values()))
    assert sequences.prompted(np.random.default_rng(0), lengths[-1], 1000)[1] == lengths[-1]
    with pytest.raises(UserError, match="2000 to 3000"):
        sequences.prompted(np.random.default_rng(0), 2000, 3000)


def test_chains_are_one_voice_in_a_row_and_as_long_as_asked(sequences: Sequences) -> None:
    for seed in range(6):
        index = sequences.train[seed % len(sequences.train)]
        text, codes, align, _ = sequences._item(np.random.default_rng(seed), index, 500, 600)
        step = max(len(sequences.codes.get(i)) for i in sequences.same_speaker(index))
        assert min(500, 600 - step) <= len(codes) <= 600 and len(align) == len(codes)
        own = sequences.codes.get(index)
        assert np.array_equal(codes[: len(own)], own)
        assert (text == sequences.joint[0]).any() and align.max() < len(text)
    chained = copy.copy(sequences)
    chained.chains, chained.chained, chained.frames = 1.0, 300, 700
    batches = [chained.batch(np.random.default_rng(seed)) for seed in range(5)]
    assert all(int(b.frames.max()) <= 300 for b in batches) and max(int(b.frames.max()) for b in batches) > 150
    assert len({len(b.frames) for b in batches}) > 1  # the longer the chains, the fewer
    minutes = chained.held_out_chains(1)
    assert torch.equal(minutes[0].codes, chained.held_out_chains(1)[0].codes)


def test_layout_equals_decoding_alone(sequences: Sequences) -> None:
    """A padded batch through the training forward gives each item what it gets by itself through ``lm.prefix``."""
    torch.manual_seed(0)
    lm = LanguageModel(
        LMConfig(text_vocab=128, speech_codes=32, hidden=32, layers=2, heads=2, kv_heads=1, ffn=48, speaker=8)
    ).eval()
    batch = sequences.collate([sequences._item(np.random.default_rng(i), i) for i in (0, 1, 3)])
    prefix = prefix_batch(lm, batch)
    count = batch.codes.shape[1]
    x = torch.cat([prefix.x, lm.embed_speech(batch.codes[..., 0])], 1)
    positions = torch.cat([prefix.positions, prefix.next[:, None] + torch.arange(count)], 1)
    mask = attention_mask(prefix, torch.ones(count, count, dtype=torch.bool).tril(), True)
    with torch.no_grad():
        together = lm(x, positions, mask)[:, prefix.x.shape[1] - 1 :]
        for b in range(3):
            text, frames = batch.text[b, : batch.text_lengths[b]], int(batch.frames[b])
            alone = lm.prefix(text, (), batch.speaker[b], batch.codes[b, :0])
            row = torch.cat([alone.x, lm.embed_speech(batch.codes[b, :frames, 0])])[None]
            n = len(alone.x)
            own = torch.ones(row.shape[1], row.shape[1], dtype=torch.bool).tril()
            own[:n, :n] = True
            hidden = lm(row, torch.arange(row.shape[1])[None], own[None])[0, n - 1 :]
            assert torch.allclose(hidden, together[b, : frames + 1], atol=1e-5)


def test_targets_end_with_end_of_speech(sequences: Sequences) -> None:
    batch = sequences.collate([sequences._item(np.random.default_rng(i), i) for i in (0, 1)])
    targets = speech_targets(batch, eos=32)
    for b in range(2):
        n = int(batch.frames[b])
        assert torch.equal(targets[b, :n], batch.codes[b, :n, 0]) and targets[b, n] == 32
        assert bool((targets[b, n + 1 :] == -100).all())


def test_a_piece_begins_and_ends_between_words():
    gap = IDS[BOUNDARY]
    text = np.array([5, 6, gap, 7, gap, 8, 9, 10, gap, 11])
    align = np.array([-1, 0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 7, 8, 9, 9, -1])
    codes = np.arange(len(align))[:, None]
    seen = set()
    for seed in range(60):
        cut, frames, places = piece(np.random.default_rng(seed), text, codes, align, 8)
        begin, stop = frames[0, 0], frames[-1, 0] + 1
        seen.add((int(begin), int(stop)))
        assert len(frames) == len(places) <= 8 and gap not in (cut[0], cut[-1])
        known = places >= 0
        assert (text[align[begin:stop][known]] == cut[places[known]]).all() and places.max() == len(cut) - 1
    assert seen == {(0, 7), (4, 7), (7, 13)}
