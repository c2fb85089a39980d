"""Finished lanes on the page: another layer of a map, the recognisers' opinion, a recorded take, the zip. Starts no
synthesis."""

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from pydantic import BaseModel, Field, ValidationError

from ... import voices as bundle
from ...config import UserError
from .. import voices
from ..line import Desk
from ..run import plots, session
from ..run.session import Lane, Take, export, find, load
from ..run.transcriber import Transcriber
from ..service import in_words
from ..voices import Recordings
from . import texts
from .widgets import message

GONE = (
    "The server no longer has these results: save them as one page (HTML), or each one's audio, from what "
    "the browser keeps; or speak again."
)

MOST_LANES = 6  # that stand side by side on the board


class MapView(BaseModel):
    """What the board asks for when another layer or head is chosen."""

    ids: Any = None
    layer: Annotated[str, Field(pattern=rf"^({plots.CLEAR}|mean|\d{{1,3}})$")] = plots.CLEAR
    head: Annotated[str, Field(pattern=r"^(mean|\d{1,3})$")] = "mean"


class Views:
    """Bound to the page's components."""

    def __init__(self, ui: SimpleNamespace, transcriber: Transcriber, recordings: Recordings, desk: Desk) -> None:
        self.ui, self.transcriber, self.recordings, self.desk = ui, transcriber, recordings, desk

    def attention_view(self, takes: list[Take], event: gr.EventData) -> dict[Any, Any]:
        """Maps of another layer or head, for the lanes that are still here."""
        try:
            view = MapView.model_validate(event, from_attributes=True)
            found = self.kept(takes, view.ids)
        except (ValidationError, UserError):
            return {self.ui.board: gr.skip()}
        messages = []
        for lane_id, lane in found:
            if shown := plots.lane_map(lane, view.layer, view.head):
                messages.append({"kind": "map", "id": lane_id, "attention": shown})
        return {self.ui.board: message({"messages": messages})}

    def open_recorded(self, name: Any, first: bool = False) -> dict[Any, Any]:
        """A take that ships with the page, laid on the board. ``first``: on arrival, when what the browser keeps goes
        before it."""
        stem = next((stem for stem in recorded().values() if stem.name == name), None)
        if stem is None:
            return {self.ui.status: gr.skip()}
        try:
            lanes = taken(stem)[1]
        except UserError as error:
            return {self.ui.status: texts.status(str(error), "error")}
        # the time tells an opening from the one before; the board says in the status line what it shows
        shown = {"kind": "show", "lanes": lanes, "first": first}
        return {self.ui.board: message({"messages": [shown], "at": time.monotonic()})}

    def recorded_lanes(self, _: Any) -> dict[str, Any]:
        """Every recorded lane, for the tour through all methods."""
        return {"lanes": [lane for stem in recorded().values() for lane in taken(stem)[1]]}

    def listen(self, takes: list[Take], ids: Any, form: Any) -> Iterator[dict[Any, Any]]:
        """Let the recogniser and the voice judge check the lanes on the board, each beside its own voice. Ends with the
        lane at hand once nobody waits."""
        try:
            found = self.kept(takes, ids)
            yield {self.ui.status: texts.status(f"Listening to {lanes_in_words(found)}", "busy")}
            known, heard = voices.at_hand(form), {}
            with self.desk.turn() as job:
                for lane_id, lane in found:
                    if job.stopping():
                        return
                    path = known.get(lane.made.voice_hash)
                    heard[lane_id] = self.transcriber.score(lane, self.recordings.read(path) if path else None)
        except UserError as error:
            yield {self.ui.status: texts.status(str(error), "error")}
            return
        said = unheard(list(heard.values()), all(lane.made.voice_hash in known for _, lane in found))
        messages = [{"kind": "figures", "id": i, "figures": figures} for i, figures in heard.items()]
        yield {
            self.ui.board: message({"messages": messages, "at": time.monotonic()}),
            self.ui.status: texts.status(" ".join((f"Checked {lanes_in_words(found)}.", *said)), "done"),
        }

    def export(self, takes: list[Take], ids: Any) -> dict[Any, Any]:
        """The lanes on the board as one zip; a sentence where the server has none of them any more."""
        try:
            found = self.kept(takes, ids)
            with self.desk.turn() as job, tempfile.TemporaryDirectory() as folder:
                path = export([lane for _, lane in found], Path(folder) / "lanes.zip", job.stopping)
                saved = save_bytes_to_cache(path.read_bytes(), path.name, self.ui.file.GRADIO_CACHE)
        except (UserError, OSError) as error:
            return {self.ui.file: None, self.ui.status: texts.status(in_words(error), "error")}
        said = f"Saved: {lanes_in_words(found)}."
        if len(found) < len(ids):
            said += " The others are in the browser only."
        return {self.ui.file: saved, self.ui.status: texts.status(said, "done")}

    def kept(self, takes: list[Take], ids: Any) -> list[tuple[str, Lane]]:
        """Those of the browser's lanes that the server still has, recorded ones included; UserError where there are
        none, or more than a board shows."""
        distinct = dict.fromkeys(i for i in ids if isinstance(i, str)) if isinstance(ids, list) else {}
        if len(distinct) > MOST_LANES:
            raise UserError(f"At most {MOST_LANES} results can be asked for at once.")
        names = {i.rpartition(".")[0] for i in distinct}
        shipped = [taken(stem)[0] for stem in recorded().values() if stem.name in names]
        found = [(i, lane) for i in distinct if (lane := find([*takes, *shipped], i))]
        if not found:
            raise UserError(GONE)
        return found


def lanes_in_words(found: list[Any]) -> str:
    return f"{len(found)} result{'s' * (len(found) > 1)}"


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


def recorded() -> dict[str, Path]:
    """Title -> stem of every take that ships with the page."""
    return session.recorded(bundle.ASSETS / "runs")


@functools.lru_cache
def taken(stem: Path) -> tuple[Take, list[dict[str, Any]]]:
    """A take that ships with the page and what the board draws of it, for all visitors."""
    take = load(stem)
    return take, plots.payload(take)
