"""Speech written in every format: the sound is kept, whole or in pieces, and every file says that it is synthetic."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from tts_demo import audio
from tts_demo.ui.formats import PCM_RATE, TYPES, FileEncoder

FACTS = {"method": "baseline", "seed": 3, "options": {"größe": 1}}
RATES = (16_000, 24_000)


def tone(rate: int) -> np.ndarray:
    return (9000 * np.sin(2 * np.pi * 200 * np.arange(2 * rate) / rate)).astype(np.int16)


def written(form: str, rate: int, whole: bool) -> list[bytes]:
    encoder, samples = FileEncoder(form, rate, FACTS, whole), tone(rate)
    pieces = [encoder.push(part) for part in np.array_split(samples, 9)]
    return [*pieces, encoder.finish()]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("form", TYPES)
def test_what_is_written_sounds_the_same_and_says_what_it_is(form, rate, whole):
    data = b"".join(written(form, rate, whole))
    if form == "pcm":
        heard, rate = np.frombuffer(data, "<i2") / 32768, PCM_RATE
    else:
        assert audio.read_provenance(io.BytesIO(data)) == {"synthetic": True, **FACTS}
        heard, rate = audio.read(data, target=rate).samples, rate
    assert abs(len(heard) / rate - 2) < 0.11
    heard = heard[rate // 2 : 3 * rate // 2]
    assert np.abs(np.fft.rfft(heard)).argmax() == 200 and 0.24 < np.abs(heard).max() < 0.32


@pytest.mark.parametrize("form", TYPES)
def test_a_stream_comes_in_pieces_and_a_whole_file_has_its_length(form):
    pieces = written(form, 16_000, whole=False)
    assert sum(map(bool, pieces)) >= 5
    if form != "pcm":
        whole = written(form, 16_000, whole=True)
        assert not any(whole[:-1]) and abs(soundfile.info(io.BytesIO(whole[-1])).duration - 2) < 0.11
