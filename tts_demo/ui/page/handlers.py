"""What happens when Speak or Stop is pressed: the page's settings become engine requests, engine events become messages
for the page, finished lanes become a Take. Nothing about one visitor is kept outside their own state.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np

from ... import audio, engine
from ...config import Request, UserError
from ...methods import METHODS
from .. import voices
from ..desk import Desk
from ..presence import client
from ..run import plots, words
from ..run.collect import Collector, WarmingUp
from ..run.rounds import FEWEST, MOST, Round
from ..run.session import Made, Take, attention_from, remember, to_int16
from ..run.transcriber import Transcriber
from ..runs import Runner, expected
from ..service import in_words, log_line
from . import texts
from .controls import Form, Misplaced
from .views import Views
from .widgets import message, pcm

QUICK = 0.7  # RTF of all lanes together below which maps grow during generation
FLUSH_SECONDS = 0.12  # sound waits at most this long for company on its way to the browser


@dataclass
class Live:
    """One lane during generation: sound not yet sent. ``curve``: the collector's."""

    id: str
    title: str
    curve: list[tuple[float, float, float]]
    pending: list[np.ndarray] = field(default_factory=list)
    snapshot: Any = None
    sent: bool = False

    def message(self) -> dict[str, Any]:
        """What came since the last message: sound, the curve's last point, counts."""
        samples = np.concatenate(self.pending) if self.pending else np.zeros(0, np.int16)
        self.pending.clear()
        self.sent, s = True, self.snapshot
        counts = {"backbone_steps": s.backbone_steps, "frames_per_step": s.frames_per_step} if s else {}
        last = [round(float(v), 4) for v in self.curve[-1]] if self.curve else None
        return {"kind": "chunk", "id": self.id, "pcm": pcm(samples), "point": last, "figures": counts}


class Outbox:
    """Messages on their way to the board, together at most every ``FLUSH_SECONDS``. ``seq`` tells a lost one."""

    def __init__(self, board: Any) -> None:
        self._board, self._seq, self._sent, self._waiting = board, 0, 0.0, []

    def add(self, *messages: dict[str, Any]) -> None:
        self._waiting += messages

    @property
    def due(self) -> bool:
        return self._seq < 2 or time.monotonic() - self._sent >= FLUSH_SECONDS

    def update(self) -> dict[Any, Any]:
        self._seq, self._sent = self._seq + 1, time.monotonic()
        messages, self._waiting = self._waiting, []
        return {self._board: message({"seq": self._seq, "messages": messages})}


class Handlers:
    """Bound to the runner and the page's components (``ui``)."""

    def __init__(self, runner: Runner, desk: Desk, ui: SimpleNamespace) -> None:
        self.runner, self.ui = runner, ui
        self.handle, self.gate, self.limits = runner.handle, runner.gate, runner.limits
        self.transcriber = Transcriber()
        self.views = Views(ui, self.transcriber, runner.recordings, desk)

    # -- speaking ---------------------------------------------------------------------------------------------

    def speak(self, request: gr.Request, takes: list[Take], raw: Any) -> Iterator[dict[Any, Any]]:
        """One press: the baseline and every setting, in turns, with one seed and one prompt encoding."""
        ui, visitor, started = self.ui, request.session_hash or "api", time.monotonic()
        job, outcome, form = None, "refused", None
        try:
            form = Form.parse(raw, self.limits.max_seconds)
            path = voices.path_of(raw)
            self.check(form.text, path, form.consent)
            asking = client(self.runner.presence)
            job = self.gate.join(visitor, asking.wanted, self._size(form), asking.address)
            yield {**self.buttons(True), ui.status: texts.status("Waiting for the device", "busy")}
            for sentence in job.waiting(self.handle):
                yield {ui.status: texts.status(sentence, "busy")}
            voice = self.runner.recordings.read(path, None)
            outcome = "left"
            mast = texts.masthead(texts.facts(self.handle.now, self.handle.state))  # the model may have come meanwhile
            yield {ui.status: texts.status("Listening to the voice", "busy"), ui.mast: mast}
            take, count = yield from self._take(form, voice, visitor, voices.fingerprint(path))
            outcome = "stopped" if job.stop.is_set() else "done"
            yield {
                ui.takes: remember(takes, take),
                ui.status: texts.status(texts.escape(words.done(take, count)), outcome),
            }
        except (UserError, OSError) as error:
            outcome, said, field = "refused", in_words(error), getattr(error, "field", "")
            if form and not form.voice and form.prompt_text and "transcript" in said:
                field = "prompt-text"
            there = {"kind": "refused", "field": field, "words": said, "lane": getattr(error, "lane", None)}
            yield {  # the time tells a mistake made again from the message before
                ui.board: message({"messages": [there], "at": time.monotonic()}),
                ui.status: texts.status(texts.escape(said), "error"),
            }
        finally:
            if job:
                job.leave()
            log_line(
                "speak",
                methods=[s.method for s in form.lanes] if form else [],
                outcome=outcome,
                characters=len(form.text) if form else 0,
                seconds=round(time.monotonic() - started, 2),
            )

    def buttons(self, running: bool = False) -> dict[Any, Any]:
        """Speak and Stop as they are pressed in turn: the one waits until the run has ended, the other is for it."""
        speak = gr.Button("Running…" if running else "Speak", interactive=not running)
        return {self.ui.run: speak, self.ui.stop: gr.Button(interactive=running)}

    @staticmethod
    def _size(form: Form) -> float:
        """Seconds of speech that a press makes, in all lanes and rounds."""
        seconds, others = expected(form.text, form.max_seconds), len(form.lanes)
        return seconds * (1 + others) * (FEWEST if others else 1)

    def check(self, text: str, voice: str | None, consent: bool) -> None:
        """Refuse with a sentence what is missing: text, voice or consent."""
        if not text or not text.strip():
            raise Misplaced("text", "There is no text yet; type something to say.")
        if len(text) > self.limits.max_characters:
            most = self.limits.max_characters
            raise Misplaced("text", f"The text has {len(text)} characters; the limit here is {most}: shorten it.")
        if not voice:
            raise Misplaced("voice", "There is no voice yet; pick one of the voices, or upload or record your own.")
        if not consent and not voices.is_example(voice):
            raise Misplaced("consent", "Tick that this is your own voice or that you may use it.")

    def requests(self, form: Form) -> list[Request]:
        """The baseline and the form's lanes, without their voice."""
        plain = METHODS["baseline"].Options()
        base = Request(form.text, None, "baseline", plain, form.sampling, form.seed, form.max_seconds, form.attention)
        return [base, *(dataclasses.replace(base, method=s.method, options=s.options) for s in form.lanes)]

    def _take(self, form: Form, voice: audio.Recording, visitor: str, voice_hash: str) -> Iterator[dict[Any, Any]]:
        """Drive the engine for all lanes and pass its events on; returns the finished Take and its rounds."""
        ui, rate, take = self.ui, self.handle.get().sample_rate, Take(secrets.token_hex(6), ())
        requests, box, name = self.requests(form), Outbox(ui.board), form.voice or "your own voice"
        made = Made(form.text, name, form.seed, dataclasses.asdict(form.sampling), form.max_seconds, {}, voice_hash)
        changed = form.changed(self.handle.get().sampling, self.limits.max_seconds)
        found = Collector(requests, made, rate, {"changed": changed}, voice.notes)
        titles = [METHODS[r.method].title for r in requests]
        lives = [Live(take.lane_id(i), title, found.curves[i]) for i, title in enumerate(titles)]
        box.add({"kind": "take", "lanes": [waiting(v, r, made, take) for v, r in zip(lives, requests)]})
        yield box.update()
        # further rounds are for the clock alone: who waits comes first
        most = 1 if len(requests) == 1 else FEWEST if self.gate.crowded() else MOST
        for which, event in self.runner.events(voice, form.prompt_text, requests, visitor, most, QUICK):
            live = lives[which]
            found.add(which, event)
            if isinstance(event, WarmingUp):
                yield {ui.status: texts.status(f"Warming up {METHODS[event.method].title}, unheard", "busy")}
            elif isinstance(event, engine.Started):
                box.add({"kind": "start", "id": live.id, "sr": rate, "length": expected(form.text, form.max_seconds)})
                yield {ui.status: texts.status(speaking(len(requests)), "busy"), **box.update()}
            elif isinstance(event, engine.Audio):
                live.pending.append(to_int16(event.samples))
                continue  # its figures follow at once and go along
            elif isinstance(event, engine.Stats):
                live.snapshot = event.snapshot
                if live.pending and (box.due or not live.sent):
                    box.add(*(lane.message() for lane in lives if lane.pending))
                    yield box.update()
            elif isinstance(event, engine.AttentionUpdate):
                attention, frame = attention_from(event.attention), 1 / self.handle.get().frame_rate
                box.add({"kind": "looked", "id": live.id, **plots.so_far(attention, found.steps[which], frame)})
                yield box.update()
            elif isinstance(event, engine.Done):
                live.pending.clear()
                box.add({"kind": "lane", "lane": plots.lane_payload(found.lane(which), live.id, take.id)})
                yield box.update()
            elif isinstance(event, Round):
                box.add({"kind": "speeds", "lanes": plots.speeds(dataclasses.replace(take, lanes=found.lanes))})
                yield {ui.status: texts.status(timing(event), "busy"), **box.update()}
        return dataclasses.replace(take, lanes=found.lanes), found.rounds

    def stop(self, request: gr.Request) -> None:
        """Ask this visitor's run to stop, because they said so or closed the page; others are untouched. The run alone
        says how it ended: a word of this one's own would now and then come behind it and stay."""
        self.gate.stop(request.session_hash or "api")


def waiting(live: Live, request: Request, made: Made, take: Take) -> dict[str, Any]:
    """A lane before it speaks: what it will be made of."""
    options = dataclasses.asdict(request.options)
    return {
        "id": live.id,
        "take": take.id,
        "method": request.method,
        "title": live.title,
        "options": options,
        "dials": words.dials(request.method, options),
        "made": plots.made(made),
    }


def speaking(lanes: int) -> str:
    return f"{lanes} lanes speak in turns; you hear the first" if lanes > 1 else "The baseline is speaking"


def timing(event: Round) -> str:
    """What the page says when a round of turns has ended."""
    count = event.number + event.left
    return f"Timing: round {min(event.number + 1, count)} of {count} of turns, unheard"
