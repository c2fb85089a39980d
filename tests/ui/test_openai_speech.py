"""OpenAI's speech endpoint, with OpenAI's own client and without one."""

from __future__ import annotations

import base64
import io
import json
import re
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import openai
import pytest
import soundfile
from toy import ToyStack, served, speech, voice_file

from tts_demo import audio
from tts_demo.methods.baseline import Baseline
from tts_demo.text.spelling import normalise
from tts_demo.ui import voices

VOICE = voices.examples()[0].name
README = Path(__file__).parents[2] / "tts_demo" / "ui" / "README.md"


@pytest.fixture(scope="module")
def place():
    with served(ToyStack(), max_seconds=20, max_queue=2) as (url, app):
        client = openai.OpenAI(base_url=f"{url}v1", api_key="none", max_retries=0)
        yield SimpleNamespace(url=url, app=app, gate=app.tts.gate, client=client)


def create(place, **changes):
    own = {"model": "toy", "voice": VOICE, "input": "Hello there", "response_format": "wav"}
    extra = {"seed": 4, "max_seconds": 1.0} | changes.pop("extra_body", {})
    return place.client.audio.speech.create(**own | changes, extra_body=extra)


def post(place, body, **how):
    return httpx.post(f"{place.url}v1/audio/speech", json=body, timeout=60, **how)


def test_the_readmes_client_runs_as_written(place, tmp_path, capsys):
    (code,) = [
        block.split("```")[0] for block in README.read_text("utf-8").split("```python\n")[1:] if "openai" in block
    ]
    assert "http://127.0.0.1:7860/" in code and "me.wav" in code and '"Maya"' in code
    for written, here in {
        "http://127.0.0.1:7860/": place.url,
        "me.wav": str(voice_file(tmp_path)),
        "speech.wav": str(tmp_path / "speech.wav"),
        "Maya": VOICE,
    }.items():
        code = code.replace(written, here)
    names: dict = {}
    exec(code, names)
    assert "speed must be 1" in capsys.readouterr().out
    assert audio.read_provenance(tmp_path / "speech.wav")["method"] == "baseline"
    streamed = b"".join(names["pieces"])
    assert audio.read_provenance(io.BytesIO(streamed))["options"]["patch_size"] == 4
    assert soundfile.info(io.BytesIO(names["copied"])).format == "FLAC"


def test_one_seed_is_the_same_speech_in_every_format_and_way(place):
    whole = create(place).content
    samples, rate = soundfile.read(io.BytesIO(whole), dtype="int16")
    assert rate == 16000 and len(samples) == 16000
    streamed = b"".join(create(place, extra_body={"stream": True}).iter_bytes())
    assert (audio.read(streamed).samples == audio.read(whole).samples).all()
    flac = create(place, response_format="flac").content
    assert (soundfile.read(io.BytesIO(flac), dtype="int16")[0] == samples).all()
    for form in ("mp3", "opus"):
        assert abs(audio.read(create(place, response_format=form).content).seconds - 1) < 0.1
    raw = np.frombuffer(create(place, response_format="pcm").content, "<i2")
    assert abs(len(raw) - 24000) < 100


def test_a_stream_begins_before_the_speech_ends_and_events_hold_the_same(place, monkeypatch):
    step = Baseline.step
    monkeypatch.setattr(Baseline, "step", lambda self, state: (time.sleep(0.01), step(self, state))[1])
    asked = {"model": "toy", "voice": VOICE, "input": "Hello", "response_format": "pcm", "seed": 1, "max_seconds": 3}
    came, data = [], b""
    with httpx.stream("POST", f"{place.url}v1/audio/speech", json=asked | {"stream": True}, timeout=60) as answer:
        assert answer.headers["x-synthetic-speech"] and answer.headers["content-type"] == "audio/pcm"
        for part in answer.iter_raw():
            came.append(time.monotonic())
            data += part
    assert len(came) >= 3 and came[-1] - came[0] > 0.3
    events = [
        json.loads(line.removeprefix("data: "))
        for line in post(place, asked | {"stream_format": "sse"}).text.split("\n\n")
        if line
    ]
    assert [e["type"] for e in events[:-1]] == ["speech.audio.delta"] * (len(events) - 1)
    assert events[-1]["type"] == "speech.audio.done"
    assert b"".join(base64.b64decode(e["audio"]) for e in events[:-1]) == data


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"speed": 1.5}, "speed", "must be 1"),
        ({"speed": "1"}, "speed", "must be 1"),
        ({"response_format": "aac"}, "response_format", "wav, mp3, opus, flac, pcm"),
        ({"response_format": 3}, "response_format", "must be a text"),
        ({"voice": "alloy"}, "voice", VOICE),
        ({"voice": {"id": "x"}}, "voice", "must be a text"),
        ({"input": ""}, "input", "is empty"),
        ({"input": None}, "input", "must be a text, not null"),
        ({"input": "x" * 5000}, "input", "5000 characters"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"stream_format": "ndjson"}, "stream_format", "audio or sse"),
        ({"stream_format": "sse", "stream": False}, "stream", "events are a stream"),
        ({"temprature": 1}, "temprature", "Did you mean 'temperature'?"),
        ({"method": "tdlr"}, "method", "Did you mean 'tldr'?"),
        ({"seed": 1.5}, "seed", "whole number"),
        ({"options": [1]}, "options", "must be an object"),
        ({"method": "magic"}, "method", "Unknown method"),
        ({"method": "tldr", "options": {"patch_size": 99}}, "options", "patch_size"),
        ({"options": {"patch_size": None}}, "options", "patch_size must be a number"),
        ({"options": {"wings": 2}}, "options", "wings"),
        ({"temperature": 9}, "temperature", "between 0"),
        ({"input": "unspeakable"}, "input", "Nothing in this text"),
        ({"ref_text": "So it goes."}, "ref_text", "ref_audio, which is missing"),
        ({"ref_audio": "!", "consent": True}, "ref_audio", "base64"),
        ({"ref_audio": "https://example.org/a.wav", "consent": True}, "ref_audio", "not fetched"),
        ({"ref_audio": "AAAA"}, "consent", "must be true"),
        ({"ref_audio": "AAAA", "consent": "true"}, "consent", "must be true, not 'true'"),
        ({"ref_audio": base64.b64encode(b"no audio at all").decode(), "consent": True}, "ref_audio", "not audio"),
        ({"langauge": "en"}, "langauge", "is not known here"),
    ],
)
def test_what_is_wrong_is_refused_with_its_field(place, changes, field, words, monkeypatch):
    split = ToyStack.split
    monkeypatch.setattr(
        ToyStack, "split", lambda self, text: normalise("?!") if text == "unspeakable" else split(self, text)
    )
    answer = post(place, {"model": "toy", "voice": VOICE, "input": "Hello"} | changes)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["type"] == "invalid_request_error" and error["param"] == field
    assert words in error["message"] and error["message"].endswith(".") and place.gate.jobs() == 0


def test_notes_come_in_a_header_and_in_the_last_event(place):
    loud = speech(3.0) + np.random.default_rng(0).normal(0, 900, 48_000).astype(np.int16)
    out = io.BytesIO()
    soundfile.write(out, loud, 16000, format="WAV")
    order = {"model": "toy", "voice": "", "input": "Hello", "response_format": "wav", "max_seconds": 0.5}
    own = order | {"ref_audio": base64.b64encode(out.getvalue()).decode(), "consent": True}
    noise, cut = json.loads(post(place, own).headers["x-notes"])
    assert "noise" in noise and "length limit is 0.5 s" in cut
    assert json.loads(post(place, own | {"stream": True}).headers["x-notes"])[0] == noise
    done = post(place, own | {"stream_format": "sse"}).text.strip().split("\n\n")[-1]
    assert json.loads(done.removeprefix("data: "))["notes"] == [noise, cut]
    assert json.loads(post(place, order | {"voice": VOICE}).headers["x-notes"]) == [cut]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'"text"', b"\xff\xfe", b"null", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(place, content):
    answer = httpx.post(f"{place.url}v1/audio/speech", content=content)
    error = answer.json()["error"]
    assert answer.status_code == 400 and "body" in error["message"] and error["param"] is None


def test_a_recording_that_is_refused_is_no_client_who_left(place, caplog):
    out = io.BytesIO()
    soundfile.write(out, np.zeros(32_000), 16000, format="WAV")
    own = {"ref_audio": base64.b64encode(out.getvalue()).decode(), "consent": True}
    with caplog.at_level("INFO", logger="tts_demo.ui"):
        answer = post(place, {"model": "toy", "voice": "", "input": "Hello"} | own)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "ref_audio"
    assert [json.loads(r.message)["outcome"] for r in caplog.records if r.name == "tts_demo.ui"] == ["refused"]


def test_a_transcript_of_more_than_was_kept_is_not_dropped_in_silence(place):
    out = io.BytesIO()
    soundfile.write(out, speech(14.0), 16000, format="WAV")
    order = {"model": "toy", "voice": "", "input": "Hello", "max_seconds": 0.5, "consent": True}
    order["ref_audio"] = base64.b64encode(out.getvalue()).decode()
    for words, told in (("So it goes.", True), ("", False)):
        notes = json.loads(post(place, order | {"ref_text": words}).headers["x-notes"])
        assert any("transcript is not used" in note for note in notes) == told


def test_a_style_is_left_unread_and_a_note_tells(place):
    order = {"model": "toy", "voice": VOICE, "input": "Hello", "max_seconds": 3}
    noted = post(place, order | {"instructions": "Speak like a pirate."})
    assert "instructions is left unread" in json.loads(noted.headers["x-notes"])[0]
    plain = post(place, order | {"instructions": ""})
    assert "unread" not in plain.headers.get("x-notes", "")


def test_who_hangs_up_in_the_middle_of_a_body_leaves_no_traceback(place, caplog):
    url = httpx.URL(place.url)
    with caplog.at_level("DEBUG"), socket.create_connection((url.host, url.port)) as line:
        line.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        time.sleep(0.3)
    time.sleep(0.5)
    assert httpx.get(f"{place.url}health").status_code == 200 and place.gate.jobs() == 0
    assert not any(record.exc_info for record in caplog.records)


def test_a_field_that_is_null_is_one_that_was_left_out(place):
    assert post(place, {"model": "toy", "voice": VOICE, "input": "Hi", "speed": None, "max_seconds": 0.2}).is_success


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "v1/audio/speech", 405, "takes POST only"),
        ("DELETE", "v1/models/toy", 405, "takes GET only"),
        ("POST", "v1/models", 405, "takes GET only"),
        ("POST", "v1/chat/completions", 404, "no /v1/chat/completions here"),
        ("GET", "v1", 404, "no /v1 here"),
        ("GET", "v1/models/tts-1", 404, "choose toy"),
    ],
)
def test_other_addresses_are_refused_as_openai_does(place, method, path, status, words):
    answer = httpx.request(method, f"{place.url}{path}")
    assert answer.status_code == status and words in answer.json()["error"]["message"]


def test_a_model_is_found_by_its_name(place):
    assert place.client.models.retrieve("toy").id == "toy"


def test_another_model_is_not_found(place):
    with pytest.raises(openai.NotFoundError, match="choose toy"):
        create(place, model="tts-1")


def test_a_full_line_and_a_loading_model_are_told_to_come_again(place):
    jobs = [place.gate.join(f"visitor {n}") for n in range(3)]
    try:
        with pytest.raises(openai.InternalServerError, match="try again") as caught:
            create(place)
        told = int(re.search(r"about (\d+) s", str(caught.value))[1])
        assert caught.value.status_code == 503 and int(caught.value.response.headers["retry-after"]) == told > 0
    finally:
        for job in jobs:
            job.leave()
    hold = threading.Event()
    with served(lambda: hold.wait(30) and ToyStack()) as (url, _):
        answer = httpx.post(f"{url}v1/audio/speech", json={"model": "toy", "voice": VOICE, "input": "Hello"})
        hold.set()
    assert answer.status_code == 503 and "still loading" in answer.json()["error"]["message"]


def test_a_fault_of_ours_is_a_500_with_a_log_line(place, monkeypatch, caplog):
    def broken(self, state):
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(Baseline, "step", broken)
    with caplog.at_level("INFO", logger="tts_demo.ui"), pytest.raises(openai.InternalServerError) as caught:
        create(place)
    assert caught.value.status_code == 500 and "inside" not in str(caught.value)
    assert any(r.exc_info and "inside" in str(r.exc_info[1]) for r in caplog.records) and place.gate.jobs() == 0


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_ends_the_run(place, monkeypatch, stream):
    made, step = [], Baseline.step

    def counted(self, state):
        made.append(time.monotonic())
        time.sleep(0.02)
        return step(self, state)

    monkeypatch.setattr(Baseline, "step", counted)
    asked = {"model": "toy", "voice": VOICE, "input": "Hello there", "response_format": "pcm", "stream": stream}
    http = httpx.Client(timeout=60)

    def listen():
        try:
            with http.stream("POST", f"{place.url}v1/audio/speech", json=asked) as answer:
                sockets.append(answer)
                for _ in answer.iter_raw():
                    pass
        except httpx.HTTPError:
            pass

    sockets: list = []
    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while len(made) < 40:
        assert time.monotonic() < end
        time.sleep(0.01)
    for connection in http._transport._pool.connections:
        connection._connection._network_stream.get_extra_info("socket").shutdown(2)
    left = time.monotonic()
    while place.gate.jobs():
        assert time.monotonic() < left + 20
        time.sleep(0.01)
    assert sum(t > left for t in made) < 40
