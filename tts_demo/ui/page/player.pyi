"""The page's own components: Python shells around the scripts in ``static/``. Values go one way, server to browser.

``gr.Audio(streaming=True)`` adds 0.3 to 1.4 s of its own before sound starts, so live audio goes to Web Audio as
16-bit PCM instead; ``gr.Plot`` is rebuilt on every update, so live curves are drawn by a script as well.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np

STATIC = Path(__file__).parents[1] / "static"
SCRIPTS = ("deck.js", "player.js", "charts.js", "inspector.js", "blind.js", "page.js")

def head() -> str:
    """Every script of the page, inline: nothing is fetched from elsewhere."""
    return "".join(f"<script>{(STATIC / name).read_text(encoding='utf-8')}</script>" for name in SCRIPTS)

def css() -> str:
    return (STATIC / "style.css").read_text(encoding="utf-8")

class Widget(gr.HTML):
    """A component drawn by ``TTSD.<mount>`` in the browser; its value is one JSON message."""

    mount = ""

    def __init__(self, *, side: str = "", **kwargs: Any) -> None:
        super().__init__(
            value=None,
            html_template=f"<div class='widget' data-mount='{self.mount}' data-side='{side}'></div>",
            js_on_load=f"TTSD.mount('{self.mount}', element, props, watch, trigger)",
            container=False,
            apply_default_css=False,
            **kwargs,
        )

    def postprocess(self, value: Any) -> Any:
        return value

    def api_info(self) -> dict[str, Any]:
        return {"type": "object"}
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

class PcmPlayer(Widget):
    """Plays 16-bit PCM while it is being made, then replays it; one per side, one audible at a time."""

    mount = "player"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

class LiveCharts(Widget):
    """Real-time factor and KV bytes against seconds of audio, both sides in one picture each."""

    mount = "charts"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

class Inspector(Widget):
    """Spectrogram, attention map and token timeline of both sides on one time axis."""

    mount = "inspector"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

class OwnPlots(Widget):
    mount = "plots"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

class BlindTest(Widget):
    mount = "blind"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block
    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component

def pcm(samples: np.ndarray) -> str:
    """int16 [N] as the browser wants it."""
    return base64.b64encode(np.ascontiguousarray(samples, dtype="<i2").tobytes()).decode()

def message(kind: str, run: str, seq: int, **rest: Any) -> dict[str, Any]:
    """One message to a player: start, chunk, end, load (a finished side) or clear. ``seq`` tells a lost one."""
    return {"kind": kind, "run": run, "seq": seq, **rest}
