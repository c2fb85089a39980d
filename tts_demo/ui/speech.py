"""OpenAI's ``POST /v1/audio/speech`` and ``GET /v1/models`` on this page's model, for programs that speak no other
language. The same line before the device, limits and engine as the page."""

import asyncio
import base64
import binascii
import dataclasses
import json
import re
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .. import engine
from ..config import UserError, nearest
from . import voices
from .asked import Asked, BadField, about, consent, string
from .bodies import Refusal
from .formats import TYPES, FileEncoder
from .guard import UNBUFFERED
from .presence import address
from .refusals import NoSuchModel, error_body, refusal
from .run.collect import PromptEncoded
from .run.session import to_int16
from .runs import Runner, expected
from .service import log, log_line

MARK = {"X-Synthetic-Speech": "tts_demo"}
IGNORED = ("instructions",)  # of OpenAI's fields: styles that our models do not know
SERVED = "POST /v1/audio/speech, GET /v1/models and GET /v1/models/{id} are served"
FIELDS = {
    *("model", "input", "voice", "response_format", "speed", "stream", "stream_format", *IGNORED),
    *("method", "options", "seed", "temperature", "max_seconds", "ref_audio", "ref_text", "consent"),
}


@dataclass(frozen=True)
class Order:
    """A checked request. voice: encoded bytes of a recording, ``own``: which the client sent. sse: pieces as events
    instead of bare bytes. notes: what of it was left unread, one sentence each."""

    asked: Asked
    voice: bytes
    own: bool
    form: str
    stream: bool
    sse: bool
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: Any, runner: Runner) -> "Order":
        if not isinstance(fields, Mapping):
            raise UserError("The body must be a JSON object.")
        for name in fields:
            if name not in FIELDS:
                near = nearest(name, FIELDS)
                raise BadField(name, f"is not known here.{near} Known are {', '.join(sorted(FIELDS))}.")
        stack = runner.handle.get(timeout=0)
        if string(fields, "model") != stack.name:
            raise NoSuchModel(fields["model"], stack.name)
        speed = fields.get("speed")
        if speed is not None and (speed != 1 or isinstance(speed, bool)):
            raise BadField("speed", "must be 1: these models speak at the pace of the voice.")
        form = string(fields, "response_format", "mp3")
        if form not in TYPES:
            raise BadField("response_format", f"must be one of {', '.join(TYPES)}, not {form!r}.")
        kind = string(fields, "stream_format", "audio")
        if kind not in ("audio", "sse"):
            raise BadField("stream_format", f"must be audio or sse, not {kind!r}.")
        stream = fields.get("stream", "stream_format" in fields)
        if not isinstance(stream, bool):
            raise BadField("stream", "must be true or false.")
        if kind == "sse" and not stream:
            raise BadField("stream", "must be true, or left out, where stream_format is sse: events are a stream.")
        own = {k: fields[k] for k in ("method", "options", "seed", "temperature", "max_seconds") if k in fields}
        recording, transcript = recording_of(fields, runner.limits.max_upload_mb)
        try:
            asked = Asked.of(runner.limits, own | {"text": string(fields, "input"), "prompt_text": transcript})
        except BadField as error:
            renamed = {"text": "input", "prompt_text": "ref_text"}
            if error.field not in renamed:
                raise
            raise BadField(renamed[error.field], error.message) from None
        with about("input"):
            stack.split(asked.text)  # raises where something cannot be spoken
        unread = tuple(f"{name} is left unread: these models take no style." for name in IGNORED if fields.get(name))
        return cls(asked, recording, "ref_audio" in fields, form, stream, kind == "sse", unread)


def recording_of(fields: Mapping[str, Any], most_mb: int) -> tuple[bytes, str]:
    """The recording to copy and its transcript: a bundled voice by its name, or ``ref_audio`` in base64, which needs
    consent."""
    if "ref_audio" in fields:
        consent(fields)
        sent = string(fields, "ref_audio")
        sent = sent.split(",", 1)[1] if sent.startswith("data:") and "," in sent else sent
        if len(sent) > most_mb * 1_400_000:
            raise BadField("ref_audio", f"is too big; the limit here is {most_mb} MB.")
        try:
            return base64.b64decode(sent, validate=True), string(fields, "ref_text", "")
        except (binascii.Error, ValueError):
            raise BadField("ref_audio", "must be a recording in base64; addresses are not fetched.") from None
    if string(fields, "ref_text", ""):
        raise BadField("ref_text", "is the transcript of ref_audio, which is missing: send both, or neither.")
    name = string(fields, "voice")
    if example := voices.example(name):
        return example.path.read_bytes(), example.transcript
    names = ", ".join(e.name for e in voices.examples())
    raise BadField("voice", f"{name!r} is not known; choose {names}, or send ref_audio.")


def listed(runner: Runner) -> list[dict[str, Any]]:
    """Models in OpenAI's form: the loaded stack."""
    stack = runner.handle.now
    return [{"id": stack.name, "object": "model", "created": 0, "owned_by": "tts_demo"}] if stack else []


class Speaking:
    """One order on a thread of its own, which outlives no client: ``left`` ends it at the next step."""

    def __init__(self, order: Order, runner: Runner, who: str = "") -> None:
        self.order, self.runner, self._address = order, runner, who
        self.left = threading.Event()
        self.notes = list(order.notes)  # then what the run says about itself, one sentence each
        self._loop = asyncio.get_running_loop()
        self.pieces: asyncio.Queue[Any] = asyncio.Queue()  # bytes, at the end None or the error that ended it
        threading.Thread(target=self._work, daemon=True, name="speech").start()

    def _say(self, piece: Any) -> None:
        self._loop.call_soon_threadsafe(self.pieces.put_nowait, piece)

    def _work(self) -> None:
        started, outcome, order, runner = time.monotonic(), "refused", self.order, self.runner
        visitor, job, last = f"v1-{uuid.uuid4().hex}", None, None
        try:
            size = expected(runner.handle.now, order.asked.text, order.asked.max_seconds)
            job = runner.gate.join(visitor, lambda: not self.left.is_set(), size, self._address)
            for _ in job.waiting(runner.handle):
                pass
            outcome = "left"
            for samples in self._speech(visitor):
                self._say(samples)
            outcome = "stopped" if job.stopping() else "done"
            if outcome == "stopped":
                raise UserError("The run was stopped before it ended.")
        except UserError as error:
            outcome, last = outcome if job and job.stopping() else "refused", error
        except Exception as error:  # nobody above: the client gets a sentence, the log has the traceback
            outcome = "failed"
            log.exception("a run failed")
            last = error
        finally:
            if job:
                job.leave()
            seconds = round(time.monotonic() - started, 2)
            log_line("v1", method=order.asked.method, outcome=outcome, form=order.form, seconds=seconds)
            self._say(last)  # after leaving the line: whoever has the answer may ask again

    def _speech(self, visitor: str) -> Any:
        """Encoded pieces, the last of them the end of the file."""
        order, runner = self.order, self.runner
        stack = runner.handle.get()
        with about("ref_audio" if order.own else "voice"):
            recording = runner.recordings.prompt(order.voice, None, stack if order.own else None)
        self._note(recording.notes)
        request = order.asked.request(stack.sampling)
        facts = {"method": request.method, "options": dataclasses.asdict(request.options), "seed": request.seed}
        facts |= {"stack": stack.name, "checkpoint_hash": stack.checkpoint_hash}
        encoder = FileEncoder(order.form, stack.sample_rate, facts, whole=not order.stream)
        for _, event in runner.events(recording, order.asked.prompt_text, [request], visitor):
            if isinstance(event, engine.Audio) and len(event.samples):
                yield encoder.push(to_int16(event.samples))
            elif isinstance(event, (PromptEncoded, engine.Done)):
                self._note(event.notes)
        yield encoder.finish()

    def _note(self, sentences: Iterable[str]) -> None:
        self.notes = list(dict.fromkeys((*self.notes, *sentences)))


async def answer(http: HTTPRequest, runner: Runner) -> Response:
    """One ``POST /v1/audio/speech``."""
    try:
        fields = await body(http, runner.limits.max_upload_mb)
        order = await asyncio.to_thread(Order.of, fields, runner)
    except UserError as error:
        return refusal(error)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it
    speaking = Speaking(order, runner, address(http.client.host if http.client else None))
    gone = asyncio.create_task(hung_up(http, speaking))
    while (first := await speaking.pieces.get()) == b"":
        pass
    if isinstance(first, Exception):
        gone.cancel()
        return refusal(first)
    if order.stream:
        kind = "text/event-stream" if order.sse else TYPES[order.form]
        return StreamingResponse(pieces(speaking, first, gone), media_type=kind, headers=headers(speaking) | UNBUFFERED)
    data = [piece async for piece in pieces(speaking, first, gone)]
    return Response(b"".join(data), media_type=TYPES[order.form], headers=headers(speaking))


def headers(speaking: Speaking) -> dict[str, str]:
    """That it is synthetic, and in ``X-Notes`` a JSON list of the notes so far, where there are any."""
    return MARK | ({"X-Notes": json.dumps(speaking.notes)} if speaking.notes else {})


async def pieces(speaking: Speaking, first: bytes | None, gone: asyncio.Task) -> AsyncIterator[bytes]:
    """The file, or events that hold it. However it is left, the run ends."""
    sse, piece = speaking.order.sse, first
    try:
        while piece is not None:
            if isinstance(piece, Exception):
                if sse:
                    yield event({"type": "error", "error": error_body(piece)})
                return
            if piece:
                delta = {"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()} if sse else None
                yield event(delta) if delta else piece
            piece = await speaking.pieces.get()
        if sse:
            yield event({"type": "speech.audio.done", "usage": None, "notes": speaking.notes})
    finally:
        gone.cancel()
        speaking.left.set()


async def hung_up(http: HTTPRequest, speaking: Speaking) -> None:
    """Watch the connection."""
    while not await http.is_disconnected():
        await asyncio.sleep(0.1)
    speaking.left.set()


async def body(http: HTTPRequest, most_mb: int) -> Any:
    """The JSON of the request, of which no more is kept than an upload may have."""
    most = most_mb * 1_400_000 + 100_000
    with tempfile.SpooledTemporaryFile(1_000_000) as kept:  # what comes slowly takes no memory
        async for part in http.stream():
            kept.write(part)
            if kept.tell() > most:
                raise UserError(f"The body is too big; the limit of a recording is {most_mb} MB.")
        kept.seek(0)
        try:
            return json.load(kept)
        except (ValueError, RecursionError):  # of bad UTF-8 too
            raise UserError("The body is not JSON.") from None


def event(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


def routes(runner: Runner) -> list[Route]:
    async def speech(http: HTTPRequest) -> Response:
        return await answer(http, runner)

    async def models(_: HTTPRequest) -> Response:
        return JSONResponse({"object": "list", "data": listed(runner)})

    async def model(http: HTTPRequest) -> Response:
        try:
            runner.handle.get(timeout=0)
        except UserError as error:
            return refusal(error)
        asked, known = http.path_params["id"], listed(runner)
        found = next((one for one in known if one["id"] == asked), None)
        return JSONResponse(found) if found else refusal(NoSuchModel(asked, known[0]["id"]))

    async def nothing(http: HTTPRequest) -> Response:
        path = http.url.path.rstrip("/")
        takes = "POST" if path == "/v1/audio/speech" else "GET" if re.match(r"/v1/models(?:/|$)", path) else ""
        message = f"{path} takes {takes} only." if takes else f"There is no {path} here; {SERVED}."
        return Refusal(405 if takes else 404, message).response(openai=True)

    return [
        Route("/v1/audio/speech", speech, methods=["POST"]),
        Route("/v1/audio/speech/", speech, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{id:path}", model),
        Route("/v1{rest:path}", nothing, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
    ]
