"""Finished lanes on the page: another layer of a map, the recognisers' opinion, a recorded take, the zip. Starts no
synthesis."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache

from ...config import UserError
from .. import voices
from ..limits import Limits
from ..run import plots, session
from ..run.session import Lane, Take, export, find, load
from ..run.transcriber import Transcriber
from . import texts
from .widgets import message

GONE = "The server no longer has these lanes: what the browser keeps can be heard and saved one by one; speak again."


class Views:
    """Bound to the page's components."""

    def __init__(self, ui: SimpleNamespace, transcriber: Transcriber, limits: Limits) -> None:
        self.ui, self.transcriber, self.limits = ui, transcriber, limits

    def attention_view(self, takes: list[Take], event: gr.EventData) -> dict[Any, Any]:
        """Maps of another layer or head, for the lanes that are still here."""
        data, messages = event._data or {}, []
        for lane_id, lane in kept(takes, data.get("ids")):
            shown = plots.lane_map(lane, str(data.get("layer", plots.CLEAR)), str(data.get("head", "mean")))
            if shown:
                messages.append({"kind": "map", "id": lane_id, "attention": shown})
        return {self.ui.board: message({"messages": messages})}

    def open_recorded(self, stem: str | None, first: bool = False) -> dict[Any, Any]:
        """A take that ships with the page, laid on the board. ``first``: on arrival, when what the browser keeps goes
        before it."""
        known = recorded()
        if stem not in known.values():
            return {self.ui.status: gr.skip()}
        try:
            take = load(voices.ASSETS / "runs" / stem)
        except UserError as error:
            return {self.ui.status: texts.status(texts.escape(str(error)), "error")}
        # the time tells an opening from the one before; the board says in the status line what it shows
        shown = {"kind": "show", "lanes": plots.payload(take), "first": first}
        return {self.ui.board: message({"messages": [shown], "at": time.monotonic()}), self.ui.takes: [take]}

    def listen(self, takes: list[Take], ids: Any, form: Any) -> Iterator[dict[Any, Any]]:
        """Let the recognisers and the voice judge listen to the lanes on the board, each beside its own voice."""
        found = kept(takes, ids)
        if not found:
            yield {self.ui.status: texts.status(GONE, "error")}
            return
        count = f"{len(found)} lane{'s' * (len(found) > 1)}"
        yield {self.ui.status: texts.status(f"Listening to {count}", "busy")}
        known, heard = voices.at_hand(form), {}
        for lane_id, lane in found:
            path = known.get(lane.made.voice_hash)
            heard[lane_id] = self.transcriber.score(lane, voices.read(path, self.limits) if path else None)
        said = unheard(list(heard.values()), all(lane.made.voice_hash in known for _, lane in found))
        messages = [{"kind": "figures", "id": i, "figures": figures} for i, figures in heard.items()]
        yield {
            self.ui.board: message({"messages": messages, "at": time.monotonic()}),
            self.ui.status: texts.status(" ".join((f"Checked {count}.", *said)), "done"),
        }

    def export(self, takes: list[Take], ids: Any) -> Any:
        """The lanes on the board as one zip."""
        found = kept(takes, ids)
        if not found:
            raise gr.Error(GONE, print_exception=False, title="Not yet")
        with tempfile.TemporaryDirectory() as folder:
            path = export([lane for _, lane in found], Path(folder) / "lanes.zip")
            return save_bytes_to_cache(path.read_bytes(), path.name, self.ui.file.GRADIO_CACHE)


def unheard(heard: list[dict[str, Any]], voices_there: bool) -> list[str]:
    """Why figures are missing among ``heard``, a sentence each."""
    said = []
    if any("wer" not in figures for figures in heard):
        said.append("Words were not checked: this machine has no recogniser.")
    if not voices_there:
        said.append("Where the voice has no figure, its recording is not here any more.")
    elif any(figures.get("similarity") is None for figures in heard):
        said.append("Voices were not compared where the speech is too short, or no judge is installed.")
    return said


def kept(takes: list[Take], ids: Any) -> list[tuple[str, Lane]]:
    """Those of the browser's lanes that the server still has, recorded ones included."""
    places = [(i, find([*takes, *_recorded_takes(i)], i)) for i in ids or [] if isinstance(i, str)]
    return [(i, place[0].lanes[place[1]]) for i, place in places if place]


def _recorded_takes(lane_id: str) -> list[Take]:
    stem = lane_id.rpartition(".")[0]
    return [load(voices.ASSETS / "runs" / stem)] if stem in recorded().values() else []


def recorded() -> dict[str, str]:
    """Title -> name of every take that ships with the page."""
    return {title: stem.name for title, stem in session.recorded(voices.ASSETS / "runs").items()}
