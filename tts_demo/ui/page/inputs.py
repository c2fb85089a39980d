"""The left side of the page: voices, text, and settings that a link carries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradio as gr

from ...config import Sampling, UserError
from ...methods import METHODS
from ..run import tables
from ..run.ears import Ears
from ..run.session import load, recorded
from ..service import Handle, Limits
from . import controls, texts, voices
from .views import Views


class Inputs:
    """Bound to the stack handle and the page's components."""

    def __init__(self, handle: Handle, limits: Limits, ui: SimpleNamespace, views: Views, ears: Ears) -> None:
        self.handle, self.limits, self.ui, self.views, self.ears = handle, limits, ui, views, ears

    def pick_voice(self, name: str) -> dict[Any, Any]:
        """An example voice with its transcript; examples need no consent."""
        ui, example = self.ui, next(e for e in voices.examples() if e.name == name)
        return {
            ui.voice: str(example.path),
            ui.prompt_text: example.text,
            ui.consent: gr.Checkbox(visible=False),
            ui.voice_note: note(f"Example voice. {example.licence}"),
            ui.taken: "",
        }

    def take_voice(self, path: str | None, taken: str) -> dict[Any, Any]:
        """A voice that was uploaded, recorded or trimmed: checked, cut to the accepted length, shown as it will be
        used. Its old transcript goes, since it may no longer fit. ``taken``: hash of the voice this page prepared
        last."""
        ui = self.ui
        if not path or voices.fingerprint(path) == taken or voices.is_example(path):
            return {ui.voice: gr.skip()}
        rest = {ui.prompt_text: "", ui.voice_name: None}
        try:
            stack = self.handle.now
            voice = voices.read(path, self.limits, None, stack)
        except UserError as error:
            return {
                **rest,
                ui.voice: None,
                ui.consent: gr.Checkbox(value=False, visible=True),
                ui.taken: "",
                ui.voice_note: note(tables.escape(str(error)), "bad"),
            }
        kept = voices.write(voice, ui.audio["method"].GRADIO_CACHE)
        tick = gr.Checkbox(visible=True) if taken else gr.Checkbox(value=False, visible=True)  # trimming keeps the tick
        return {
            **rest,
            ui.voice: kept,
            ui.consent: tick,
            ui.voice_note: note(voices.words(voice)),
            ui.taken: voices.fingerprint(kept),
        }

    def drop_voice(self) -> dict[Any, Any]:
        ui = self.ui
        return {
            ui.prompt_text: "",
            ui.consent: gr.Checkbox(value=False, visible=True),
            ui.voice_name: None,
            ui.taken: "",
            ui.voice_note: note("Upload a recording or use the microphone."),
        }

    def suggest(self, path: str | None) -> tuple[str, str]:
        """A machine's guess at what the voice says. A wrong transcript harms, so it is asked for, and to be
        corrected."""
        if not path:
            raise gr.Error("There is no voice yet.", print_exception=False, title="Not yet")
        words = self.ears.transcribe(voices.read(path, self.limits))
        said = "A machine wrote this down: correct it, or leave it empty." if words else "Nothing was understood."
        return words, note(said)

    def preview(self, text: str) -> str:
        """Characters left and the sentences in which the text will be spoken."""
        text, limit = (text or "").strip(), self.limits.max_characters
        words = f"{len(text)} of {limit} characters"
        stack = self.handle.now
        try:
            parts = stack.split(text) if stack and text else []
        except UserError as error:
            return note(f"{words}. {tables.escape(str(error))}", "bad")
        if len(parts) > 1:
            words += f", spoken in {len(parts)} parts: " + " <b>|</b> ".join(tables.escape(p) for p in parts)
        return note(words)

    def arrive(self, request: gr.Request) -> dict[Any, Any]:
        """A new visitor: settings from the address, facts about the model, and a recorded run to look at."""
        ui, updates = self.ui, self.loaded()
        try:
            own = self.handle.now.sampling if self.handle.now else Sampling()
            found = controls.from_address(dict(request.query_params), METHODS, own)
        except UserError as error:
            return {**updates, ui.status: texts.status(tables.escape(str(error)), "error")}
        updates |= self._settings(found)
        stems = list(recorded(voices.ASSETS / "runs").values())
        if stems:
            run = load(stems[0])
            updates |= self.views.show(run, players=True)
            if not self.handle.problems():
                updates[ui.status] = texts.status(f"A recorded run. {tables.verdict(run)}", "done")
        return updates

    def loaded(self) -> dict[Any, Any]:
        """Facts about the model, or why there is none; the clock goes on until one of them is known."""
        ui, state = self.ui, self.handle.state
        updates: dict[Any, Any] = {
            ui.mast: texts.masthead(texts.facts(self.handle.now, state)),
            ui.clock: gr.Timer(active=state == "loading"),
        }
        problems = self.handle.problems()
        if problems:
            updates[ui.status] = texts.status(tables.escape(" ".join(problems)), "error")
        return updates

    def _settings(self, found: dict[str, Any]) -> dict[Any, Any]:
        """Components brought to the settings a link carries."""
        ui, updates = self.ui, {}
        if "text" in found:
            updates[ui.text] = found["text"][: self.limits.max_characters]
        if "seed" in found:
            updates[ui.seed] = found["seed"]
        if "max_seconds" in found:
            updates[ui.max_seconds] = min(found["max_seconds"], self.limits.max_seconds)
        example = next((e for e in voices.examples() if e.name == found.get("voice")), None)
        if example:
            updates |= {ui.voice_name: example.name, ui.voice: str(example.path), ui.prompt_text: example.text}
        for name in controls.SAMPLING_FIELDS:
            updates[getattr(ui, name)] = getattr(found["sampling"], name)
        if "method" in found:
            updates[ui.method] = found["method"]
            for f, component in zip(controls.fields(METHODS[found["method"]]), ui.dials[found["method"]]):
                updates[component] = getattr(found["options"], f.name)
        return updates


def note(words: str, kind: str = "") -> str:
    return f"<p class='quiet {kind}'>{words}</p>"
