"""What the server takes from the network, before Gradio sees it: addresses, sizes and forms of requests, how many at a
time from one visitor; and headers of every answer. A plain ASGI middleware."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect

from .bodies import Refusal, checked
from .limits import Limits
from .presence import Client, Presence, address, asking

API = "/gradio_api"
SMALL = 1_000_000  # bytes of a body
POSTS = re.compile(
    rf"(?:{API}/(?:queue/join|(?:run|api|call|call/v2)/[^/]+|cancel|component_server|reset|upload|mcp(?:/.*)?)|/v1.*)/?"
)
CLOSED = re.compile(
    rf"{API}/(?:proxy=|deep_link|stream/|process_recording|vibe|undo-vibe|run-history)|/monitoring|/login"
)
ELSEWHERE = re.compile(rf"{API}/file=\s*[a-z][a-z0-9+.-]*:", re.IGNORECASE)  # not C:/..., for that is no path here
RANGE = re.compile(r"bytes=\d*-\d*(?:,\s*\d*-\d*)*")
STREAMS = re.compile(rf"{API}/(?:queue/data|call/(?:v2/)?[^/]+/(?P<event>[^/]+)|heartbeat/[^/]+)/?")
FRAMES = "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co https://*.hf.space"
UNBUFFERED = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}  # of streams: no proxy holds them back
FEW, LARGE, STREAM, WAITING = "requests", "large bodies", "streams", "requests that wait"
PATIENCE = 10.0  # seconds that a request waits for its address' others: a class of 25 may open the page together

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass
class Counts:
    """How many of a kind are under way, in all and for one address. Used on the event loop alone."""

    most: dict[str, tuple[int, int]]  # for one address, in all
    _now: Counter[tuple[str, str]] = field(default_factory=Counter)

    def full(self, kind: str, address: str) -> bool:
        each, total = self.most[kind]
        return self._now[kind, address] >= each or self._now[kind, ""] >= total

    @asynccontextmanager
    async def in_turn(self, kind: str, address: str) -> AsyncIterator[None]:
        """``one``, for which a bounded number may wait a while."""
        with self.one(WAITING, address):
            end = time.monotonic() + PATIENCE
            while self.full(kind, address) and time.monotonic() < end:
                await asyncio.sleep(0.05)
        with self.one(kind, address):
            yield

    @contextmanager
    def one(self, kind: str, address: str) -> Iterator[None]:
        """Refusal where there are too many."""
        if self.full(kind, address):
            raise Refusal(429, f"Too many {kind} at once; wait until some have ended, then try again.")
        keys = [(kind, address), (kind, "")] if address else [(kind, "")]
        self._now.update(keys)
        try:
            yield
        finally:
            self._now.subtract(keys)
            for key in keys:
                if not self._now[key]:
                    del self._now[key]


class Guard:
    """``blocks``: the page, which is known once it is built."""

    def __init__(self, app: Any, blocks: Any, limits: Limits, presence: Presence) -> None:
        self.app, self.blocks, self.limits, self.presence = app, blocks, limits, presence
        most = {FEW: (24, 400), WAITING: (200, 1000), LARGE: (limits.per_address, 32), STREAM: (100, 1000)}
        self.counts = Counts(most)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        send = with_headers(send)
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._guarded(path, scope, receive, noted)
        except Refusal as error:
            if not started:
                await error.response(path.startswith("/v1"))(scope, receive, send)
        except ClientDisconnect:
            pass  # nobody reads an answer

    async def _guarded(self, path: str, scope: Message, receive: Receive, send: Send) -> None:
        method, who = scope["method"], address((scope.get("client") or [None])[0])
        refuse(path, method, scope)
        if stream := STREAMS.fullmatch(path) if method == "GET" else None:
            with self.counts.one(STREAM, who):
                await self._stream(stream["event"], scope, receive, send)
        elif method in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
        elif path.rstrip("/") in (f"{API}/upload", "/v1/audio/speech"):
            with nullcontext() if 0 < declared(scope) <= SMALL else self.counts.one(LARGE, who):
                await self.app(scope, capped(receive, large(self.limits, path)), send)
        else:
            async with self.counts.in_turn(FEW, who):
                await self._small(path, who, scope, receive, send)

    async def _small(self, path: str, who: str, scope: Message, receive: Receive, send: Send) -> None:
        """A body that is read whole and checked before anybody else sees it; whoever hangs up is noticed."""
        body = await whole(capped(receive, SMALL))
        asked = checked(path.removeprefix(API).strip("/"), body, self.blocks)
        if path.startswith(f"{API}/cancel"):
            self.presence.leave(asked.event_id)
        elif session := getattr(asked, "session_hash", None):
            self.presence.come(session)
        left = False

        async def watch() -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            left = True

        sent = False

        async def again() -> Message:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await asyncio.shield(watching)
            return {"type": "http.disconnect"}

        watching = asyncio.create_task(watch())
        token = asking.set(Client(who, lambda: not left))
        try:
            await self.app(scope, again, send)
        finally:
            asking.reset(token)
            watching.cancel()

    async def _stream(self, event: str | None, scope: Message, receive: Receive, send: Send) -> None:
        """What a client listens on for its events. Broken off before its end, the client has left."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        keys, ended = [*filter(None, [event]), *query.get("session_hash", [])[:1]], False
        self.presence.come(*keys)

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not ended:
                self.presence.leave(*keys)
            return message

        async def forward(message: Message) -> None:
            nonlocal ended
            ended = ended or message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        await self.app(scope, watched, forward)


def refuse(path: str, method: str, scope: Message) -> None:
    """Refusal of what is served to nobody."""
    headers = Headers(scope=scope)
    if "\0" in path or b"%00" in scope["query_string"]:
        raise Refusal(400, "The address holds a NUL byte.")
    if ELSEWHERE.match(path):
        raise Refusal(403, "Only files of this server are served; addresses are not fetched.")
    if CLOSED.match(path) or method not in ("GET", "HEAD", "OPTIONS") and not POSTS.fullmatch(path):
        raise Refusal(404, "There is nothing here.")
    if len(headers.get("range", "")) and not RANGE.fullmatch(headers["range"].strip()):
        raise Refusal(416, "The header Range must be like bytes=0-99.")
    if path.startswith("/v1") and method == "POST" and foreign(headers):
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(415, "From another site the body must be sent as application/json.")


def foreign(headers: Headers) -> bool:
    """Whether a browser says that another site's page asks."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    return site == "cross-site" or origin is not None and urlsplit(origin).netloc != headers.get("host")


def large(limits: Limits, path: str) -> int:
    """Bytes that a body may have which holds a recording: as it is, or in base64 (where ``speech`` says it earlier)."""
    return limits.max_upload_mb * (1_000_000 if path.startswith(API) else 1_400_000) + 200_000


def declared(scope: Message) -> int:
    """Bytes of the body as the header has it, 0 where it does not tell."""
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdigit() else 0


def capped(receive: Receive, most: int) -> Receive:
    """``receive`` that takes no more than ``most`` bytes of a body."""
    count = 0

    async def counted() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > most:
            raise Refusal(413, f"The request is too big; the limit here is {most / 1e6:g} MB.")
        return message

    return counted


async def whole(receive: Receive) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def with_headers(send: Send) -> Send:
    """Answers that no browser takes for another type or shows within any site, and streams that no proxy holds
    back."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("X-Content-Type-Options", "nosniff")
            headers.setdefault("Content-Security-Policy", FRAMES)
            if headers.get("content-type", "").startswith("text/event-stream"):
                headers.update(UNBUFFERED)
        await send(message)

    return forward
