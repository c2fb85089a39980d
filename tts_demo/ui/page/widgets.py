"""The page's own components: Python shells around the scripts in ``static/``. Values are JSON messages to the browser.

``gr.Audio(streaming=True)`` adds 0.3 to 1.4 s of its own before sound starts, so live audio goes to Web Audio as
16-bit PCM instead; ``gr.Plot`` is rebuilt on every update, so live curves are drawn by a script as well.
"""

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import plotly
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from ..run import charts

STATIC = Path(__file__).parents[1] / "static"


@functools.cache
def address() -> str:
    """Where the page's scripts are served; another one when any of them changes, so that no browser mixes two pages."""
    scripts = b"".join(path.read_bytes() for path in sorted(STATIC.glob("*.js")))
    return f"page-{hashlib.sha256(scripts).hexdigest()[:12]}"


def routes() -> list[Route]:
    """The scripts of the page: nothing is fetched from elsewhere."""
    return [_files(address(), STATIC), _files(_plotly(), charts.SCRIPT.parent)]


def _files(under: str, folder: Path) -> Route:
    """The files of a folder. No ``Mount``: behind a prefix it finds none."""
    files = StaticFiles(directory=folder)

    async def script(request: Request) -> Response:
        return await files.get_response(request.path_params["name"], request.scope)

    return Route(f"/{under}/{{name}}", script)


def drawing() -> dict[str, Any]:
    """What the browser needs to draw charts: layouts, and where plotly.js is, which it loads when it needs it."""
    return {"charts": charts.charts(), "plotly": f"{_plotly()}/{charts.SCRIPT.name}"}


def _plotly() -> str:
    return f"plotly-{plotly.__version__}"


def head() -> str:
    """Every script at once; without the list a browser would find out about them one after the other."""
    scripts = sorted(STATIC.glob("*.js"))
    early = "".join(f"<link rel='modulepreload' href='{address()}/{path.name}'>" for path in scripts)
    return f"{early}<script type='module' src='{address()}/main.js'></script>"


def from_page(expression: str) -> str:
    """A Gradio event's ``js``: ``expression`` of what the page's scripts export (``page``) and the event's inputs
    (``a``)."""
    return f"async (...a) => {{ const page = await {_module()}; return {expression}; }}"


def _module() -> str:
    return f"import(new URL('{address()}/main.js', document.baseURI).href)"


def css() -> str:
    return (STATIC / "style.css").read_text(encoding="utf-8")


def widget(mount: str, functions: list[Callable] | None = None, value: Any = None) -> gr.HTML:
    """A component drawn by the scripts in ``static/`` (``main.js``), which may call ``functions`` on the server."""
    return gr.HTML(
        value=message(value) if value else None,
        html_template=f"<div class='widget' data-mount='{mount}'></div>",
        js_on_load=f"{_module()}.then((page) => page.mount('{mount}', element, props, watch, trigger, "
        f"{'server' if functions else 'null'}, {'upload' if functions else 'null'}))",
        container=False,
        apply_default_css=False,
        elem_id=mount,
        server_functions=[server(f) for f in functions or ()] or None,
    )


def server(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method as the plain function that Gradio can mark as callable from the browser."""

    @functools.wraps(function)
    def call(argument: Any) -> Any:
        return function(argument)

    return call


def message(value: dict[str, Any]) -> str:
    """A widget's value as one string: Gradio sends the difference to the value before, and its differences of lists are
    not always put together again as they were."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
