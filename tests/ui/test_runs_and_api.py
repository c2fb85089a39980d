"""Runs as the page and the endpoints make them, without a browser: pairs, stop, two visitors, refusals, a new
method."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import threading
import time
import urllib.request
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch
from gradio_client import Client, handle_file
from toy import ToyStack, served, voice_file

from tts_demo import audio
from tts_demo import voices as bundle
from tts_demo.cli.main import main
from tts_demo.config import UserError
from tts_demo.measure.turns import turns
from tts_demo.methods import METHODS
from tts_demo.methods.base import Options, dial
from tts_demo.methods.baseline import Baseline
from tts_demo.runtime import processor
from tts_demo.ui import build_app, voices
from tts_demo.ui.limits import Limits
from tts_demo.ui.page import views
from tts_demo.ui.run import rounds, session, words


@dataclasses.dataclass(frozen=True)
class EchoOptions(Options):
    echoes: int = dial(2, "Echoes", "How many.", min=1, max=5, step=1)


class Echo(Baseline):
    """A method nobody has heard of: registered by a test, and nothing else is changed for it."""

    name, title, paper, idea = "echo", "Echo", "None", "Says it as the baseline does."
    Options = EchoOptions


@pytest.fixture
def methods(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))  # where visitors' uploads lie
    monkeypatch.setitem(METHODS, "echo", Echo)
    return METHODS


def page(stack, **limits):
    app = build_app(stack, Limits(**limits))
    return app, app.tts.act


def form(path, *methods, **changes):
    """What the page sends for a press of Speak; the voice is an upload."""
    lanes = [{"method": m, "options": {}} for m in methods or ("echo",)]
    sent = {"text": "Hello there", "voice": "", "own": str(path), "consent": True, "lanes": lanes, "seed": 5}
    return {**sent, "max_seconds": 1.0, "attention": True, "temperature": 0.7, **changes}


def visitor(name):
    return SimpleNamespace(session_hash=name)


def drain(act, who, sent, takes=()):
    """All updates of one press, and the last takes."""
    updates = list(act.speak(visitor(who), list(takes), sent))
    return updates, updates[-1].get(act.ui.takes, list(takes))


def behind(act, who, updates, takes):
    """What follows the press in the background: its updates, and the takes after it."""
    after = next(u[act.ui.after] for u in updates if act.ui.after in u)
    later = list(act.after(visitor(who), list(takes), after))
    return later, next((u[act.ui.takes] for u in reversed(later) if act.ui.takes in u), list(takes))


def board(act, updates, numbered=True):
    """Every message that the board got, in order."""
    sent = [json.loads(u[act.ui.board]) for u in updates if act.ui.board in u]
    assert not numbered or [m["seq"] for m in sent] == list(range(1, len(sent) + 1))
    return [one for m in sent for one in m["messages"]]


def status(act, update):
    return update.get(act.ui.status, "")


def test_a_press_speaks_all_lanes_with_one_seed_and_streams_them_whole(methods, tmp_path):
    app, act = page(ToyStack())
    updates, takes = drain(act, "ann", form(voice_file(tmp_path), "echo", "baseline"))
    lanes = takes[-1].lanes
    assert [lane.method for lane in lanes] == ["baseline", "echo", "baseline"] and lanes[1].options == {"echoes": 2}
    assert all((lane.audio == lanes[0].audio).all() and lane.made.seed == 5 for lane in lanes)  # same seed, same tokens
    assert not lanes[0].made.conditions["cold"] and lanes[1].attention.labels == tuple("Hello there")
    assert len([u for u in updates if "Warming up" in status(act, u)]) == 2  # each method once, before any is timed
    # a page that came while the model loaded says so no more
    assert any("toy stack" in u.get(act.ui.mast, "") for u in updates)
    told = board(act, updates)
    assert [one["kind"] for one in told[:1]] == ["take"] and told[0]["lanes"][1]["made"]["text"] == "Hello there"
    for index, lane in enumerate(lanes):
        mine = [one for one in told if one.get("id") == takes[-1].lane_id(index)]
        assert mine[0]["kind"] == "start" and "chunk" in [one["kind"] for one in mine]
        whole = next(o["lane"] for o in told if o["kind"] == "lane" and o["lane"]["id"] == takes[-1].lane_id(index))
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(whole["wav"])), dtype="int16")
        assert rate == 16000 and (samples == lane.audio).all()
    assert not act.gate.busy and act.gate.jobs() == 0
    updates, again = drain(act, "ann", form(tmp_path / "voice-3.wav"), takes)
    assert not any("Warming up" in status(act, u) for u in updates)
    assert (again[-1].lanes[1].codes == lanes[1].codes).all()


def test_lanes_speak_in_turns_and_are_timed_in_several_rounds(methods, tmp_path, monkeypatch):
    began = []
    spied = lambda *given, begins=0, **more: began.append(begins) or turns(*given, begins=begins, **more)
    monkeypatch.setattr(rounds, "turns", spied)
    _, act = page(ToyStack())
    updates, (take,) = drain(act, "ann", form(voice_file(tmp_path), max_seconds=2.0, attention=False))
    told = board(act, updates)
    started = [i for i, one in enumerate(told) if one["kind"] == "start"]
    assert len(started) == 2 and not any(one["kind"] == "lane" for one in told[: started[1]])  # both before one ends
    assert not act.gate.busy and all(len(lane.rounds) == 1 for lane in take.lanes)  # Speak is free after the first
    act.transcriber.available = False
    later, (take,) = behind(act, "ann", updates, [take])
    told += board(act, later)
    assert all(len(lane.rounds) == len(lane.whole) == rounds.MOST for lane in take.lanes)
    assert began == [number % 2 for number in range(rounds.MOST)]  # who begins finds the cache cold
    speeds = [one["lanes"] for one in told if one["kind"] == "speeds"]
    assert [s[take.lane_id(1)]["rounds"] for s in speeds] == list(range(1, rounds.MOST + 1))
    last = speeds[-1][take.lane_id(1)]
    assert last["low"] <= last["times"] <= last["high"]
    assert last["whole"]["low"] <= last["whole"]["times"] <= last["whole"]["high"]
    shares = [one["share"] for one in told if one["kind"] == "progress"]
    assert shares[-1] is None and all(0 <= share <= 1 for share in shares if share is not None)
    _, (alone,) = drain(act, "ann", form(tmp_path / "voice-3.wav", lanes=[]))
    assert len(alone.lanes) == 1 and len(alone.lanes[0].rounds) == 1  # nothing to compare: nothing said again


def test_what_follows_a_run_gives_way_to_the_next_order_and_goes_on(methods, tmp_path):
    _, act = page(ToyStack())
    act.transcriber.available = False
    sent = form(voice_file(tmp_path), max_seconds=2.0, attention=False)
    updates, takes = drain(act, "ann", sent)
    after = next(u[act.ui.after] for u in updates if act.ui.after in u)
    following = act.after(visitor("ann"), takes, after)
    next(following)
    bob = act.gate.join("bob")
    ended = threading.Thread(target=lambda: ends.extend(following))
    ends: list = []
    ended.start()
    assert bob.acquire(5.0)  # the device is given up at the next step
    assert not ends or all(act.ui.takes not in u for u in ends)  # a round that was stopped is not counted
    bob.leave()
    ended.join(60)
    (take,) = next(u[act.ui.takes] for u in reversed(ends) if act.ui.takes in u)
    assert all(len(lane.rounds) == rounds.MOST for lane in take.lanes)
    act.gate.join("ann")  # the same visitor's next order ends it for good
    (last,) = act.after(visitor("ann"), takes, after)
    assert [one["kind"] for one in board(act, [last], numbered=False)] == ["progress"]


def test_words_are_checked_behind_a_run_as_written_or_as_spoken(methods, tmp_path):
    _, act = page(ToyStack())
    heard = iter(["Hello, there!", "hello their"])
    act.transcriber.available = True
    act.transcriber._judges = SimpleNamespace(transcribe=lambda samples: next(heard))
    updates, takes = drain(act, "ann", form(voice_file(tmp_path)))
    later, _ = behind(act, "ann", updates, takes)
    figures = [one["figures"] for one in board(act, later) if one["kind"] == "figures"]
    assert [(f["wrong"], f["words"], f["misheard"]) for f in figures] == [(0, 2, []), (1, 2, ["there as their"])]


def test_stop_ends_a_run_within_a_fifth_of_a_second(methods, tmp_path, monkeypatch):
    """Counted in passes made after the press and in this thread's own seconds, so that a busy machine tells no lies."""
    _, act = page(ToyStack())
    steps, asked, ended, step = [], [], [], Baseline.step
    monkeypatch.setattr(Baseline, "step", lambda self, state: (steps.append(1), step(self, state))[1])
    for update in act.speak(visitor("ann"), [], form(voice_file(tmp_path), max_seconds=30, attention=False)):
        kinds = [one["kind"] for one in json.loads(update[act.ui.board])["messages"]] if act.ui.board in update else []
        if "chunk" in kinds and not asked:
            assert act.stop(visitor("ann")) is None  # the run alone says how it ended
            asked = [time.thread_time(), len(steps)]
        if "lane" in kinds:
            ended = [time.thread_time(), len(steps)]
    (take,) = update[act.ui.takes]
    assert ended[0] - asked[0] < 0.2 and ended[1] - asked[1] <= 2  # one a lane
    assert all(lane.stopped for lane in take.lanes) and 0 < take.lanes[0].seconds < 30
    assert not act.gate.busy and "Stopped" in status(act, update)


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
        results[name] = drain(act, name, form(voice, text=text, seed=ord(name[0])))[1]

    visitors = [threading.Thread(target=visit, args=(n, f"{n} speaks")) for n in ("ann", "bob")]
    leaver = act.speak(visitor("cid"), [], form(voice, text="gone", max_seconds=20))
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
        (take,) = results[name]
        assert all(x.made.text == f"{name} speaks" and x.made.seed == ord(name[0]) for x in take.lanes)
    assert act.gate.jobs() == 0 and not act.gate.busy


@pytest.mark.parametrize(
    "change, word",
    [
        ({"text": "  "}, "no text"),
        ({"text": "x" * 700}, "700 characters"),
        ({"own": ""}, "no voice"),
        ({"own": "/etc/hostname"}, "no longer here"),  # the page names its uploads and nothing else
        ({"voice": "Nobody"}, "no example voice"),
        ({"consent": False}, "Tick"),
        ({"lanes": [{"method": "nope"}]}, "Unknown method"),
        ({"temperature": 9}, "Temperature must"),
        ({"seed": None}, "seed must be"),
        ({"max_seconds": float("nan")}, "above 0"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(methods, tmp_path, change, word):
    _, act = page(ToyStack())
    updates, takes = drain(act, "ann", form(voice_file(tmp_path), **change))
    assert word in status(act, updates[-1]) and "error" in status(act, updates[-1]) and not takes
    assert act.gate.jobs() == 0


def test_missing_weights_reach_the_page_as_a_sentence(methods, tmp_path, monkeypatch, caplog):

    stack = ToyStack()
    _, act = page(stack)

    def missing(name):
        raise UserError("The method 'echo' has no trained weights here: make them.")

    monkeypatch.setattr(stack, "method", missing)
    with caplog.at_level("INFO", logger="tts_demo.ui"):
        updates, _ = drain(act, "ann", form(voice_file(tmp_path)))
    assert "no trained weights" in status(act, updates[-1]) and not act.gate.busy
    assert [json.loads(r.message)["outcome"] for r in caplog.records if r.name == "tts_demo.ui"] == ["refused"]


def test_judges_listen_when_asked_and_compare_only_the_same_voice(methods, tmp_path):
    class Judge:
        def transcribe(self, samples):
            return "hello their"

        def voice(self, samples):
            return np.array([1.0, 0.0])

    _, act = page(ToyStack())
    act.transcriber._judges = Judge()
    voice, other = voice_file(tmp_path), voice_file(tmp_path, 4.0)
    _, takes = drain(act, "ann", form(voice))
    ids = [takes[0].lane_id(i) for i in range(2)]
    begun, done = act.views.listen(takes, ids, form(voice, voice="Maya"))  # whatever voice is chosen by now
    told = board(act, [done], numbered=False)
    assert "Listening to 2 results" in status(act, begun) and "Checked 2 results.<" in status(act, done)
    assert [one["id"] for one in told] == ids
    there = {"heard": "hello their", "wer": 0.5, "wrong": 1, "words": 2, "misheard": ["there as their"]}
    assert told[1]["figures"] == there | {"similarity": 1.0}
    for gone in (form(other), None):
        *_, done = act.views.listen(takes, ids, gone)
        (_, figures) = board(act, [done], numbered=False)
        assert "similarity" not in figures["figures"] and "not here any more" in status(act, done)
    (refused,) = act.views.listen(takes, ["gone.0"], form(voice))
    assert "no longer has" in status(act, refused)


def test_a_recorded_run_is_compared_with_its_bundled_voice(methods):
    known = voices.at_hand(None)
    for stem in views.recorded().values():
        made = [lane.made for lane in session.load(bundle.ASSETS / "runs" / stem).lanes]
        assert all(known[m.voice_hash] == voices.example(m.voice).path for m in made)


def test_an_example_voice_brings_its_transcript_to_the_page_as_to_programs(methods, monkeypatch):
    stack, heard = ToyStack(), []
    encode = stack.encode_prompt
    monkeypatch.setattr(stack, "encode_prompt", lambda *a: (heard.append(a[2]), encode(*a))[1])
    _, act = page(stack)
    example = voices.examples()[0]
    drain(act, "ann", form("", voice=example.name, prompt_text="Not this."))
    assert example.transcript and heard == [example.transcript]


def test_a_lane_says_what_was_changed(methods, tmp_path):
    _, act = page(ToyStack(), max_seconds=4)
    _, (usual,) = drain(act, "ann", form(voice_file(tmp_path), max_seconds=4))
    _, (other,) = drain(act, "ann", form(voice_file(tmp_path), temperature=0.5, top_k=7))
    changed = ["temperature 0.5 (default 0.7)", "top k 7 (default 50)", "longest speech (s) 1 (default 4)"]
    assert words.conditions(other.lanes[1], False)[-3:] == changed
    assert not any("default" in fact for fact in words.conditions(usual.lanes[1], False))


def test_another_layer_and_the_zip_are_of_the_lanes_asked_for(methods, tmp_path):
    _, act = page(ToyStack())
    _, takes = drain(act, "ann", form(voice_file(tmp_path)))
    asked = SimpleNamespace(ids=[takes[0].lane_id(1), "gone.0"], layer="1", head="2")
    (told,) = board(act, [act.views.attention_view(takes, asked)], numbered=False)
    assert told["id"] == takes[0].lane_id(1) and told["attention"]["text"] == len("Hello there")
    saved = act.views.export(takes, [takes[0].lane_id(1)])
    with zipfile.ZipFile(saved[act.ui.file]) as z:
        assert "0-echo/audio.wav" in z.namelist() and len(z.namelist()) == 5
    gone = act.views.export(takes, ["gone.0"])
    assert gone[act.ui.file] is None and "no longer has" in status(act, gone)


def _too_short(*_):
    raise UserError("too short")


def test_recorded_runs_and_example_voices_are_made_by_one_command(methods, tmp_path, monkeypatch, capsys):
    from tts_demo.ui import voices
    from tts_demo.ui.run import record, session

    monkeypatch.setattr(record, "load_stack", lambda *_, **__: ToyStack())
    monkeypatch.setattr(record.Judges, "distilmos", lambda *_: 3.0)
    say = record.generate

    def briefly(stack, requests, *rest, **more):  # five seconds of tones are as good as twelve
        short = [dataclasses.replace(one, max_seconds=min(one.max_seconds, 5.0)) for one in requests]
        return say(stack, short, *rest, **more)

    monkeypatch.setattr(record, "generate", briefly)
    voice = voice_file(tmp_path)
    asked = ["record", "voices", f"{voice}=Some words.", "--out", str(tmp_path / "prompts"), "--text", "Short."]
    monkeypatch.setattr(bundle, "ASSETS", tmp_path)
    sure = record.TRIES
    for takes, said in (  # a transcript that is not true misleads
        (["Sort of."] * sure, ""),
        (["Sort of.", "short"] + ["Sort of."] * (sure - 2), "Short."),
        (["Sort of.", "Sort.", "Shorter thing."] + ["Sort of."] * (sure - 3), ""),
        ([None] * sure, ""),
    ):
        left = iter(takes)
        monkeypatch.setattr(record.Judges, "transcribe", lambda *_, left=left: next(left))
        assert main([*asked, "--names", "Maya, warm and low"]) == 0
        assert list(left) == []
        best = min((h for h in takes if h), key=lambda h: record.word_errors("Short.", h)[0], default=None)
        assert f"transcript {best!r}" in capsys.readouterr().out
        (example,) = voices.examples()
        assert example.transcript == said and audio.read_provenance(example.path)["synthetic"]
        assert (example.name, example.about, example.path.name) == ("Maya", "warm and low", "maya.wav")
    assert main([*asked, "--names", "Maya; Tom"]) == 2
    with monkeypatch.context() as sounding:  # of takes with the same words, the one that sounds best
        sounds = iter([3.1, 4.2, 3.9, 2.5][:sure])
        sounding.setattr(record.Judges, "transcribe", lambda *_: "short")
        sounding.setattr(record.Judges, "distilmos", lambda *_: next(sounds))
        made = []
        sounding.setattr(
            record, "generate", lambda *a, generate=record.generate, **k: made.append(generate(*a, **k)) or made[-1]
        )
        assert main(asked) == 0 and (tmp_path / "prompts" / "voice-a.wav").read_bytes() == session.wav(made[1][0])
    with monkeypatch.context() as wandering:
        wandering.setattr(record, "voices_differ", lambda *_: True)
        wandering.setattr(record.Judges, "transcribe", lambda *_: "short")
        assert main(asked) == 0 and "the voice wanders" in capsys.readouterr().out
    with monkeypatch.context() as nothing:
        nothing.setattr(record, "voices_differ", _too_short)
        assert main(asked) == 2 and "second of speech" in capsys.readouterr().err
    assert voices.examples()[0].name == "Voice A", "a failure leaves the listing as it was"
    monkeypatch.setattr(record.Judges, "transcribe", lambda *_: None)
    assert main(asked) == 0 and voices.examples()[0].name == "Voice A"
    kinds = {name: METHODS[name] for name in ("baseline", "echo")}
    monkeypatch.setattr(record, "METHODS", kinds)
    out = tmp_path / "runs"
    assert main(["record", "runs", str(voice), "--out", str(out), "--text", "Two words.", "--max-seconds", "1"]) == 0
    (stem,) = session.recorded(out).values()
    take = session.load(stem)
    assert [lane.method for lane in take.lanes] == ["baseline", "echo"] and take.recorded == Echo.title
    assert take.lanes[0].attention and len(take.lanes[1].curve) and len(take.lanes[1].rounds) == rounds.MOST
    assert not take.lanes[0].made.conditions["cold"]
    assert main(["record", "voices"]) == 2


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
    _, cut = service.client.predict(**asked | {"max_seconds": 0.1}, api_name="/synthesize")
    assert cut["truncated"] and "length limit is 0.1 s" in cut["notes"][-1]
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
            "wait_seconds": 0.0,
            "stack": "toy",
            "checkpoint_hash": "0" * 12,
            "computing": {"processor": processor(torch.device("cpu")), "dtype": "float32"},
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
        drain(act, "session-1234", form(voice_file(tmp_path), text="A secret sentence", prompt_text="My name"))
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
