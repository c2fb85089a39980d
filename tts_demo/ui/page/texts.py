"""The page's words and pictures: what each method caches and what one step of it emits, as small inline SVG.

Words and cells are the method's own (``cached``, ``emits``, ``picture``), so a new method needs no edit here.
"""

from __future__ import annotations

import html
from typing import Any

from ...methods.base import Method, Picture
from ...runtime import processor

TITLE = "Faster speech, side by side"
LEAD = (
    "A plain decoder and up to three faster settings speak your text in turns, with the same voice, seed and sampling. "
    "Listen, watch, compare."
)
CONSENT = "This is my own voice, or I have the speaker's permission to use it."
MISUSE = (
    "Do not imitate people without their permission. Every file says in its metadata that it is synthetic. "
    "Uploads are used for your runs only and deleted within the hour; runs are kept in your own browser."
)
RECORDED = "They open at once, without running a model."
CONDITIONS = (
    "All lanes of a run go on a little at a time, in turns, so that a machine that is slow for a second is slow for "
    "all of them. You hear the first round; further rounds speak the same again unheard, and the speed shown is the "
    "median of the rounds with its range: seconds of the language model per second of audio, the baseline's over the "
    "lane's. Passes, tokens a pass and KV bytes are counted, not timed, so no load moves them; a KV cache holds the "
    "live keys and values of every autoregressive model of a lane, drafts included, and is compared at the same second "
    "of audio. The clock stops while the page takes a piece of audio away. Attention is read in a second, untimed pass."
)
KEYS = (
    ("Ctrl + Enter", "speak"),
    ("Esc", "stop"),
    ("Space", "play or pause"),
    ("1 to 6", "hear that lane from its start, or at the moment that plays"),
    ("X", "switch to the next lane at the same moment of the text"),
    ("← / →", "one second back or on; on a slider, one step"),
    ("A / B / 0", "vote in the blind test: first, second, no difference"),
)


LEGEND = {
    "p": "voice and text",
    "s": "speech token",
    "z": "patch",
    "w": "summary",
    "x": "dropped",
    "d": "draft's cache",
    "a": "accepted",
    "r": "resampled",
    "h": "extra head",
    "k": "codebook",
}


def svg(picture: Picture, label: str) -> str:
    """The picture: a row of cached cells, an arrow, a column of emitted cells. Shapes differ as well as colours."""
    cells, x = [], 8.0
    for kind in picture.cache:
        if kind == " ":
            x += 8
            continue
        cells.append(_cell(kind, x, 34))
        x += 13
    arrow = x + 8
    out, ex = [], arrow + 52
    for kind in picture.emits:
        out.append(_cell(kind, ex, 34))
        ex += 13
    middle = 41
    width = max(ex + 8, 250)
    return (
        f"<svg class='pic' width='{1.3 * width:.0f}' height='109' viewBox='0 0 {width:.0f} 84' role='img' "
        f"aria-label='{html.escape(label, quote=True)}'>"
        f"<text x='8' y='22' class='cap'>kept in the cache</text>{''.join(cells)}"
        f"<path d='M{arrow} {middle}h36m-6-5l6 5-6 5' class='arrow'/>"
        f"<text x='{arrow - 1}' y='22' class='cap'>one pass emits</text>"
        f"{''.join(out)}{_legend(picture)}</svg>"
    )


def _cell(kind: str, x: float, y: float) -> str:
    shape = f"<rect x='{x:.0f}' y='{y}' width='11' height='14' rx='2.5' class='c-{kind}'/>"
    if kind == "x":
        shape += f"<path d='M{x + 3:.0f} {y + 4}l5 6m0-6l-5 6' class='cross'/>"
    if kind == "r":
        shape += f"<path d='M{x + 5.5:.1f} {y + 3}v8m-3-4h6' class='mark'/>"
    if kind == "w":
        shape += f"<path d='M{x + 2.5:.1f} {y + 4}l1.5 6 1.5-4 1.5 4 1.5-6' class='mark'/>"
    return shape


def _legend(picture: Picture) -> str:
    kinds = [k for k in LEGEND if k in picture.cache + picture.emits]
    parts, x = [], 8
    for kind in kinds:
        parts.append(
            f"<rect x='{x}' y='64' width='8' height='10' rx='2' class='c-{kind}'/>"
            f"<text x='{x + 12}' y='73' class='cap'>{LEGEND[kind]}</text>"
        )
        x += 24 + int(5.6 * len(LEGEND[kind]))
    return "".join(parts)


def card(method: type[Method]) -> str:
    """The explanation of one method: idea, picture, where it comes from."""
    picture = method.picture
    drawn = svg(picture, f"Cache: {method.cached}. One pass: {method.emits}.") if picture else ""
    return (
        f"<div class='method-card'><p class='idea'>{html.escape(method.idea)}</p>{drawn}"
        f"<p class='quiet'>Cache: {html.escape(method.cached)}. One pass: {html.escape(method.emits)}.<br>"
        f"<cite>{html.escape(method.paper)}</cite></p></div>"
    )


def about(methods: dict[str, type[Method]]) -> str:
    """The tab that explains every method, the conditions of the numbers and the keys."""
    cards = "".join(f"<article><h3>{html.escape(m.title)}</h3>{card(m)}</article>" for m in methods.values())
    keys = "".join(f"<div><dt><kbd>{html.escape(k)}</kbd></dt><dd>{html.escape(v)}</dd></div>" for k, v in KEYS)
    return (
        f"<div class='about'><div class='cards'>{cards}</div><div class='cols'><section><h3>How it is measured</h3><p>"
        f"{CONDITIONS}</p></section><section><h3>Keys</h3><dl class='keys'>{keys}</dl></section>"
        f"<section><h3>Please</h3><p>{MISUSE}</p></section></div></div>"
    )


def masthead(facts: list[str]) -> str:
    """Title, one sentence, and the line that says under which conditions every number on the page was made."""
    chips = "".join(f"<span>{html.escape(f)}</span>" for f in facts)
    return (
        f"<header class='mast'><div><h1>{TITLE}</h1><p>{LEAD}</p></div>"
        f"<div class='facts' aria-label='Conditions'>{chips}</div></header>"
    )


def facts(stack: Any, state: str) -> list[str]:
    """The conditions every number on the page was made under; ``stack`` is None until it is loaded."""
    if stack is None:
        return ["loading the model" if state == "loading" else "recorded runs only"]
    return [
        f"{stack.name} stack",
        f"{processor(stack.device)} · {stack.decoder.precision}",
        f"{stack.sample_rate / 1000:g} kHz · {stack.frame_rate} frames/s",
        f"checkpoint {str(stack.checkpoint_hash)[:8]}",
    ]


def status(words: str, kind: str = "idle") -> str:
    """The one live line of the page. ``kind``: idle, busy, done, stopped, error."""
    return (
        f"<p class='status {kind}' role='status' aria-live='polite'><i aria-hidden='true'></i><span>{words}</span></p>"
    )


def escape(text: str) -> str:
    return html.escape(text, quote=True)
