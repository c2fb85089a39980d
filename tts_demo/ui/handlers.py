"""What happens when something is pressed. Handlers turn the page's values into engine requests, engine events into
messages for the page, and results into history. Nothing about one visitor is kept outside their own state.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
from gradio.processing_utils import save_bytes_to_cache

from .. import audio, engine
from ..config import SAMPLE_RATE, Request, Sampling, UserError
from ..methods import METHODS
from . import blind, controls, plots, texts, voices
from .player import message, pcm
from .service import Gate, Handle, Job, Limits, gpu, log_line
from .session import (Run, Side, export, load, provenance, recorded, remember, reusable, side_from, to_int16,
                      wav_bytes)

FLUSH_SECONDS = 0.12  # sound waits at most this long for company on its way to the browser


@dataclass(frozen=True)
class Form:
    """Everything the page sends with one press, in the order of ``Page.inputs``."""

    voice: str | None
    prompt_text: str
    consent: bool
    text: str
    method: str
    both: bool
    attention: bool
    seed: float
    max_seconds: float
    temperature: float
    top_k: float
    top_p: float
    repeat_window: float
    repeat_ratio: float
    dials: tuple[Any, ...]

    @classmethod
    def of(cls, values: tuple[Any, ...]) -> "Form":
        n = len(dataclasses.fields(cls)) - 1
        return cls(*values[:n], dials=tuple(values[n:]))

    def sampling(self) -> Sampling:
        return Sampling(float(self.temperature), int(self.top_k), float(self.top_p), int(self.repeat_window),
                        float(self.repeat_ratio))

    def options(self) -> Any:
        """The chosen method's Options out of the dials of all methods."""
        at = 0
        for name, method in METHODS.items():
            count = len(controls.fields(method))
            if name == self.method:
                return controls.options(method, self.dials[at:at + count])
            at += count
        raise UserError(f"Unknown method {self.method!r}; choose one of {', '.join(METHODS)}.")


@dataclass
class Live:
    """One side while it is being spoken: sound not yet sent, the curve so far, the number of messages sent."""

    side: str
    run: str
    rate: int
    seq: int = 0
    pending: list[np.ndarray] = dataclasses.field(default_factory=list)
    curve: list[tuple[float, float, float]] = dataclasses.field(default_factory=list)
    snapshot: Any = None
    flushed: float = 0.0

    def due(self) -> bool:
        return bool(self.pending) and (self.seq <= 1 or time.monotonic() - self.flushed >= FLUSH_SECONDS)

    def flush(self, kind: str = "chunk", **rest: Any) -> dict[str, Any]:
        samples = np.concatenate(self.pending) if self.pending else np.zeros(0, np.int16)
        self.pending.clear()
        self.flushed = time.monotonic()
        self.seq += 1
        return message(kind, self.run, self.seq, sr=self.rate, pcm=pcm(samples), stats=figures(self.snapshot), **rest)


def figures(snapshot: Any) -> dict[str, Any]:
    """The few numbers a player card shows."""
    if snapshot is None:
        return {}
    get = snapshot.get if isinstance(snapshot, dict) else lambda k: getattr(snapshot, k, None)
    names = ("rtf", "lm_rtf", "ttfa_seconds", "kv_bytes_total", "frames_per_step", "acceptance", "audio_seconds")
    return {k: get(k) for k in names}


class Handlers:
    """Bound to one stack handle, one gate and the page's components (``ui``)."""

    def __init__(self, handle: Handle, gate: Gate, limits: Limits) -> None:
        self.handle, self.gate, self.limits = handle, gate, limits
        self.ui: Any = None
        self.events = gpu(self._events, lambda requests, visitor: 30 * len(requests))

    def _events(self, requests: list[tuple[str, Request]], visitor: str) -> Iterator[tuple[str, Any]]:
        """One device acquisition for the whole pair. Yields plain numbers and arrays only."""
        for side, request in requests:
            for event in engine.generate(self.handle.get(), request, lambda: self.gate.stopping(visitor)):
                yield side, event
            if self.gate.stopping(visitor):
                return

    # -- speaking ---------------------------------------------------------------------------------------------

    def speak(self, request: gr.Request, history: list[Run], *values: Any) -> Iterator[dict[Any, Any]]:
        """One press: baseline, then method, on one lock, with one seed and one prompt encoding."""
        ui, visitor, started = self.ui, request.session_hash or "api", time.monotonic()
        job, outcome = None, "refused"
        try:
            form = Form.of(values)
            voice = self.check(form.text, form.voice, form.consent)
            options, sampling = form.options(), form.sampling()
            job = self.gate.join(visitor)
            yield {ui.status: texts.status("Waiting for the device", "busy"), ui.stop: gr.Button(interactive=True)}
            yield from self._wait(job)
            outcome = "left"
            yield {ui.status: texts.status("Listening to the voice", "busy")}
            prompt = self.encode(voice, form.prompt_text)
            run = yield from self._pair(form, options, sampling, prompt, history, visitor)
            outcome = "stopped" if job.stop.is_set() else "done"
            history = remember(history, run)
            yield {**self.show(run), **self.listing(history), ui.history: history,
                   ui.stop: gr.Button(interactive=False),
                   ui.status: texts.status(plots.verdict(run), outcome)}
        except UserError as error:
            yield {ui.status: texts.status(str(error), "error"), ui.stop: gr.Button(interactive=False)}
            raise gr.Error(str(error), print_exception=False, title="Not yet") from None
        finally:
            if job:
                job.leave()
            log_line("speak", method=str(values[4]), outcome=outcome, characters=len(str(values[3])),
                     seconds=round(time.monotonic() - started, 2))

    def check(self, text: str, voice: str | None, consent: bool) -> audio.Recording:
        """Text, consent and voice, refused with a sentence; returns the voice, prepared."""
        if not text or not text.strip():
            raise UserError("There is no text yet; type something to say.")
        if len(text) > self.limits.max_characters:
            raise UserError(f"The text has {len(text)} characters; the limit here is {self.limits.max_characters}.")
        if not voice:
            raise UserError("There is no voice yet; pick an example, upload a recording or use the microphone.")
        if not consent and not voices.is_example(voice):
            raise UserError("Tick that this is your own voice or that you may use it.")
        return voices.read(voice, self.limits)

    def encode(self, voice: audio.Recording, transcript: str) -> Any:
        """The voice encoded once for both sides. A transcript of a recording that was cut no longer fits it."""
        words = (transcript or "").strip()
        return self.handle.get().encode_prompt(voice.samples, SAMPLE_RATE, None if voice.cut else words or None)

    def _wait(self, job: Job) -> Iterator[dict[Any, Any]]:
        while not job.acquire(0.2):
            if job.stop.is_set():
                raise UserError("Stopped before the device was free.")
            yield {self.ui.status: texts.status("Another visitor's run is on the device; yours is next", "busy")}

    def _pair(self, form: Form, options: Any, sampling: Sampling, prompt: Any, history: list[Run],
              visitor: str) -> Iterator[dict[Any, Any]]:
        """Drive the engine for both sides; returns the finished Run."""
        ui, stack = self.ui, self.handle.get()
        base = Request(form.text.strip(), prompt, "baseline", METHODS["baseline"].Options(), sampling, int(form.seed),
                       min(float(form.max_seconds), self.limits.max_seconds), form.attention)
        wanted = dataclasses.replace(base, method=form.method, options=options)
        key = (base.text, prompt.key, base.seed, sampling, base.max_seconds, stack.checkpoint_hash, str(stack.device),
               str(stack.dtype))
        only = form.method == "baseline"
        stored = None if form.both or only else reusable(history, key)
        requests = [("baseline", base)] if form.both or only else []
        requests += [] if only else [("method", wanted)]
        number, finished, facts = 1 + max((r.number for r in history), default=0), {}, {}
        tag = f"{visitor}-{number}"
        yield {ui.seed: int(form.seed), **self._clear(tag, form.method, stored)}
        live: Live | None = None
        for side, event in self.events(requests, visitor):
            title = METHODS[form.method if side == "method" else "baseline"].title
            if isinstance(event, engine.Started):
                live = Live(side, tag, stack.sample_rate)
                facts = self.conditions(event, facts)
                yield {self._player(side): live.flush("start", title=title),
                       ui.status: texts.status(f"{title} is speaking", "busy")}
            elif isinstance(event, engine.Audio):
                live.pending.append(to_int16(event.samples))
            elif isinstance(event, engine.Stats):
                s = live.snapshot = event.snapshot
                if s.audio_seconds > 0:
                    live.curve.append((s.audio_seconds, s.rtf, s.kv_bytes_total))
            elif isinstance(event, engine.Done):
                request = wanted if side == "method" else base
                finished[side] = side_from(event, title, request, stack.sample_rate, live.curve)
                live.snapshot = event.snapshot
                live.pending = [finished[side].audio]
                yield {self._player(side): live.flush("end"), ui.charts: self._curve(live)}
            if live and live.due():
                yield {self._player(side): live.flush(), ui.charts: self._curve(live)}
        if stored:
            finished["baseline"] = stored.baseline
        conditions = {**facts, "prompt_seconds": round(float(prompt.seconds), 2)}
        return Run(number, base.text, base.seed, dataclasses.asdict(sampling), conditions, finished.get("baseline"),
                   finished.get("method"), reused=stored.number if stored else 0, key=key)

    @staticmethod
    def conditions(event: engine.Started, before: dict[str, Any]) -> dict[str, Any]:
        """What a run's numbers depend on; cold when either side was."""
        return {"device": str(event.device), "dtype": str(event.dtype).removeprefix("torch."), "stack": event.stack,
                "checkpoint_hash": event.checkpoint_hash, "cold": before.get("cold", False) or event.cold}

    def _clear(self, tag: str, method: str, stored: Run | None) -> dict[Any, Any]:
        ui, rest = self.ui, "not run this time"
        left = load_message(stored.baseline, tag, f"from run {stored.number}") if stored else message("clear", tag, 0)
        return {ui.players["baseline"]: left,
                ui.players["method"]: message("clear", tag, 0, title=METHODS[method].title if method != "baseline" else "",
                                              note=rest if method == "baseline" else ""),
                ui.charts: {"run": tag, "points": {}}}

    def _player(self, side: str) -> Any:
        return self.ui.players[side]

    @staticmethod
    def _curve(live: Live) -> dict[str, Any]:
        points = plots.thin(np.asarray(live.curve, dtype=np.float64).reshape(-1, 3), 120)
        return {"run": live.run, "points": {live.side: points.round(4).tolist()}, "add": True}

    def stop(self, request: gr.Request) -> str:
        """Ask this visitor's run to stop; other visitors are untouched."""
        self.gate.stop(request.session_hash or "api")
        return texts.status("Stopping", "busy")

    # -- showing ----------------------------------------------------------------------------------------------

    def show(self, run: Run | None, players: bool = False) -> dict[Any, Any]:
        """Every view of one run. ``players``: also load its sound into the players (they have it after a live run)."""
        ui = self.ui
        updates: dict[Any, Any] = {
            ui.inspector: plots.inspector(run), ui.own: plots.own_plots(run), ui.table: plots.table(run),
            ui.words: plots.alignment_words(run), ui.current: run, ui.blind: blind_payload(run), ui.charts: plots.curves(run),
        }
        for name in ("baseline", "method"):
            side = getattr(run, name) if run else None
            updates[ui.audio[name]] = gr.Audio(value=self.wav(run, side) if side else None, visible=bool(side))
            if players:
                note = run.recorded and "recorded" or f"run {run.number}" if run else ""
                updates[ui.players[name]] = load_message(side, note, note) if side else message("clear", "shown", 0)
        side = run and (run.method or run.baseline)
        layers, heads = side.attention.weights.shape[:2] if side and side.attention else (0, 0)
        updates[ui.layer] = gr.Dropdown(choices=choices("layer", layers), value="mean")
        updates[ui.head] = gr.Dropdown(choices=choices("head", heads), value="mean")
        return updates

    def wav(self, run: Run, side: Side) -> str:
        data = wav_bytes(side.audio, side.sample_rate, provenance(run, side))
        return save_bytes_to_cache(data, f"{side.method}-seed{run.seed}.wav", self.ui.audio["method"].GRADIO_CACHE)

    def listing(self, history: list[Run]) -> dict[Any, Any]:
        """The history's two pickers and its table."""
        ui = self.ui
        labels = [(r.label, i) for i, r in enumerate(history)]
        last = len(history) - 1 if history else None
        return {ui.left: gr.Dropdown(choices=labels, value=last), ui.right: gr.Dropdown(choices=labels, value=last),
                ui.runs: plots.history_table(history)}

    def attention_view(self, run: Run | None, layer: str, head: str) -> dict[str, Any]:
        return plots.inspector(run, layer, head)

    def compare_two(self, history: list[Run], left: int | None, right: int | None) -> dict[Any, Any]:
        """Any two runs of the history side by side: the left run's method against the right run's."""
        if left is None or right is None or not history:
            raise gr.Error("Pick two runs first.", print_exception=False, title="Not yet")
        a, b = history[left], history[right]
        first = a.method or a.baseline if a is not b else a.baseline or a.method
        run = dataclasses.replace(b, baseline=first, method=b.method or b.baseline, reused=0)
        words = f"Left: {plots.escape(a.label)}. Right: {plots.escape(b.label)}."
        return {**self.show(run, players=True), self.ui.status: texts.status(words, "done")}

    def open_recorded(self, stem: str | None) -> dict[Any, Any]:
        if not stem:
            return {self.ui.status: gr.skip()}
        try:
            run = load(Path(stem))
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return {**self.show(run, players=True), self.ui.status: texts.status(plots.verdict(run), "done")}

    # -- inputs -----------------------------------------------------------------------------------------------

    def pick_voice(self, name: str) -> tuple[Any, ...]:
        """An example voice with its transcript; examples need no consent."""
        example = next(e for e in voices.examples() if e.name == name)
        return (gr.Audio(value=str(example.path)), example.text, gr.Checkbox(visible=False),
                note(f"Example voice. {example.licence}"))

    def take_voice(self, path: str | None) -> tuple[Any, ...]:
        """An upload or a recording: checked, cut to the accepted length, heard and shown as it will be used."""
        if not path:
            return gr.skip(), "", gr.Checkbox(visible=True), note(""), None
        try:
            voice = voices.read(path, self.limits)
        except UserError as error:
            gr.Warning(str(error), title="This voice will not do")
            return None, "", gr.Checkbox(visible=True), note(str(error), "bad"), None
        kept = voices.write(voice, self.ui.audio["method"].GRADIO_CACHE)
        return kept, self._transcribe(voice), gr.Checkbox(value=False, visible=True), note(voices.words(voice)), None

    def _transcribe(self, voice: audio.Recording) -> str:
        """What the voice says, where the stack can tell; empty where it cannot."""
        transcribe = getattr(self.handle.now, "transcribe", None)
        return transcribe(voice.samples, SAMPLE_RATE) if transcribe else ""

    def drop_voice(self) -> tuple[Any, ...]:
        return "", gr.Checkbox(value=False, visible=True), note("Upload a recording or use the microphone."), None

    def preview(self, text: str) -> str:
        """Characters left and the sentences in which the text will be spoken."""
        text, limit = (text or "").strip(), self.limits.max_characters
        words = f"{len(text)} of {limit} characters"
        stack = self.handle.now
        try:
            parts = stack.split(text) if stack and text else []
        except UserError as error:
            return note(f"{words}. {error}", "bad")
        if len(parts) > 1:
            words += f", spoken in {len(parts)} parts: " + " <b>|</b> ".join(plots.escape(p) for p in parts)
        return note(words)

    def arrive(self, request: gr.Request) -> dict[Any, Any]:
        """A new visitor: settings from the address, facts about the model, and a recorded run to look at."""
        from .layout import facts

        ui = self.ui
        updates: dict[Any, Any] = {ui.mast: texts.masthead(facts(self.handle))}
        if self.handle.error:
            updates[ui.status] = texts.status(self.handle.error, "error")
        try:
            found = controls.from_address(dict(request.query_params), METHODS)
        except UserError as error:
            gr.Warning(str(error), title="This link has a setting that does not fit")
            return updates
        updates |= self._settings(found)
        stems = list(recorded(voices.ASSETS / "runs").values())
        if stems:
            run = load(stems[0])
            updates |= self.show(run, players=True)
            if not self.handle.error:
                updates[ui.status] = texts.status(f"A recorded run. {plots.verdict(run)}", "done")
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

    def export(self, run: Run | None) -> str:
        """The shown run as one zip."""
        if run is None:
            raise gr.Error("Nothing has been spoken yet.", print_exception=False, title="Not yet")
        with tempfile.TemporaryDirectory() as folder:
            path = export(run, Path(folder))
            return save_bytes_to_cache(path.read_bytes(), path.name, self.ui.file.GRADIO_CACHE)

    def leave(self, request: gr.Request) -> None:
        """A visitor closed the page: stop their run."""
        self.gate.stop(request.session_hash or "api")


def note(words: str, kind: str = "") -> str:
    return f"<p class='quiet {kind}'>{words}</p>"


def choices(word: str, n: int) -> list[tuple[str, str]]:
    return [(f"mean of all {word}s", "mean"), *((f"{word} {i + 1}", str(i)) for i in range(n))]


def load_message(side: Side, run: str, note: str = "") -> dict[str, Any]:
    """A finished side for a player."""
    return message("load", run, 0, sr=side.sample_rate, pcm=pcm(side.audio), title=side.title, note=note,
                   stats=figures(side.metrics))


def blind_payload(run: Run | None) -> dict[str, Any]:
    """What the blind test needs: gains for equal loudness and names for the reveal. The browser has the sound."""
    if not (run and run.baseline and run.method) or min(run.baseline.seconds, run.method.seconds) < 0.5:
        return {"ready": False}
    gains = blind.matched_gains(run.baseline.audio, run.method.audio, run.baseline.sample_rate)
    facts = {name: {"title": s.title, "rtf": s.metrics.get("rtf"), "kv": s.metrics.get("kv_bytes_peak"), "gain": g}
             for (name, s), g in zip(run.sides(), gains)}
    return {"ready": True, "id": f"{run.number}{run.recorded}", "text": run.text, "sides": facts}
