"""What a request from Python may hold; the engine asks before it computes anything."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from .config import Request, Sampling, UserError


def checked(stack: Any, request: Request) -> Request:
    """The request with its options as the method's own. UserError that names the field and says what belongs there."""
    if not isinstance(request, Request):
        raise UserError(f"What to generate must be a Request, not {_kind(request)}.")
    if not hasattr(stack, "method"):
        raise UserError(f"The stack must be what load_stack returns, not {_kind(stack)}.")
    kinds: dict[str, tuple[type | tuple[type, ...], str]] = {
        "text": (str, "a text"),
        "method": (str, "the name of a method"),
        "sampling": (Sampling, "a Sampling"),
        "seed": (int, "a whole number"),
        "max_seconds": ((int, float), "a number of seconds"),
    }
    for name, (kind, wanted) in kinds.items():
        value = getattr(request, name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"The request's {name} must be {wanted}, not {_kind(value)}.")
    if not 0 <= request.seed < 2**63:
        raise UserError(f"The request's seed must be 0 or more and below 2^63, not {request.seed}.")
    if not request.max_seconds > 0:
        raise UserError(f"The request's max_seconds must be above 0, not {request.max_seconds:g}.")
    if request.prompt is None or isinstance(request.prompt, (str, bytes, PathLike, tuple, list, np.ndarray)):
        raise UserError(
            "The request's prompt must be an encoded voice, stack.encode_prompt(samples, rate, transcript), not "
            f"{_kind(request.prompt)}."
        )
    method, options = stack.method(request.method), request.options
    if isinstance(options, Mapping):
        options = method.Options.parse({str(key): str(value) for key, value in options.items()})
    if options is not None and _names(options) != _names(method.Options):
        raise UserError(f"The request's options must be those of {request.method}, or a dict, not {_kind(options)}.")
    return replace(request, options=options)


def _names(options: object) -> list[str] | None:
    return [f.name for f in fields(options)] if is_dataclass(options) else None


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
