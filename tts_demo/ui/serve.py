"""Put the page on a port: theme, health endpoint, API and MCP, and an end that lets the running job finish."""

import errno
import importlib.util
import os
import signal
import socket
import sys
import threading
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi.responses import JSONResponse
from gradio.utils import get_space
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

from ..config import UserError
from . import speech, uploads
from .deadline import with_deadline
from .guard import Guard
from .page import widgets
from .service import health, in_words, log_line, log_to_stderr

THREADS = 40  # for those who do not wait: a call of an endpoint holds one while it stands in the line
PROXIES = "127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"  # private networks: uvicorn believes these
ENDING = (signal.SIGTERM, signal.SIGINT)


def theme() -> gr.themes.Base:
    """Quiet neutrals, one calm accent for actions; Gradio's own bundled font, so nothing is fetched from elsewhere."""
    slate, rounded = gr.themes.colors.slate, gr.themes.sizes.radius_lg
    plain = gr.themes.Base(primary_hue=slate, neutral_hue=slate, radius_size=rounded)
    return plain.set(**tomllib.loads(Path(__file__).with_name("theme.toml").read_text(encoding="utf-8")))


def check_address(host: str | None, port: int | None) -> None:
    """UserError where the page could not be served at this address."""
    host, port = host or "127.0.0.1", port or 0
    if not 0 <= port < 2**16:
        raise UserError(f"There is no port {port}: choose one from 1 to 65535 with --port.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        raise UserError(f"{host} is no address of this machine: choose 127.0.0.1 or 0.0.0.0 with --host.") from None
    except OSError as error:
        raise UserError(
            {
                errno.EADDRINUSE: f"Port {port} is in use: choose another one with --port, or end what uses it.",
                errno.EACCES: f"Port {port} needs rights that this user has not: choose one above 1023 with --port.",
                errno.EADDRNOTAVAIL: f"{host} is no address of this machine: choose 127.0.0.1 or 0.0.0.0 with --host.",
            }.get(error.errno, f"The page cannot be served at {host}, port {port} ({error.strerror}).")
        ) from None


async def refused(_: Request, error: Exception) -> JSONResponse:
    """An upload that the machine could not keep: 507, with a sentence."""
    return JSONResponse({"detail": in_words(error)}, status_code=507)


def launch(
    demo: gr.Blocks, host: str | None = None, port: int | None = None, share: bool = False, block: bool = True
) -> str:
    """Serve the page; returns its address. ``block``: stay until the process is asked to end. UserError where it
    cannot be served at this address."""
    parts = demo.tts
    check_address(host, port)
    if block:
        log_to_stderr()
        for problem in parts.uploads.problems():
            print(problem, file=sys.stderr)
    mcp = importlib.util.find_spec("mcp") is not None  # without the extra Gradio stays silent about it

    async def answer(_: Request) -> JSONResponse:
        state = health(parts.handle, parts.gate)
        return JSONResponse(state, status_code=200 if state["status"] in ("ok", "loading") else 503)

    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    if get_space():  # whose proxy says in a header who visits
        os.environ.setdefault("FORWARDED_ALLOW_IPS", PROXIES)
    _, url, _ = demo.launch(
        server_name=host,
        server_port=port,
        share=share,
        theme=theme(),
        css=widgets.css(),
        head=widgets.head(),
        footer_links=["api", "settings"],
        run_history=False,
        max_file_size=f"{parts.limits.max_upload_mb}mb",
        app_kwargs={
            "routes": [
                Route("/health", answer),
                *uploads.routes(parts.uploads),
                *widgets.routes(),
                *speech.routes(parts.runner),
            ],
            "middleware": [Middleware(Guard, blocks=demo, limits=parts.limits, presence=parts.runner.presence)],
            "lifespan": parts.uploads.swept,
            "exception_handlers": {OSError: refused},
        },
        mcp_server=mcp,
        prevent_thread_lock=True,
        quiet=not block,
        show_error=True,
        ssr_mode=False,
        state_session_capacity=200,
        max_threads=THREADS + parts.limits.max_queue,
    )
    serving = demo.server.config  # asked anew for every connection
    serving.http_protocol_class = with_deadline(serving.http_protocol_class, parts.limits.body_seconds)
    if block:
        if not demo.mcp_server:
            reason = demo.mcp_error or "install it with pip install 'gradio[mcp]'"
            print(f"MCP is off: {reason}.", file=sys.stderr)
        _stay(demo, parts.gate)
    return url


_hold_ending = partial(signal.pthread_sigmask, signal.SIG_BLOCK, ENDING)
_let_end = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, ENDING)


def _end_as_usual() -> None:
    """In a worker forked for one call: it is no server, and whoever ends it means that at once."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    _let_end()  # only now, so that a signal sent meanwhile is not lost


def _stay(demo: gr.Blocks, gate: Any) -> None:
    """Wait for SIGTERM or Ctrl-C, then refuse new runs, let the running one end, and close."""
    asked = threading.Event()
    for number in ENDING:
        signal.signal(number, lambda *_: asked.set())
    os.register_at_fork(before=_hold_ending, after_in_parent=_let_end, after_in_child=_end_as_usual)
    asked.wait()
    log_line("shutdown", jobs=gate.jobs())
    gate.drain()
    demo.close()
