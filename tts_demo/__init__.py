"""Published ways to make a speech language model speak faster, side by side with the plain baseline.

The public surface: ``load_stack()``, ``generate()`` and ``METHODS``. Imported on first use, so that ``import tts_demo``
costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {"load_stack": "stacks", "generate": "engine", "METHODS": "methods"}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
