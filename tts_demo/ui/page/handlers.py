"""What happens when Speak or Stop is pressed: the page's settings become engine requests, engine events become messages
for the page, finished lanes become a Take. Nothing about one visitor is kept outside their own state.
"""

import dataclasses
import functools
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np

from ... import audio, engine
from ...config import Request, UserError
from ...methods import METHODS
from .. import voices
from ..line import WAIT_SECONDS, Desk, Job
from ..presence import client
from ..run import plots, words
from ..run.collect import Collector, WarmingUp, timed
from ..run.rounds import FEWEST, MOST, First, RoundProgress
from ..run.session import Made, Take, attention_from, remember, to_int16
from ..run.transcriber import Transcriber
from ..runs import Runner, expected
from ..service import in_words, log_line
from ..zerogpu import forks
from . import texts
from .controls import Form, Misplaced
from .views import Views
from .widgets import message

QUICK = 0.7  # RTF of all lanes together below which maps grow during generation
FLUSH_SECONDS = 0.12  # sound waits at most this long for company on its way to the browser
FIGURES_SECONDS = 0.3  # figures without sound, and the bar of progress

MAPS = "then the attention maps; Speak is free after them"
PATIENCE_SECONDS = 120.0  # how long work in the background waits for the device

Step = tuple[list[dict[str, Any]], Take | None]  # messages for the board, and the take where it has changed


@dataclass(frozen=True)
class After:
    """What the work after a run has to know: its form, the file of its voice, the id of its take."""

    form: Form
    voice: str
    take: str


@dataclass
class Live:
    """One lane during generation: sound not yet sent. ``curve``: the collector's."""

    id: str
    title: str
    curve: list[tuple[float, float, float]]
    pending: list[np.ndarray] = field(default_factory=list)
    snapshot: Any = None
    sent: bool = False
    news: bool = False  # figures that the browser has not seen

    @property
    def seconds(self) -> float:
        return self.snapshot.audio_seconds if self.snapshot else 0.0

    def message(self) -> dict[str, Any]:
        """What came since the last message: sound, the curve's last point, counts."""
        samples = np.concatenate(self.pending) if self.pending else np.zeros(0, np.int16)
        self.pending.clear()
        self.sent, self.news, s = True, False, self.snapshot
        shown = ("backbone_steps", "frames_per_step", "lm_rtf", "audio_seconds", "kv_bytes_total", "acceptance")
        counts = {k: getattr(s, k) for k in shown} | {"rtf": s.work_rtf} if s else {}
        last = [round(float(v), 4) for v in self.curve[-1]] if self.curve else None
        return {"kind": "chunk", "id": self.id, "pcm": plots.b64(samples), "point": last, "figures": counts}


class Outbox:
    """Messages on their way to the board, together at most every ``FLUSH_SECONDS``. ``seq`` tells a lost one."""

    def __init__(self, board: Any) -> None:
        self._board, self._seq, self._sent, self._waiting = board, 0, 0.0, []
        self._id = secrets.token_hex(4)

    def add(self, *messages: dict[str, Any]) -> None:
        self._waiting += messages

    def due(self, seconds: float = FLUSH_SECONDS) -> bool:
        return self._seq < 2 or time.monotonic() - self._sent >= seconds

    def update(self) -> dict[Any, Any]:
        self._seq, self._sent = self._seq + 1, time.monotonic()
        messages, self._waiting = self._waiting, []
        return {self._board: message({"box": self._id, "seq": self._seq, "messages": messages})}


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
            path = voices.path_of(form.voice, form.own)
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
            take = yield from self._take(form, voice, visitor, voices.fingerprint(path))
            outcome = "stopped" if job.stop.is_set() else "done"
            yield {
                ui.takes: remember(takes, take),
                ui.after: After(form, str(path), take.id) if outcome == "done" else None,
                ui.status: texts.status(words.done(take), outcome),
            }
        except (UserError, OSError) as error:
            outcome, said, field = "refused", in_words(error), getattr(error, "field", "")
            if form and not form.voice and form.prompt_text and "transcript" in said:
                field = "prompt-text"
            there = {"kind": "refused", "field": field, "words": said, "lane": getattr(error, "lane", None)}
            yield {  # the time tells a mistake made again from the message before
                ui.board: message({"messages": [there], "at": time.monotonic()}),
                ui.status: texts.status(said, "error"),
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

    def _size(self, form: Form) -> float:
        """Seconds of speech that a press makes, in all lanes; further rounds give way to others."""
        return expected(self.handle.now, form.text, form.max_seconds) * (1 + len(form.lanes))

    def check(self, text: str, voice: str | None, consent: bool) -> None:
        """Refuse with a sentence what is missing: text, voice or consent."""
        if not text:
            raise Misplaced("text", "There is no text yet; type something to say.")
        if len(text) > self.limits.max_characters:
            most = self.limits.max_characters
            raise Misplaced("text", f"The text has {len(text)} characters; the limit here is {most}: shorten it.")
        if not voice:
            raise Misplaced("voice", "There is no voice yet; pick one of the voices, or upload or record your own.")
        if not consent and not voices.example_in(voice):
            raise Misplaced("consent", "Tick that this is your own voice or that you may use it.")

    def requests(self, form: Form) -> list[Request]:
        """The baseline and the form's lanes, without their voice."""
        plain = METHODS["baseline"].Options()
        base = Request(form.text, None, "baseline", plain, form.sampling, form.seed, form.max_seconds, form.attention)
        return [base, *(dataclasses.replace(base, method=s.method, options=s.options) for s in form.lanes)]

    def _take(self, form: Form, voice: audio.Recording, visitor: str, voice_hash: str) -> Iterator[dict[Any, Any]]:
        """Drive the engine for all lanes and pass its events on; returns the finished Take."""
        ui, rate, take = self.ui, self.handle.get().sample_rate, Take(secrets.token_hex(6), ())
        requests, box, name = self.requests(form), Outbox(ui.board), form.voice or "your own voice"
        made = Made(form.text, name, form.seed, dataclasses.asdict(form.sampling), form.max_seconds, {}, voice_hash)
        changed = form.changed(self.handle.get().sampling, self.limits.max_seconds)
        found = Collector(requests, made, rate, {"changed": changed}, voice.notes)
        titles = [METHODS[r.method].title for r in requests]
        lives = [Live(take.lane_id(i), title, found.curves[i]) for i, title in enumerate(titles)]
        waiting = [
            plots.head(live.id, take.id, r.method, dataclasses.asdict(r.options), made) | {"title": live.title}
            for live, r in zip(lives, requests)
        ]
        box.add({"kind": "take", "lanes": waiting})
        yield box.update()
        length = expected(self.handle.get(), form.text, form.max_seconds)
        # further rounds follow in the background; a call on ZeroGPU is one acquisition, so there they belong to it
        most = 1 if len(requests) == 1 or not forks() else FEWEST if self.gate.crowded() else MOST
        for which, event in self.runner.events(voice, form.prompt_text, requests, visitor, most, QUICK):
            live = lives[which]
            if isinstance(event, engine.Done):
                box.add(progress(first_share(lives, length), f"Reading the map of {live.title}", MAPS))
                yield box.update()
            found.add(which, event)
            if isinstance(event, WarmingUp):
                yield {ui.status: texts.status(f"Warming up {METHODS[event.method].title}, unheard", "busy")}
            elif isinstance(event, engine.Started):
                box.add({"kind": "start", "id": live.id, "sr": rate, "length": length})
                yield {ui.status: texts.status(started(len(requests)), "busy"), **box.update()}
            elif isinstance(event, engine.Audio):
                live.pending.append(to_int16(event.samples))
                continue  # its figures follow at once and go along
            elif isinstance(event, engine.Stats):
                live.snapshot, live.news = event.snapshot, True
                sound = live.pending and (box.due() or not live.sent)
                if sound or box.due(FIGURES_SECONDS):
                    box.add(*(lane.message() for lane in lives if lane.pending or lane.news))
                    box.add(progress(first_share(lives, length), *speaking(lives, length)))
                    yield box.update()
            elif isinstance(event, engine.AttentionUpdate):
                attention, frame = attention_from(event.attention), 1 / self.handle.get().frame_rate
                box.add({"kind": "looked", "id": live.id, **plots.so_far(attention, found.steps[which], frame)})
                yield box.update()
            elif isinstance(event, engine.Done):
                live.pending.clear()
                box.add({"kind": "lane", "lane": plots.lane_payload(found.lane(which), live.id, take.id)})
                yield box.update()
        take = dataclasses.replace(take, lanes=found.lanes)
        follows = len(take.lanes) > 1 or self.transcriber.available
        last = progress(0.0, "Speak is free:", "words and further rounds follow") if follows and lasting(take) else None
        box.add({"kind": "speeds", "lanes": plots.speeds(take)}, last or progress(None))
        yield box.update()
        return take

    # -- in the background ------------------------------------------------------------------------------------

    def after(self, request: gr.Request, takes: list[Take], after: After | None) -> Iterator[dict[Any, Any]]:
        """What follows a run without holding anybody up: its words are checked, then further rounds are timed. Gives
        the device to whoever orders speech, and goes on once it is free; this visitor's next order ends it."""
        visitor, listening = request.session_hash or "api", client(self.runner.presence).wanted
        take = next((take for take in takes if after and take.id == after.take), None)
        if take is None or not take.lanes:
            return
        box, todo = Outbox(self.ui.board), list(self._todo(after, take))
        waited = time.monotonic()
        while todo and listening() and not self.gate.has(visitor):
            job = self.gate.spare(visitor, listening)
            if job is None:
                if time.monotonic() - waited > PATIENCE_SECONDS:
                    break
                time.sleep(WAIT_SECONDS)
                continue
            try:
                while todo and not job.stopping():
                    for messages, timed in todo[0](take, job):
                        take = timed or take
                        box.add(*messages)
                        if timed or box.due(FIGURES_SECONDS):
                            yield {**box.update(), **({self.ui.takes: replaced(takes, take)} if timed else {})}
                    if not job.stopping():
                        todo.pop(0)
            finally:
                stopped = job.stop.is_set()
                job.leave()
            waited = time.monotonic()
            if stopped:
                break
        box.add(progress(None))
        yield box.update()

    def _todo(self, after: After, take: Take) -> Iterator[Callable[[Take, Job], Iterator[Step]]]:
        """The parts of ``after``: each may be begun anew where it had to give way."""
        if self.transcriber.available:
            for index in range(len(take.lanes)):
                yield functools.partial(self._check_words, index)
        if len(take.lanes) > 1 and lasting(take) and not forks():
            yield functools.partial(self._time, after)

    def _check_words(self, index: int, take: Take, job: Job) -> Iterator[Step]:
        lane, count = take.lanes[index], len(take.lanes)
        yield [progress(index / count, f"Checking the words of {lane.title}", "then timing further rounds")], None
        figures = self.transcriber.score(lane, None)
        yield [{"kind": "figures", "id": take.lane_id(index), "figures": figures}], None

    def _time(self, after: After, take: Take, job: Job) -> Iterator[Step]:
        """Rounds that the take does not have yet."""
        snapshots = [lane.metrics for lane in take.lanes]
        first = First(sum(s["total_seconds"] for s in snapshots), sum(s["frames"] for s in snapshots))
        requests, number = self.requests(after.form), len(take.lanes[0].rounds)
        voice = self.runner.recordings.read(after.voice, None)
        given = voice, after.form.prompt_text, requests, first, number, job.stopping
        for _, event in self.runner.timing(*given):
            if isinstance(event, RoundProgress):
                share = (event.number - 2 + event.share) / max(1, event.count - 1)
                yield [progress(share, f"Timing round {event.number} of {event.count}, unheard", "")], None
            else:
                lanes = tuple(timed(lane, event, i) for i, lane in enumerate(take.lanes))
                take = dataclasses.replace(take, lanes=lanes)
                yield [{"kind": "speeds", "lanes": plots.speeds(take)}], take

    def stop(self, request: gr.Request) -> None:
        """Ask this visitor's run to stop, because they said so or closed the page; others are untouched. The run alone
        says how it ended: a word of this one's own would now and then come behind it and stay."""
        self.gate.stop(request.session_hash or "api")


def started(count: int) -> str:
    return f"{count} results are spoken in turns; you hear the first" if count > 1 else "The baseline is spoken"


def progress(share: float | None, now: str = "", left: str = "") -> dict[str, Any]:
    """A message for the bar above the lanes: the share that is done, what runs now, what is left; None: all is done."""
    return {"kind": "progress", "share": share, "now": now, "left": left}


def first_share(lives: Sequence[Live], length: float) -> float:
    """How much of the first round is done, going by the speech that is expected."""
    return min(1.0, sum(min(live.seconds, length) for live in lives) / max(0.1, length * len(lives)))


def speaking(lives: Sequence[Live], length: float) -> tuple[str, str]:
    """What runs in a first round, and what is left of it."""
    seconds = sum(live.seconds for live in lives)
    now = f"Speaking: {seconds:.1f} s of about {length * len(lives):.0f} s" + (" in all" if len(lives) > 1 else "")
    return now, MAPS


def lasting(take: Take) -> bool:
    """Whether nobody stopped it."""
    return bool(take.lanes) and not any(lane.stopped for lane in take.lanes)


def replaced(takes: Sequence[Take], take: Take) -> list[Take]:
    """The takes with this one in the place of its earlier state."""
    return [take if old.id == take.id else old for old in takes]
