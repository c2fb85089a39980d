"""The parts of the page that need no browser: dials, addresses, history, pictures' data, limits, the lock."""

from __future__ import annotations

import base64
import csv
import dataclasses
import json
import re
import threading
import time
import zipfile

import numpy as np
import pytest
import soundfile
from toy import tone, voice_file

from tts_demo import audio
from tts_demo.config import UserError
from tts_demo.methods import METHODS, colour
from tts_demo.methods.base import Options, dial
from tts_demo.ui import voices
from tts_demo.ui.limits import Limits
from tts_demo.ui.line import Gate
from tts_demo.ui.page import controls
from tts_demo.ui.run import blind, charts, plots, reading, rounds, session, words
from tts_demo.ui.service import Handle, health


def make_lane(method: str = "tldr", frames: int = 50, size: int = 4, attention: bool = True, **rest) -> session.Lane:
    """A lane whose attention is a clean diagonal: step i looks at text token i * text / steps."""
    steps, letters = frames // size, 10
    weights = np.zeros((2, 3, steps, letters), np.float16)
    for i in range(steps):
        weights[:, :, i, i * letters // steps] = 1
    start = np.arange(steps) * size / 50
    looked = session.AttentionPicture(
        weights, tuple("abcdefghij"), start, start + size / 50, ("ab",) * 2 + ("",) + ("de",) * 7
    )
    metrics = {
        "rtf": 0.5,
        "lm_rtf": 0.4,
        "ttfa_seconds": 0.1,
        "audio_seconds": frames / 50,
        "backbone_steps": steps,
        "frames_per_step": size,
        "kv_bytes_total": 1000,
        "kv_bytes_peak": 2000,
        "acceptance": None,
        "method_stats": {"shares": [0.25, 0.75]},
        "monotonicity": 1.0,
        "coverage": 0.9,
        "diagonality": 0.8,
    }
    records = [
        {"frames": size, "marks": ["patch"] * size, "kv_bytes": 10 * i, "ms": 1.5, "proposed": 0, "accepted": 0}
        for i in range(steps)
    ]
    curve = np.stack([np.linspace(0.1, 1, 5), np.linspace(1, 0.5, 5), np.linspace(10, 100, 5)], 1).astype(np.float32)
    facts = {
        "device": "cpu",
        "processor": "Slow & Steady, 2 cores",
        "dtype": "float32",
        "stack": "toy",
        "checkpoint_hash": "abc",
        "cold": False,
        "prompt_seconds": 3.0,
    }
    made = session.Made("Some <b>text</b>", "Voice A", 7, {"temperature": 0.7}, 20.0, facts)
    lane = session.Lane(
        made,
        method,
        "Title",
        {"patch_size": size} if method == "tldr" else {},
        tone(frames / 50),
        16000,
        np.arange(steps)[:, None],
        metrics,
        records,
        curve,
        looked if attention else None,
        rounds=(0.4,),
    )
    return dataclasses.replace(lane, **rest)


def make_take(**rest) -> session.Take:
    lanes = make_lane("baseline", size=1, rounds=(0.8, 0.9, 0.7)), make_lane(rounds=(0.4, 0.3, 0.35))
    return session.Take("t", lanes, **rest)


def test_recorded_take_comes_back_as_it_was(tmp_path):
    take = make_take(recorded="Patches")
    session.save(take, tmp_path / "1-tldr")
    assert session.recorded(tmp_path) == {"Patches": tmp_path / "1-tldr"}
    back = session.load(tmp_path / "1-tldr")
    assert back.recorded == "Patches" and back.id == "1-tldr"
    for a, b in zip(take.lanes, back.lanes, strict=True):
        assert (a.audio == b.audio).all() and (a.codes == b.codes).all()
        assert a.metrics == b.metrics and a.steps == b.steps and a.made == b.made and a.rounds == b.rounds
        assert a.attention.labels == b.attention.labels and (a.attention.weights == b.attention.weights).all()
        assert plots.lane_payload(a, "x", "t") == plots.lane_payload(b, "x", "t")


def test_one_rtf_stands_wherever_the_page_has_it_and_a_busy_machine_is_said():
    slow = {"total_seconds": 8.0, "lm_seconds": 0.2, "vocoder_seconds": 0.1, "rtf": 16.0}
    lane = make_lane(whole=(0.3, 0.2, 0.25), rounds=(0.2, 0.1, 0.15))
    lane = dataclasses.replace(lane, metrics=lane.metrics | slow)
    take = session.Take("t", (lane, lane))
    (payload, _) = plots.payload(take)
    assert payload["figures"]["rtf"] == payload["speed"]["rtf"] == 0.25
    assert words.done(take) == f"The baseline and 1 setting beside it. {words.BUSY}"
    quiet = dataclasses.replace(lane, metrics=lane.metrics | {"total_seconds": 0.31})
    assert words.BUSY not in words.done(session.Take("t", (quiet, quiet)))


def test_broken_recording_is_refused_with_the_command_that_makes_it(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UserError, match="tts_demo record runs"):
        session.load(tmp_path / "x")


def test_export_holds_audio_with_provenance_tokens_trace_figures_and_a_table(tmp_path):
    take = make_take()
    path = session.export(list(take.lanes), tmp_path / "lanes.zip")
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        files = ("audio.wav", "metrics.json", "trace.json", "tokens_and_attention.npz")
        lanes = [f"{lane}/{file}" for lane in ("0-baseline", "1-tldr") for file in files]
        assert sorted(z.namelist()) == sorted([*lanes, "figures.csv"])
        z.extractall(tmp_path)
    samples, rate = soundfile.read(tmp_path / "1-tldr/audio.wav", dtype="int16")
    assert rate == 16000 and (samples == take.lanes[1].audio).all()
    says = audio.read_provenance(tmp_path / "1-tldr/audio.wav")
    assert says["synthetic"] is True and says["method"] == "tldr"
    assert says["seed"] == 7 and says["checkpoint_hash"] == "abc"
    assert json.loads((tmp_path / "1-tldr/metrics.json").read_text())["lm_rtf_rounds"] == [0.4, 0.3, 0.35]
    with np.load(tmp_path / "1-tldr/tokens_and_attention.npz") as z:
        assert z["weights"].shape == (2, 3, 12, 10) and (z["codes"] == take.lanes[1].codes).all()
    rows = list(csv.DictReader((tmp_path / "figures.csv").open(encoding="utf-8")))
    assert [r["method"] for r in rows] == ["baseline", "tldr"] and rows[1]["lm_rtf"] == "0.4"


def test_speed_is_the_median_of_the_rounds_with_their_range():
    found = session.speed((0.4, 0.3, 0.35), (0.8, 0.9, 0.7))
    assert (found.times, found.low, found.high, found.rounds) == (pytest.approx(2.0), 2.0, pytest.approx(3.0), 3)
    assert session.speed((0.4,), ()) is None and session.speed((0.0,), (0.8,)) is None
    shown = plots.speeds(make_take())
    assert shown["t.1"]["times"] == pytest.approx(2.0) and "times" not in shown["t.0"]


def test_rounds_follow_until_the_time_is_used_up():
    left = [rounds._left(1, rounds.MOST, took) for took in (1, rounds.BUDGET / 3, rounds.BUDGET / 2, rounds.BUDGET, 99)]
    assert left == [rounds.MOST - 1, 2, 1, 1, 0]
    assert rounds._left(2, rounds.MOST, rounds.BUDGET) == 0 and rounds._left(3, 4, 1) == 1


def test_a_visitor_keeps_the_newest_takes_and_lanes_are_found_by_their_id():
    takes = []
    for n in range(session.KEEP + 2):
        takes = session.remember(takes, dataclasses.replace(make_take(), id=f"t{n}"))
    assert [t.id for t in takes] == [f"t{n}" for n in range(2, session.KEEP + 2)]
    assert session.find(takes, "t3.1") is takes[1].lanes[1] and session.find(takes, "t0.0") is None


def test_map_carries_steps_labels_and_words_on_a_time_axis():
    data = plots.attention_payload(make_lane().attention, "mean", "1")
    values = np.frombuffer(base64.b64decode(data["map"]), np.uint8).reshape(data["steps"], data["text"])
    assert values.shape == (12, 10) and values.max() == 255
    assert [int(row.argmax()) for row in values] == [i * 10 // 12 for i in range(12)]
    assert data["labels"] == list("abcdefghij") and data["words"] == [[0, 1, "ab"], [3, 9, "de"]]
    assert data["start"][3] == pytest.approx(0.24) and data["end"][3] == pytest.approx(0.32)


def test_wide_maps_are_joined_without_losing_time():
    side = make_lane(frames=4 * 2 * plots.COLUMNS)
    data = plots.attention_payload(side.attention, "mean", "mean")
    assert data["steps"] == plots.COLUMNS and data["start"][0] == 0
    assert data["end"][-1] == pytest.approx(side.seconds) and data["end"][:-1] == data["start"][1:]


def test_layers_and_heads_can_be_told_apart():
    attention = make_lane().attention
    attention.weights[1, 2] = 0
    attention.weights[1, 2, :, 4] = 1
    assert plots.pick(attention, "1", "2").argmax(1).tolist() == [4] * 12
    assert plots.pick(attention, "0", "2").argmax(1).tolist() != [4] * 12


def test_switching_lanes_lands_on_the_same_letter():
    """Through the place in the text, as the browser does it."""
    slow, fast = (np.array(plots.track(make_lane(frames=n))) for n in (100, 50))
    assert (np.diff(slow, axis=0) > 0).all()  # both rise: each can be looked up by the other
    place = np.interp(1.0, slow[:, 0], slow[:, 1])
    assert np.interp(place, fast[:, 1], fast[:, 0]) == pytest.approx(0.5, abs=0.08)
    assert plots.track(make_lane(attention=False)) == []


def test_words_that_attention_never_came_to_are_named():
    whole = make_lane().attention
    assert reading.unread(whole) == []
    cut = whole.weights.copy()
    cut[:, :, :, 3:] = 0  # the second word is never looked at
    cut[:, :, 4:, 1] = 1
    missing = dataclasses.replace(whole, weights=cut)
    assert reading.unread(missing) == [1]
    maps = [plots.lane_map(dataclasses.replace(make_lane(), attention=missing, stopped=s)) for s in (False, True)]
    assert [m["unread"] for m in maps] == [[1], []]  # who stops a run wants it shorter
    assert reading.unread(dataclasses.replace(whole, weights=cut, words=())) == []


def test_spectrogram_shows_a_tone_where_it_is():
    rate = 16000
    t = np.arange(rate) / rate
    picture = plots.spectrogram((8000 * np.sin(2 * np.pi * 2000 * t)).astype(np.int16), rate)
    assert picture.dtype == np.uint8 and picture.shape[0] == plots.BANDS and picture.shape[1] <= plots.COLUMNS
    row = plots.BANDS - 1 - int(picture[:, picture.shape[1] // 2].argmax())
    mel = 2595 * np.log10(1 + 2000 / 700) / (2595 * np.log10(1 + 8000 / 700)) * (plots.BANDS + 1) - 1
    assert abs(row - mel) <= 1


def test_a_lane_says_what_made_it_and_what_went_wrong():
    lane = make_lane(notes=("The speech was cut short: it repeated itself.",), truncated=True)
    shown = plots.lane_payload(lane, "t.1", "t")
    assert shown["made"]["text"] == "Some <b>text</b>" and shown["made"]["seed"] == 7
    assert shown["made"]["voice"] == "Voice A" and shown["dials"] == "Patch size 4 tokens"
    assert "Slow & Steady, 2 cores, float32" in shown["conditions"] and "checkpoint abc" in shown["conditions"]
    assert shown["warnings"] == ["The speech was cut short: it repeated itself."]
    assert session.describe(lane)["notes"] == shown["warnings"]
    assert "Stopped" in words.warnings(make_lane(stopped=True))[0] and words.warnings(make_lane()) == []
    assert words.warnings(make_lane(truncated=True)) == ["Cut at 1.0 s: the rest of the text was not spoken."]
    cold = make_lane(made=dataclasses.replace(lane.made, conditions={"cold": True}))
    assert any("first run" in fact for fact in words.conditions(cold, recorded=False))
    json.dumps(shown)  # plain values alone


def test_own_plots_follow_from_what_a_lane_contains():
    lane = make_lane()
    assert [p["title"] for p in plots.own_plots(lane)] == ["Frames emitted by one pass", "Shares"]
    for i, step in enumerate(lane.steps):
        step.update(proposed=4, accepted=4 if i < 6 else 0)
    line = next(p for p in plots.own_plots(lane) if p["kind"] == "line")
    shares = [y for _, y in line["series"][0]["points"]]
    assert shares[0] == 1 and shares[-1] < 0.3 and len(shares) == len(lane.steps)


def test_measured_settings_become_one_picture():
    points = [
        charts.summary.Point("baseline", 1.0, 10.0, 20),
        charts.summary.Point("ssd tolerance=0.4 draft_length=3", 0.75, 11.0, 20),
    ]
    plot = charts.tradeoff(points)
    assert plot["points"] == [
        [1.0, 0.1, "Token by token", True, 0, True],
        [0.75, 0.11, "Draft and verify, Tolerance 0.4", False, colour("ssd"), False],
    ]
    assert "20 texts" in plot["layout"]["title"]["subtitle"]["text"]
    assert charts.tradeoff(points[:1]) is None


def test_charts_say_which_way_is_better():
    assert charts.SCRIPT.is_file()
    for name, made in charts.charts().items():
        assert "lower is better" in made["title"]["subtitle"]["text"] or name in ("bars", "line")


def test_blind_gains_make_lanes_equally_loud_without_clipping():
    quiet, loud = (tone() // 8).astype(np.int16), tone()
    a, b = (blind.gain(x, 16000) for x in (quiet, loud))
    levels = [blind.level_db((x * g).astype(np.int16), 16000) for x, g in ((quiet, a), (loud, b))]
    assert levels[0] == pytest.approx(levels[1], abs=0.2)
    assert max(np.abs(quiet * a).max(), np.abs(loud * b).max()) < 32768
    assert blind.gain(np.zeros(0, np.int16), 16000) == 1.0


@dataclasses.dataclass(frozen=True)
class Every(Options):
    whole: int = dial(3, "Whole", "A whole number.", min=1, max=9, step=1)
    part: float = dial(0.5, "Part", "A fraction.", min=0.0, max=1.0, step=0.1)
    pick: str = dial("a", "Pick", "One of two.", choices=("a", "b"))
    flag: bool = dial(True, "Flag", "On or off.")
    free: str = dial("x", "Free", "Any text.")


def test_dials_come_from_metadata():
    method = type("Some", (), {"name": "some", "Options": Every})
    dials = [controls.dial(f) for f in controls.fields(method)]
    assert [d["kind"] for d in dials] == ["slider", "slider", "choice", "tick", "text"]
    assert (dials[0]["min"], dials[0]["max"], dials[0]["step"]) == (1, 9, 1)
    assert dials[0]["label"] == "Whole" and dials[0]["help"] == "A whole number."
    made = controls.options(method, {"whole": 4.0, "part": 0.25, "pick": "b", "flag": False, "free": "y"})
    assert made == Every(4, 0.25, "b", False, "y") and isinstance(made.whole, int)
    with pytest.raises(UserError, match="between 1 and 9"):
        controls.options(method, {"whole": 40})


@pytest.mark.parametrize("name", list(METHODS))
def test_every_preset_is_a_setting_the_method_takes(name):
    method = METHODS[name]
    listed = next(m for m in controls.catalogue() if m["name"] == name)
    made = [controls.setting({"method": name, "options": p["options"]}).options for p in listed["presets"]]
    if method.presets:
        assert len(set(made)) == 3
    assert not any("ast" in p["name"].split() or "Fast" in p["name"] for p in listed["presets"])  # speed is measured
    assert bool(listed["picture"]) == (method.picture is not None)
    json.dumps(listed)


FORM = {"text": " Hi. ", "voice": "Voice A", "lanes": [{"method": "tldr", "options": {"patch_size": 8}}], "seed": 3,
        "max_seconds": 9, "temperature": 0.5}  # fmt: skip


def test_a_form_is_checked_whole():
    form = controls.Form.parse(FORM, 5.0)
    assert form.text == "Hi." and form.max_seconds == 5.0 and form.sampling.temperature == 0.5 and not form.consent
    assert form.lanes == (controls.Setting("tldr", METHODS["tldr"].Options(patch_size=8)),)
    twice = controls.Form.parse({**FORM, "lanes": [{"method": "tldr"}, {"method": "tldr"}]}, 5.0)
    assert len(twice.lanes) == 2  # the same method twice
    for bad, word in (
        ({"lanes": [{"method": "nope"}]}, "Unknown method"),
        ({"lanes": [{"method": "tldr"}] * 4}, "At most 3"),
        ({"lanes": [{"method": "tldr", "options": {"patch_size": 99}}]}, "^Patch size must lie"),
        ({"seed": "x"}, "seed"),
        ({"temperature": 9}, "^Temperature must lie"),
        ({"top_k": True}, "^Top k must be"),
        ({"top_k": 0.333}, "^Top k must be a whole number"),
        ({"top_k": float("nan")}, "^Top k must be a whole number"),
    ):
        with pytest.raises(UserError, match=word):
            controls.Form.parse({**FORM, **bad}, 5.0)
    with pytest.raises(UserError):
        controls.Form.parse(None, 5.0)
    with pytest.raises(controls.Misplaced) as wrong:  # told in its place, in the words of its label
        controls.Form.parse(
            {**FORM, "lanes": [{"method": "ssd"}, {"method": "tldr", "options": {"patch_size": 4.5}}]}, 5.0
        )
    assert (wrong.value.field, wrong.value.lane) == ("dial-patch_size", 1)
    said = {"prompt_text": "Mine."}  # belongs to the visitor's own recording
    assert controls.Form.parse({**FORM, **said}, 5.0).prompt_text == ""
    assert controls.Form.parse({**FORM, **said, "voice": ""}, 5.0).prompt_text == "Mine."


def test_address_carries_settings_and_refuses_what_does_not_fit():
    query = [("text", "Hi."), ("lane", "tldr,patch_size:8"), ("lane", "dcar,chunk_range:2+3"), ("seed", "9")]
    found = controls.from_address([*query, ("top_p", "0.5"), ("utm", "x")])
    assert found["text"] == "Hi." and found["seed"] == 9 and found["top_p"] == 0.5 and "utm" not in found
    assert found["lanes"][0] == {"method": "tldr", "options": {"patch_size": 8, "confidence": 0.0}}
    assert found["lanes"][1]["options"]["chunk_range"] == "2,3"
    bad = [("lane", "nope"), ("lane", "tldr,patch_size:99"), ("seed", "x"), ("seed", "-1"), ("top_p", "7")]
    for pair in [*bad, ("max_seconds", "0"), ("lane", "tldr,nothing:1")]:
        with pytest.raises(UserError):
            controls.from_address([pair])


def test_limits_come_from_the_environment():
    assert Limits.from_environment({"TTS_DEMO_MAX_CHARACTERS": "50"}).max_characters == 50
    for value in ("many", "-1", "0"):
        with pytest.raises(UserError, match="TTS_DEMO_MAX_SECONDS"):
            Limits.from_environment({"TTS_DEMO_MAX_SECONDS": value})


def test_voices_are_checked_and_cut(tmp_path):
    limits = Limits(max_prompt_seconds=4.0, max_upload_mb=1)
    kept = voices.Recordings(limits).read(voice_file(tmp_path, 9.0))
    assert kept.cut and kept.seconds <= 4.0 and re.search(r"Kept 3\.\d s of [89]\.\d s, from", voices.summary(kept))
    (tmp_path / "bad.wav").write_bytes(b"not audio at all")
    silent = tmp_path / "silent.wav"
    soundfile.write(silent, np.zeros(32000, np.int16), 16000)
    big = tmp_path / "big.wav"
    soundfile.write(big, np.zeros(700_000, np.int16), 16000)
    for path, word in (
        (tmp_path / "bad.wav", "not audio"),
        (silent, "silent"),
        (voice_file(tmp_path, 0.3), "at least"),
        (big, "too big"),
    ):
        with pytest.raises(UserError, match=word):
            voices.Recordings(limits).read(path)
    assert not voices.example_in(str(silent))


def test_only_one_run_holds_the_device_and_a_visitor_has_one_place():
    gate = Gate(Limits(max_queue=2))
    first, second = gate.join("ann"), gate.join("bob")
    with pytest.raises(UserError, match="previous run"):
        gate.join("ann")
    gate.join("cid")
    with pytest.raises(UserError, match="waiting"):
        gate.join("dan")
    assert first.acquire(0.1) and not second.acquire(0.05)
    gate.stop("bob")
    assert second.stop.is_set() and not first.stop.is_set() and gate.stopping("bob") and not gate.stopping("ann")
    threading.Thread(target=first.leave).start()  # a cancelled generator is closed on another thread
    assert second.acquire(1.0)
    second.leave()
    assert gate.jobs() == 1 and not gate.busy


def test_the_line_is_first_come_first_served_and_says_how_long():
    gate, still_there = Gate(Limits(max_queue=5)), [True]
    handle = Handle(object())
    first = gate.join("ann")
    assert not gate.crowded()
    second, third = gate.join("bob"), gate.join("cid", lambda: still_there[0])
    assert gate.crowded()
    assert list(first.waiting(handle)) == []
    assert not third.acquire(0.01) and gate.before(third) == "2 runs are before yours"
    first.began -= 30  # it has lasted half a minute
    first.leave()
    assert not third.acquire(0.01) and gate.before(third) == "One run is before yours, about 30 s"
    assert gate.join("dan", size=3.0) and gate.wait_seconds() == pytest.approx(30 + 30 + 3 * 30, abs=0.5)
    second.began = time.monotonic() - 10
    assert gate.wait_seconds(1) == pytest.approx(20, abs=0.5)
    second.began -= 100  # takes longer than it should
    assert gate.before(third) == "One run is before yours"
    second.began = None
    still_there.clear()
    still_there.append(False)  # hung up
    with pytest.raises(UserError, match="Stopped"):
        list(third.waiting(handle))
    assert second.acquire(0.01)


def test_shutdown_refuses_newcomers_lets_the_running_job_end_then_stops_it():
    gate = Gate(Limits(shutdown_seconds=1))
    job = gate.join("ann")
    job.acquire(0.1)
    started = time.monotonic()
    drain = threading.Thread(target=gate.drain)
    drain.start()
    time.sleep(0.1)
    with pytest.raises(UserError, match="restarting"):
        gate.join("bob")
    assert not job.stop.is_set()
    assert job.stop.wait(3) and time.monotonic() - started >= 0.9
    job.leave()
    drain.join(3)
    assert not drain.is_alive()


def test_page_opens_while_the_model_loads_or_fails():
    hold = threading.Event()

    def load():
        hold.wait(5)
        raise UserError("No checkpoint here: download it.")

    handle = Handle(load)
    assert handle.state == "loading" and handle.now is None
    hold.set()
    with pytest.raises(UserError, match="download it"):
        handle.get(5)
    assert health(handle, Gate(Limits()))["status"] == "failed"
