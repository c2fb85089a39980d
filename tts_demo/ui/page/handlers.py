"""What happens when Speak or Stop is pressed: the page's values become engine requests, engine events become messages
for the page, a finished pair becomes a Run. Nothing about one visitor is kept outside their own state.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np

from ... import audio, engine
from ...config import Request, Sampling, UserError
from ...methods import METHODS
from ..run import plots, tables
from ..run.ears import Ears
from ..run.session import Run, remember, reusable, side_from, to_int16
from ..service import Gate, Handle, Limits, in_words, listened_to, log_line
from ..zerogpu import Ticket, forks, gpu
from . import controls, texts, voices
from .player import message, pcm
from .views import Views, figures, load_message

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
    def of(cls, values: tuple[Any, ...]) -> Form:
        n = len(dataclasses.fields(cls)) - 1
        return cls(*values[:n], dials=tuple(values[n:]))

    def sampling(self) -> Sampling:
        return Sampling(
            float(self.temperature),
            int(self.top_k),
            float(self.top_p),
            int(self.repeat_window),
            float(self.repeat_ratio),
        )

    def options(self) -> Any:
        """The chosen method's Options out of the dials of all methods."""
        at = 0
        for name, method in METHODS.items():
            count = len(controls.fields(method))
            if name == self.method:
                return controls.options(method, self.dials[at : at + count])
            at += count
        raise UserError(f"Unknown method {self.method!r}; choose one of {', '.join(METHODS)}.")


@dataclass(frozen=True)
class Heard:
    """The first thing a run says: how much of the voice it uses, and what a person should know about it."""

    seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class WarmingUp:
    """Something in this run has not run since the model was loaded: its beginning is spoken unheard first."""


@dataclass(frozen=True)
class Plan:
    """requests: (side, request without its voice) in the order they are spoken; ``stored``: a run whose baseline is
    shown instead of speaking it again."""

    requests: list[tuple[str, Request]]
    stored: Run | None
    key: tuple
    number: int


@dataclass
class Live:
    """One side while it is being spoken: sound not yet sent, the curve so far, the number of messages sent."""

    side: str
    title: str
    run: str
    rate: int
    seq: int = 0
    pending: list[np.ndarray] = dataclasses.field(default_factory=list)
    curve: list[tuple[float, float, float]] = dataclasses.field(default_factory=list)
    snapshot: Any = None
    flushed: float = 0.0

    def note(self, snapshot: Any) -> None:
        self.snapshot = snapshot
        if snapshot.audio_seconds > 0:
            self.curve.append((snapshot.audio_seconds, snapshot.rtf, snapshot.kv_bytes_total))

    def due(self) -> bool:
        return bool(self.pending) and (self.seq <= 1 or time.monotonic() - self.flushed >= FLUSH_SECONDS)

    def flush(self, kind: str = "chunk", **rest: Any) -> dict[str, Any]:
        samples = np.concatenate(self.pending) if self.pending else np.zeros(0, np.int16)
        self.pending.clear()
        self.flushed = time.monotonic()
        self.seq += 1
        return message(kind, self.run, self.seq, sr=self.rate, pcm=pcm(samples), stats=figures(self.snapshot), **rest)


class Handlers:
    """Bound to one stack handle, one gate and the page's components (``ui``)."""

    def __init__(self, handle: Handle, gate: Gate, limits: Limits, ui: SimpleNamespace) -> None:
        self.handle, self.gate, self.limits, self.ui = handle, gate, limits, ui
        self.views, self.ears = Views(ui), Ears()
        self._on_device = gpu(self._events, lambda voice, transcript, requests, stopping: 30 * len(requests))

    def events(
        self, voice: audio.Recording, transcript: str, requests: list[tuple[str, Request]], visitor: str
    ) -> Iterator[tuple[str, Any]]:
        """What a pair says while it is spoken, ended when this visitor's run is: see ``_events``."""
        stopping = lambda: self.gate.stopping(visitor)
        if not forks():
            yield from self._on_device(voice, transcript, requests, stopping)
            return
        with Ticket(stopping) as ticket:
            yield from self._on_device(voice, transcript, requests, ticket)

    def _events(
        self, voice: audio.Recording, transcript: str, requests: list[tuple[str, Request]], stopping: Callable[[], bool]
    ) -> Iterator[tuple[str, Any]]:
        """One device acquisition for the whole pair: the voice is encoded once, then each side is spoken. What is
        yielded holds plain numbers and arrays only, for on ZeroGPU it comes from another process."""
        stack, words = self.handle.get(), (transcript or "").strip()
        # a transcript of a recording that was cut no longer fits it
        prompt = stack.encode_prompt(voice.samples, voice.rate, None if voice.cut else words or None)
        yield "voice", Heard(round(float(prompt.seconds), 2), tuple(getattr(prompt, "notes", ())))
        spoken = [(side, dataclasses.replace(request, prompt=prompt)) for side, request in requests]
        for side, request in spoken:
            if not stack.method(request.method).warm:
                yield side, WarmingUp()
                engine.warm_up(stack, request, stopping)
        for side, request in spoken:
            for event in engine.generate(stack, request, stopping):
                voiceless = isinstance(event, engine.Started)  # on ZeroGPU a prompt does not leave the process
                yield (
                    side,
                    dataclasses.replace(event, request=dataclasses.replace(request, prompt=None))
                    if voiceless
                    else event,
                )
            if stopping():
                return

    # -- speaking ---------------------------------------------------------------------------------------------

    def speak(self, request: gr.Request, history: list[Run], *values: Any) -> Iterator[dict[Any, Any]]:
        """One press: baseline, then method, on one lock, with one seed and one prompt encoding."""
        ui, visitor, started = self.ui, request.session_hash or "api", time.monotonic()
        job, outcome = None, "refused"
        try:
            form = Form.of(values)
            self.check(form.text, form.voice, form.consent)
            options, sampling = form.options(), form.sampling()
            seed, longest = controls.limits(form.seed, form.max_seconds, self.limits.max_seconds)
            form = dataclasses.replace(form, seed=seed, max_seconds=longest)
            job = self.gate.join(visitor, listened_to())
            yield {ui.status: texts.status("Waiting for the device", "busy"), ui.stop: gr.Button(interactive=True)}
            for words in job.waiting(self.handle):
                yield {ui.status: texts.status(words, "busy")}
            voice = voices.read(form.voice, self.limits, None)
            outcome = "left"
            # it may have come while the model loaded
            mast = texts.masthead(texts.facts(self.handle.now, self.handle.state))
            yield {ui.status: texts.status("Listening to the voice", "busy"), ui.mast: mast}
            plan = self._plan(form, options, sampling, history)
            run = yield from self._pair(form, plan, voice, visitor)
            outcome = "stopped" if job.stop.is_set() else "done"
            history = remember(history, run)
            yield {
                **self.views.show(run),
                **self.views.listing(history),
                ui.history: history,
                ui.stop: gr.Button(interactive=False),
                ui.status: texts.status(tables.verdict(run), outcome),
            }
        except (UserError, OSError) as error:
            words = in_words(error)
            yield {ui.status: texts.status(tables.escape(words), "error"), ui.stop: gr.Button(interactive=False)}
            raise gr.Error(words, print_exception=False, title="Not yet") from None
        finally:
            if job:
                job.leave()
            log_line(
                "speak",
                method=str(values[4]),
                outcome=outcome,
                characters=len(str(values[3])),
                seconds=round(time.monotonic() - started, 2),
            )

    def check(self, text: str, voice: str | None, consent: bool) -> None:
        """Refuse with a sentence what is missing: text, voice or consent."""
        if not text or not text.strip():
            raise UserError("There is no text yet; type something to say.")
        if len(text) > self.limits.max_characters:
            raise UserError(f"The text has {len(text)} characters; the limit here is {self.limits.max_characters}.")
        if not voice:
            raise UserError("There is no voice yet; pick an example, upload a recording or use the microphone.")
        if not consent and not voices.is_example(voice):
            raise UserError("Tick that this is your own voice or that you may use it.")

    def _plan(self, form: Form, options: Any, sampling: Sampling, history: list[Run]) -> Plan:
        """Which sides to speak, and which finished baseline may stand in for one."""
        stack = self.handle.get()
        base = Request(
            form.text.strip(),
            None,
            "baseline",
            METHODS["baseline"].Options(),
            sampling,
            form.seed,
            form.max_seconds,
            form.attention,
        )
        wanted = dataclasses.replace(base, method=form.method, options=options)
        key = (
            voices.fingerprint(form.voice),
            form.prompt_text.strip(),
            base.text,
            base.seed,
            sampling,
            base.max_seconds,
            stack.checkpoint_hash,
            str(stack.device),
            str(stack.dtype),
        )
        only = form.method == "baseline"
        stored = None if form.both or only else reusable(history, key)
        requests = [("baseline", base)] if form.both or only else []
        requests += [] if only else [("method", wanted)]
        return Plan(requests, stored, key, 1 + max((r.number for r in history), default=0))

    def _pair(self, form: Form, plan: Plan, voice: audio.Recording, visitor: str) -> Iterator[dict[Any, Any]]:
        """Drive the engine for both sides, passing on what it says; returns the finished Run."""
        ui, rate, tag = self.ui, self.handle.get().sample_rate, f"{visitor}-{plan.number}"
        requests, finished, facts = dict(plan.requests), {}, {}
        yield {ui.seed: form.seed, **self._clear(tag, form.method, plan.stored)}
        live: Live | None = None
        for side, event in self.events(voice, form.prompt_text, plan.requests, visitor):
            if isinstance(event, Heard):
                facts = {"prompt_seconds": event.seconds, "notes": list(event.notes)}
            elif isinstance(event, WarmingUp):
                yield {ui.status: texts.status(f"Warming up {METHODS[requests[side].method].title}, unheard", "busy")}
            elif isinstance(event, engine.Started):
                title = METHODS[requests[side].method].title
                live = Live(side, title, tag, rate)
                facts |= self.conditions(event, facts)
                yield {
                    self._player(side): live.flush("start", title=title),
                    ui.status: texts.status(f"{title} is speaking", "busy"),
                }
            elif isinstance(event, engine.Audio):
                live.pending.append(to_int16(event.samples))
                continue  # its figures follow at once and go along
            elif isinstance(event, engine.Stats):
                live.note(event.snapshot)
            elif isinstance(event, engine.Done):
                finished[side] = side_from(event, live.title, requests[side], rate, live.curve)
                live.snapshot, live.pending = event.snapshot, [finished[side].audio]
                yield {self._player(side): live.flush("end"), ui.charts: self._curve(live)}
            if live and live.due():
                yield {self._player(side): live.flush(), ui.charts: self._curve(live)}
        if plan.stored:
            finished["baseline"] = plan.stored.baseline
        first = plan.requests[0][1]
        return Run(
            plan.number,
            first.text,
            first.seed,
            dataclasses.asdict(first.sampling),
            facts,
            finished.get("baseline"),
            finished.get("method"),
            reused=plan.stored.number if plan.stored else 0,
            key=plan.key,
            voice=voices.fingerprint(form.voice),
        )

    @staticmethod
    def conditions(event: engine.Started, before: dict[str, Any]) -> dict[str, Any]:
        """What a run's numbers depend on; cold when either side was."""
        return {
            "device": event.device,
            "processor": event.processor,
            "dtype": event.dtype,
            "stack": event.stack,
            "checkpoint_hash": event.checkpoint_hash,
            "cold": before.get("cold", False) or event.cold,
        }

    def _clear(self, tag: str, method: str, stored: Run | None) -> dict[Any, Any]:
        ui, rest = self.ui, "not run this time"
        left = load_message(stored.baseline, tag, f"from run {stored.number}") if stored else message("clear", tag, 0)
        return {
            ui.players["baseline"]: left,
            ui.players["method"]: message(
                "clear",
                tag,
                0,
                title=METHODS[method].title if method != "baseline" else "",
                note=rest if method == "baseline" else "",
            ),
            ui.charts: {"run": tag, "points": {}},
        }

    def _player(self, side: str) -> Any:
        return self.ui.players[side]

    @staticmethod
    def _curve(live: Live) -> dict[str, Any]:
        points = plots.thin(np.asarray(live.curve, dtype=np.float64).reshape(-1, 3), 120)
        return {
            "run": live.run,
            "points": {live.side: points.round(4).tolist()},
            "titles": {live.side: live.title},
            "add": True,
        }

    def stop(self, request: gr.Request) -> str:
        """Ask this visitor's run to stop; other visitors are untouched."""
        self.gate.stop(request.session_hash or "api")
        return texts.status("Stopping", "busy")

    def listen(self, run: Run | None, voice: str | None) -> dict[Any, Any]:
        """Let the recognisers and the voice judge listen to the shown run. The voice counts if it is still the
        run's."""
        if run is None:
            raise gr.Error("Nothing has been spoken yet.", print_exception=False, title="Not yet")
        same = bool(voice and run.voice and voices.fingerprint(voice) == run.voice)
        run = self.ears.score(run, voices.read(voice, self.limits) if same else None)
        return {self.ui.current: run, self.ui.table: tables.table(run)}

    def leave(self, request: gr.Request) -> None:
        """A visitor closed the page: stop their run."""
        self.gate.stop(request.session_hash or "api")
