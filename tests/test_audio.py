"""Recordings: every format and mistake a visitor may bring, and files that say they are synthetic."""

from __future__ import annotations

import io
import struct
import tempfile
from collections.abc import Callable
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
    assert "8 kHz" in audio.read((8000, voice(2, 8000))).notes[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ((16000, np.zeros(0, np.float32)), "no samples"),
        ((16000, np.zeros(32000, np.float32)), "silent"),
        ((16000, np.full(32000, np.nan, np.float32)), "NaN"),
        ((16000, np.append(voice(), np.inf)), "infinity"),
        ((7000, voice(2, 7000)), "too little for a voice"),
        ((48000, np.zeros((48000 * 20, 126), np.int8)), "126 channels"),
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


def recorded(container: str, codec: str, rate: int = 44100, channels: int = 1, seconds: float = 2.0) -> bytes:
    """A recording as a telephone or a browser makes it."""
    import av

    out, layout = io.BytesIO(), "mono" if channels == 1 else "stereo"
    with av.open(out, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate)
        stream.layout = layout
        planes = np.tile(voice(seconds, rate)[None], (channels, 1))
        frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=layout)
        frame.rate, frame.pts = rate, 0
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    return out.getvalue()


def silent_film() -> bytes:
    import av

    out = io.BytesIO()
    with av.open(out, "w", format="mov") as file:
        stream = file.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        for n in range(10):
            for packet in stream.encode(av.VideoFrame.from_ndarray(np.full((32, 32, 3), n, np.uint8), format="rgb24")):
                file.mux(packet)
        for packet in stream.encode(None):
            file.mux(packet)
    return out.getvalue()


def wav_with_sizes(riff: int, data: int, seconds: float = 2.0, codec: int = 1) -> bytes:
    """A WAV whose header says other sizes than it has, as one that was streamed, or another codec."""
    out = io.BytesIO()
    soundfile.write(out, voice(seconds), 16000, format="WAV", subtype="PCM_16")
    raw = bytearray(out.getvalue())
    at = raw.index(b"data") + 4
    raw[4:8], raw[at : at + 4] = riff.to_bytes(4, "little"), data.to_bytes(4, "little")
    raw[20:22] = codec.to_bytes(2, "little")
    return bytes(raw)


def written(container: str, codec: str, rate: int = 16000) -> bytes:
    """A recording in one of libsndfile's formats, some of which it writes to files only."""
    with tempfile.NamedTemporaryFile() as file:
        soundfile.write(file.name, voice(2, rate), rate, format=container, subtype=codec)
        return Path(file.name).read_bytes()


RECORDINGS = {  # what arrives: its bytes, and None where it is accepted, or words of the refusal
    "m4a": (lambda: recorded("ipod", "aac"), None),
    "m4a, stereo": (lambda: recorded("ipod", "aac", 48000, 2), None),
    "m4a, lossless": (lambda: recorded("ipod", "alac"), None),
    "aac": (lambda: recorded("adts", "aac"), None),
    "mov": (lambda: recorded("mov", "pcm_s16le", 48000), None),
    "3gp": (lambda: recorded("3gp", "aac", 16000), None),
    "3gp, narrow band": (lambda: recorded("3gp", "libopencore_amrnb", 8000), None),
    "amr": (lambda: recorded("amr", "libopencore_amrnb", 8000), None),
    "webm": (lambda: recorded("webm", "libopus", 48000), None),
    "ogg, opus": (lambda: recorded("ogg", "libopus", 48000), None),
    "mkv": (lambda: recorded("matroska", "aac"), None),
    "caf": (lambda: recorded("caf", "pcm_s16be"), None),
    "aiff": (lambda: recorded("aiff", "pcm_s16be"), None),
    "mp3": (lambda: recorded("mp3", "libmp3lame"), None),
    "flac": (lambda: recorded("flac", "flac"), None),
    "ts": (lambda: recorded("mpegts", "aac"), None),
    "wav, sizes 0": (lambda: wav_with_sizes(0, 0), None),
    "wav, data size 0": (lambda: wav_with_sizes(64036, 0), None),
    "wav, sizes unknown": (lambda: wav_with_sizes(2**32 - 1, 2**32 - 1), None),
    "m4a, end missing": (lambda: recorded("ipod", "aac")[:9000], "not audio"),
    "webm, end missing": (lambda: recorded("webm", "libopus", 48000, seconds=2.4)[:-2000], None),
    "mov without sound": (silent_film, "no sound"),
    "m4a, too long": (lambda: recorded("ipod", "aac", 16000, seconds=5), "0.1 minutes"),
    "webm, too long": (lambda: recorded("webm", "libopus", 48000, seconds=5), "0.1 minutes"),
    "wav, unknown codec": (lambda: wav_with_sizes(64036, 64000, codec=0x1234), "not audio"),
    "wav, GSM 6.10": (lambda: written("WAV", "GSM610", 8000), None),
    "wav, GSM 6.10, cut": (lambda: written("WAV", "GSM610", 8000)[:-300], None),
    "wav, G.721": (lambda: written("WAV", "G721_32", 8000), None),
    "wav, NMS ADPCM 16": (lambda: written("WAV", "NMS_ADPCM_16", 8000), None),
    "wav, NMS ADPCM 24": (lambda: written("WAV", "NMS_ADPCM_24", 8000), None),
    "wav, NMS ADPCM 32": (lambda: written("WAV", "NMS_ADPCM_32", 8000), None),
    "wav, A-law": (lambda: written("WAV", "ALAW", 8000), None),
    "wav, mu-law": (lambda: written("WAV", "ULAW", 8000), None),
    "wav, IMA ADPCM": (lambda: written("WAV", "IMA_ADPCM"), None),
    "wav, MS ADPCM": (lambda: written("WAV", "MS_ADPCM"), None),
    "w64, GSM 6.10": (lambda: written("W64", "GSM610", 8000), None),
    "aiff, GSM 6.10": (lambda: written("AIFF", "GSM610", 8000), None),
    "au, G.723": (lambda: written("AU", "G723_24", 8000), None),
    "aiff, DWVW": (lambda: written("AIFF", "DWVW_16"), "not audio"),
    "avi": (lambda: recorded("avi", "pcm_s16le", 16000), None),
    "ac3": (lambda: recorded("ac3", "ac3", 48000), None),
    "wv": (lambda: recorded("wv", "wavpack"), None),
    "a page": (lambda: b"<!doctype html><title>Not here</title>" * 9, "not audio"),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_common_recording_is_read_or_refused_in_a_sentence(name: str) -> None:
    make, words = RECORDINGS[name]
    if words:
        with pytest.raises(UserError, match=words) as caught:
            audio.read(make(), max_seconds=3)
        assert str(caught.value).endswith((".", ")."))
        return
    got = audio.read(make(), max_seconds=3)
    assert abs(got.seconds - 2) < 0.3
    spectrum = np.abs(np.fft.rfft(got.samples[1000:30000]))
    assert abs(np.argmax(spectrum) * 16000 / 29000 - 140) < 5


@pytest.mark.parametrize("name", [name for name, (_, words) in RECORDINGS.items() if not words])
def test_no_exception_of_a_decoder_gets_out(name: str) -> None:
    """Bytes flipped, left out and repeated, in the header most of all."""
    sound, rng = RECORDINGS[name][0](), np.random.default_rng(len(name))
    for n in range(15):
        raw = bytearray(sound)
        for at in rng.integers(0, 200 if n % 2 else len(raw), rng.integers(1, 6)):
            raw[min(at, len(raw) - 1)] = int(rng.integers(256))
        raw = raw[: int(rng.integers(1, len(raw)))] if n % 5 == 0 else raw
        try:
            assert np.isfinite(audio.read(bytes(raw), max_seconds=10).samples).all()
        except UserError as error:
            assert str(error).endswith((".", ")."))


def claimed_wav(rate: int, channels: int, frames: int, size: int | None = None) -> bytes:
    """A WAV with whatever its header is to claim. size: bytes of sound that the header claims."""
    data = np.zeros((frames, channels), np.int16)
    data[:, :1] = np.round(voice(frames / 16000)[:, None] * 32767)
    sound = data.tobytes()
    size = len(sound) if size is None else size
    form = struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * channels * 2 % 2**32, channels * 2 % 2**16, 16)
    riff = b"RIFF" + struct.pack("<I", (36 + size) % 2**32) + b"WAVEfmt "
    return riff + form + b"data" + struct.pack("<I", size) + sound


def hour_of_silence(container: str) -> bytes:
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", 16000, 1, format=container) as file:
        for _ in range(3600):
            file.write(np.zeros(16000, np.int16))
    return out.getvalue()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: claimed_wav(1, 1, 32000), "too little for a voice"),
        (lambda: claimed_wav(10_000_000, 1, 32000), "at most at 192 kHz"),
        (lambda: claimed_wav(0, 1, 32000), "not audio"),
        (lambda: claimed_wav(16000, 0, 32000), "not audio"),
        (lambda: claimed_wav(16000, 65_535, 20), "not audio"),
        (lambda: claimed_wav(16000, 255, 32000), None),
        (lambda: claimed_wav(16000, 1, 32000, 0xFFFFFFF0), None),
        (lambda: hour_of_silence("FLAC"), "60.0 minutes"),
        (lambda: hour_of_silence("OGG"), "60.0 minutes"),
    ],
)
def test_what_a_header_claims_costs_nothing(make: Callable[[], bytes], words: str | None) -> None:
    sound = make()
    peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    before = peak()
    if words:
        with pytest.raises(UserError, match=words):
            audio.read(sound)
    else:
        assert audio.read(sound).seconds == 2.0
    assert peak() - before < 100_000  # kilobytes


def test_whatever_a_decoder_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise ZeroDivisionError("the file's own")

    sound = wav_with_sizes(64036, 64000)
    monkeypatch.setattr(audio.soundfile, "SoundFile", Broken)
    assert abs(audio.read(sound).seconds - 2) < 0.1  # by FFmpeg
    monkeypatch.setattr("av.open", Broken)
    with pytest.raises(UserError, match="not audio"):
        audio.read(sound)


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_a_playlist_opens_no_other_file(tmp_path: Path, scheme: str) -> None:
    """A visitor must not be able to hear what lies on the server."""
    secret = tmp_path / "secret.aac"
    secret.write_bytes(recorded("adts", "aac"))
    lists = (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{scheme}{secret}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile {scheme}{secret}\n",
    )
    for n, content in enumerate(lists):
        path = tmp_path / f"{n}.m4a"
        path.write_text(content)
        for source in (path, content.encode()):
            with pytest.raises(UserError, match="not audio"):
                audio.read(source)


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


def test_a_pause_at_the_end_is_no_speech_whatever_the_room_sounds_like() -> None:
    spoken, rng = voice(2.0), np.random.default_rng(0)
    rms = float(np.sqrt(np.square(spoken).mean()))
    noise = lambda seconds, db: (rng.normal(size=int(16000 * seconds)) * rms * 10 ** (db / 20)).astype(np.float32)
    assert audio.speech_end(spoken) == len(spoken)
    for pause in (np.zeros(9600, np.float32), noise(0.6, -50), noise(0.6, -26)):
        assert 0 <= audio.speech_end(np.concatenate([spoken, pause])) - len(spoken) <= 0.22 * 16000
    consonant = np.concatenate([spoken, noise(0.15, -24), np.zeros(4800, np.float32)])
    assert audio.speech_end(consonant) >= len(spoken) + 0.15 * 16000
    assert audio.speech_end(np.zeros(16000, np.float32)) <= 16000


def test_levelling_never_clips_speech() -> None:
    spiky = voice(2, level=0.01) * np.where(np.arange(32000) % 4000 < 40, 4, 1).astype(np.float32)
    got = audio.level(spiky)
    assert np.abs(got.samples).max() <= 0.951
    assert np.allclose(got.samples / got.gain, spiky - spiky.mean(), atol=1e-6)


@pytest.mark.parametrize("length", [1, 8, 80])
def test_a_click_does_not_set_the_level(length: int) -> None:
    """Five milliseconds at full scale leave the speech around them as loud as it is without them."""
    quiet = voice(3, level=10 ** (-30 / 20))
    clicked = quiet.copy()
    clicked[20000 : 20000 + length] = 1.0
    plain, got = audio.level(quiet), audio.level(clicked)
    assert abs(20 * np.log10(got.gain / plain.gain)) < 0.5 and np.abs(got.samples).max() <= 0.951
    assert np.abs(got.samples[:19000] - plain.samples[:19000]).max() < 0.02


@pytest.mark.parametrize("channels", [3, 4, 6, 8, 32])
def test_many_channels_are_mixed_down(tmp_path: Path, channels: int) -> None:
    one_of_many = np.zeros((32000, channels), np.float32)
    one_of_many[:, channels - 1] = voice()
    for samples in (np.tile(voice()[:, None], (1, channels)), one_of_many):
        for source in ((16000, samples), saved(tmp_path / "a.wav", samples)):
            got = audio.read(source).samples
            assert np.corrcoef(got, voice())[0, 1] > 0.999


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
