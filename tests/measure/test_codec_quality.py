"""The codec's figures: right on signals whose answer is known, and rows that are what they say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from stacks.nano_tiny import make_checkpoint, voice

from tts_demo import audio
from tts_demo.codec.model import Codec
from tts_demo.measure import codec, judges, quality
from tts_demo.measure.quality import Evaluation
from tts_demo.measure.records import Records
from tts_demo.measure.texts import Case
from tts_demo.stacks.nano import NanoStack
from tts_demo.text import sentences
from tts_demo.voices import Voice

ROWS = ["recording", "1 book", "2 books", "4 books", "8 books", "first book, refined", "8 books, refined"]
WORDS = (None, "red green")


class Judge:
    """A judge that always hears the same words."""

    def transcribe(self, samples: np.ndarray) -> str:
        return "red green blue"

    def distilmos(self, samples: np.ndarray) -> None:
        return None

    def voice(self, samples: np.ndarray) -> np.ndarray:
        return samples[:4] / max(np.linalg.norm(samples[:4]), 1e-9)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> NanoStack:
    return NanoStack(make_checkpoint(tmp_path_factory.mktemp("codec")), "cpu", torch.float32)


def noise(seconds: float, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(round(16000 * seconds)) * 0.05).astype(np.float32)


def test_rows_are_the_first_books_and_the_refined_ones(stack: NanoStack) -> None:
    samples = audio.level(voice(1.6)).samples
    rows = codec.decode(stack, samples, "red")
    assert list(rows) == ROWS
    assert all(row.shape == samples.shape and np.isfinite(row).all() for row in rows.values())
    codes = stack.codec.encode(torch.from_numpy(samples)[None])
    np.testing.assert_array_equal(
        rows["2 books"], stack.waveform_decoder.whole(stack.codec.quantizer.decode(codes[..., :2]))[0].numpy()
    )


def test_known_words_tell_the_first_book_of_their_row(stack: NanoStack) -> None:
    samples, plain = audio.level(voice(1.6)).samples, stack.codec
    spoken = [int(n) for n in stack.tokenize("red green")[0] if int(n) in sentences.sounds()]
    torch.manual_seed(0)
    stack.codec = Codec(replace(plain.config, first_by_sound=True)).eval()
    book = stack.codec.quantizer.codebooks[0]
    book.sounds.copy_(torch.tensor([0, *spoken]).repeat(len(book.sounds))[: len(book.sounds)])
    try:
        assert list(codec.decode(stack, samples, "red green")) == [*ROWS, "first book of the known words, refined"]
        heard, told = (book.sounds[stack.codes(torch.from_numpy(samples)[None], words)[0, :, 0]] for words in WORDS)
        assert torch.unique_consecutive(told[told != 0]).tolist() == spoken and not torch.equal(heard, told)
    finally:
        stack.codec = plain


def test_each_recording_is_measured_once(stack: NanoStack, tmp_path: Path) -> None:
    audio.write_wav(tmp_path / "a.wav", voice(1.6), 16000)
    case = Case("a", "red green black", Voice("v", tmp_path / "a.wav"), "arctic", tmp_path / "a.wav")
    evaluation = Evaluation(stack, Judge(), Records())
    for _ in range(2):
        quality.run(quality.Setup(), evaluation, codec.measurements(stack, [case]))
    found = {r["row"]: r["figures"] for r in evaluation.records.read()}
    assert sorted(found) == sorted(ROWS) and len(evaluation.records.read()) == len(ROWS)
    assert (found["8 books"]["errors"], found["8 books"]["words"]) == (1, 3)
    assert found["recording"]["sim"] == pytest.approx(1, abs=1e-4)


def test_what_is_not_installed_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "PACKAGES", {"STOI": "no_such_package", "PESQ": "no_such_package"})
    assert judges.missing(codec.PACKAGES)["STOI"] == "pip install no-such-package"
    assert not {"stoi", "pesq"} & set(codec.compare(noise(1, 0), noise(1, 1), "one", Judge()))


def test_library_figures_are_perfect_for_a_perfect_codec() -> None:
    pytest.importorskip("pystoi", reason="STOI needs pystoi")
    pytest.importorskip("pesq", reason="PESQ needs pesq")
    speech = (voice(2.0) + noise(2, 9) * 0.2).astype(np.float32)
    same = codec.compare(speech, speech.copy(), "one", Judge())
    worse = codec.compare(speech, speech + noise(2, 10), "one", Judge())
    assert same["stoi"] == pytest.approx(1, abs=1e-3) and same["pesq"] > 4.6
    assert worse["stoi"] < same["stoi"] and worse["pesq"] < same["pesq"]
