"""Tokens, text front end and prompt spectra."""

import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from cosyvoice_tiny import speech_like, write_vocabulary

from tts_demo.config import UserError
from tts_demo.stacks.cosyvoice import frontend
from tts_demo.stacks.cosyvoice.prompt import align, kaldi_bank, prompt_mel, whisper_mel
from tts_demo.stacks.cosyvoice.tokenizer import TextTokenizer, special_tokens


def words(piece: str) -> int:
    return len(piece.split())


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> TextTokenizer:
    folder = tmp_path_factory.mktemp("text") / "vocabulary"
    write_vocabulary(folder)
    return TextTokenizer(folder, 3)


def test_special_tokens_have_the_released_ids():
    """Qwen2's vocabulary has 151,643 entries; the special tokens follow."""
    second, third = special_tokens(2), special_tokens(3)
    assert 151_643 + len(second) == 151_663 and 151_643 + len(third) == 151_924
    ids = {token: 151_643 + i for i, token in enumerate(third)}
    assert (ids["<|endofprompt|>"], ids["[breath]"], ids["[mn]"]) == (151_646, 151_647, 151_662)
    assert (ids["<|endofsystem|>"], ids["[AA]"], ids["[ZH]"]) == (151_663, 151_664, 151_747)
    assert (ids["[a]"], ids["[ǜ]"]) == (151_748, 151_923)
    assert third[: len(second)] == second


def test_tokens_of_the_folders_own_merges(tokenizer):
    ids, labels = tokenizer.encode_labelled("sing the<|endofprompt|>[breath]")
    first = 256 + 5  # bytes and merges
    assert labels == ("s", "ing", "the", "<|endofprompt|>", "[breath]")
    assert ids[-2:] == [first + 3, first + 4]
    assert tokenizer.encode("sing the<|endofprompt|>[breath]") == ids


def test_a_split_character_keeps_its_label(tokenizer):
    ids, labels = tokenizer.encode_labelled("好")
    assert len(ids) == 3 and labels == ("好", "好", "好")


def test_damaged_vocabulary(tmp_path):
    write_vocabulary(tmp_path / "v")
    (tmp_path / "v" / "vocab.json").write_text("{")
    with pytest.raises(UserError, match="download it again"):
        TextTokenizer(tmp_path / "v", 2)


RELEASED = json.loads((Path(__file__).parent / "data" / "released_front_end.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RELEASED, ids=lambda case: case["text"][:24])
def test_the_text_that_reaches_a_model_is_the_released_front_ends(case):
    """Expected pieces: the released algorithm as its repository has it, with the parser of the WeText version that it
    pins (0.0.4), on WeText's grammars, run once; sizes of pieces counted in words."""
    assert frontend.split(case["text"], words) == case["pieces"]


def test_there_are_enough_of_them():
    languages = [case["language"] for case in RELEASED]
    assert languages.count("en") == 100 and languages.count("zh") == 20
    assert sum(len(case["pieces"]) > 1 for case in RELEASED) >= 5


def test_markup_stays():
    assert (
        frontend.normalise("Well [breath], I have 2 <strong>big</strong> cats [laughter].")
        == "Well [breath], I have two <strong>big</strong> cats [laughter]."
    )
    assert frontend.normalise("[HH][AH0][L][OW1] 3 cats") == "[HH][AH0][L][OW1] three cats"
    assert frontend.normalise("<|en|> 3 cats") == "<|en|> 3 cats"


def test_other_scripts_keep_their_letters_and_digits():
    assert frontend.normalise("У меня 3 кошки") == "У меня 3 кошки"
    assert frontend.normalise("고양이 3마리") == "고양이 3마리"
    assert frontend.normalise("Où est la bibliothèque ?") == "Où est la bibliothèque ?"
    assert frontend.normalise("π is 3.14") == "pi is three point one four"


@pytest.mark.parametrize("word", ["3.50", "10:30", "25.5", "3.11", "example.com", "a.m", "x;y", "Yahoo!s"])
def test_a_piece_never_ends_within_a_word(word):
    """Over all places where a long text may be cut: letters of another script, so that numbers stay as they are."""
    for before in range(50, 90):
        text = "да " * before + f"{word} да " * 60
        pieces = frontend.split(text, words)
        assert len(pieces) == 1 and word in pieces[0]
        pieces = frontend.split(text.replace(f"{word} да", f"{word}. да"), words)
        assert len(pieces) > 1 and not any(piece.endswith(word[:k]) for piece in pieces for k in range(1, len(word)))
        assert all(piece.endswith((f"{word}.", " да.")) for piece in pieces)


@pytest.mark.parametrize(
    "text", ["a [1] b 3 cats", "5½ cups and 2 spoons", "3  4", "example.com, e.g. item 7", '."x 3', "#5 @5 & 5%"]
)
def test_what_wetext_cannot_parse_is_no_error(text):
    """Its grammar has no path for these, and the released code fails: what it can read is read, nothing is lost."""
    (piece,) = frontend.split(text, words)
    letters = [w for w in re.findall(r"[a-z]{2,}", text)]
    assert all(w in piece for w in letters)


def test_quotation_marks_and_backslashes_come_back_single():
    assert frontend.normalise('He said "3 cats" \\ "two".') == 'He said "three cats" \\ "two".'


def test_any_text_is_said_or_refused():
    rng = random.Random(0)
    signs = "abc 019 .:?!;,'\"\\{}[]()<>|/@#$%^&*_-+=~`“”’—…½²éßж好。，！\u200b\u00ad\U0001f600\n\t"
    for _ in range(300):
        text = "".join(rng.choices(signs, k=rng.randint(1, 40)))
        try:
            pieces = frontend.split(text, words)
        except UserError:
            assert not any(map(str.isalnum, text))
        else:
            assert all(any(map(str.isalnum, piece)) for piece in pieces)


def test_transcripts_are_written_out_in_version_2_alone():
    assert frontend.transcript(" I have 3 cats ", 2) == "I have three cats"
    assert frontend.transcript(" I have 3 cats ", 3) == "I have 3 cats"
    assert frontend.transcript("speak fast 2<|endofprompt|>", 2) == "speak fast 2<|endofprompt|>"


def test_tokens_are_those_of_the_released_tokenizer(tmp_path):
    """The library that the released code takes its tokenizer from, on the same files."""
    write_vocabulary(tmp_path / "vocabulary")
    theirs = transformers.Qwen2Tokenizer.from_pretrained(tmp_path / "vocabulary")
    theirs.add_special_tokens({"additional_special_tokens": list(special_tokens(3)[1:])})
    ours = TextTokenizer(tmp_path / "vocabulary", 3)
    for case in RELEASED:
        for piece in case["pieces"]:
            ids = theirs(piece)["input_ids"]
            assert ours.encode(piece) == ids and ids


def test_split_merges_short_sentences_and_cuts_long_texts():
    sentence = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen."
    pieces = frontend.split(" ".join([sentence] * 14), words)
    assert [words(piece) for piece in pieces] == [75, 75, 60] and " ".join([sentence] * 14) == "".join(pieces)
    assert frontend.split("Hello there. How are you", words) == ["Hello there. How are you."]


def test_a_short_end_joins_the_piece_before():
    sentence = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen."
    pieces = frontend.split(" ".join([sentence] * 5) + " The end.", words)
    assert [words(piece) for piece in pieces] == [77]


def test_chinese_is_split_by_characters():
    pieces = frontend.split("今天天气很好，我们去公园散步。" * 12, words)
    assert [len(piece) for piece in pieces] == [75, 75, 30]
    assert "".join(pieces) == "今天天气很好，我们去公园散步。" * 12


@pytest.mark.parametrize("text", ["", "  ", "...!?", "。。"])
def test_nothing_to_say(text):
    with pytest.raises(UserError):
        frontend.split(text, words)


def slaney(hz: float) -> float:
    return hz * 3 / 200 if hz < 1000 else 15 + math.log(hz / 1000) / (math.log(6.4) / 27)


def hertz(mel: float) -> float:
    return mel * 200 / 3 if mel < 15 else 1000 * math.exp((mel - 15) * math.log(6.4) / 27)


def literal_filters(n_fft: int, mels: int, rate: int, fmax: float) -> np.ndarray:
    edges = [hertz(slaney(fmax) * i / (mels + 1)) for i in range(mels + 2)]
    bank = np.zeros((mels, n_fft // 2 + 1))
    for m in range(mels):
        low, mid, high = edges[m : m + 3]
        for k in range(n_fft // 2 + 1):
            hz = k * rate / n_fft
            bank[m, k] = max(0.0, min((hz - low) / (mid - low), (high - hz) / (high - mid))) * 2 / (high - low)
    return bank


def literal_powers(wave: np.ndarray, n_fft: int, hop: int, frames: int) -> np.ndarray:
    """|DFT|^2 of hann-windowed frames, [bins, frames]."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    return np.stack([np.abs(np.fft.rfft(wave[t * hop : t * hop + n_fft] * window)) ** 2 for t in range(frames)], axis=1)


@pytest.mark.parametrize("fmax", [8_000.0, 12_000.0])
def test_prompt_mel(fmax):
    wave = speech_like(0.2, 24_000)
    padded = np.concatenate((wave[720:0:-1], wave, wave[-2:-722:-1])).astype(np.float64)
    powers = literal_powers(padded, 1920, 480, 10)
    literal = np.log(np.maximum(literal_filters(1920, 80, 24_000, fmax) @ np.sqrt(powers + 1e-9), 1e-5))
    mine = prompt_mel(torch.from_numpy(wave), fmax)
    assert mine.shape == (80, 10)
    np.testing.assert_allclose(mine.numpy(), literal, atol=2e-3)


def test_whisper_mel():
    wave = speech_like(0.2, 16_000)
    padded = np.concatenate((wave[200:0:-1], wave, wave[-2:-202:-1])).astype(np.float64)
    logs = np.log10(
        np.maximum(literal_filters(400, 128, 16_000, 8_000.0) @ literal_powers(padded, 400, 160, 20), 1e-10)
    )
    literal = (np.maximum(logs, logs.max() - 8) + 4) / 4
    np.testing.assert_allclose(whisper_mel(torch.from_numpy(wave)).numpy(), literal, atol=2e-3)


def test_speaker_bank_has_no_mean():
    bank = kaldi_bank(torch.from_numpy(speech_like(0.5, 16_000)))
    assert bank.shape == (48, 80)
    assert bank.mean(0).abs().max() < 1e-4


@pytest.mark.parametrize(("tokens", "frames", "kept"), [(10, 25, 10), (13, 25, 12), (12, 24, 12)])
def test_tokens_and_mel_are_cut_to_the_same_time(tokens, frames, kept):
    cut, mel = align(torch.arange(tokens), torch.zeros(80, frames))
    assert len(cut) == kept and mel.shape == (80, 2 * kept)
