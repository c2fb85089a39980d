"""The public endpoints, /synthesize, /compare and /methods, usable from ``gradio_client``, curl and, where Gradio's
MCP extra is installed, from an assistant. Everything else the page calls is private.
"""

import dataclasses
import time
import uuid
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.exceptions import ComponentProcessingError
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from ..config import Sampling, UserError
from ..methods import METHODS
from . import asked, voices
from .presence import client
from .run.collect import Collector
from .run.session import Lane, Made, describe, wav
from .runs import Runner, expected
from .service import gradio_errors, log_line

FIELDS = ("text", "voice", "consent", "method", "options", "prompt_text", "seed", "temperature", "max_seconds")
NO_VOICE = "must be a recording that was uploaded here, for example by handle_file of gradio_client, or the name of a \
bundled voice."
FILE = {"_type": "gradio.FileData"}


def methods() -> list[dict[str, Any]]:
    """List the decoding methods with their options, ranges and papers."""
    return [
        {
            "name": m.name,
            "title": m.title,
            "paper": m.paper,
            "idea": m.idea,
            "options": [{"name": f.name, "default": f.default, **f.metadata} for f in dataclasses.fields(m.Options)],
        }
        for m in METHODS.values()
    ]


class Endpoints:
    """The same gate, limits and engine as the page, without its components."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    @gradio_errors()
    def synthesize(
        self,
        text: str,
        voice: dict,
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
            voice: recording of the voice to copy, at least a second; of a long one ten seconds are used. Or the name
                of a bundled voice, such as "Maya".
            consent: true when it is your own voice or you have the speaker's permission; required for a recording.
            method: baseline, tldr, dcar, qtts, compressed or ssd; see /methods.
            options: the method's options, for example {"patch_size": 4}; empty for its defaults.
            prompt_text: what the recording says, may be empty; of a bundled voice it is known.
            seed: same seed and settings on the same device give the same speech.
            temperature: 0 always takes the likeliest token.
            max_seconds: longest speech to make.

        Returns:
            The speech as a 16-bit WAV file, and a record of its settings and measurements.
        """
        values = (text, voice, consent, method, options, prompt_text, seed, temperature, max_seconds)
        lanes = self._run([method], values, progress)
        return kept_wav(lanes[0]), describe(lanes[0])

    @gradio_errors()
    def compare(
        self,
        text: str,
        voice: dict,
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
            voice: recording of the voice to copy, at least a second; of a long one ten seconds are used. Or the name
                of a bundled voice, such as "Maya".
            consent: true when it is your own voice or you have the speaker's permission; required for a recording.
            method: tldr, dcar, qtts, compressed or ssd; see /methods.
            options: the method's options, for example {"tolerance": 0.4}; empty for its defaults.
            prompt_text: what the recording says, may be empty; of a bundled voice it is known.
            seed: same seed and settings on the same device give the same speech.
            temperature: 0 always takes the likeliest token.
            max_seconds: longest speech to make.

        Returns:
            Baseline speech and method speech as 16-bit WAV files, and the measurements of both.
        """
        values = (text, voice, consent, method, options, prompt_text, seed, temperature, max_seconds)
        lanes = self._run(["baseline", method], values, progress)
        record = {name: describe(lane) for name, lane in zip(("baseline", "method"), lanes)}
        return kept_wav(lanes[0]), kept_wav(lanes[1]), record

    def _run(self, names: list[str], values: tuple[Any, ...], progress: gr.Progress) -> tuple[Lane, ...]:
        """One lane for each method of ``names``, in turns. values: of ``FIELDS``."""
        fields = dict(zip(FIELDS, values, strict=True))
        runner, started, outcome = self.runner, time.monotonic(), "refused"
        visitor, job = f"api-{uuid.uuid4().hex}", None
        try:
            wanted = asked.Asked.of(runner.limits, fields)
            path = uploaded(fields["voice"])
            bundled = voices.example_in(path)
            if not bundled:
                asked.consent(fields)
            transcript = wanted.prompt_text or (bundled.transcript if bundled else "")
            size = len(names) * expected(runner.handle.now, wanted.text, wanted.max_seconds)
            asking = client(runner.presence)
            job = runner.gate.join(visitor, asking.wanted, size, asking.address)
            outcome = "left"
            for sentence in job.waiting(runner.handle):
                progress(None, desc=sentence)
            progress(None, desc="Speaking")
            stack = runner.handle.get()
            recording = runner.recordings.read(path, None, stack)
            base = wanted.request(stack.sampling)
            requests = [wanted.request(stack.sampling, plain=n == "baseline") for n in names]
            made = Made(base.text, "given", base.seed, dataclasses.asdict(base.sampling), base.max_seconds, {})
            found = Collector(requests, made, stack.sample_rate, {"consent": not bundled}, recording.notes)
            for which, event in runner.events(recording, transcript, requests, visitor):
                found.add(which, event)
            if not found.complete:
                raise UserError("The run was stopped before it ended.")
            outcome = "done"
            return found.lanes
        except UserError:
            outcome = outcome if job and job.stopping() else "refused"
            raise
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


def uploaded(voice: Any) -> Path:
    """The recording that ``voice`` of an endpoint names, as Gradio's clients send it."""
    if voice is None:
        raise asked.BadField("voice", "is missing: upload a recording of the voice to copy.")
    try:
        return voices.uploaded(voice["path"])
    except (UserError, TypeError, KeyError, ValueError):
        raise asked.BadField("voice", NO_VOICE) from None


def kept_wav(lane: Lane) -> str:
    """The lane as a WAV file among Gradio's files."""
    return save_bytes_to_cache(wav(lane), f"{lane.method}-seed{lane.made.seed}.wav", get_upload_folder())


class Page(gr.Blocks):
    """Blocks that take files by their upload alone: an address or another path is refused before Gradio looks at it.
    Of a session it keeps states, and no copy of what was sent: Gradio would, for deep links, a megabyte a visitor."""

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, *more: Any, **named: Any
    ) -> list[Any]:
        inputs = [as_upload(value) if isinstance(b, gr.Audio) else value for b, value in zip(block_fn.inputs, inputs)]
        for block, value in zip(block_fn.inputs, inputs):
            wrong = value is not None and not is_upload(value) if isinstance(block, gr.Audio) else names_file(value)
            if wrong:
                raise gr.Error(f"voice {NO_VOICE}", print_exception=False, title="Not yet")
        try:
            return await super().preprocess_data(block_fn, inputs, state, *more, **named)
        finally:
            forget(state)

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        try:
            with gradio_errors():
                return await super().postprocess_data(block_fn, predictions, state)
        except ComponentProcessingError as error:  # Gradio copies files, for which there may be no room
            if not isinstance(error.__cause__, OSError):
                raise
            with gradio_errors():
                raise error.__cause__ from None
        finally:
            forget(state)


def forget(state: Any) -> None:
    """Drop the values of components that a session's state repeats; without a session there is none."""
    if state is not None:
        state.config_values.clear()


def as_upload(value: Any) -> Any:
    """The name of a bundled voice as the file that an upload of it would be; anything else as it is."""
    example = voices.example(value) if isinstance(value, str) else None
    if not example:
        return value
    copy = save_bytes_to_cache(example.path.read_bytes(), example.path.name, get_upload_folder())
    return {"path": copy, "meta": FILE}


def is_upload(value: Any) -> bool:
    """Whether a client's JSON is a file that was uploaded here, in Gradio's form."""
    try:
        return value["meta"] == FILE and bool(voices.uploaded(value["path"]))
    except (UserError, TypeError, KeyError, ValueError):
        return False


def names_file(value: Any) -> bool:
    """Whether a client's JSON holds, at any depth, what Gradio would take for a file and open or fetch."""
    if isinstance(value, dict):
        return "path" in value and "meta" in value or any(map(names_file, value.values()))
    return isinstance(value, list) and any(map(names_file, value))


def register(runner: Runner) -> None:
    """Hidden components that give the endpoints their types, and the endpoints themselves. JSON values come as they
    were sent (``preprocess=False``), for ``asked`` to check: Gradio's components would take 1.5 for a seed of 2, the
    text "false" for true and a list for the text of a list. Whoever waits does so in the gate's line, as the page does,
    and sees how long through Gradio's progress messages."""
    ends, line = Endpoints(runner), {"concurrency_id": "line", "concurrency_limit": None, "preprocess": False}
    with gr.Column(visible=False):
        inputs = [
            gr.Textbox(label="text"),
            gr.Audio(label="voice", type="filepath", sources=["upload"]),
            gr.Checkbox(False, label="consent"),
            gr.Textbox("baseline", label="method"),
            gr.JSON(value={}, label="options"),
            gr.Textbox("", label="prompt_text"),
            gr.Number(1, label="seed"),
            gr.Number(Sampling().temperature, label="temperature"),
            gr.Number(20, label="max_seconds"),
        ]
        first, second = gr.Audio(label="speech"), gr.Audio(label="method speech")
        record = gr.JSON(label="record")
        for call, outputs in ((ends.synthesize, [first, record]), (ends.compare, [first, second, record])):
            gr.Button().click(call, inputs, outputs, api_name=call.__name__, api_visibility="public", **line)
    gr.api(methods, api_name="methods", queue=False)
