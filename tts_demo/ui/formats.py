"""Speech in the file formats of OpenAI's speech endpoint, whole or as it comes. Every file says that it is synthetic;
raw samples cannot, so the answer's header does."""

import io
from collections.abc import Mapping
from typing import Any

import av
import numpy as np

from .. import audio

PCM_RATE = 24_000  # what clients expect of raw samples, which carry no rate
TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg", "opus": "audio/ogg", "flac": "audio/flac", "pcm": "audio/pcm"}
WRITERS = {  # FFmpeg's container, codec and rate (None: the speech's own)
    "wav": ("wav", "pcm_s16le", None),
    "mp3": ("mp3", "libmp3lame", None),
    "opus": ("ogg", "libopus", 48_000),
    "flac": ("flac", "flac", None),
    "pcm": ("s16le", "pcm_s16le", PCM_RATE),
}

SOON = {"ogg": {"page_duration": "200000"}, "mp3": {"write_xing": "0"}}  # what lets a stream begin early


class _Pipe:
    """A file that cannot seek: what is written is taken from it at once."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.waiting.append(bytes(data))
        return len(data)


class FileEncoder:
    """Samples in, bytes of one file out. ``whole``: the file is given at the end, with sizes in its header; else it
    comes piece by piece. ``facts``: what made the speech, kept in the file's comment."""

    def __init__(self, form: str, rate: int, facts: Mapping[str, Any], whole: bool) -> None:
        container, codec, own = WRITERS[form]
        self._file: Any = io.BytesIO() if whole else _Pipe()
        self._whole, self._rate, self._count = whole, rate, 0
        options = {} if whole else {"flush_packets": "1", **SOON.get(container, {})}
        self._out = av.open(self._file, "w", format=container, options=options)
        self._out.metadata.update(audio.mark(facts))
        self._stream = self._out.add_stream(codec, rate=own or rate, layout="mono")
        self._stream.metadata.update(audio.mark(facts))

    def push(self, samples: np.ndarray) -> bytes:
        """int16 [N] -> the bytes that are ready."""
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[None]), format="s16", layout="mono")
        frame.rate, frame.pts = self._rate, self._count
        self._count += len(samples)
        self._out.mux(self._stream.encode(frame))
        return self._taken()

    def finish(self) -> bytes:
        """The rest, or the whole file."""
        self._out.mux(self._stream.encode(None))
        self._out.close()
        return self._file.getvalue() if self._whole else self._taken()

    def _taken(self) -> bytes:
        if self._whole:
            return b""
        data = b"".join(self._file.waiting)
        self._file.waiting.clear()
        return data
