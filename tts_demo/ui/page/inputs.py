"""The left side of the page: what its form shows, and what it asks the server while a visitor fills it in."""

from types import SimpleNamespace
from typing import Any

import gradio as gr
from starlette.datastructures import QueryParams

from ...config import Sampling, UserError
from .. import voices
from ..limits import Limits
from ..run import words
from ..run.languages import foreign
from ..runs import expected
from ..service import Handle, Warmth, in_words
from . import controls, texts
from .views import Views, recorded
from .widgets import message

DEFAULT_TEXT = "The quick brown fox jumps over the lazy dog, and then it takes a short nap in the sun."


class Inputs:
    """Bound to the stack handle and the page's components."""

    def __init__(self, handle: Handle, limits: Limits, ui: SimpleNamespace, show: Views, warm: Warmth) -> None:
        self.handle, self.limits, self.ui, self.views, self.warm = handle, limits, ui, show, warm
        self.desk, self.recordings = show.desk, show.recordings

    def catalogue(self) -> dict[str, Any]:
        """All that the form offers: voices, texts, methods, sampling, limits."""
        own = self.handle.now.sampling if self.handle.now else Sampling()
        samples = voices.texts() or [DEFAULT_TEXT]
        keys = ("name", "label", "help", "min", "max", "step")
        return {
            "methods": controls.catalogue(),
            "voices": [
                {
                    "name": e.name,
                    "about": e.about,
                    "url": f"gradio_api/file={e.path}",
                    "note": e.licence,
                    "text": e.transcript,
                }
                for e in voices.examples()
            ],
            "texts": samples,
            "sampling": [dict(zip(keys, row)) | {"default": getattr(own, row[0])} for row in controls.SAMPLING],
            "characters": self.limits.max_characters,
            "seconds": self.limits.max_seconds,
            "most": controls.MOST_LANES,
            "consent": texts.CONSENT,
            "hears": self.views.transcriber.available,
        }

    def take_voice(self, path: Any) -> dict[str, Any]:
        """A recording that was just uploaded or made: checked, cut to the accepted length, kept as it will be used."""
        try:
            with self.desk.turn():
                return voices.take(path, self.recordings, self.handle.now)
        except (UserError, OSError) as error:
            return {"error": in_words(error)}

    def transcribe(self, path: Any) -> dict[str, Any]:
        """A machine's guess at what the visitor's voice says; empty where nothing was understood."""
        try:
            with self.desk.turn():
                return {"text": self.views.transcriber.transcribe(self.recordings.read(voices.uploaded(path)))}
        except (UserError, OSError) as error:
            return {"error": in_words(error)}

    def preview(self, text: Any) -> dict[str, Any]:
        """The sentences of a text, each as words and, where the stack can tell, as phonemes."""
        text, stack = (text if isinstance(text, str) else "").strip()[: self.limits.max_characters], self.handle.now
        if not stack or not text:
            return {"parts": []}
        try:
            parts = [{"words": said, "sounds": words.ipa(sounds)} for said, sounds in stack.preview(text)]
            seconds, sounds = expected(stack, text, self.limits.max_seconds), any(p["sounds"] for p in parts)
            return {"parts": parts, "seconds": seconds, "hint": texts.foreign(foreign(text)) if sounds else ""}
        except (UserError, OSError) as error:
            return {"error": in_words(error)}

    def arrive(self, request: gr.Request) -> dict[Any, Any]:
        """A new visitor: settings from the address, facts about the model, and a recorded take to look at."""
        ui, updates = self.ui, self.loaded()
        query = QueryParams(str(request.query_params)).multi_items()
        try:
            updates[ui.form] = message(self.catalogue() | {"set": controls.from_address(query)})
        except UserError as error:
            return {**updates, ui.status: texts.status(str(error), "error")}
        stem = next(iter(recorded().values()), None)
        if stem and not self.handle.problems():
            updates |= self.views.open_recorded(stem.name, first=True)
        return updates

    def loaded(self) -> dict[Any, Any]:
        """Facts about the model, or why there is none; the clock goes on until one of them is known."""
        ui, state = self.ui, self.handle.state
        facts = texts.facts(self.handle.now, state) if state != "loading" else [self.warm.words]
        updates: dict[Any, Any] = {ui.mast: texts.masthead(facts), ui.clock: gr.Timer(active=state == "loading")}
        problems = self.handle.problems()
        if problems:
            updates[ui.status] = texts.status(" ".join(problems), "error")
        return updates
