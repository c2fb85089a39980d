"""Recordings in and out: decoding, checking, resampling and levelling of a voice prompt; WAV files marked
as synthetic. Knows nothing of models."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile
import torch
import torchaudio

from .config import SAMPLE_RATE, UserError

MIN_SECONDS, KEEP_SECONDS, MAX_SECONDS = 1.0, 15.0, 300.0  # a prompt: refused below, cut to, refused above
MIN_RATE, MAX_RATE = 8_000, 192_000
MAX_VALUES = 120_000_000  # samples of all channels: five minutes of stereo at 192 kHz
MAX_BYTES = 200_000_000
CONTAINERS = (  # FFmpeg's names of its demuxers
    "mov,matroska,webm,ogg,wav,w64,aac,amr,asf,aiff,au,caf,flac,mp3,mpegts,avi,flv,ac3,ape,tta,wv"
)
UNKNOWN = 2**40  # samples; libsndfile's length of a file whose header has none is larger
SYNTHETIC = "Synthetic speech"  # title of every file that is
MOST_PHASES = 640  # either term of a resampling ratio: 11,025 Hz to 16 kHz is 441 to 640, every usual rate is exact
SPEECH_PEAK, CLICK = 3.3, 5.0  # times the 99.5th percentile of magnitudes: the peaks of speech; above it are clicks
SILENT_PEAK = 1e-3  # of full scale: a recording below it has no speech
LEVEL_RMS, LEVEL_PEAK = 0.07, 0.95  # of the training data

Source = str | Path | bytes | tuple[int, np.ndarray]
Decoded = tuple[int, np.ndarray]  # rate, float32 [N, channels]


@dataclass(frozen=True)
class Recording:
    """samples: float32 [N], mono. notes: warnings for its owner, a sentence each."""

    samples: np.ndarray
    notes: tuple[str, ...] = ()
    cut: bool = False  # speech was removed, so a transcript of the whole no longer fits
    gain: float = 1.0  # factor that ``level`` applied
    rate: int = SAMPLE_RATE

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read(
    source: Source, max_seconds: float = MAX_SECONDS, target: int | None = SAMPLE_RATE, most_samples: int | None = None
) -> Recording:
    """Decode a file, its bytes, or (rate, array [N] or [N, channels]) to ``target`` Hz, None: the rate it has. Of a
    file no more than ``most_samples`` of a channel are decoded, whatever it claims. Raises UserError for what is no
    usable recording."""
    if isinstance(source, tuple):
        rate, samples = int(source[0]), np.asarray(source[1])
        _check_shape(rate, samples.shape[1] if samples.ndim == 2 else 1, len(np.atleast_1d(samples)), max_seconds)
        samples = _as_float(samples)
    else:
        rate, samples = _decode(source, max_seconds, most_samples)
    if len(samples) == 0:
        raise UserError("The recording has no samples in it: record it again.")
    if not np.isfinite(samples).all():
        raise UserError("The recording holds values that are not numbers (NaN or infinity): export it again.")
    notes = []
    if float(np.mean(np.maximum(samples.max(axis=1), -samples.min(axis=1)) >= 0.999)) > 0.001:
        notes.append("The recording is clipped in places; a quieter one copies better.")
    mono = _mono(samples)
    if np.abs(mono).max() < SILENT_PEAK:
        raise UserError("The recording is silent: check the microphone and record some speech.")
    if rate < SAMPLE_RATE:
        notes.append(f"The recording has only {rate / 1000:g} kHz; one of 16 kHz or more sounds brighter.")
    cut = most_samples is not None and len(samples) >= _frames(most_samples, samples.shape[1])
    if cut:
        notes.append(f"Only the first {len(samples) / rate:.0f} s of the recording are used.")
    target = target or rate
    return Recording(resample(mono, rate, target), tuple(notes), cut=cut, rate=target)


def prompt(recording: Recording, keep_seconds: float = KEEP_SECONDS) -> Recording:
    """A voice prompt: silence at the ends removed, at most ``keep_seconds`` kept, at the level of the training
    data."""
    rate = recording.rate
    refuse_short(recording)
    samples, notes, cut = trim(recording.samples, rate=rate), list(recording.notes), recording.cut
    if len(samples) < MIN_SECONDS * rate:
        raise UserError(
            f"The voice prompt holds only {len(samples) / rate:.1f} s of speech: record at least "
            f"{MIN_SECONDS:g} s, best 3 to 10 s."
        )
    if len(samples) > keep_seconds * rate:
        whole = len(samples) / rate
        samples, cut = samples[: _pause_before(samples, int(keep_seconds * rate), rate)], True
        notes.append(f"Kept the first {len(samples) / rate:.1f} s of {whole:.1f} s.")
    return replace(level(samples), notes=tuple(notes), cut=cut, rate=rate)


def refuse_short(recording: Recording) -> None:
    """Raise UserError for a recording too short to be a voice prompt."""
    if recording.seconds < MIN_SECONDS:
        raise UserError(
            f"The voice prompt is {recording.seconds:.1f} s long: record at least {MIN_SECONDS:g} s, best 3 to 10 s."
        )


def level(samples: np.ndarray) -> Recording:
    """Constant offset removed, at the loudness of the training data, never clipped but for clicks. samples [N]."""
    samples = samples - samples.mean()
    usual = float(np.percentile(np.abs(samples), 99.5)) if len(samples) else 0.0
    if float(np.abs(samples).max(initial=0.0)) > CLICK * usual > 0:
        samples = np.clip(samples, -SPEECH_PEAK * usual, SPEECH_PEAK * usual)
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) + 1e-6
    gain = min(LEVEL_RMS / rms, LEVEL_PEAK / max(float(np.abs(samples).max()), 1e-4))
    return Recording((samples * gain).astype(np.float32), gain=gain)


def trim(samples: np.ndarray, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Silence at both ends removed, 0.1 s of it kept. samples [N]."""
    frames = _loudness(samples, rate)
    loud = np.flatnonzero(frames > _speech_floor(frames))
    if len(loud) == 0:
        return samples[:0]
    keep, frame = rate // 10, rate // 50
    return samples[max(0, loud[0] * frame - keep) : (loud[-1] + 1) * frame + keep]


def speech_end(samples: np.ndarray, rate: int = SAMPLE_RATE) -> int:
    """The sample 0.1 s behind the last sound of speech; 0.2 s where a room's noise hides its end. A stretch of more
    than 0.2 s that is 22 dB below the loud frames is a pause with such noise in it; no final consonant is as long.
    samples [N]."""
    frames = _loudness(samples, rate)
    end, loud = (
        int(np.flatnonzero(frames > level).max(initial=-1)) + 1
        for level in (_speech_floor(frames), 0.08 * float(np.percentile(frames, 95)))
    )
    if end - loud > 10:
        end = loud + 5  # a soft consonant of 0.1 s stays
    return min(len(samples), (end + 5) * (rate // 50))


def resample(samples: np.ndarray, rate: int, target: int) -> np.ndarray:
    """samples [N] at ``rate`` -> float32 [N'] at ``target``. The filter grows with both terms of the ratio: odd rates,
    which a damaged header makes up, become the nearest ratio that fits in memory."""
    wave = torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))
    ratio = Fraction(rate, target).limit_denominator(MOST_PHASES * target // max(rate, target))
    return (
        wave.numpy() if ratio == 1 else torchaudio.functional.resample(wave, ratio.numerator, ratio.denominator).numpy()
    )


def write_wav(
    target: str | Path | BinaryIO, samples: np.ndarray, rate: int, provenance: Mapping[str, Any] | None = None
) -> None:
    """16-bit WAV of samples [N] in -1..1. ``provenance`` is written to the RIFF INFO chunk: the mark
    of synthetic speech and the run's settings."""
    if isinstance(target, (str, Path)) and not Path(target).absolute().parent.is_dir():
        raise UserError(f"There is no folder {Path(target).absolute().parent}: make it first, or write elsewhere.")
    pcm = np.round(np.clip(samples, -1.0, 1.0) * 32767).astype(np.int16)
    try:
        with soundfile.SoundFile(target, "w", rate, 1, subtype="PCM_16", format="WAV") as file:
            if provenance is not None:
                file.software, file.title, file.comment = "tts_demo", *mark(provenance).values()
            file.write(pcm)
    except (soundfile.LibsndfileError, OSError) as error:
        raise UserError(f"{target} cannot be written ({str(error).rstrip('.')}): choose another file.") from None


def mark(facts: Mapping[str, Any]) -> dict[str, str]:
    """Tags of a file of synthetic speech, in any format."""
    return {"title": SYNTHETIC, "comment": json.dumps({"synthetic": True, **facts}, ensure_ascii=False)}


def read_provenance(source: str | Path | BinaryIO) -> dict[str, Any]:
    """The provenance in a file of synthetic speech of any format; empty without a mark."""
    import av

    with av.open(str(source) if isinstance(source, Path) else source) as file:
        tags = {**file.metadata, **file.streams.audio[0].metadata}
    tags = {key.lower(): value for key, value in tags.items()}
    return json.loads(tags["comment"]) if tags.get("title") == SYNTHETIC else {}


def _decode(source: str | Path | bytes, max_seconds: float, most: int | None = None) -> Decoded:
    """-> rate, float32 [N, channels], at most ``most`` of two channels and fewer of more. The header is
    checked before anything is decoded. Whatever a decoder raises on a damaged or hostile file, what leaves here is a
    UserError."""
    name = "The recording" if isinstance(source, bytes) else str(source)
    size = len(source) if isinstance(source, bytes) else _file_size(Path(source))
    if size == 0:
        raise UserError(f"{name} is empty: record it again.")
    if size > MAX_BYTES:
        raise UserError(f"{name} has {size / 1e6:.0f} MB: give a recording of at most {MAX_BYTES / 1e6:.0f} MB.")
    for decode in (_decode_plain, _decode_container):
        try:
            decoded = decode(_Bytes(source) if isinstance(source, bytes) else str(source), name, max_seconds, most)
        except UserError:
            raise
        except Exception:  # of a decoder: each has its own, and some raise what the file makes them
            continue
        if decoded is not None:
            return decoded
    raise UserError(f"{name} is not audio that can be read: give a WAV, MP3, M4A, FLAC, OGG, WEBM, AMR or MOV file.")


class _Bytes(io.BytesIO):
    """A file in memory. A damaged header makes libsndfile seek before its beginning, from a callback that may not
    raise."""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def _decode_plain(file: str | BinaryIO, name: str, max_seconds: float, most: int | None) -> Decoded | None:
    """libsndfile's formats -> rate, float32 [N, channels]; None where the header of a streamed file has no length."""
    with soundfile.SoundFile(file) as opened:
        if not 0 < opened.frames < UNKNOWN:
            return None
        _check_shape(opened.samplerate, opened.channels, opened.frames, max_seconds)
        count = min(opened.frames, _frames(most, opened.channels))  # not -1: GSM 6.10 cannot seek
        return opened.samplerate, opened.read(count, dtype="float32", always_2d=True)


def _frames(most: int | None, channels: int) -> int:
    """How many frames of so many channels are decoded."""
    return UNKNOWN if most is None else most * 2 // max(2, channels)


def _decode_container(file: str | BinaryIO, name: str, max_seconds: float, most: int | None) -> Decoded:
    """FFmpeg's formats (m4a, aac, 3gp, amr, mov, webm and more) -> rate, float32 [N, channels]; of a damaged file what
    precedes the damage. Only self-contained formats: a playlist could make the server open other files."""
    import av

    pieces, count = [], 0
    with av.open(file, options={"format_whitelist": CONTAINERS, "protocol_whitelist": "file"}) as container:
        if not container.streams.audio:
            raise UserError(f"{name} has no sound in it: give a recording of a voice.")
        stream = container.streams.audio[0]
        rate, channels = stream.rate, stream.channels
        known = float(stream.duration * stream.time_base) if stream.duration else 0.0
        _check_shape(rate, channels, round(known * rate), max_seconds)
        plain = av.AudioResampler(format="fltp", layout=stream.layout, rate=rate)
        try:
            for frame in container.decode(stream):
                for part in plain.resample(frame):
                    pieces.append(part.to_ndarray())
                    count += part.samples
                if count >= _frames(most, channels):
                    break
                _check_shape(rate, channels, count, max_seconds)
        except UserError:
            raise
        except Exception:  # whatever the damage makes of it
            if not count:
                raise
    pieces = pieces or [np.zeros((channels, 0), np.float32)]
    return rate, np.concatenate(pieces, axis=1).T[: _frames(most, channels)]


def _file_size(path: Path) -> int:
    if path.is_dir():
        raise UserError(f"{path} is a folder: give one audio file.")
    try:
        return path.stat().st_size
    except OSError:
        raise UserError(f"There is no file {path}: check the path of the recording.") from None


def _check_shape(rate: int, channels: int, count: int, max_seconds: float) -> None:
    if rate > MAX_RATE:
        raise UserError(
            f"The recording claims {rate} samples a second: save it again, at most at {MAX_RATE // 1000} kHz."
        )
    if rate < MIN_RATE:
        raise UserError(f"The recording has {rate / 1000:g} kHz, too little for a voice: record at 16 kHz or more.")
    if count > max_seconds * rate:
        raise UserError(
            f"The recording is {count / rate / 60:.1f} minutes long: cut it to at most {max_seconds / 60:g} minutes "
            f"(a voice needs 3 to 10 s)."
        )
    if count * channels > MAX_VALUES:
        raise UserError(f"The recording has {channels} channels of {count / rate:.0f} s: mix it to mono or stereo.")


def _as_float(samples: np.ndarray) -> np.ndarray:
    """Any sample format, [N] or [N, channels] -> float32 [N, channels], full scale 1."""
    if samples.ndim not in (1, 2) or not (np.issubdtype(samples.dtype, np.number) and not np.iscomplexobj(samples)):
        raise UserError("The recording must be an array of numbers, [samples] or [samples, channels].")
    if samples.dtype == np.uint8:
        samples = (samples.astype(np.float32) - 128) / 128
    elif np.issubdtype(samples.dtype, np.integer):
        samples = samples.astype(np.float32) / float(np.iinfo(samples.dtype).max)
    return samples.astype(np.float32) if samples.ndim == 2 else samples.astype(np.float32)[:, None]


def _mono(samples: np.ndarray) -> np.ndarray:
    """[N, channels] -> [N]: the mean, or the louder channel where the mean cancels out (inverted phase)."""
    mean, power = samples.mean(axis=1), [float(np.square(channel).mean()) for channel in samples.T]
    return mean if np.square(mean).mean() > 0.05 * max(power) else samples[:, int(np.argmax(power))]


def _loudness(samples: np.ndarray, rate: int) -> np.ndarray:
    """RMS of 20 ms frames, [N // (rate // 50)]."""
    frame = rate // 50
    whole = samples[: len(samples) // frame * frame].reshape(-1, frame)
    return np.sqrt(np.square(whole).mean(axis=1))


def quietest(samples: np.ndarray, rate: int = SAMPLE_RATE) -> int:
    """Index of the quietest 20 ms frame of samples [N]."""
    return int(_loudness(samples, rate).argmin())


def _speech_floor(frames: np.ndarray) -> float:
    """Frames louder than this hold speech: 35 dB below the loud ones."""
    return max(float(np.percentile(frames, 95)) * 0.018, SILENT_PEAK / 4) if len(frames) else 0.0


def _pause_before(samples: np.ndarray, end: int, rate: int) -> int:
    """Sample index of the quietest frame in the two seconds before ``end``: a cut there splits no word."""
    start = max(0, end - 2 * rate) // (rate // 50)
    return (start + int(_loudness(samples[:end], rate)[start:].argmin())) * (rate // 50)
