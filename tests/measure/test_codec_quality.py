"""The codec table: figures that are right on signals whose answer is known, and rows that are what they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tts_demo.codec.model import Codec
from tts_demo.codec.refiner import Refiner
from tts_demo.codec.speaker import SpeakerEncoder
from tts_demo.config import CodecConfig, RefinerConfig, SpeakerConfig, UserError
from tts_demo.measure import codec as evaluate_codec
from tts_demo.measure.codec import Speech, codec_table, decode, format_table, log_mel_distance, si_sdr


@pytest.fixture(scope="module")
def parts():
    torch.manual_seed(0)
    codec = (
        Codec(
            CodecConfig(
                encoder_width=16,
                encoder_layers=1,
                latent=16,
                entries=16,
                code_width=8,
                decoder_width=16,
                decoder_layers=1,
                decoder_lookahead=1,
            )
        )
        .eval()
        .requires_grad_(False)
    )
    refiner = Refiner(RefinerConfig(entries=16, latent=16, speaker=8, width=16, layers=1, heads=2, ffn=16)).eval()
    voice = SpeakerEncoder(SpeakerConfig(width=16, layers=1, embedding=8)).eval()
    return codec, refiner.requires_grad_(False), voice.requires_grad_(False)


def noise(seconds: float, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(round(16000 * seconds)) * 0.05).astype(np.float32)


class DeafJudges:
    """Judges that are not there, but for a recogniser that always hears the same words."""

    def voice(self, samples):
        return samples[:4] / np.linalg.norm(samples[:4])

    def transcribe(self, samples):
        return "one two three"

    def phoneme_errors(self, samples, text):
        return None


def test_si_sdr_is_the_ratio_of_what_was_mixed_whatever_the_scale():
    a, b = noise(1, 0).astype(np.float64), noise(1, 1).astype(np.float64)
    a -= a.mean()
    b -= b.mean() + a * (a @ b) / (a @ a)
    b -= a * (a @ b) / (a @ a)
    b *= np.linalg.norm(a) / np.linalg.norm(b) * 10 ** (-12 / 20)
    assert si_sdr(a, a + b) == pytest.approx(12.0, abs=0.01) and si_sdr(a, -3 * (a + b)) == pytest.approx(
        12.0, abs=0.01
    )


def test_log_mel_distance_of_a_gain_is_its_logarithm():
    a = noise(1, 0)
    assert log_mel_distance(a, a) == 0 and log_mel_distance(a, 2 * a) == pytest.approx(np.log(4), rel=1e-3)


def test_rows_are_prefixes_of_the_books_and_the_refined_first(parts):
    codec, refiner, voice = parts
    samples, prompt = noise(0.4, 2), noise(0.5, 3)
    rows = decode(*parts, samples, prompt)
    assert list(rows) == ["1 book", "2 books", "4 books", "8 books", evaluate_codec.REFINED]
    assert all(r.shape == samples.shape and np.isfinite(r).all() for r in rows.values())
    codes = codec.encode(torch.from_numpy(samples)[None])
    np.testing.assert_array_equal(rows["8 books"], codec.decode_codes(codes)[0].numpy())
    other = decode(*parts, samples, noise(0.5, 4))  # another voice: only the refined row may hear of it
    assert np.array_equal(rows["1 book"], other["1 book"]) and not np.array_equal(
        rows[evaluate_codec.REFINED], other[evaluate_codec.REFINED]
    )


def test_table_pools_errors_and_says_what_is_missing(parts, monkeypatch):
    monkeypatch.setattr(evaluate_codec, "PACKAGES", {"STOI": "no_such_package", "PESQ": "no_such_package"})
    said = evaluate_codec.missing()
    assert said["STOI"] == "pip install no_such_package"
    recordings = [Speech(noise(0.5, 5), "one two", noise(0.5, 6)), Speech(noise(0.5, 7), "four", noise(0.5, 8))]
    table = codec_table(*parts, recordings, DeafJudges())
    assert (
        list(table)[0] == evaluate_codec.RECORDING and "stoi" not in table["8 books"] and "per" not in table["8 books"]
    )
    assert table["8 books"]["wer"] == pytest.approx((1 + 3) / 3) and table["8 books"]["recordings"] == 2
    assert (
        table[evaluate_codec.RECORDING]["sim"] == pytest.approx(1, abs=1e-5)
        and table[evaluate_codec.RECORDING]["log_mel"] == 0
    )
    assert table[evaluate_codec.VOICE].keys() == {"recordings", "sim"} and -1 <= table[evaluate_codec.VOICE]["sim"] < 1
    assert "8 books" in format_table(table) and "-" in format_table(table)
    # no other recording of the voice: no such row
    alone = Speech(recordings[0].samples, "one two", recordings[0].samples)
    assert evaluate_codec.VOICE not in codec_table(*parts, [alone], DeafJudges())


def test_library_figures_are_perfect_for_a_perfect_codec(parts):
    pytest.importorskip("pystoi", reason="STOI needs pystoi")
    pytest.importorskip("pesq", reason="PESQ needs pesq")
    t = np.arange(32000) / 16000
    speech = (0.1 * np.sin(2 * np.pi * 150 * t) * (1 + np.sin(2 * np.pi * 4 * t)) + noise(2, 9) * 0.2).astype(
        np.float32
    )
    same = evaluate_codec._compare(speech, speech.copy(), "one", None, DeafJudges())
    worse = evaluate_codec._compare(speech, speech + noise(2, 10), "one", None, DeafJudges())
    assert same["stoi"] == pytest.approx(1, abs=1e-3) and same["pesq"] > 4.6
    assert worse["stoi"] < same["stoi"] and worse["pesq"] < same["pesq"] and worse["si_sdr"] < same["si_sdr"]


def test_no_recordings_is_a_sentence(parts, tmp_path):
    with pytest.raises(UserError, match="--list"):
        codec_table(*parts, [], DeafJudges())
    (tmp_path / "list.txt").write_text("text|a.wav\n")
    from tts_demo import audio

    audio.write_wav(tmp_path / "a.wav", noise(2, 1), 16000)
    with pytest.raises(UserError, match="no recording"):
        evaluate_codec.read_recordings(str(tmp_path / "list.txt"), None)
    (tmp_path / "list.txt").write_text("text|a.wav|its words\n")
    assert evaluate_codec.read_recordings(str(tmp_path / "list.txt"), None)[0].text == "its words"
