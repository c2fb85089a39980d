"""The parts of the page that need no browser: dials, addresses, history, pictures' data, limits, the lock."""

from __future__ import annotations

import base64
import dataclasses
import json
import threading
import time
import zipfile

import gradio as gr
import numpy as np
import pytest
import soundfile
from toy import tone, voice_file

from tts_demo import audio
from tts_demo.config import UserError
from tts_demo.methods import METHODS
from tts_demo.methods.base import Options, dial
from tts_demo.ui.page import blind, controls, texts, voices
from tts_demo.ui.run import plots, session, tables
from tts_demo.ui.service import Gate, Handle, Limits, health


def make_side(method: str = "tldr", frames: int = 50, size: int = 4, attention: bool = True) -> session.Side:
    """A side whose attention is a clean diagonal: step i looks at text token i * text / steps."""
    steps, letters = frames // size, 10
    weights = np.zeros((2, 3, steps, letters), np.float16)
    for i in range(steps):
        weights[:, :, i, i * letters // steps] = 1
    start = np.arange(steps) * size / 50
    looked = session.Attention(
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
    curve = np.stack([np.linspace(0.1, 1, 5), np.linspace(1, 0.5, 5), np.linspace(10, 100, 5)], 1)
    return session.Side(
        method,
        "Title",
        {"patch_size": size},
        tone(frames / 50),
        16000,
        np.arange(steps)[:, None],
        metrics,
        records,
        curve,
        looked if attention else None,
    )


def make_run(number: int = 1, **rest) -> session.Run:
    facts = {
        "device": "cpu",
        "processor": "Slow & Steady, 2 cores",
        "dtype": "float32",
        "stack": "toy",
        "checkpoint_hash": "abc",
        "cold": False,
        "prompt_seconds": 3.0,
    }
    return session.Run(
        number, "Some <b>text</b>", 7, {"temperature": 0.7}, facts, make_side("baseline", size=1), make_side(), **rest
    )


def test_recorded_run_comes_back_as_it_was(tmp_path):
    run = make_run()
    session.save(run, "Patches", tmp_path / "1-tldr")
    assert session.recorded(tmp_path) == {"Patches": tmp_path / "1-tldr"}
    back = session.load(tmp_path / "1-tldr")
    assert back.recorded == "Patches" and back.text == run.text and back.seed == 7
    for (_, a), (_, b) in zip(run.sides(), back.sides(), strict=True):
        assert (
            (a.audio == b.audio).all() and (a.codes == b.codes).all() and a.metrics == b.metrics and a.steps == b.steps
        )
        assert a.attention.labels == b.attention.labels and (a.attention.weights == b.attention.weights).all()
        assert plots.side_payload(a) == plots.side_payload(b)


def test_broken_recording_is_refused_with_the_command_that_makes_it(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UserError, match="tts_demo record runs"):
        session.load(tmp_path / "x")


def test_export_holds_audio_with_provenance_tokens_trace_and_metrics(tmp_path):
    run = make_run()
    path = session.export(run, tmp_path)
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert sorted(z.namelist()) == sorted(
            f"{s}/{f}"
            for s in ("baseline", "method")
            for f in ("audio.wav", "metrics.json", "trace.json", "tokens_and_attention.npz")
        )
        z.extractall(tmp_path)
    samples, rate = soundfile.read(tmp_path / "method/audio.wav", dtype="int16")
    assert rate == 16000 and (samples == run.method.audio).all()
    says = audio.read_provenance(tmp_path / "method/audio.wav")
    assert (
        says["synthetic"] is True
        and says["method"] == "tldr"
        and says["seed"] == 7
        and says["checkpoint_hash"] == "abc"
    )
    assert json.loads((tmp_path / "method/metrics.json").read_text())["rtf"] == 0.5
    with np.load(tmp_path / "method/tokens_and_attention.npz") as z:
        assert z["weights"].shape == (2, 3, 12, 10) and (z["codes"] == run.method.codes).all()


def test_history_keeps_the_newest_and_finds_a_reusable_baseline():
    history = []
    for n in range(1, session.KEEP + 4):
        history = session.remember(history, make_run(n, key=("text", n % 2)))
    assert len(history) == session.KEEP and history[-1].number == session.KEEP + 3
    shapes = [r.method.attention.weights.shape[:2] for r in history]
    assert shapes[-3:] == [(2, 3)] * 3 and set(shapes[:-3]) == {(1, 1)}
    assert plots.pick(history[0].method.attention) == pytest.approx(plots.pick(make_run().method.attention), abs=1e-3)
    assert session.reusable(history, ("text", 0)).number == session.KEEP + 2
    assert session.reusable(history, ("other",)) is None
    stopped = dataclasses.replace(
        history[-1], baseline=dataclasses.replace(history[-1].baseline, stopped=True), key=("s",)
    )
    assert session.reusable([stopped], ("s",)) is None


def test_map_carries_steps_labels_and_words_on_a_time_axis():
    data = plots.attention_payload(make_side().attention, "mean", "1")
    values = np.frombuffer(base64.b64decode(data["map"]), np.uint8).reshape(data["steps"], data["text"])
    assert values.shape == (12, 10) and values.max() == 255
    assert [int(row.argmax()) for row in values] == [i * 10 // 12 for i in range(12)]
    assert data["labels"] == list("abcdefghij") and data["words"] == [[0, 1, "ab"], [3, 9, "de"]]
    assert data["start"][3] == pytest.approx(0.24) and data["end"][3] == pytest.approx(0.32)


def test_wide_maps_are_joined_without_losing_time():
    side = make_side(frames=4 * 2 * plots.COLUMNS)
    data = plots.attention_payload(side.attention, "mean", "mean")
    assert data["steps"] == plots.COLUMNS and data["start"][0] == 0
    assert data["end"][-1] == pytest.approx(side.seconds) and data["end"][:-1] == data["start"][1:]


def test_layers_and_heads_can_be_told_apart():
    attention = make_side().attention
    attention.weights[1, 2] = 0
    attention.weights[1, 2, :, 4] = 1
    assert plots.pick(attention, "1", "2").argmax(1).tolist() == [4] * 12
    assert plots.pick(attention, "0", "2").argmax(1).tolist() != [4] * 12


def test_switching_sides_lands_on_the_same_letter():
    slow, fast = make_side(frames=100), make_side(frames=50)
    pairs = np.array(plots.warp(slow, fast))
    assert (np.diff(pairs, axis=0) >= 0).all() and pairs[0].tolist() == [0, 0] and pairs[-1].tolist() == [2, 1]
    assert np.interp(1.0, pairs[:, 0], pairs[:, 1]) == pytest.approx(0.5, abs=0.08)
    assert plots.warp(make_side(attention=False), fast) == [[0, 0], [1, 1]]


def test_spectrogram_shows_a_tone_where_it_is():
    rate = 16000
    t = np.arange(rate) / rate
    picture = plots.spectrogram((8000 * np.sin(2 * np.pi * 2000 * t)).astype(np.int16), rate)
    assert picture.dtype == np.uint8 and picture.shape[0] == plots.BANDS and picture.shape[1] <= plots.COLUMNS
    row = plots.BANDS - 1 - int(picture[:, picture.shape[1] // 2].argmax())
    mel = 2595 * np.log10(1 + 2000 / 700) / (2595 * np.log10(1 + 8000 / 700)) * (plots.BANDS + 1) - 1
    assert abs(row - mel) <= 1


def test_table_and_verdict_say_which_way_is_better():
    run = make_run()
    run.method.metrics.update(lm_rtf=0.2, rtf=0.25, kv_bytes_peak=500, frames_per_step=2.0)
    run.baseline.metrics.update(frames_per_step=1.0)
    words, table = tables.verdict(run), tables.table(run)
    assert "2.00× faster" in words and "25%" in words
    assert "▼ ×0.50 better" in table and "▲ ×2.00 better" in table and "checkpoint abc" in table
    cold = dataclasses.replace(run, conditions={**run.conditions, "cold": True})
    assert "cold" in tables.verdict(cold) and "cold" in tables.table(cold)
    assert "Slow &amp; Steady, 2 cores, float32" in table  # a speed without its machine says nothing
    assert "<b>text</b>" not in tables.history_table([run])


def test_what_a_run_says_about_itself_is_shown_and_recorded(tmp_path):
    side = dataclasses.replace(make_side(), notes=("The speech was cut short: <it repeated itself>.",))
    run = dataclasses.replace(make_run(), method=side, conditions={"notes": ["Kept the first 9 s."]})
    shown = tables.conditions(run)
    assert "Kept the first 9 s." in shown and f"{side.title}: The speech was cut short: &lt;it" in shown
    assert session.describe(run, side)["notes"] == ["Kept the first 9 s.", *side.notes]
    session.save(run, "cut", tmp_path / "cut")
    assert session.load(tmp_path / "cut").method.notes == side.notes


def test_own_plots_follow_from_what_a_run_contains(monkeypatch):
    run = make_run()
    monkeypatch.setattr(plots.summary, "published", list)
    assert [p["title"] for p in plots.own_plots(run)["plots"]] == ["Frames emitted by one pass", "Shares"]
    for i, step in enumerate(run.method.steps):
        step.update(proposed=4, accepted=4 if i < 6 else 0)
    line = next(p for p in plots.own_plots(run)["plots"] if p["kind"] == "line")
    shares = [y for _, y in line["series"][0]["points"]]
    assert shares[0] == 1 and shares[-1] < 0.3 and len(shares) == len(run.method.steps)


def test_measured_settings_become_one_picture():
    points = [plots.summary.Point("baseline", 1.0, 10.0, 20), plots.summary.Point("ssd", 0.75, 11.0, 20)]
    (plot,) = plots.tradeoff(points)
    assert plot["points"] == [[1.0, 0.1, "baseline"], [0.75, 0.11, "ssd"]] and "20 texts" in plot["hint"]
    assert plots.tradeoff(points[:1]) == []


def test_blind_gains_make_both_sides_equally_loud_without_clipping():
    quiet, loud = (tone() // 8).astype(np.int16), tone()
    a, b = blind.matched_gains(quiet, loud, 16000)
    levels = [blind.level_db((x * g).astype(np.int16), 16000) for x, g in ((quiet, a), (loud, b))]
    assert levels[0] == pytest.approx(levels[1], abs=0.2)
    assert max(np.abs(quiet * a).max(), np.abs(loud * b).max()) < 32768
    assert blind.matched_gains(np.zeros(0, np.int16), loud, 16000)[0] == 1.0


@dataclasses.dataclass(frozen=True)
class Every(Options):
    whole: int = dial(3, "Whole", "A whole number.", min=1, max=9, step=1)
    part: float = dial(0.5, "Part", "A fraction.", min=0.0, max=1.0, step=0.1)
    pick: str = dial("a", "Pick", "One of two.", choices=("a", "b"))
    flag: bool = dial(True, "Flag", "On or off.")
    free: str = dial("x", "Free", "Any text.")


def test_dials_come_from_metadata():
    method = type("Some", (), {"name": "some", "Options": Every})
    kinds = [controls.dial(f) for f in controls.fields(method)]
    assert [type(k) for k in kinds] == [gr.Slider, gr.Slider, gr.Radio, gr.Checkbox, gr.Textbox]
    assert (
        kinds[0].minimum == 1
        and kinds[0].maximum == 9
        and kinds[0].label == "Whole"
        and kinds[0].info == "A whole number."
    )
    made = controls.options(method, [4.0, 0.25, "b", False, "y"])
    assert made == Every(4, 0.25, "b", False, "y") and isinstance(made.whole, int)
    with pytest.raises(UserError, match="between 1 and 9"):
        controls.options(method, [40, 0.25, "b", False, "y"])


@pytest.mark.parametrize("name", list(METHODS))
def test_every_preset_is_a_setting_the_method_takes(name):
    method = METHODS[name]
    made = [controls.options(method, controls.preset(method, word)) for word in controls.PRESET_NAMES]
    if method.presets:
        assert len(set(made)) == 3 and made[0] != made[2]
    assert texts.card(method).count("<svg") == (method.picture is not None)


def test_address_carries_settings_and_refuses_what_does_not_fit():
    name = next(n for n in METHODS if controls.fields(METHODS[n]))
    method = METHODS[name]
    f = controls.fields(method)[0]
    found = controls.from_address(
        {"text": "Hi.", "method": name, f.name: str(f.default), "seed": "9", "top_p": "0.5"}, METHODS
    )
    assert (
        found["text"] == "Hi."
        and found["options"] == method.Options()
        and found["seed"] == 9
        and found["sampling"].top_p == 0.5
    )
    for query in ({"method": "nope"}, {"seed": "x"}, {"seed": "-1"}, {"top_p": "7"}, {"max_seconds": "0"}):
        with pytest.raises(UserError):
            controls.from_address(query, METHODS)


def test_limits_come_from_the_environment():
    assert Limits.from_environment({"TTS_DEMO_MAX_CHARACTERS": "50"}).max_characters == 50
    for value in ("many", "-1", "0"):
        with pytest.raises(UserError, match="TTS_DEMO_MAX_SECONDS"):
            Limits.from_environment({"TTS_DEMO_MAX_SECONDS": value})


def test_voices_are_checked_and_cut(tmp_path):
    limits = Limits(max_prompt_seconds=4.0, max_upload_mb=1)
    kept = voices.read(voice_file(tmp_path, 9.0), limits)
    assert kept.cut and kept.seconds <= 4.0 and "s of 9.0 s, from" in voices.words(kept)
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
            voices.read(path, limits)
    assert not voices.is_example(str(silent))


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
    first, second, third = gate.join("ann"), gate.join("bob"), gate.join("cid", lambda: still_there[0])
    assert list(first.waiting(handle)) == []
    assert not third.acquire(0.01) and gate.before(third) == "2 runs are before yours"
    first.began -= 30  # it has lasted half a minute
    first.leave()
    assert not third.acquire(0.01) and gate.before(third) == "One run is before yours, about 30 s"
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
