"""Whoever hangs up, cancels or closes the page ends their run, in whatever state it is: counted in steps made after."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest
from gradio_client import Client, handle_file
from toy import ToyStack, served, voice_file

from tts_demo import engine
from tts_demo.methods.baseline import Baseline

STEP_SECONDS, MAX_SECONDS = 0.02, 20  # 1,000 steps if nobody ends it
FEW = 40  # steps until a server on a busy machine has noticed


class SlowLoader:
    """Loads when told to."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self) -> ToyStack:
        self.go.wait(60)
        return ToyStack()


@pytest.fixture
def steps(monkeypatch) -> list[float]:
    """The time of every step any visitor's baseline makes."""
    made, step = [], Baseline.step

    def counted(self, state):
        made.append(time.monotonic())
        time.sleep(STEP_SECONDS)
        return step(self, state)

    monkeypatch.setattr(Baseline, "step", counted)
    return made


@pytest.fixture
def spoken(monkeypatch) -> list[str]:
    """Every sentence that a model begins to speak. Texts are also read before that, to tell how long they last."""
    begun, prefix = [], ToyStack.prefix

    def noted(self, prompt, segment):
        begun.append(segment)
        return prefix(self, prompt, segment)

    monkeypatch.setattr(ToyStack, "prefix", noted)
    return begun


@pytest.fixture
def place(tmp_path) -> Iterator[SimpleNamespace]:
    with served(ToyStack(), max_seconds=MAX_SECONDS) as (url, app):
        yield SimpleNamespace(url=url, app=app, gate=app.tts.gate, voice=str(voice_file(tmp_path)))


def until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def asked(place, text="Hello there") -> list:
    """The inputs of /synthesize."""
    voice = {"path": place.voice, "meta": {"_type": "gradio.FileData"}}
    return [text, voice, True, "baseline", {}, "", 1, 0.7, MAX_SECONDS]


class Visitor:
    """A client without manners: begins an event over plain HTTP, listens on a thread, and hangs up when told to."""

    def __init__(self, place, begin: str, body: dict, listen: str) -> None:
        self.http = httpx.Client(base_url=place.url, timeout=60)
        with open(place.voice, "rb") as file:
            path = self.http.post("gradio_api/upload", files={"files": file}).json()[0]
        self.http.post(begin, json=json.loads(json.dumps(body).replace(place.voice, path))).raise_for_status()
        self.leave_now, self.told = threading.Event(), []
        self.thread = threading.Thread(target=self._listen, args=(listen,), daemon=True)
        self.thread.start()

    def _listen(self, address: str) -> None:
        with contextlib.suppress(httpx.HTTPError), self.http.stream("GET", address) as answer:
            self.stream = answer
            for line in answer.iter_lines():
                self.told.append(line)

    def hang_up(self) -> float:
        self.stream.extensions["network_stream"].get_extra_info("socket").shutdown(2)
        self.http.close()
        return time.monotonic()


def caller(place, text="Hello there") -> Visitor:
    """Somebody at the API."""
    session = f"session-{text}"
    index = next(d["id"] for d in place.app.config["dependencies"] if d["api_name"] == "synthesize")
    body = {"data": asked(place, text), "fn_index": index, "session_hash": session}
    return Visitor(place, "gradio_api/queue/join", body, f"gradio_api/queue/data?session_hash={session}")


def reader(place, text="Hello there") -> Visitor:
    """Somebody with the page open who pressed Speak, in the baseline alone."""
    ui, app = place.app.tts.act.ui, place.app
    pressed = [d for d in app.config["dependencies"] if (ui.run._id, "click") in map(tuple, d["targets"])]
    speak = next(d for d in pressed if d["backend_fn"])
    sent = {"text": text, "voice": "", "own": place.voice, "consent": True, "lanes": [], "seed": 1}
    values = {ui.json._id: sent | {"max_seconds": MAX_SECONDS, "attention": False}}
    data = [values.get(i) for i in speak["inputs"]]
    session = f"page-{text}"
    body = {"data": data, "fn_index": speak["id"], "session_hash": session}
    return Visitor(place, "gradio_api/queue/join", body, f"gradio_api/queue/data?session_hash={session}")


@pytest.mark.parametrize("come", [caller, reader])
def test_who_hangs_up_while_it_speaks_ends_it(place, steps, come):
    visitor = come(place)
    until(lambda: len(steps) > 60)  # past the warm-up
    left = visitor.hang_up()
    until(lambda: place.gate.jobs() == 0)
    assert sum(t > left for t in steps) < FEW
    assert not place.gate.busy


def test_who_cancels_ends_it(place, steps):
    client = Client(place.url, verbose=False)
    job = client.submit(
        *[handle_file(place.voice) if isinstance(v, dict) and v else v for v in asked(place)], api_name="/synthesize"
    )
    until(lambda: len(steps) > 60)
    job.cancel()
    left = time.monotonic()
    until(lambda: place.gate.jobs() == 0)
    assert sum(t > left for t in steps) < FEW


@pytest.mark.parametrize("come", [caller, reader])
def test_who_hangs_up_in_the_queue_is_never_spoken_for(place, steps, spoken, come):
    first = caller(place, "The first")
    until(lambda: len(steps) > 5)
    second = come(place, "The second")
    until(lambda: second.told)
    second.hang_up()
    time.sleep(0.5)
    first.hang_up()
    until(lambda: place.gate.jobs() == 0)
    third = come(place, "The third")
    until(lambda: "The third" in spoken)
    third.hang_up()
    until(lambda: place.gate.jobs() == 0)
    assert "The second" not in spoken


@pytest.mark.parametrize("come", [caller, reader])
def test_who_hangs_up_while_the_model_loads_is_never_spoken_for(tmp_path, spoken, come):
    load = SlowLoader()
    with served(load, max_seconds=MAX_SECONDS) as (url, app):
        place = SimpleNamespace(url=url, app=app, gate=app.tts.gate, voice=str(voice_file(tmp_path)))
        visitor = come(place)
        until(lambda: place.gate.jobs() == 1)
        time.sleep(0.5)
        visitor.hang_up()
        until(lambda: place.gate.jobs() == 0)
        load.go.set()
        until(lambda: app.tts.handle.state == "ok")
        time.sleep(0.5)
        assert "Hello there" not in spoken


@pytest.mark.parametrize("come", [caller, reader])
def test_who_hangs_up_while_a_method_warms_up_ends_it(place, steps, come, monkeypatch):
    monkeypatch.setattr(engine, "WARM_UP_SECONDS", 15.0)  # 750 steps
    visitor = come(place)
    until(lambda: len(steps) > 10)
    left = visitor.hang_up()
    until(lambda: place.gate.jobs() == 0)
    assert sum(t > left for t in steps) < FEW


def test_who_waits_is_told_how_many_are_before(place, steps):
    visitors = [come(place, f"Number {n}") for n, come in enumerate((reader, caller, reader))]
    said = lambda n: "\n".join(visitors[n].told)
    until(lambda: all("before yours" in said(n) for n in (1, 2)))
    until(lambda: any("2 runs are before yours" in said(n) for n in range(3)))
    until(lambda: any("One run is before yours" in said(n) for n in range(3)))
    for visitor in visitors:
        visitor.hang_up()
    until(lambda: place.gate.jobs() == 0)
