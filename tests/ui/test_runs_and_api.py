"""Runs as the page and the endpoints make them, without a browser: pairs, stop, two visitors, refusals, a new
method."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import urllib.request
import warnings
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import numpy as np
import pytest
import soundfile
from gradio_client import Client, handle_file
from toy import ToyStack, served, voice_file

from tts_demo import audio
from tts_demo.methods import METHODS
from tts_demo.methods.base import Options, dial
from tts_demo.methods.baseline import Baseline
from tts_demo.ui import build_app
from tts_demo.ui.page.handlers import Form
from tts_demo.ui.service import Limits


@dataclasses.dataclass(frozen=True)
class EchoOptions(Options):
    echoes: int = dial(2, "Echoes", "How many.", min=1, max=5, step=1)


class Echo(Baseline):
    """A method nobody has heard of: registered by a test, and nothing else is changed for it."""

    name, title, paper, idea = "echo", "Echo", "None", "Says it as the baseline does."
    Options = EchoOptions


@pytest.fixture
def methods(monkeypatch):
    monkeypatch.setitem(METHODS, "echo", Echo)
    return METHODS


def page(stack, **limits):
    app = build_app(stack, Limits(**limits))
    return app, app.tts.act


def values(voice, method="echo", **changes):
    """What the page sends for a press of Speak, dials at their defaults."""
    form = {
        "voice": str(voice),
        "prompt_text": "",
        "consent": True,
        "text": "Hello there",
        "method": method,
        "both": True,
        "attention": True,
        "seed": 5,
        "max_seconds": 1.0,
        "temperature": 0.7,
        "top_k": 50,
        "top_p": 0.9,
        "repeat_window": 20,
        "repeat_ratio": 0.4,
        **changes,
    }
    assert list(form) == [f.name for f in dataclasses.fields(Form)][:-1]
    return [*form.values(), *(f.default for m in METHODS.values() for f in dataclasses.fields(m.Options))]


def visitor(name):
    return SimpleNamespace(session_hash=name)


def drain(act, who, sent, history=()):
    """All updates of one press, and the last history."""
    updates = list(act.speak(visitor(who), list(history), *sent))
    return updates, updates[-1].get(act.ui.history, list(history))


def test_a_press_speaks_both_sides_with_one_seed_and_streams_them_whole(methods, tmp_path):
    app, act = page(ToyStack())
    updates, history = drain(act, "ann", values(voice_file(tmp_path)))
    run = history[-1]
    assert run.seed == 5 and run.baseline.method == "baseline" and run.method.method == "echo"
    # same seed, same tokens
    assert run.method.options == {"echoes": 2} and (run.baseline.audio == run.method.audio).all()
    assert not run.conditions["cold"] and run.method.attention.labels == tuple("Hello there")
    warming = [u[act.ui.status] for u in updates if "Warming up" in u.get(act.ui.status, "")]
    assert len(warming) == 2 and "unheard" in warming[0]  # both sides, before either is timed
    first = next(i for i, u in enumerate(updates) if act.ui.seed in u)
    assert updates[first][act.ui.seed] == 5  # written back before anything is spoken
    # a page that came while the model loaded says so no more
    assert any("toy stack" in u.get(act.ui.mast, "") for u in updates)
    for side in ("baseline", "method"):
        sent = [u[act.ui.players[side]] for u in updates if act.ui.players[side] in u]
        kinds = [m["kind"] for m in sent]
        assert kinds[:2] == ["clear", "start"] and kinds[-1] == "end" and "chunk" in kinds
        assert [m["seq"] for m in sent[1:]] == list(range(1, len(sent)))
        whole = np.frombuffer(__import__("base64").b64decode(sent[-1]["pcm"]), "<i2")
        assert (whole == getattr(run, side).audio).all()
    assert not act.gate.busy and act.gate.jobs() == 0
    updates, again = drain(act, "ann", values(tmp_path / "voice-3.wav"), history)
    assert not any("Warming up" in u.get(act.ui.status, "") for u in updates)
    assert not again[-1].conditions["cold"] and (again[-1].method.codes == run.method.codes).all()


def test_a_matching_baseline_is_reused_and_says_so(methods, tmp_path):
    _, act = page(ToyStack())
    voice = voice_file(tmp_path)
    _, history = drain(act, "ann", values(voice))
    updates, after = drain(act, "ann", values(voice, both=False), history)
    assert after[-1].reused == history[-1].number and after[-1].baseline is history[-1].baseline
    assert any("from run 1" in str(u.get(act.ui.players["baseline"], "")) for u in updates)
    _, other = drain(act, "ann", values(voice, both=False, seed=6), history)
    assert other[-1].baseline is None and other[-1].reused == 0


def test_stop_ends_a_run_within_a_fifth_of_a_second(methods, tmp_path, monkeypatch):
    """Counted in passes made after the press and in this thread's own seconds, so that a busy machine tells no lies."""
    _, act = page(ToyStack())
    steps, asked, ended, step = [], [], [], Baseline.step
    monkeypatch.setattr(Baseline, "step", lambda self, state: (steps.append(1), step(self, state))[1])
    for update in act.speak(visitor("ann"), [], *values(voice_file(tmp_path), max_seconds=30, attention=False)):
        player = update.get(act.ui.players["baseline"], {})
        if player.get("kind") == "chunk" and not asked:
            act.stop(visitor("ann"))
            asked = [time.thread_time(), len(steps)]
        if player.get("kind") == "end":
            ended = [time.thread_time(), len(steps)]
    run = update[act.ui.history][-1]
    assert ended[0] - asked[0] < 0.2 and ended[1] - asked[1] <= 1
    assert run.baseline.stopped and run.method is None and 0 < run.baseline.seconds < 30
    assert not act.gate.busy


def test_two_visitors_never_overlap_and_never_mix(methods, tmp_path, monkeypatch):
    _, act = page(ToyStack())
    inside, most, results = [], [], {}
    step = Echo.step

    def counted(self, state):
        inside.append(1)
        most.append(len(inside))
        try:
            return step(self, state)
        finally:
            inside.pop()

    monkeypatch.setattr(Baseline, "step", counted)
    voice = voice_file(tmp_path)

    def visit(name, text):
        results[name] = drain(act, name, values(voice, text=text, seed=ord(name[0])))[1]

    visitors = [threading.Thread(target=visit, args=(n, f"{n} speaks")) for n in ("ann", "bob")]
    leaver = act.speak(visitor("cid"), [], *values(voice, text="gone", max_seconds=20))
    for _ in range(6):  # cid is on the device, then closes the page in the middle of a step's updates
        next(leaver)
    assert act.gate.busy
    for v in visitors:
        v.start()
    time.sleep(0.3)
    assert not results
    leaver.close()
    for v in visitors:
        v.join(60)
    assert max(most) == 1
    for name in ("ann", "bob"):
        (run,) = results[name]
        assert run.text == f"{name} speaks" and run.seed == ord(name[0])
    assert act.gate.jobs() == 0 and not act.gate.busy


@pytest.mark.parametrize(
    "change, word",
    [
        ({"text": "  "}, "no text"),
        ({"text": "x" * 700}, "700 characters"),
        ({"voice": ""}, "no voice"),
        ({"consent": False}, "Tick"),
        ({"method": "nope"}, "Unknown method"),
        ({"temperature": 9}, "temperature"),
        ({"seed": None}, "seed must be"),
        ({"max_seconds": float("nan")}, "above 0"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(methods, tmp_path, change, word):
    _, act = page(ToyStack())
    with pytest.raises(gr.Error, match=word):
        drain(act, "ann", values(**{"voice": voice_file(tmp_path), **change}))
    assert act.gate.jobs() == 0


def test_missing_weights_reach_the_page_as_a_sentence(methods, tmp_path, monkeypatch):
    from tts_demo.config import UserError

    stack = ToyStack()
    _, act = page(stack)

    def missing(name):
        raise UserError("The method 'echo' has no trained weights here: make them.")

    monkeypatch.setattr(stack, "method", missing)
    with pytest.raises(gr.Error, match="no trained weights"):
        drain(act, "ann", values(voice_file(tmp_path)))
    assert not act.gate.busy


def test_judges_listen_when_asked_and_compare_only_the_same_voice(methods, tmp_path):
    class Judge:
        def words(self, samples):
            return "hello their"

        def voice(self, samples):
            return np.array([1.0, 0.0])

    _, act = page(ToyStack())
    act.ears.__dict__["_judges"] = Judge()
    voice = voice_file(tmp_path)
    _, (run,) = drain(act, "ann", values(voice))
    heard = act.listen(run, str(voice))[act.ui.current]
    assert heard.method.metrics["wer"] == 0.5 and heard.method.metrics["similarity"] == 1.0
    assert "hello their" in act.listen(run, str(voice))[act.ui.table]
    other = act.listen(run, str(voice_file(tmp_path, 4.0)))[act.ui.current]
    assert other.method.metrics["similarity"] is None


def test_recorded_runs_and_example_voices_are_made_by_one_command(methods, tmp_path, monkeypatch):
    from tts_demo.ui.page import voices
    from tts_demo.ui.run import record, session

    monkeypatch.setattr(record, "load_stack", lambda *_, **__: ToyStack())
    voice = voice_file(tmp_path)
    assert record.main(["voices", f"{voice}=Some words.", "--out", str(tmp_path / "prompts"), "--text", "Short."]) == 0
    (example,) = voices.examples(tmp_path / "prompts")
    assert example.text == "" and audio.read_provenance(example.path)["synthetic"]
    out = tmp_path / "runs"
    assert (
        record.main(
            ["runs", str(voice), "--out", str(out), "--text", "Two words.", "--methods", "echo", "--max-seconds", "1"]
        )
        == 0
    )
    (stem,) = session.recorded(out).values()
    run = session.load(stem)
    assert (
        run.method.method == "echo" and run.baseline.attention and not run.conditions["cold"] and len(run.method.curve)
    )
    assert record.main(["voices"]) == 2


@pytest.fixture(scope="module")
def service():
    METHODS["echo"] = Echo
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with served(ToyStack(), max_seconds=3) as (url, app):
                yield SimpleNamespace(url=url, app=app, client=Client(url, verbose=False))
        bad = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        assert not bad, bad
    finally:
        del METHODS["echo"]


def test_endpoints_speak_compare_and_list(service, tmp_path):
    voice = handle_file(voice_file(tmp_path))
    listed = service.client.predict(api_name="/methods")
    assert [m["name"] for m in listed] == list(METHODS)
    echo = next(m for m in listed if m["name"] == "echo")
    assert echo["options"][0]["name"] == "echoes" and echo["options"][0]["max"] == 5
    asked = {
        "text": "Hello",
        "voice": voice,
        "consent": True,
        "method": "echo",
        "options": {"echoes": 3},
        "seed": 4,
        "max_seconds": 1,
    }
    path, record = service.client.predict(**asked, api_name="/synthesize")
    samples, rate = soundfile.read(path)
    assert rate == 16000 and len(samples) == round(record["audio_seconds"] * rate)
    assert record["options"] == {"echoes": 3} and record["seed"] == 4 and record["consent"] and record["synthetic"]
    assert audio.read_provenance(path)["method"] == "echo"
    first, second, both = service.client.predict(**asked, api_name="/compare")
    assert both["baseline"]["method"] == "baseline" and both["method"]["method"] == "echo"
    # echo is the baseline, and the seed is the same
    assert (soundfile.read(first)[0] == soundfile.read(second)[0]).all()


@pytest.mark.parametrize(
    "change, word",
    [
        ({"consent": False}, "consent"),
        ({"method": "nope"}, "Unknown method"),
        ({"options": {"echoes": 99}}, "between 1 and 5"),
        ({"text": ""}, "text is empty"),
        ({"seed": -1}, "0 or more"),
    ],
)
def test_endpoints_refuse_with_a_sentence(service, tmp_path, change, word):
    asked = {
        "text": "Hello",
        "voice": handle_file(voice_file(tmp_path)),
        "consent": True,
        "method": "echo",
        "seed": 1,
        **change,
    }
    with pytest.raises(Exception, match=word):
        service.client.predict(**asked, api_name="/synthesize")


def test_everything_else_is_private(service):
    assert set(service.client.view_api(return_format="dict")["named_endpoints"]) == {
        "/synthesize",
        "/compare",
        "/methods",
    }


def test_health_and_curl(service):
    with urllib.request.urlopen(f"{service.url}health", timeout=10) as answer:
        assert json.load(answer) == {
            "status": "ok",
            "jobs": 0,
            "stack": "toy",
            "checkpoint_hash": "0" * 12,
            "problems": [],
        }
    call = urllib.request.Request(
        f"{service.url}gradio_api/call/methods", b'{"data": []}', {"Content-Type": "application/json"}
    )
    event = json.load(urllib.request.urlopen(call, timeout=10))["event_id"]
    with urllib.request.urlopen(f"{service.url}gradio_api/call/methods/{event}", timeout=10) as answer:
        assert '"baseline"' in answer.read().decode()


def test_log_lines_carry_no_personal_data(methods, tmp_path, caplog):
    _, act = page(ToyStack())
    with caplog.at_level("INFO", logger="tts_demo.ui"):
        drain(act, "session-1234", values(voice_file(tmp_path), text="A secret sentence", prompt_text="My name"))
    lines = [json.loads(r.message) for r in caplog.records if r.name == "tts_demo.ui"]
    assert lines[-1]["event"] == "speak" and lines[-1]["outcome"] == "done" and lines[-1]["characters"] == 17
    assert not any(w in json.dumps(lines) for w in ("secret", "My name", "session-1234", str(tmp_path)))


def test_the_readmes_example_runs_as_written(service, tmp_path):
    readme = (Path(__file__).parents[2] / "tts_demo" / "ui" / "README.md").read_text(encoding="utf-8")
    (code,) = [
        block.split("```")[0] for block in readme.split("```python\n")[1:] if "gradio_client" in block.split("```")[0]
    ]
    assert "http://127.0.0.1:7860" in code and "me.wav" in code
    names: dict = {}
    exec(code.replace("http://127.0.0.1:7860", service.url).replace("me.wav", str(voice_file(tmp_path))), names)
    assert names["record"]["method"] == "ssd" and soundfile.info(names["speech"]).duration > 0
    assert "/gradio_api/call/methods" in readme  # test_health_and_curl makes the same two requests
