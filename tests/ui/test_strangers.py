"""What strangers bring and hold that ``test_hostile`` has not: proxies, headers and log, full disks, sessions, names of
bundled voices, telephone recordings."""

from __future__ import annotations

import base64
import errno
import io
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gradio as gr
import httpx
import pytest
import soundfile
from toy import ToyStack, served, speech

from tts_demo.methods.baseline import Baseline
from tts_demo.ui import serve, voices
from tts_demo.ui.runs import Runner

NAME = voices.examples()[0].name


@pytest.fixture(scope="module")
def place():
    with (
        served(ToyStack(), max_seconds=20, per_address=2) as (url, app),
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        yield SimpleNamespace(url=url, app=app, http=http)


def synthesize(place, voice=NAME, consent=False, address="127.0.0.1", **changes) -> str:
    """What the endpoint says last."""
    values = {"text": "Hello there", "method": "baseline", "words": "", "seconds": 0.3} | changes
    text, method, words, seconds = values.values()
    data = [text, voice, consent, method, {}, words, 1, 0.7, seconds]
    headers = {"X-Forwarded-For": address}
    began = place.http.post("gradio_api/call/synthesize", json={"data": data}, headers=headers)
    if began.status_code != 200:
        return began.text
    return place.http.get(f"gradio_api/call/synthesize/{began.json()['event_id']}", headers=headers).text


# -- names of bundled voices ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [NAME, NAME.upper(), voices.examples()[-1].name.lower()])
def test_a_bundled_voice_is_asked_for_by_its_name_without_consent(place, name, monkeypatch):
    events, transcripts = Runner.events, []
    monkeypatch.setattr(Runner, "events", lambda *a: (transcripts.append(a[2]), events(*a))[1])
    said = synthesize(place, name)
    assert "event: complete" in said and json.loads(said.split("data: ")[-1])[1]["consent"] is False
    assert transcripts == [voices.example(name).transcript]


@pytest.mark.parametrize("name", ["Nobody", "", f"{NAME} ", f"../{NAME}", voices.examples()[0].path.name])
def test_any_other_name_is_refused(place, name):
    assert "or the name of a bundled voice" in synthesize(place, name, True)


def test_a_recording_still_needs_consent(place):
    wave = io.BytesIO()
    soundfile.write(wave, speech(), 16000, format="WAV")
    path = place.http.post("gradio_api/upload", files={"files": ("a.wav", wave.getvalue())}).json()[0]
    assert "consent must be true" in synthesize(place, {"path": path, "meta": {"_type": "gradio.FileData"}})


# -- addresses --------------------------------------------------------------------------------------------------


def refused(place, addresses) -> int:
    """How many of so many calls at once find no place in the line."""
    with ThreadPoolExecutor(len(addresses)) as pool:
        said = list(pool.map(lambda a: synthesize(place, address=a, seconds=2, text="Nobody else. " * 9), addresses))
    return sum("2 runs from your address" in text for text in said)


@pytest.fixture
def slow(monkeypatch):
    step = Baseline.step
    monkeypatch.setattr(Baseline, "step", lambda self, state: (time.sleep(0.02), step(self, state))[1])


def test_what_a_visitor_writes_into_the_proxys_header_does_not_count(place, slow):
    assert refused(place, [f"198.51.100.{i}, 203.0.113.5" for i in range(5)]) >= 1


def test_a_header_from_no_trusted_proxy_does_not_count(slow, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    with served(ToyStack(), per_address=2) as (url, _), httpx.Client(base_url=url, timeout=60) as http:
        assert refused(SimpleNamespace(http=http), [f"198.51.100.{i}" for i in range(5)]) >= 1


@pytest.mark.slow
def test_on_a_space_its_proxy_is_believed(slow, monkeypatch):
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    monkeypatch.setattr(serve, "get_space", lambda: "someone/speech")
    with served(ToyStack(), per_address=2) as (url, _), httpx.Client(base_url=url, timeout=60) as http:
        assert refused(SimpleNamespace(http=http), [f"198.51.100.{i}" for i in range(5)]) == 0


def test_a_class_behind_one_address_opens_the_page_together(place):
    (arrive,) = [fn for fn in place.app.fns.values() if fn.name == "arrive"]

    def open_page(i: int) -> int:
        body = {"data": [], "fn_index": arrive._id, "session_hash": f"class-{i}"}
        return httpx.post(f"{place.url}gradio_api/run/predict", json=body, timeout=60).status_code

    with ThreadPoolExecutor(60) as pool:
        assert set(pool.map(open_page, range(60))) == {200}


# -- sessions ---------------------------------------------------------------------------------------------------


def test_a_session_keeps_no_copy_of_what_was_sent(place):
    (arrive,) = [fn for fn in place.app.fns.values() if fn.name == "arrive"]
    body = {"data": [], "fn_index": arrive._id, "session_hash": "arrives"}
    answer = place.http.post("gradio_api/run/predict", json=body)
    assert len(answer.content) > 100_000  # the recorded run
    kept = place.app.app.state_holder.session_data["arrives"]
    assert not kept.config_values and len(repr(kept.state_data)) < 1000


# -- headers and log --------------------------------------------------------------------------------------------

LINES = 'a\r\nX-Evil: 1\r\n\r\n<html>\n{"event": "forged"}'


@pytest.mark.parametrize("field", ["method", "voice", "model", "input", "response_format"])
def test_no_field_of_an_order_ends_a_line_of_headers_or_log(place, field, caplog):
    caplog.set_level(logging.INFO, logger="tts_demo.ui")
    order = {"model": "toy", "voice": NAME, "input": "Hello", "max_seconds": 0.3, "method": "baseline"}
    answer = place.http.post("v1/audio/speech", json=order | {field: LINES})
    assert answer.status_code in (200, 400, 404) and "x-evil" not in answer.headers
    assert not any("\n" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("field", ["text", "method", "words"])
def test_no_field_of_an_endpoint_ends_a_line_of_the_log(place, field, caplog):
    caplog.set_level(logging.INFO, logger="tts_demo.ui")
    synthesize(place, **{field: LINES})
    lines = [r.getMessage() for r in caplog.records if r.name == "tts_demo.ui"]
    assert lines and all(json.loads(line)["event"] == "api" for line in lines)


@pytest.mark.parametrize(
    "path", ["v1/models/a%0d%0aX-Evil:%201", "gradio_api/file=a%0d%0aX-Evil:%201", "%0d%0aX-Evil: 1"]
)
def test_no_address_ends_a_line_of_headers(place, path):
    answer = place.http.get(path)
    assert answer.status_code in (403, 404) and "x-evil" not in answer.headers


def test_a_files_name_ends_no_line(place):
    body = (
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="a%0d%0aX-Evil: 1\x0b.wav"\r\n\r\n'
        b"x\r\n--b--\r\n"
    )
    answer = place.http.post(
        "gradio_api/upload", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code in (200, 400) and "x-evil" not in answer.headers and "\n" not in answer.text


# -- a full disk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["save_bytes_to_cache", "postprocess"])
def test_a_disk_that_is_full_as_speech_is_handed_over_is_a_sentence(place, where, monkeypatch, capfd):
    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "postprocess":
        monkeypatch.setattr(gr.Audio, "postprocess", no_room)
    else:
        monkeypatch.setattr("tts_demo.ui.api.kept_wav", no_room)
    assert "disk is full" in synthesize(place)
    assert "Traceback" not in capfd.readouterr().err and place.app.tts.gate.jobs() == 0
    monkeypatch.undo()
    assert "event: complete" in synthesize(place)


# -- telephone recordings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", ["GSM610", "G721_32", "NMS_ADPCM_16", "ALAW"])
def test_an_order_with_a_telephones_recording_is_spoken(place, subtype):
    wave = io.BytesIO()
    soundfile.write(wave, speech(rate=8000), 8000, format="WAV", subtype=subtype)
    own = {"ref_audio": base64.b64encode(wave.getvalue()).decode(), "consent": True}
    order = {"model": "toy", "voice": "", "input": "Hello", "max_seconds": 0.3, "response_format": "wav"}
    answer = place.http.post("v1/audio/speech", json=order | own)
    assert answer.status_code == 200, answer.text
    assert soundfile.info(io.BytesIO(answer.content)).frames > 1000
