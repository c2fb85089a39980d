"""Finished runs on the page: one run, two picked from the history, a recorded one, the zip. Starts no synthesis."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache

from ...config import UserError
from ..run import plots, tables
from ..run.session import Run, Side, export, load, provenance, wav_bytes
from . import blind, texts
from .player import message, pcm


class Views:
    """Bound to the page's components."""

    def __init__(self, ui: SimpleNamespace) -> None:
        self.ui = ui

    def show(self, run: Run | None, players: bool = False) -> dict[Any, Any]:
        """Every view of one run. ``players``: also load its sound into the players (they have it after a live run)."""
        ui = self.ui
        updates: dict[Any, Any] = {
            ui.inspector: plots.inspector(run),
            ui.own: plots.own_plots(run),
            ui.table: tables.table(run),
            ui.words: tables.alignment_words(run),
            ui.current: run,
            ui.blind: blind_payload(run),
            ui.charts: plots.curves(run),
        }
        for name in ("baseline", "method"):
            side = getattr(run, name) if run else None
            updates[ui.audio[name]] = gr.Audio(value=self.wav(run, side) if side else None, visible=bool(side))
            if players:
                note = run.recorded and "recorded" or f"run {run.number}" if run else ""
                updates[ui.players[name]] = load_message(side, note, note) if side else message("clear", "shown", 0)
        side = run and (run.method or run.baseline)
        layers, heads = side.attention.weights.shape[:2] if side and side.attention else (0, 0)
        updates[ui.layer] = gr.Dropdown(
            choices=[("clearest heads", plots.CLEAR), *choices("layer", layers)], value=plots.CLEAR, visible=layers > 1
        )
        updates[ui.head] = gr.Dropdown(choices=choices("head", heads), value="mean", visible=heads > 1)
        return updates

    def wav(self, run: Run, side: Side) -> str:
        data = wav_bytes(side.audio, side.sample_rate, provenance(run, side))
        return save_bytes_to_cache(data, f"{side.method}-seed{run.seed}.wav", self.ui.audio["method"].GRADIO_CACHE)

    def listing(self, history: list[Run]) -> dict[Any, Any]:
        """The history's two pickers and its table."""
        ui = self.ui
        labels = [(r.label, i) for i, r in enumerate(history)]
        last = len(history) - 1 if history else None
        return {
            ui.left: gr.Dropdown(choices=labels, value=last),
            ui.right: gr.Dropdown(choices=labels, value=last),
            ui.runs: tables.history_table(history),
        }

    def attention_view(self, run: Run | None, layer: str, head: str) -> dict[str, Any]:
        return plots.inspector(run, layer, head)

    def compare_two(self, history: list[Run], left: int | None, right: int | None) -> dict[Any, Any]:
        """Any two runs of the history side by side: the left run's method against the right run's."""
        if left is None or right is None or not history:
            raise gr.Error("Pick two runs first.", print_exception=False, title="Not yet")
        a, b = history[left], history[right]
        first = a.method or a.baseline if a is not b else a.baseline or a.method
        run = dataclasses.replace(b, baseline=first, method=b.method or b.baseline, reused=0)
        words = f"Left: {tables.escape(a.label)}. Right: {tables.escape(b.label)}."
        return {**self.show(run, players=True), self.ui.status: texts.status(words, "done")}

    def open_recorded(self, stem: str | None) -> dict[Any, Any]:
        if not stem:
            return {self.ui.status: gr.skip()}
        try:
            run = load(Path(stem))
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return {**self.show(run, players=True), self.ui.status: texts.status(tables.verdict(run), "done")}

    def export(self, run: Run | None) -> str:
        """The shown run as one zip."""
        if run is None:
            raise gr.Error("Nothing has been spoken yet.", print_exception=False, title="Not yet")
        with tempfile.TemporaryDirectory() as folder:
            path = export(run, Path(folder))
            return save_bytes_to_cache(path.read_bytes(), path.name, self.ui.file.GRADIO_CACHE)


def choices(word: str, n: int) -> list[tuple[str, str]]:
    return [(f"mean of all {word}s", "mean"), *((f"{word} {i + 1}", str(i)) for i in range(n))]


def figures(snapshot: Any) -> dict[str, Any]:
    """The few numbers a player card shows."""
    if snapshot is None:
        return {}
    get = snapshot.get if isinstance(snapshot, dict) else lambda k: getattr(snapshot, k, None)
    names = ("rtf", "lm_rtf", "ttfa_seconds", "kv_bytes_total", "frames_per_step", "acceptance", "audio_seconds")
    return {k: get(k) for k in names}


def load_message(side: Side, run: str, note: str = "") -> dict[str, Any]:
    """A finished side for a player."""
    return message(
        "load",
        run,
        0,
        sr=side.sample_rate,
        pcm=pcm(side.audio),
        title=side.title,
        note=note,
        stats=figures(side.metrics),
    )


def blind_payload(run: Run | None) -> dict[str, Any]:
    """What the blind test needs: gains for equal loudness and names for the reveal. The browser has the sound."""
    if not (run and run.baseline and run.method) or min(run.baseline.seconds, run.method.seconds) < 0.5:
        return {"ready": False}
    gains = blind.matched_gains(run.baseline.audio, run.method.audio, run.baseline.sample_rate)
    facts = {
        name: {"title": s.title, "rtf": s.metrics.get("rtf"), "kv": s.metrics.get("kv_bytes_peak"), "gain": g}
        for (name, s), g in zip(run.sides(), gains)
    }
    return {"ready": True, "id": f"{run.number}{run.recorded}", "text": run.text, "sides": facts}
