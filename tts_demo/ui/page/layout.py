"""The page: which components there are, where they stand, and which handler each one calls. No logic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from ...config import Sampling
from ...methods import METHODS
from ..faults import Uploads
from ..run import session, tables
from ..service import Gate, Handle, Limits
from ..zerogpu import zero_gpu
from . import controls, texts, voices
from .handlers import Handlers
from .inputs import Inputs
from .player import BlindTest, Inspector, LiveCharts, OwnPlots, PcmPlayer

QUIET: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
DEFAULT_TEXT = "The quick brown fox jumps over the lazy dog, and then it takes a short nap in the sun."
DEVICE: dict[str, Any] = {"concurrency_id": "device", "concurrency_limit": 1}


def build_app(stack: Any, limits: Limits | None = None) -> gr.Blocks:
    """The whole page on one stack (or on a function that loads it, called in the background, on ZeroGPU here)."""
    from ..api import register

    zero_gpu()
    limits = limits or Limits.from_environment()
    uploads = Uploads(get_upload_folder())
    uploads.check()  # Gradio writes there at once
    handle, gate = Handle(stack, uploads), Gate(limits)
    ui = SimpleNamespace()
    act = Handlers(handle, gate, limits, ui)
    fill = Inputs(handle, limits, ui, act.views, act.ears)
    with gr.Blocks(title=texts.TITLE, analytics_enabled=False, delete_cache=(600, 3600), fill_width=True) as demo:
        ui.history, ui.current = gr.State([], time_to_live=3600), gr.State(None, time_to_live=3600)
        ui.taken = gr.State("")
        ui.clock = gr.Timer(1.0, active=False)  # ticks for a visitor who came while the model loads
        ui.mast = gr.HTML(texts.masthead(texts.facts(handle.now, handle.state)), elem_id="mast")
        with gr.Row(elem_id="desk"):
            with gr.Column(scale=4, min_width=330, elem_id="inputs"):
                _inputs(ui, limits)
            with gr.Column(scale=9, min_width=340, elem_id="stage"):
                _stage(ui)
                with gr.Tabs(elem_id="views"):
                    _views(ui)
        _bind(ui, act, fill, demo)
        register(act)
    demo.queue(max_size=limits.max_queue, default_concurrency_limit=4)
    demo.tts = SimpleNamespace(handle=handle, gate=gate, limits=limits, act=act, fill=fill, uploads=uploads)
    return demo


def _inputs(ui: SimpleNamespace, limits: Limits) -> None:
    known = voices.examples()
    with gr.Group(elem_classes="panel"):
        gr.HTML("<h2><b>1</b> Voice</h2>")
        ui.voice_name = gr.Radio(
            [e.name for e in known],
            value=known[0].name if known else None,
            show_label=False,
            container=False,
            elem_id="voices",
            elem_classes="chips",
            visible=bool(known),
        )
        ui.voice = gr.Audio(
            value=str(known[0].path) if known else None,
            type="filepath",
            sources=["upload", "microphone"],
            label="Voice to copy",
            show_label=False,
            elem_id="voice",
            buttons=[],
            waveform_options=gr.WaveformOptions(show_recording_waveform=True),
        )
        ui.voice_note = gr.HTML(
            "<p class='quiet'>Three to six seconds of clear speech work best.</p>", elem_id="voice-note"
        )
        ui.consent = gr.Checkbox(False, label=texts.CONSENT, visible=not known, elem_id="consent", container=False)
        with gr.Accordion("What the voice says (optional)", open=False, elem_id="transcript", elem_classes="fold"):
            ui.prompt_text = gr.Textbox(
                known[0].text if known else "",
                label="Transcript",
                show_label=False,
                lines=2,
                container=False,
                max_lines=4,
                elem_id="prompt-text",
                max_length=400,
                placeholder="Word for word: it helps if right, harms if wrong",
            )
            ui.suggest = gr.Button("Let a machine write it down", size="sm", elem_id="suggest")
    with gr.Group(elem_classes="panel"):
        gr.HTML("<h2><b>2</b> Text</h2>")
        samples = voices.texts()
        ui.text = gr.Textbox(
            samples[0] if samples else DEFAULT_TEXT,
            show_label=False,
            container=False,
            lines=3,
            max_lines=10,
            placeholder="Type what should be said",
            elem_id="text",
            label="Text to speak",
            max_length=limits.max_characters,
        )
        ui.count = gr.HTML("", elem_id="count")
        ui.samples = gr.Dropdown(
            [(t if len(t) < 64 else t[:62] + "…", t) for t in samples],
            value=None,
            elem_id="samples",
            visible=bool(samples),
            label="Or take an example",
        )
    with gr.Group(elem_classes="panel"):
        gr.HTML("<h2><b>3</b> Method</h2>")
        others = [n for n in METHODS if n != "baseline"]
        first = others[0] if others else "baseline"
        ui.method = gr.Radio(
            [(METHODS[n].title, n) for n in [*others, "baseline"]],
            value=first,
            show_label=False,
            container=False,
            elem_id="method",
            elem_classes="chips",
            label="Method",
        )
        ui.card = gr.HTML(texts.card(METHODS[first]), elem_id="card")
        ui.preset = gr.Radio(
            list(controls.PRESET_NAMES),
            value="Balanced",
            label="Preset",
            elem_classes="chips small",
            elem_id="preset",
            visible=bool(METHODS[first].presets),
        )
        ui.groups, ui.dials = {}, {}
        for name, method in METHODS.items():
            with gr.Column(visible=name == first, elem_classes="dials") as ui.groups[name]:
                ui.dials[name] = [controls.dial(f) for f in controls.fields(method)]
        with gr.Accordion("Seed and sampling", open=False, elem_id="more", elem_classes="fold"):
            _sampling(ui, limits)


def _sampling(ui: SimpleNamespace, limits: Limits) -> None:
    s = Sampling()
    with gr.Row():
        ui.seed = gr.Number(1, label="Seed", precision=0, minimum=0, maximum=2**31 - 1, elem_id="seed", min_width=120)
        ui.dice = gr.Button("🎲 New seed", min_width=110, elem_id="dice", scale=0)
    ui.both = gr.Checkbox(
        True,
        label="Speak the baseline too",
        elem_id="both",
        info="Off: a baseline from an earlier run is shown if everything it depends on is the same.",
    )
    ui.attention = gr.Checkbox(
        True,
        label="Capture attention",
        elem_id="attention",
        info="A second, untimed pass: the numbers stay the same, the wait is longer.",
    )
    ui.max_seconds = gr.Slider(
        min(2, limits.max_seconds / 2),
        limits.max_seconds,
        value=min(20, limits.max_seconds),
        step=1,
        label="Longest speech (s)",
        elem_id="max-seconds",
    )
    ui.temperature = gr.Slider(
        0, 2, value=s.temperature, step=0.05, label="Temperature", info="0 always takes the likeliest token."
    )
    ui.top_k = gr.Slider(0, 200, value=s.top_k, step=1, label="Top k", info="0 is off.")
    ui.top_p = gr.Slider(0.05, 1, value=s.top_p, step=0.05, label="Top p")
    ui.repeat_window = gr.Slider(
        0,
        100,
        value=s.repeat_window,
        step=1,
        label="Repetition window (tokens)",
        info="A token that fills too much of this window is drawn again. 0 is off.",
    )
    ui.repeat_ratio = gr.Slider(0.05, 1, value=s.repeat_ratio, step=0.05, label="Repetition share")


def _stage(ui: SimpleNamespace) -> None:
    with gr.Row(elem_id="go"):
        ui.run = gr.Button("Speak both", variant="primary", scale=0, min_width=170, elem_id="run")
        ui.stop = gr.Button("Stop", interactive=False, scale=0, min_width=84, elem_id="stop", variant="stop")
        ui.status = gr.HTML(texts.status("Ready. Choose a voice, then press Speak both."), elem_id="status")
        ui.link = gr.Button("Copy link", scale=0, min_width=104, elem_id="link")
    with gr.Row(elem_id="players"):
        ui.players, ui.audio = {}, {}
        for name in ("baseline", "method"):
            with gr.Column(min_width=300, elem_classes=f"side {name}"):
                ui.players[name] = PcmPlayer(side=name, elem_id=f"player-{name}")
    ui.charts = LiveCharts(elem_id="charts")
    with gr.Accordion("Exact audio files", open=False, elem_id="files"):
        with gr.Row():
            for name, label in (("baseline", "Baseline, 16-bit WAV"), ("method", "Method, 16-bit WAV")):
                with gr.Column(min_width=260):
                    ui.audio[name] = gr.Audio(
                        label=label, interactive=False, visible=False, buttons=["download"], elem_id=f"audio-{name}"
                    )


def _views(ui: SimpleNamespace) -> None:
    stems = session.recorded(voices.ASSETS / "runs")
    with gr.Tab("Inside", id="inside"):
        with gr.Row(elem_id="heads"):
            ui.words = gr.HTML("", elem_id="words")
            ui.layer = gr.Dropdown(
                [("mean of all layers", "mean")],
                value="mean",
                label="Layer",
                min_width=170,
                scale=0,
                elem_id="layer",
                visible=False,
            )
            ui.head = gr.Dropdown(
                [("mean of all heads", "mean")],
                value="mean",
                label="Head",
                min_width=170,
                scale=0,
                elem_id="head",
                visible=False,
            )
        ui.inspector = Inspector(elem_id="inspector")
    with gr.Tab("Numbers", id="numbers"):
        ui.table = gr.HTML(tables.table(None), elem_id="table")
        ui.listen = gr.Button("Let the recognisers listen", elem_id="listen")
        ui.own = OwnPlots(elem_id="own")
    with gr.Tab("Blind test", id="blind-tab"):
        ui.blind = BlindTest(elem_id="blind")
    with gr.Tab("Runs", id="runs-tab"):
        with gr.Row():
            ui.recorded = gr.Dropdown(
                [(t, str(s)) for t, s in stems.items()],
                value=None,
                label="Recorded runs",
                info=texts.RECORDED,
                elem_id="recorded",
                visible=bool(stems),
            )
        ui.runs = gr.HTML(tables.history_table([]), elem_id="runs")
        with gr.Row(elem_id="two"):
            ui.left = gr.Dropdown([], label="Left", elem_id="left")
            ui.right = gr.Dropdown([], label="Right", elem_id="right")
            ui.two = gr.Button("Show side by side", elem_id="show-two", scale=0, min_width=160)
            ui.zip = gr.Button("Export shown run", elem_id="zip", scale=0, min_width=160)
        ui.file = gr.DownloadButton("Save the zip", visible="hidden", elem_id="zip-file")
    with gr.Tab("How it works", id="about"):
        gr.HTML(texts.about(METHODS), elem_id="about")


def _bind(ui: SimpleNamespace, act: Handlers, fill: Inputs, demo: gr.Blocks) -> None:
    every_dial = [d for row in ui.dials.values() for d in row]
    settings = [
        ui.text,
        ui.voice_name,
        ui.method,
        ui.seed,
        ui.max_seconds,
        ui.temperature,
        ui.top_k,
        ui.top_p,
        ui.repeat_window,
        ui.repeat_ratio,
        *every_dial,
    ]
    inputs = [
        ui.voice,
        ui.prompt_text,
        ui.consent,
        ui.text,
        ui.method,
        ui.both,
        ui.attention,
        ui.seed,
        ui.max_seconds,
        ui.temperature,
        ui.top_k,
        ui.top_p,
        ui.repeat_window,
        ui.repeat_ratio,
        *every_dial,
    ]
    shown = [
        ui.inspector,
        ui.own,
        ui.table,
        ui.words,
        ui.current,
        ui.blind,
        ui.charts,
        *ui.audio.values(),
        *ui.players.values(),
        ui.layer,
        ui.head,
    ]
    listed = [ui.left, ui.right, ui.runs]
    ui.run.click(None, js="() => { TTSD.deck.arm(); }", **QUIET)
    ui.run.click(
        act.speak,
        [ui.history, *inputs],
        [*shown, *listed, ui.history, ui.status, ui.mast, ui.stop, ui.seed],
        show_progress="minimal",
        show_progress_on=ui.status,
        api_visibility="private",
        **DEVICE,
    )
    ui.stop.click(None, js="() => { TTSD.deck.halt(); }", **QUIET)
    ui.stop.click(act.stop, None, ui.status, **QUIET)
    ui.dice.click(None, None, ui.seed, js="() => Math.floor(Math.random() * 2147483647)", **QUIET)
    names = [[name, [f.name for f in controls.fields(m)]] for name, m in METHODS.items()]
    ui.link.click(None, settings, None, js=f"(...a) => {{ TTSD.link({names!r}, a); }}", **QUIET)
    ui.method.change(pick_method, ui.method, [ui.card, ui.preset, ui.run, *ui.groups.values()], **QUIET)
    ui.preset.input(pick_preset, [ui.method, ui.preset], every_dial, **QUIET)
    heard = [ui.voice, ui.prompt_text, ui.consent, ui.voice_note, ui.voice_name, ui.taken]
    ui.voice_name.input(fill.pick_voice, ui.voice_name, heard, **QUIET)
    ui.voice.change(fill.take_voice, [ui.voice, ui.taken], heard, **QUIET)  # upload, recording, trimming
    ui.voice.clear(fill.drop_voice, None, heard, **QUIET)
    ui.suggest.click(
        fill.suggest,
        ui.voice,
        [ui.prompt_text, ui.voice_note],
        api_visibility="private",
        show_progress_on=ui.prompt_text,
        **DEVICE,
    )
    ui.listen.click(
        act.listen,
        [ui.current, ui.voice],
        [ui.current, ui.table],
        api_visibility="private",
        show_progress_on=ui.table,
        **DEVICE,
    )
    ui.samples.input(None, ui.samples, ui.text, js="(t) => t", **QUIET)
    ui.text.change(fill.preview, ui.text, ui.count, trigger_mode="always_last", **QUIET)
    gr.on(
        [ui.layer.input, ui.head.input],
        act.views.attention_view,
        [ui.current, ui.layer, ui.head],
        ui.inspector,
        **QUIET,
    )
    ui.two.click(act.views.compare_two, [ui.history, ui.left, ui.right], [*shown, ui.status], **QUIET)
    ui.recorded.input(act.views.open_recorded, ui.recorded, [*shown, ui.status], **QUIET)
    ui.zip.click(act.views.export, ui.current, ui.file, **QUIET).success(
        None, js="() => TTSD.press('zip-file')", **QUIET
    )
    here = demo.load(
        fill.arrive, None, [ui.mast, ui.clock, *settings, ui.voice, ui.prompt_text, *shown, ui.status], **QUIET
    )
    here.then(fill.preview, ui.text, ui.count, **QUIET)  # after it: the count is of the text that a link brought
    ui.clock.tick(fill.loaded, None, [ui.mast, ui.clock, ui.status], **QUIET)
    demo.unload(act.leave)


def pick_method(name: str) -> list[Any]:
    """Card, presets and dials of the method just chosen."""
    word = "Speak" if name == "baseline" else "Speak both"
    return [
        texts.card(METHODS[name]),
        gr.Radio(value="Balanced", visible=bool(METHODS[name].presets)),
        gr.Button(word),
        *(gr.Column(visible=n == name) for n in METHODS),
    ]


def pick_preset(name: str, chosen: str) -> list[Any]:
    """Every dial of the page; only the chosen method's change."""
    values: list[Any] = []
    for n, method in METHODS.items():
        values += controls.preset(method, chosen) if n == name else [gr.skip()] * len(controls.fields(method))
    return values if len(values) != 1 else values[0]
