"""Whatever is sent to the endpoints, the answer is speech or one sentence: never a traceback, never a lock left shut.

The long form: ``TTS_DEMO_FUZZ_CASES=10000 pytest -s tests/ui/test_fuzz.py``.
"""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import soundfile
from gradio.utils import get_upload_folder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy import ToyStack, speech, tone

from tests.test_audio import recorded
from tts_demo import audio
from tts_demo.config import UserError
from tts_demo.methods import METHODS
from tts_demo.ui import build_app
from tts_demo.ui import speech as speech_api
from tts_demo.ui import voices as known
from tts_demo.ui.api import Endpoints
from tts_demo.ui.limits import Limits

CASES = int(os.environ.get("TTS_DEMO_FUZZ_CASES", "60"))


def wav(samples, rate, subtype="PCM_16"):
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format="WAV", subtype=subtype)
    return out.getvalue()


GOOD = wav(speech(1.5), 16000)


def mostly(good, *odd):
    """One field of nine odd, so that about every second call speaks."""
    return st.integers(0, 9).flatmap(lambda n: st.one_of(*odd) if n == 0 else st.just(good))


voices = mostly(
    GOOD,
    st.binary(max_size=400),
    st.integers(0, len(GOOD)).map(lambda n: GOOD[:n]),
    st.tuples(st.integers(0, 60), st.binary(min_size=1, max_size=8)).map(
        lambda c: GOOD[: c[0]] + c[1] + GOOD[c[0] + len(c[1]) :]
    ),
    st.tuples(st.sampled_from([8000, 11025, 44100, 96000]), st.integers(1, 3)).map(
        lambda c: wav(np.tile(speech(1.2, c[0])[:, None], c[1]), c[0])
    ),
    st.just(wav(np.full(32000, np.nan, np.float32), 16000, "FLOAT")),
    st.just(wav(np.zeros(32000), 16000)),
    st.just(wav(tone(2.0), 16000)),
)
junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**9),
    st.floats(),
    st.text(max_size=12),
    st.lists(st.integers(), max_size=2),
)
keys = st.sampled_from(
    [f for m in METHODS.values() for f in m.Options.__dataclass_fields__] + ["nothing", "", "__class__"]
)


@pytest.fixture(scope="module")
def ends():
    app = build_app(ToyStack(), Limits(max_seconds=1))
    found = SimpleNamespace(
        runner=app.tts.runner,
        call=Endpoints(app.tts.runner).synthesize,
        gate=app.tts.gate,
        spoken=0,
        refused=0,
        memory=[],
    )
    yield found
    assert not found.memory or found.spoken and found.refused
    if (
        found.memory and CASES >= 1000
    ):  # after the first fifth, in which libraries are loaded and buffers grow to their size
        settled, last = found.memory[len(found.memory) // 5], max(found.memory[-20:])
        print(
            f"\n{found.spoken} spoke, {found.refused} were refused; resident memory {settled:.0f} MB after a fifth, "
            f"{last:.0f} MB at the end"
        )
        assert last < 1.1 * settled


def upload(name):
    """Where a visitor's file of this name would lie."""
    Path(get_upload_folder()).mkdir(parents=True, exist_ok=True)
    return Path(get_upload_folder()) / name


def megabytes():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    text=mostly("Hello there.", st.text(max_size=40), junk),
    voice=voices,
    consent=mostly(True, st.sampled_from([False, "true", 1, None])),
    method=st.sampled_from([*METHODS] * 3 + ["nope", None, 3]),
    options=mostly(None, st.dictionaries(keys, junk, max_size=2), junk),
    seed=mostly(1, st.integers(-2, 2**70), junk),
    temperature=mostly(0.7, st.just(0.0), st.floats(), junk),
    seconds=mostly(0.4, st.just(0.2), st.floats(), junk),
)
def test_any_request_ends_in_speech_or_a_sentence(
    ends, text, voice, consent, method, options, seed, temperature, seconds
):
    path = upload("fuzz.wav")
    path.write_bytes(voice)
    voice = {"path": str(path)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            speech, record = ends.call(text, voice, consent, method, options, "", seed, temperature, seconds)
        assert (
            consent is True
            and record["method"] == (method or "baseline")
            and soundfile.info(speech).samplerate == 16000
        )
        ends.spoken += 1
    except gr.Error as error:
        assert 10 < len(str(error.message)) < 400 and "Traceback" not in str(error.message)
        ends.refused += 1
    ends.memory.append(megabytes())
    assert ends.gate.jobs() == 0 and not ends.gate.busy


CONTAINERS = [recorded("ipod", "aac"), recorded("webm", "libopus", 48000), recorded("amr", "libopencore_amrnb", 8000)]


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(which=st.integers(0, 2), cut=st.integers(0, 20_000), at=st.integers(0, 2_000), new=st.binary(max_size=8))
def test_a_damaged_recording_is_read_or_refused(which, cut, at, new):
    data = CONTAINERS[which]
    data = (data[:at] + new + data[at + len(new) :])[: len(data) - cut % len(data) if cut % 3 else None]
    try:
        assert np.isfinite(audio.read(data).samples).all()
    except UserError as error:
        assert str(error).endswith((".", ").")) and len(str(error)) < 300


bodies = st.dictionaries(st.sampled_from([*sorted(speech_api.FIELDS), "x"]), junk, max_size=6)
ORDER = {"model": "toy", "voice": known.examples()[0].name, "input": "Hello there."}


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(fields=bodies | st.lists(junk) | junk, good=st.booleans())
def test_any_order_of_openais_is_taken_or_refused_with_its_field(ends, fields, good):
    try:
        order = speech_api.Order.of(ORDER | fields if good and isinstance(fields, dict) else fields, ends.runner)
        assert order.asked.text and order.voice and order.form in speech_api.TYPES
    except UserError as error:
        assert speech_api.refusal(error).status_code in (400, 404) and len(str(error)) < 400


def test_it_still_answers_afterwards(ends):
    path = upload("good.wav")
    path.write_bytes(GOOD)
    speech, record = ends.call("Hello there.", {"path": str(path)}, True, "baseline", {}, "", 1, 0.7, 0.4)
    assert record["text"] == "Hello there." and soundfile.info(speech).duration > 0
