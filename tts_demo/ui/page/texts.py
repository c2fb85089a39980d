"""The page's words."""

import html
import os
import time
import tomllib
from pathlib import Path
from typing import Any

from ...engine import computing

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TITLE, LEAD, CONSENT, RECORDED = (_TEXTS[name] for name in ("title", "lead", "consent", "recorded"))


def about(methods: list[dict[str, Any]]) -> dict[str, Any]:
    """What "How it works" shows: every method of the catalogue, the conditions of the numbers, the keys, the code."""
    return {"methods": methods, "code": code(), **_TEXTS["about"]}


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
    """The one live line of the page, in plain text. ``kind``: idle, busy, done, stopped, error. The time makes the same
    words news: meanwhile the browser may have written others."""
    return (
        f"<p class='status {kind}' role='status' aria-live='polite' data-at='{time.monotonic()}'>"
        f"<i aria-hidden='true'></i><span>{html.escape(words)}</span></p>"
    )
