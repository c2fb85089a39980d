"""The public endpoints, /synthesize, /compare and /methods, usable from ``gradio_client``, curl and, where Gradio's
MCP extra is installed, from an assistant. Everything else the page calls is private.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import Any

import gradio as gr

from .. import engine
from ..config import Sampling, UserError
from ..methods import METHODS
from . import asked
from .page import controls, voices
from .page.handlers import Handlers, Heard, expected
from .run.session import Lane, Made, describe, lane_from
from .service import listened_to, log, log_line, told

FIELDS = ("text", "voice", "consent", "method", "options", "prompt_text", "seed", "temperature", "max_seconds")


def methods() -> list[dict[str, Any]]:
    """List the decoding methods with their options, ranges and papers."""
    return [
        {
            "name": m.name,
            "title": m.title,
            "paper": m.paper,
            "idea": m.idea,
            "options": [{"name": f.name, "default": f.default, **f.metadata} for f in controls.fields(m)],
        }
        for m in METHODS.values()
    ]


class Endpoints:
    """The same gate, limits and engine as the page, without its components."""

    def __init__(self, act: Handlers) -> None:
        self.act = act

    @told()
    def synthesize(
        self,
        text: str,
        voice: str,
        consent: bool,
        method: str,
        options: dict | None,
        prompt_text: str,
        seed: int,
        temperature: float,
        max_seconds: float,
        progress: gr.Progress = gr.Progress(),
    ) -> tuple[str, dict[str, Any]]:
        """Speak a text in the voice of a recording with one decoding method.

        Args:
            text: English text to speak.
            voice: recording of the voice to copy, at least a second; of a long one ten seconds are used.
            consent: true when it is your own voice or you have the speaker's permission; required.
            method: baseline, tldr, dcar, qtts, compressed or ssd; see /methods.
            options: the method's options, for example {"patch_size": 4}; empty for its defaults.
            prompt_text: what the recording says, may be empty.
            seed: same seed and settings on the same device give the same speech.
            temperature: 0 always takes the likeliest token.
            max_seconds: longest speech to make.

        Returns:
            The speech as a 16-bit WAV file, and a record of its settings and measurements.
        """
        values = (text, voice, consent, method, options, prompt_text, seed, temperature, max_seconds)
        lanes = self._run([method], values, progress)
        return self.act.views.wav(lanes[0]), describe(lanes[0])

    @told()
    def compare(
        self,
        text: str,
        voice: str,
        consent: bool,
        method: str,
        options: dict | None,
        prompt_text: str,
        seed: int,
        temperature: float,
        max_seconds: float,
        progress: gr.Progress = gr.Progress(),
    ) -> tuple[str, str, dict[str, Any]]:
        """Speak a text twice, by the baseline and by a method in turns, with the same voice, seed and sampling.

        Args:
            text: English text to speak.
            voice: recording of the voice to copy, at least a second; of a long one ten seconds are used.
            consent: true when it is your own voice or you have the speaker's permission; required.
            method: tldr, dcar, qtts, compressed or ssd; see /methods.
            options: the method's options, for example {"tolerance": 0.4}; empty for its defaults.
            prompt_text: what the recording says, may be empty.
            seed: same seed and settings on the same device give the same speech.
            temperature: 0 always takes the likeliest token.
            max_seconds: longest speech to make.

        Returns:
            Baseline speech and method speech as 16-bit WAV files, and the measurements of both.
        """
        values = (text, voice, consent, method, options, prompt_text, seed, temperature, max_seconds)
        lanes = self._run(["baseline", method], values, progress)
        record = {name: describe(lane) for name, lane in zip(("baseline", "method"), lanes)}
        return self.act.views.wav(lanes[0]), self.act.views.wav(lanes[1]), record

    def _run(self, names: list[str], values: tuple[Any, ...], progress: gr.Progress) -> list[Lane]:
        """One lane for each method of ``names``, in turns. values: of ``FIELDS``."""
        fields = dict(zip(FIELDS, values, strict=True))
        act, started, outcome = self.act, time.monotonic(), "refused"
        visitor, job = f"api-{uuid.uuid4().hex}", None
        try:
            wanted = asked.Asked.of(act.limits, fields)
            asked.consent(fields)
            if not fields["voice"]:
                raise asked.BadField("voice", "is missing: upload a recording of the voice to copy.")
            size = len(names) * expected(wanted.text, wanted.max_seconds)
            job = act.gate.join(visitor, listened_to(), size)
            outcome = "left"
            for sentence in job.waiting(act.handle):
                progress(None, desc=sentence)
            progress(None, desc="Speaking")
            stack = act.handle.get()
            rate, recording = stack.sample_rate, voices.read(fields["voice"], act.limits, None, stack)
            base = wanted.request(stack.sampling)
            requests = [wanted.request(stack.sampling, plain=n == "baseline") for n in names]
            made = Made(base.text, "given", base.seed, dataclasses.asdict(base.sampling), base.max_seconds, {})
            lanes, facts = {}, {}
            for place, event in act.events(recording, wanted.prompt_text, requests, visitor):
                if isinstance(event, Heard):
                    notes = list(dict.fromkeys((*recording.notes, *event.notes)))
                    facts = {"prompt_seconds": event.seconds, "notes": notes, "consent": True}
                elif isinstance(event, engine.Started):
                    facts |= act.conditions(event, facts)
                elif isinstance(event, engine.Done):
                    spoken = requests[place]
                    lanes[place] = lane_from(event, METHODS[spoken.method].title, spoken, made, rate, [])
            if len(lanes) < len(names):
                raise UserError("The run was stopped before it ended.")
            outcome = "done"
            made = dataclasses.replace(made, conditions=facts)
            return [dataclasses.replace(lanes[i], made=made) for i in range(len(names))]
        finally:
            if job:
                job.leave()
            text = fields["text"]
            log_line(
                "api",
                method=str(fields["method"])[:32],
                outcome=outcome,
                characters=len(text) if isinstance(text, str) else 0,
                consent=fields["consent"] is True,
                seconds=round(time.monotonic() - started, 2),
            )


class Page(gr.Blocks):
    """Blocks that refuse a wrong ``voice`` of an endpoint, the one field that Gradio itself looks into, by its name."""

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *more: Any, **named: Any) -> list[Any]:
        if block_fn.api_visibility != "public":
            return await super().preprocess_data(block_fn, inputs, *more, **named)
        self.validate_inputs(block_fn, inputs)
        try:
            return await super().preprocess_data(block_fn, inputs, *more, **named)
        except Exception as error:
            log.debug("a voice that is none", exc_info=error)
            words = "voice must be a recording that was uploaded here, for example by handle_file of gradio_client."
            raise gr.Error(words, print_exception=False, title="Not yet") from None


class AsSent:
    """A component that hands on the JSON value as it came, for ``asked`` to judge: Gradio's own would take 1.5 for a
    seed of 2, the text "false" for true and a list for the text of a list."""

    def preprocess(self, payload: Any) -> Any:
        return payload

    def get_block_name(self) -> str:
        """The browser draws it as the component it derives from."""
        return type(self).__bases__[-1].__name__.lower()


class SentText(AsSent, gr.Textbox):
    pass


class SentNumber(AsSent, gr.Number):
    pass


class SentTick(AsSent, gr.Checkbox):
    pass


class SentObject(AsSent, gr.JSON):
    pass


def register(act: Handlers) -> None:
    """Hidden components that give the endpoints their types, and the endpoints themselves. Who waits does so in the
    gate's line, as the page does, and is told how long through Gradio's progress messages."""
    ends, line = Endpoints(act), {"concurrency_id": "line", "concurrency_limit": None}
    with gr.Column(visible=False):
        inputs = [
            SentText(label="text"),
            gr.Audio(label="voice", type="filepath", sources=["upload"]),
            SentTick(False, label="consent"),
            SentText("baseline", label="method"),
            SentObject(value={}, label="options"),
            SentText("", label="prompt_text"),
            SentNumber(1, label="seed"),
            SentNumber(Sampling().temperature, label="temperature"),
            SentNumber(20, label="max_seconds"),
        ]
        first, second = gr.Audio(label="speech"), gr.Audio(label="method speech")
        record = gr.JSON(label="record")
        for call, outputs in ((ends.synthesize, [first, record]), (ends.compare, [first, second, record])):
            gr.Button().click(call, inputs, outputs, api_name=call.__name__, api_visibility="public", **line)
    gr.api(methods, api_name="methods", queue=False)
