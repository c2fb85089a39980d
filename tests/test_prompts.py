"""What a recording holds: no voice, one, two; noise; and where in a long one somebody speaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tts_demo import audio, checkpoints, prompts
from tts_demo.audio import Recording
from tts_demo.config import SAMPLE_RATE, UserError

VOICES = sorted((Path(__file__).parents[1] / "assets" / "prompts").glob("*.wav"))
SECONDS = np.arange(4 * SAMPLE_RATE) / SAMPLE_RATE
RANDOM = np.random.default_rng(0)


def spoken(number: int = 0) -> np.ndarray:
    return audio.read(VOICES[number]).samples


def noise(count: int, level: float = 0.1) -> np.ndarray:
    return (level * RANDOM.standard_normal(count)).astype(np.float32)


def click() -> np.ndarray:
    samples = noise(len(SECONDS), 1e-4)
    samples[30_000:30_020] = 0.8
    return samples


NOBODY = {
    "noise": noise(len(SECONDS)),
    "a tone": 0.2 * np.sin(2 * np.pi * 440 * SECONDS),
    "a low tone": 0.2 * np.sin(2 * np.pi * 140 * SECONDS),
    "a hum": sum(0.2 * np.sin(2 * np.pi * 50 * k * SECONDS) / k for k in range(1, 9)),
    "a chord": sum(0.1 * np.sin(2 * np.pi * f * SECONDS) for f in (262, 330, 392)),
    "a melody": 0.2 * np.sin(2 * np.pi * np.cumsum(220 * 2 ** (np.floor(SECONDS * 4) % 12 / 12)) / SAMPLE_RATE),
    "bursts of noise": noise(len(SECONDS)) * (np.sin(2 * np.pi * 2 * SECONDS) > 0),
    "silence with a click": click(),
    "a tap": np.tile(np.eye(1, 9000, 3)[0], 7)[: len(SECONDS)],
}


@pytest.mark.parametrize("name", NOBODY)
def test_what_is_no_voice_is_refused(name: str) -> None:
    recording = Recording(NOBODY[name].astype(np.float32))
    with pytest.raises(UserError, match="Nobody speaks|holds only") as caught:
        prompts.prepare(recording)
    assert "record at least 1 s" in str(caught.value)


@pytest.mark.parametrize("path", VOICES, ids=lambda p: p.stem)
def test_a_bundled_voice_is_taken_as_it_is_and_without_a_note(path: Path) -> None:
    recording = audio.read(path)
    got, plain = prompts.prepare(recording), audio.prompt(recording)
    assert got.notes == () and (got.samples == plain.samples).all()


@pytest.mark.parametrize("decibels", [20, 10])
def test_noise_behind_a_voice_is_told_with_its_level(decibels: int) -> None:
    samples = spoken()
    loud = float(np.sqrt(np.square(samples).mean()))
    (note,) = prompts.prepare(Recording(samples + noise(len(samples), loud * 10 ** (-decibels / 20)))).notes
    told = int(note.split(" dB")[0].split()[-1])
    assert "noise" in note and abs(told - decibels) <= 3


def test_of_a_long_recording_the_stretch_with_most_speech_is_kept() -> None:
    """Noise and pauses, then half a minute of which ten seconds are spoken without a break, then more pauses."""
    quiet, words = noise(6 * SAMPLE_RATE, 1e-4), np.concatenate([spoken(0), spoken(0)])
    samples = np.concatenate([noise(5 * SAMPLE_RATE), spoken(0)[:30_000], quiet, words, quiet, spoken(0)[:30_000]])
    start = 5 * SAMPLE_RATE + 30_000 + len(quiet)
    got = prompts.prepare(Recording(samples), keep_seconds=10)
    (note,) = got.notes
    first = float(note.split("from ")[1].split()[0])
    assert got.cut and abs(first - start / SAMPLE_RATE) < 1.0 and 8 < got.seconds <= 10
    whole = Recording(words)
    assert (
        prompts.detect_speech(got).seconds / got.seconds > 0.95 * prompts.detect_speech(whole).seconds / whole.seconds
    )
    # the first ten seconds, which would have been kept for being first, are mostly noise
    assert prompts.detect_speech(Recording(samples[: 10 * SAMPLE_RATE])).seconds < 3


def test_clipped_speech_is_not_the_best() -> None:
    words = np.concatenate([spoken(1), spoken(2)])
    shouted = np.clip(words * 30, -1, 1)
    got = prompts.prepare(Recording(np.concatenate([shouted, noise(8000, 1e-4), words])), keep_seconds=6)
    assert float(got.notes[0].split("from ")[1].split()[0]) > len(words) / SAMPLE_RATE - 1


def by_pitch(samples: np.ndarray) -> np.ndarray:
    """Tells voices apart that are tones."""
    spectrum = np.abs(np.fft.rfft(samples))[: len(samples) // 8]
    return np.eye(8)[int(spectrum.argmax() / len(spectrum) * 8)] + 0.1


def test_two_voices_are_noticed_and_one_is_not() -> None:
    t = np.arange(5 * SAMPLE_RATE) / SAMPLE_RATE
    low, high = (np.sin(2 * np.pi * f * t).astype(np.float32) for f in (120, 1500))
    assert prompts.voices_differ(Recording(np.concatenate([low, high])), by_pitch)
    assert not prompts.voices_differ(Recording(np.concatenate([low, low])), by_pitch)
    assert not prompts.voices_differ(Recording(low[: 2 * SAMPLE_RATE]), by_pitch)  # too short to tell
    # an encoder that finds a voice unlike itself cannot tell
    assert not prompts.voices_differ(Recording(np.concatenate([low, high])), lambda s: RANDOM.standard_normal(8))


@pytest.mark.skipif(not checkpoints.available(checkpoints.resolve("nano"), "speaker"), reason="no bundled weights")
def test_the_bundled_encoder_tells_the_bundled_voices_apart() -> None:
    from tts_demo.stacks import load_stack
    from tts_demo.ui.voices import embedding

    embed = embedding(load_stack("nano", "cpu"), SAMPLE_RATE)
    cut = lambda number: spoken(number)[: int(4.5 * SAMPLE_RATE)]
    pairs = [(a, b) for a in range(len(VOICES)) for b in range(a + 1, len(VOICES))][::4]
    told = [prompts.voices_differ(Recording(np.concatenate([cut(a), cut(b)])), embed) for a, b in pairs]
    alone = [prompts.voices_differ(audio.prompt(audio.read(path)), embed) for path in VOICES]
    assert np.mean(told) >= 0.7 and not any(alone)
