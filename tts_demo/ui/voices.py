"""Voices: the bundled examples, and uploads checked and cut to the accepted length."""

import contextlib
import hashlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from .. import audio, prompts
from .. import voices as bundle
from ..config import SAMPLE_RATE, UserError
from ..voices import Voice
from ..voices import bundled as examples
from .limits import Limits
from .run.session import to_int16, wav_bytes

MOST_SAMPLES = 60 * 48_000  # of a recording, whatever its header claims


def example(name: str) -> Voice | None:
    """The bundled voice of this name, in capitals or not."""
    return next((e for e in examples() if e.name.lower() == name.lower()), None)


def texts() -> list[str]:
    """Example texts, one a line of ``examples.txt``."""
    path = bundle.ASSETS / "texts" / "examples.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.strip() for line in lines if line.strip()]


def fingerprint(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def example_in(path: str | Path) -> Voice | None:
    """The bundled voice that the file is byte for byte; bundled voices need no consent."""
    mine = fingerprint(path)
    return next((e for e in examples() if fingerprint(e.path) == mine), None)


class Recordings:
    """Voices as they will be used. One is decoded at a time: decoding is what takes memory."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self._guard = limits, threading.Lock()

    def read(self, path: str | Path, rate: int | None = SAMPLE_RATE, stack: Any = None) -> audio.Recording:
        """The voice in a file, as ``prompt`` makes it."""
        if Path(path).stat().st_size > self.limits.max_upload_mb * 1_000_000:
            raise UserError(f"That file is too big; the limit here is {self.limits.max_upload_mb} MB.")
        return self.prompt(Path(path).read_bytes(), rate, stack)

    def prompt(self, data: bytes, rate: int | None = SAMPLE_RATE, stack: Any = None) -> audio.Recording:
        """Decoded to ``rate`` (None: its own), checked, silence at the ends taken off, cut to the accepted length. With
        a ``stack``, a second voice in the recording is noticed too."""
        with self._guard:
            recording = audio.read(data, target=rate, most_samples=MOST_SAMPLES)
            compares = stack is not None and stack.device.type == "cpu"  # elsewhere the device belongs to the runs
            embed = embedding(stack, recording.rate) if compares else None
            return prompts.prepare(recording, self.limits.max_prompt_seconds, embed)


def embedding(stack: Any, rate: int) -> prompts.Embed:
    """The stack's speaker encoder on samples at ``rate``."""

    def embed(samples: np.ndarray) -> np.ndarray | None:
        try:
            vector = stack.encode_prompt(samples, rate).speaker
        except UserError:  # mostly a pause
            return None
        return None if vector is None else vector.float().cpu().numpy().ravel()

    return embed


def take(path: Any, recordings: Recordings, stack: Any = None) -> dict[str, Any]:
    """A visitor's recording prepared for use: where it is kept, what was done to it. UserError for what is no voice."""
    recording = recordings.read(uploaded(path), None, stack)
    kept = save_bytes_to_cache(wav_bytes(to_int16(recording.samples), recording.rate), "voice.wav", get_upload_folder())
    return {"path": kept, "words": summary(recording), "seconds": recording.seconds}


def uploaded(path: Any) -> Path:
    """``path`` if it is a file that a visitor uploaded: the browser names it, and must not name any other."""
    try:
        folder, file = Path(get_upload_folder()).resolve(), Path(path).resolve()
        if file.is_relative_to(folder) and file.is_file():
            return file
    except (TypeError, ValueError, OSError):  # no text, a NUL byte, a name too long
        pass
    raise UserError("That recording is no longer here; upload or record it again.")


def at_hand(form: Any) -> dict[str, Path]:
    """Fingerprint -> file of every voice that a lane can be compared with: the bundled ones, and the visitor's own."""
    found = [e.path for e in examples()]
    with contextlib.suppress(UserError):
        found.append(uploaded(form.get("own") if isinstance(form, dict) else None))
    return {fingerprint(path): path for path in found}


def summary(recording: audio.Recording) -> str:
    """What was done to a voice, for the page."""
    return " ".join((f"{recording.seconds:.1f} s of speech, silence at the ends taken off.", *recording.notes))


def path_of(name: str, own: str) -> str | None:
    """The path of the voice that the page names: an example or the visitor's own; None for neither. UserError for a
    path that is no upload."""
    if not name:
        return str(uploaded(own)) if own else None
    if known := example(name):
        return str(known.path)
    raise UserError(f"There is no example voice called {name!r} here; pick another.")
