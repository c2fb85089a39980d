"""The page: which components there are, where they stand, and which handler each one calls. No logic."""

import os
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.utils import get_upload_folder

from ... import voices as bundle
from ...measure import summary
from .. import voices
from ..api import Page, register
from ..limits import Limits
from ..line import Desk, Gate
from ..presence import Presence
from ..run import charts, published
from ..runs import Runner
from ..service import Handle, Warmth
from ..uploads import Uploads
from ..zerogpu import zero_gpu
from . import controls, texts, views
from .handlers import Handlers
from .inputs import Inputs
from .widgets import drawing, from_page, widget

QUIET: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# Runs of the page stand in the gate's own line, which tells how many are before; Gradio's queue tells a page nothing.
LINE: dict[str, Any] = {"concurrency_id": "line", "concurrency_limit": None, "api_visibility": "private"}
FORM = from_page("[...a.slice(0, -1), page.form.value()]")  # the last input is what the form holds
IDS = from_page("[...a.slice(0, -1), page.board.ids()]")  # the last input is the list of lanes on the board


def build_app(stack: Any, limits: Limits | None = None) -> gr.Blocks:
    """The whole page on one stack (or on a function that loads it, called in the background, on ZeroGPU here)."""
    zero_gpu()
    os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "50")  # Gradio makes a table of all of them after every event
    limits = limits or Limits.from_environment()
    gr.set_static_paths([bundle.ASSETS / "prompts"])
    warm = Warmth(next((e.path for e in voices.examples()), None))
    uploads = Uploads(get_upload_folder(), limits)
    uploads.check()  # Gradio writes there at once
    handle, gate = Handle(warm.loader(stack) if callable(stack) else stack, uploads), Gate(limits)
    ui = SimpleNamespace()
    presence = Presence()
    runner, desk = Runner(handle, gate, limits, presence), Desk(limits, presence)
    act = Handlers(runner, desk, ui)
    fill = Inputs(handle, limits, ui, act.views, warm)
    with Page(title=texts.TITLE, analytics_enabled=False, delete_cache=(600, 3600), fill_width=True) as demo:
        ui.takes = gr.State([], time_to_live=3600)
        ui.after = gr.State(None, time_to_live=3600)  # what is left to do when a run has been heard
        ui.clock = gr.Timer(1.0, active=False)  # ticks for a visitor who came while the model loads
        ui.mast = gr.HTML(texts.masthead(texts.facts(handle.now, handle.state)), elem_id="mast")
        ui.tour = widget("tour", [act.views.recorded_lanes])
        with gr.Row(elem_id="desk"):
            with gr.Column(scale=4, min_width=330, elem_id="inputs"):
                ui.form = widget("form", [fill.preview, fill.take_voice, fill.transcribe], fill.catalogue())
            with gr.Column(scale=9, min_width=340, elem_id="stage"):
                _stage(ui)
        ui.json = gr.JSON(visible=False)  # stands for what the browser's scripts send along
        _bind(ui, act, fill, demo)
        register(runner)
    demo.queue(max_size=200, default_concurrency_limit=None)  # who waits does so in the lines of line.py
    parts = {"handle": handle, "gate": gate, "limits": limits, "uploads": uploads}
    demo.tts = SimpleNamespace(**parts, runner=runner, act=act, fill=fill)
    return demo


def _stage(ui: SimpleNamespace) -> None:
    with gr.Row(elem_id="go"):
        ui.run = gr.Button("Speak", variant="primary", scale=0, min_width=130, elem_id="run")
        ui.stop = gr.Button("Stop", interactive=False, scale=0, min_width=76, elem_id="stop", variant="stop")
        ui.status = gr.HTML(texts.status("Ready. Choose a voice, then press Speak."), elem_id="status")
        ui.link = gr.Button("Copy link", scale=0, min_width=100, elem_id="link")
    ui.board = widget("board")
    with gr.Row(elem_id="actions"):
        ui.listen = gr.Button("Check words and voice", elem_id="listen", scale=0, min_width=190)
        ui.zip = gr.Button("Save all results (ZIP)", elem_id="zip", scale=0, min_width=170)
        ui.file = gr.DownloadButton("Save the zip", visible="hidden", elem_id="zip-file")
    ui.more = widget("export")
    with gr.Tabs(elem_id="views"):
        with gr.Tab("Figures", id="figures-tab"):
            measured = {"tradeoff": charts.tradeoff(summary.published())}
            if preferred := published.preference():
                measured["heads"] = charts.heads(*preferred)
            ui.figures = widget("figures", value={**measured, **drawing()})
        with gr.Tab("Blind test", id="blind-tab"):
            ui.blind = widget("blind")
        with gr.Tab("Earlier runs", id="runs-tab"):
            ui.recorded = gr.Radio(
                [(title, stem.name) for title, stem in views.recorded().items()],
                value=None,
                label="Recorded runs",
                info=texts.RECORDED,
                elem_id="recorded",
                elem_classes="chips",
                visible=bool(views.recorded()),
            )
            ui.earlier = widget("earlier")
        with gr.Tab("How it works", id="about"):
            ui.how = widget("how", value=texts.about(controls.catalogue()))


def _bind(ui: SimpleNamespace, act: Handlers, fill: Inputs, demo: gr.Blocks) -> None:
    shown = [ui.board, ui.takes, ui.status]
    pressed = [*shown, ui.after, ui.mast, ui.run, ui.stop]
    speaking = ui.run.click(act.speak, [ui.takes, ui.json], pressed, js=FORM, show_progress="hidden", **LINE)
    speaking.then(act.buttons, None, [ui.run, ui.stop], **QUIET)  # however it ended
    speaking.success(act.after, [ui.takes, ui.after], [ui.board, ui.takes], show_progress="hidden", **LINE)
    ui.stop.click(act.stop, None, None, **QUIET)
    ui.board.select(act.views.attention_view, ui.takes, ui.board, **QUIET)
    opened = ui.recorded.input(act.views.open_recorded, ui.recorded, [ui.board, ui.status], preprocess=False, **QUIET)
    opened.then(None, None, ui.recorded, js="() => null", **QUIET)  # so that the same one can be opened again
    ui.listen.click(
        act.views.listen,
        [ui.takes, ui.json, ui.json],
        [ui.board, ui.status],
        js=from_page("[a[0], page.board.ids(), page.form.value()]"),
        show_progress_on=ui.listen,
        **LINE,
    )
    ui.zip.click(act.views.export, [ui.takes, ui.json], [ui.file, ui.status], js=IDS, **QUIET).success(
        None, ui.file, None, js=from_page("a[0] && page.clickOn('zip-file')"), **QUIET
    )
    demo.load(fill.arrive, None, [ui.mast, ui.clock, ui.form, *shown], **QUIET)
    ui.clock.tick(fill.loaded, None, [ui.mast, ui.clock, ui.status], **QUIET)
    demo.unload(act.stop)
