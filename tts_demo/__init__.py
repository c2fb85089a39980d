"""Published ways to make a speech language model speak faster, side by side with the plain baseline.

The public surface: ``load_stack()``, ``generate()`` with its ``Request`` and events (``Started``, ``Audio``, ``Stats``,
``Done``), ``METHODS``, ``Sampling`` and ``UserError``; the README has an example. Imported on first use, so that
``import tts_demo`` costs nothing.
"""

import importlib
from typing import Any

_HOME = {
    "load_stack": "stacks",
    "METHODS": "methods",
    **dict.fromkeys(("Request", "Sampling", "UserError"), "config"),
    **dict.fromkeys(("generate", "Started", "Audio", "Stats", "Done"), "engine"),
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
