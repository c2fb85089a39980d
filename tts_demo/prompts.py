"""What a person's recording holds: whether somebody speaks in it, where best, how noisy, how many voices. Where speech
is, says Silero's voice activity model, which ships in its package (MIT)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import numpy as np

from . import audio
from .audio import KEEP_SECONDS, Recording
from .config import UserError

MODEL_RATE, MODEL_HOP = 16_000, 512  # of the voice activity model
SPEECH, NO_SPEECH = 0.5, 0.1  # probabilities of speech above and below which a frame counts as with and without it
LEAST_SPEECH = 0.5  # seconds; a hum reaches 0.2
NOISE_DB = 24.0  # speech over noise, below which a listener hears the noise in the copy
WINDOW_SECONDS, MOST_WINDOWS = 2.0, 6  # in which voices are compared
# Cosines by the bundled encoder: least of windows of one voice on average, least between its two halves. None of 60
# recordings of one voice is taken for two, of 69 of two voices 95 % are told.
ONE_VOICE, SAME_VOICE = 0.7, 0.58
UNUSED = "the transcript is not used; correct it or leave it empty."
SPARE = 0.8  # of the fewest frames of a text read aloud: who talks is faster
UNUSED_TRANSCRIPT = "The transcript is not used: it is that of the whole recording, of which a part was kept."

Embed = Callable[[np.ndarray], np.ndarray | None]  # samples [N] -> a vector of the voice


@dataclass(frozen=True)
class Activity:
    """Frames of 32 ms. speech: probability of speech [M]; power: mean square [M]; clipped: any sample at full scale
    [M]."""

    speech: np.ndarray
    power: np.ndarray
    clipped: np.ndarray

    @property
    def seconds(self) -> float:
        """Of speech."""
        return float((self.speech > SPEECH).sum()) * MODEL_HOP / MODEL_RATE

    @property
    def noise_db(self) -> float:
        """Level of the speech over what is heard where nobody speaks, or over its quietest frames where there is no
        pause."""
        quiet = np.convolve(self.speech < NO_SPEECH, np.ones(3), "same") > 2.5  # pauses, less their edges
        noise = self.power[quiet]
        if len(noise) < 3:
            noise = np.sort(self.power)[: max(3, len(self.power) // 20)]
        level = self.power[self.speech > SPEECH].mean()
        return float(10 * np.log10(level / max(float(np.median(noise)), 1e-12)))


def prepare(recording: Recording, keep_seconds: float = KEEP_SECONDS, embed: Embed | None = None) -> Recording:
    """A voice prompt out of a person's recording, as ``audio.prompt``; of a long one the stretch with most speech is
    kept. UserError where nobody speaks; a note where noise or a second voice would be copied too. ``embed``: the
    speaker encoder that tells voices apart."""
    audio.refuse_short(recording)
    activity = detect_speech(recording)
    if activity.seconds < LEAST_SPEECH:
        raise UserError("Nobody speaks in the recording (noise, music or silence): record at least 1 s of a voice.")
    notes = list(recording.notes)
    trimmed = replace(recording, samples=audio.trim(recording.samples, rate=recording.rate), notes=())
    if trimmed.seconds > keep_seconds:
        first, end = best_stretch(activity, keep_seconds)
        samples = recording.samples[round(first * recording.rate) : round(end * recording.rate)]
        recording = Recording(samples, cut=True, rate=recording.rate)
        notes.append(f"Kept {end - first:.1f} s of {trimmed.seconds:.1f} s, from {first:.1f} s on: the most speech.")
        activity = detect_speech(recording)
    if activity.noise_db < NOISE_DB:
        notes.append(
            f"There is noise behind the voice, {max(0, activity.noise_db):.0f} dB below it: the copy will sound rough."
        )
    made = audio.prompt(replace(recording, notes=tuple(notes)), keep_seconds)
    if embed and voices_differ(made, embed):
        note = "Two voices seem to speak: the copy will be neither of them; give a recording of one."
        made = replace(made, notes=(*made.notes, note))
    return made


def detect_speech(recording: Recording) -> Activity:
    """Where somebody speaks."""
    samples = audio.resample(recording.samples, recording.rate, MODEL_RATE)
    speech = _model().audio_forward(samples)
    frames = np.zeros(len(speech) * MODEL_HOP, np.float32)
    frames[: len(samples)] = samples
    frames = frames.reshape(-1, MODEL_HOP)
    return Activity(speech, np.square(frames).mean(axis=1), np.abs(frames).max(axis=1) >= 0.999)


def best_stretch(activity: Activity, seconds: float) -> tuple[float, float]:
    """(start, end) in seconds of the stretch of at most ``seconds`` with most unclipped speech, ended at the
    quietest place of its last two seconds."""
    frame = MODEL_HOP / MODEL_RATE
    length, pause = int(seconds / frame), activity.speech < SPEECH
    worth = np.concatenate([[0], np.cumsum((activity.speech > SPEECH) & ~activity.clipped)])
    begins = np.flatnonzero(pause[:-1] & ~pause[1:])  # the frame before somebody begins
    begins = np.unique(np.concatenate([[0], begins, np.arange(0, max(1, len(pause) - length), 31)]))
    ends = np.minimum(begins + length, len(pause))
    best = int(np.argmax(worth[ends] - worth[begins] + 3 * pause[begins]))  # a little is given for a clean beginning
    first, end = int(begins[best]), int(ends[best])
    if end < len(pause):
        last = max(first + length // 2, end - int(2 / frame))
        end = last + int(activity.power[last:end].argmin())
    return first * frame, end * frame


def voices_differ(recording: Recording, embed: Embed) -> bool:
    """Whether the recording falls into two parts whose voices are unlike. Windows of one voice must be alike by this
    encoder, else it cannot tell."""
    size = round(WINDOW_SECONDS * recording.rate)
    count = min(MOST_WINDOWS, len(recording.samples) // (size // 2) - 1)
    if count < 2:
        return False
    starts = np.linspace(0, len(recording.samples) - size, count).astype(int)
    vectors = [v for v in (embed(recording.samples[at : at + size]) for at in starts) if v is not None]
    if len(vectors) < 2:
        return False
    x = np.stack([v / np.linalg.norm(v) for v in vectors]).astype(np.float64)
    alike = x @ x.T
    a, b = np.unravel_index(alike.argmin(), alike.shape)
    mine = alike[:, a] >= alike[:, b]
    if mine.all() or not mine.any():
        return False
    within = np.mean([alike[np.ix_(part, part)].mean() for part in (mine, ~mine)])
    one, other = x[mine].mean(axis=0), x[~mine].mean(axis=0)
    between = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    return bool(within >= ONE_VOICE and between < SAME_VOICE)


def misfit(frames: int, fewest: int, most: int, seconds: float) -> str | None:
    """A sentence for the visitor where a transcript that needs ``fewest`` to ``most`` frames cannot be what is said in
    ``frames`` of them, which last ``seconds``; None where it can."""
    if frames < SPARE * fewest:
        return f"Nobody says so many words in {seconds:.1f} s: {UNUSED}"
    if frames > most:
        return f"Nobody takes {seconds:.1f} s for so few words: {UNUSED}"
    return None


@functools.cache
def _model() -> Any:
    from silero_vad.sequence_vad import SileroVADSequence

    return SileroVADSequence(str(resources.files("silero_vad") / "data" / "silero_vad_16k_sequence.onnx"))
