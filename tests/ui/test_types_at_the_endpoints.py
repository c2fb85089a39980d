"""Any JSON type at any field of an endpoint: speech, or one sentence that names the field."""

from __future__ import annotations

import json
from types import SimpleNamespace

import httpx
import pytest
from toy import ToyStack, served, voice_file

META = {"_type": "gradio.FileData"}
FIELDS = ("text", "voice", "consent", "method", "options", "prompt_text", "seed", "temperature", "max_seconds")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with served(ToyStack(), max_seconds=3) as (url, app), httpx.Client(base_url=url, timeout=60) as http:
        with open(voice_file(tmp_path_factory.mktemp("voice")), "rb") as file:
            path = http.post("gradio_api/upload", files={"files": file}).json()[0]
        yield SimpleNamespace(http=http, app=app, voice={"path": path, "meta": META})


def answer(place, endpoint="synthesize", **changes) -> tuple[str, object]:
    """-> the event's name and its data, over plain HTTP as any program would call."""
    values = dict(zip(FIELDS, ["Hello there", place.voice, True, "baseline", {}, "", 1, 0.7, 0.5])) | changes
    began = place.http.post(f"gradio_api/call/{endpoint}", json={"data": [values[f] for f in FIELDS]})
    assert began.status_code == 200, began.text
    said = place.http.get(f"gradio_api/call/{endpoint}/{began.json()['event_id']}").text
    event, data = said.strip().split("\n\n")[-1].split("\n", 1)
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("options", [1, 2], "must be an object"),
        ("options", "patch_size=4", "must be an object"),
        ("options", {"patch_size": None}, "patch_size must be a number or a word, not null"),
        ("options", {"patch_size": [4]}, "patch_size must be a number"),
        ("temperature", None, "must be a number, not null"),
        ("temperature", "warm", "must be a number, not 'warm'"),
        ("temperature", True, "must be a number, not true"),
        ("temperature", 9, "must lie between"),
        ("consent", "false", "must be true, not 'false'"),
        ("consent", "true", "must be true, not 'true'"),
        ("consent", 1, "must be true, not 1"),
        ("consent", None, "must be true"),
        ("seed", 1.5, "whole number"),
        ("seed", "7", "whole number"),
        ("seed", None, "whole number"),
        ("seed", -1, "0 or more"),
        ("seed", 2**70, "below 2"),
        ("max_seconds", "long", "must be a number"),
        ("max_seconds", 0, "above 0"),
        ("max_seconds", {}, "must be a number"),
        ("text", None, "must be a text, not null"),
        ("text", 5, "must be a text, not 5"),
        ("text", ["Hello"], "must be a text"),
        ("text", " ", "is empty"),
        ("text", "x" * 700, "700 characters"),
        ("prompt_text", 5, "must be a text"),
        ("method", 3, "must be a text"),
        ("voice", None, "is missing"),
        ("voice", "", "must be a recording"),
        ("voice", 5, "must be a recording"),
        ("voice", "me.wav", "must be a recording"),
        ("voice", ["me.wav"], "must be a recording"),
        ("voice", {}, "must be a recording"),
        ("voice", {"path": "me.wav"}, "must be a recording"),
        ("voice", {"path": 5, "meta": META}, "must be a recording"),
        ("voice", {"path": "/etc/passwd", "meta": META}, "must be a recording"),
        ("voice", {"path": "https://127.0.0.1/me.wav", "meta": META}, "must be a recording"),
    ],
)
def test_a_wrong_type_is_refused_with_the_fields_name(place, field, value, words):
    event, said = answer(place, **{field: value})
    sentence = said["error"]
    assert event == "error" and words in sentence and field in sentence and "\n" not in sentence
    assert sentence.endswith(".") and len(sentence) < 200
    assert place.app.tts.gate.jobs() == 0


@pytest.mark.parametrize(
    "changes", [{"seed": 7.0}, {"options": None}, {"prompt_text": None}, {"method": None}, {"max_seconds": 1e9}]
)
def test_what_means_the_same_is_taken(place, changes):
    event, (speech, record) = answer(place, **changes)
    assert event == "complete" and record["audio_seconds"] > 0
    assert record["seed"] == changes.get("seed", 1) and isinstance(record["seed"], int)
