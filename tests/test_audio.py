"""Recordings: every format and mistake a visitor may bring, and files that say they are synthetic."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tts_demo import audio
from tts_demo.config import SAMPLE_RATE, UserError


def voice(seconds: float = 2.0, rate: int = 16000, level: float = 0.2) -> np.ndarray:
    """A buzz that swells like syllables. [N]"""
    t = np.arange(int(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * 140 * t) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))).astype(np.float32)


def saved(path: Path, samples: np.ndarray, rate: int = 16000, **kw) -> Path:
    soundfile.write(path, samples, rate, **kw)
    return path


@pytest.mark.parametrize(
    ("name", "rate"), [("a.wav", 16000), ("a.wav", 44100), ("a.flac", 22050), ("a.ogg", 48000), ("a.mp3", 24000)]
)
def test_formats_and_rates(tmp_path: Path, name: str, rate: int) -> None:
    got = audio.read(saved(tmp_path / name, voice(2, rate), rate))
    assert got.samples.dtype == np.float32 and abs(got.seconds - 2) < 0.1 and got.notes == ()
    spectrum = np.abs(np.fft.rfft(got.samples[: 2 * 16000 - 2000]))
    assert abs(np.argmax(spectrum) * 16000 / (2 * 16000 - 2000) - 140) < 5  # still the same pitch


def test_bytes_and_arrays_are_the_same_recording(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.wav", voice())
    pcm = np.round(voice() * 32767).astype(np.int16)
    for source in (
        path.read_bytes(),
        (16000, pcm),
        (16000, np.stack([pcm, pcm], 1)),
        (16000, voice().astype(np.float64)),
    ):
        assert np.abs(audio.read(source).samples - voice()).max() < 1e-3


def test_inverted_channels_do_not_cancel(tmp_path: Path) -> None:
    got = audio.read(saved(tmp_path / "a.wav", np.stack([voice(), -voice()], 1)))
    assert np.abs(np.abs(got.samples) - np.abs(voice())).max() < 1e-3


def test_notes() -> None:
    assert "clipped" in audio.read((16000, np.clip(voice(level=3), -1, 1))).notes[0]
    assert "11.025 kHz" in audio.read((11025, voice(2, 11025))).notes[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ((16000, np.zeros(0, np.float32)), "no samples"),
        ((16000, np.zeros(32000, np.float32)), "silent"),
        ((16000, np.full(32000, np.nan, np.float32)), "NaN"),
        ((16000, np.append(voice(), np.inf)), "infinity"),
        ((8000, voice(2, 8000)), "telephone"),
        ((16000, np.zeros((16000, 8), np.float32)), "8 channels"),
        ((16000, np.zeros(16000 * 301, np.int16)), "5.0 minutes"),
        ((16000, np.zeros((2, 2, 2))), "array of numbers"),
        ((16000, np.array(["a", "b"])), "array of numbers"),
        (b"", "is empty"),
        (b"this is no audio at all, only words" * 9, "not audio"),
        ("nowhere/none.wav", "no file"),
        (".", "is a folder"),
    ],
)
def test_what_is_refused(source: audio.Source, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        audio.read(source)
    assert str(caught.value).endswith((".", ")."))


def test_a_long_header_is_refused_before_decoding(tmp_path: Path) -> None:
    path = saved(tmp_path / "long.flac", np.zeros(16000 * 600, np.int16))
    assert path.stat().st_size < 100_000
    with pytest.raises(UserError, match="10.0 minutes"):
        audio.read(path)


def test_a_prompt_is_trimmed_levelled_and_cut() -> None:
    quiet = np.zeros(16000, np.float32)
    got = audio.prompt(audio.Recording(np.concatenate([quiet, voice(3, level=0.01), quiet])))
    assert abs(got.seconds - 3.2) < 0.1 and not got.cut
    rms = float(np.sqrt(np.mean(got.samples**2)))
    assert abs(rms - audio.LEVEL_RMS) < 0.002 and abs(got.samples.mean()) < 1e-4
    long = audio.prompt(audio.Recording(voice(40)))
    assert 13 <= long.seconds <= 15 and long.cut and "of 40.0 s" in long.notes[-1]


def test_levelling_never_clips() -> None:
    spiky = voice(2, level=0.01)
    spiky[100] = 0.9
    got = audio.level(spiky)
    assert np.abs(got.samples).max() <= 0.951
    assert np.allclose(got.samples / got.gain, spiky - spiky.mean(), atol=1e-6)


@pytest.mark.parametrize("samples", [voice(0.2), np.concatenate([np.zeros(30000, np.float32), voice(0.3)])])
def test_too_little_speech(samples: np.ndarray) -> None:
    with pytest.raises(UserError, match="at least 1 s"):
        audio.prompt(audio.Recording(samples))


def test_written_files_say_that_they_are_synthetic(tmp_path: Path) -> None:
    facts = {"method": "baseline", "seed": 3, "checkpoint_hash": "abc"}
    for target in (tmp_path / "a.wav", io.BytesIO()):
        audio.write_wav(target, voice(), 16000, facts)
        if isinstance(target, io.BytesIO):
            target.seek(0)
        assert audio.read_provenance(target) == {"synthetic": True, **facts}
    samples, rate = soundfile.read(tmp_path / "a.wav")
    assert rate == 16000 and soundfile.info(tmp_path / "a.wav").subtype == "PCM_16"
    assert np.abs(samples - voice()).max() < 1e-4
    assert audio.read_provenance(saved(tmp_path / "plain.wav", voice())) == {}


def test_loud_output_is_limited_not_wrapped(tmp_path: Path) -> None:
    audio.write_wav(tmp_path / "a.wav", np.array([2.0, -2.0]), 16000)
    assert soundfile.read(tmp_path / "a.wav", dtype="int16")[0].tolist() == [32767, -32767]
    with pytest.raises(UserError, match="no folder"):
        audio.write_wav(tmp_path / "none" / "a.wav", voice(), 16000)


def test_a_prompt_keeps_the_rate_it_was_read_at() -> None:
    """Trimmed and cut at the same moments at 24 kHz as at 16 kHz."""
    quiet = np.zeros(SAMPLE_RATE, np.float32)
    source = np.concatenate([quiet, voice(20), quiet])
    low, high = (audio.prompt(audio.read((SAMPLE_RATE, source), target=rate)) for rate in (SAMPLE_RATE, 24_000))
    assert high.rate == 24_000 and high.cut and low.cut
    assert high.seconds == pytest.approx(low.seconds, abs=0.05) and high.seconds <= audio.KEEP_SECONDS


def test_an_odd_rate_costs_no_gigabytes() -> None:
    """16,001 Hz shares no factor with 16 kHz: an exact filter would have 16,000 phases of 32,000 taps."""
    wave = np.sin(2 * np.pi * 200 * np.arange(32_002) / 16_001).astype(np.float32)
    before = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    made = audio.resample(wave, 16_001, 16_000)
    assert (
        abs(len(made) - 32_000) <= 3
        and int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) < before + 300_000
    )
    assert len(audio.resample(wave, 44_100, 16_000)) == -(-32_002 * 160 // 441)
