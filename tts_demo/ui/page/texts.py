"""The page's words."""

import html
import os
import time
from typing import Any

from ...engine import computing

TITLE = "Faster speech, side by side"
LEAD = (
    "A plain decoder and up to three faster settings speak your text with the same voice, seed and sampling. "
    "RTF, the real-time factor: seconds of computing per second of speech; lower is faster."
)
CONSENT = "This is my own voice, or I have the speaker's permission to use it."
MISUSE = (
    "Do not imitate people without their permission. Every file says in its metadata that it is synthetic. "
    "Uploads are used for your runs only and deleted within the hour; runs are kept in your own browser."
)
RECORDED = "They open at once, without running a model."
CONDITIONS = (
    "All settings of a run go on a little at a time, in turns, so that a machine that is slow for a second is slow for "
    "all of them. You hear the first round, in which the baseline has the lead because its sound plays; further rounds "
    "generate the same again unheard, in the background, and the speed shown is the median of the rounds with its "
    "range: seconds of computing per second of audio (RTF), the baseline's over the setting's, of everything and of "
    "the language model alone. Passes, tokens a pass and KV bytes are counted, not timed, so no load moves them; a KV "
    "cache holds the live keys and values of every autoregressive model, drafts included, and is compared at the same "
    "second of audio. It begins anew with each sentence, which is spoken apart: hence the saw-tooth of its curve. The "
    "clock stops while the page takes a piece of audio away; on a CPU time is the processor's, in which other programs "
    "do not count; the curve of the real-time factor goes by the clock. Attention is read in a second, untimed pass. "
    "Words are checked after the run by Whisper tiny.en, which mishears people too; 'measured over texts' are the "
    "figures of RESULTS.md."
)
KEYS = (
    ("Ctrl + Enter", "speak"),
    ("Esc", "stop"),
    ("Space", "play or pause"),
    ("1 to 6", "hear that result from its start, or at the moment that plays"),
    ("X", "switch to the next result at the same moment of the text"),
    ("← / →", "one second back or on; on a slider, one step"),
    ("A / B / 0", "vote in the blind test: first, second, no difference"),
)


def about(methods: list[dict[str, Any]]) -> dict[str, Any]:
    """What "How it works" shows: every method of the catalogue, the conditions of the numbers, the keys, the code."""
    return {"methods": methods, "conditions": CONDITIONS, "keys": KEYS, "misuse": MISUSE, "code": code()}


def code() -> dict[str, str]:
    """Where the code is: on a Space, its files."""
    space = os.environ.get("SPACE_ID", "")
    words = "The folder tts_demo beside app.py: one file or folder a method in tts_demo/methods, one decode loop."
    return {"words": words, "url": f"https://huggingface.co/spaces/{space}/tree/main" if space else ""}


def foreign(language: str) -> str:
    """A hint before a run on a text that is not English."""
    return f"This looks like {language}; this model reads English only, with English sounds." if language else ""


def masthead(facts: list[str]) -> str:
    """Title, one sentence, and the line that says under which conditions every number on the page was made."""
    chips = "".join(f"<span>{html.escape(f)}</span>" for f in facts)
    return (
        f"<header class='mast'><div><h1>{TITLE}</h1><p>{LEAD}</p></div>"
        f"<div class='facts' tabindex='0' role='group' aria-label='Conditions'>{chips}</div></header>"
    )


GPU = {"graphs": "CUDA graphs", "tf32": "TF32"}


def facts(stack: Any, state: str) -> list[str]:
    """The conditions every number on the page was made under; ``stack`` is None until it is loaded."""
    if stack is None:
        return ["loading the model" if state == "loading" else "recorded runs only"]
    how = computing(stack)
    on_gpu = [f"{words} {'on' if how[name] else 'off'}" for name, words in GPU.items() if name in how]
    return [
        f"{stack.name} stack",
        " · ".join([str(how["processor"]), str(how["dtype"]), *on_gpu]),
        f"{stack.sample_rate / 1000:g} kHz · {stack.frame_rate} frames/s",
        f"checkpoint {str(stack.checkpoint_hash)[:8]}",
    ]


def status(words: str, kind: str = "idle") -> str:
    """The one live line of the page. ``kind``: idle, busy, done, stopped, error. The time makes the same words news:
    meanwhile the browser may have written others."""
    return (
        f"<p class='status {kind}' role='status' aria-live='polite' data-at='{time.monotonic()}'>"
        f"<i aria-hidden='true'></i><span>{words}</span></p>"
    )


def escape(text: str) -> str:
    return html.escape(text, quote=True)
