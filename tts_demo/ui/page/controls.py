"""Dials made from a method's ``Options`` dataclass, presets, and settings carried in the page's address.

Nothing here names a method: dials come from the metadata of its ``Options``, presets from its class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from ...config import Sampling, UserError

PRESET_NAMES = ("Fast", "Balanced", "Faithful")
SAMPLING_FIELDS = tuple(f.name for f in dataclasses.fields(Sampling))


def dial(f: dataclasses.Field) -> gr.components.Component:
    """The control for one field: a choice, a slider, a tick or a line of text."""
    m, label = f.metadata, f.metadata.get("label", f.name)
    unit = f" ({m['unit']})" if m.get("unit") else ""
    shared = dict(label=label + unit, info=m.get("help"), value=f.default, interactive=True, elem_id=f"dial-{f.name}")
    if m.get("choices"):
        kind = gr.Radio if len(m["choices"]) <= 6 else gr.Dropdown
        return kind(choices=list(m["choices"]), **shared)
    if isinstance(f.default, bool):
        return gr.Checkbox(**shared)
    if m.get("min") is not None and isinstance(f.default, (int, float)):
        step = m.get("step") or (1 if isinstance(f.default, int) else 0.05)
        return gr.Slider(minimum=m["min"], maximum=m["max"], step=step, **shared)
    if isinstance(f.default, (int, float)):
        return gr.Number(precision=0 if isinstance(f.default, int) else None, **shared)
    return gr.Textbox(max_lines=1, **shared)


def fields(method: type[Any]) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(method.Options)


def options(method: type[Any], values: Sequence[Any]) -> Any:
    """Values of a method's dials, in field order, as its checked Options."""
    cast = {}
    for f, value in zip(fields(method), values, strict=True):
        whole = isinstance(f.default, int) and not isinstance(f.default, bool)
        cast[f.name] = int(value) if whole and isinstance(value, float) and value == int(value) else value
    return method.Options(**cast)


def preset(method: type[Any], name: str) -> list[Any]:
    """Values of a method's dials for a preset; fields the preset does not name keep their defaults."""
    chosen = method.presets[PRESET_NAMES.index(name)] if method.presets else {}
    return [chosen.get(f.name, f.default) for f in fields(method)]


def from_address(
    query: Mapping[str, str], methods: Mapping[str, type[Any]], own: Sampling = Sampling()
) -> dict[str, Any]:
    """Settings found in the address: text, voice, method, options, sampling, seed. Anything out of range raises.
    ``own``: the stack's sampling, for what the address leaves out."""
    found: dict[str, Any] = {k: query[k] for k in ("text", "voice") if k in query}
    name = query.get("method")
    if name is not None:
        if name not in methods:
            raise UserError(f"The link asks for the unknown method {name!r}; known are {', '.join(methods)}.")
        found["method"] = name
        keys = {f.name for f in fields(methods[name])}
        found["options"] = methods[name].Options.parse({k: v for k, v in query.items() if k in keys})
    sampling = {}
    for f in dataclasses.fields(Sampling):
        if f.name in query:
            sampling[f.name] = number(query[f.name], type(f.default), f.name)
    found["sampling"] = dataclasses.replace(own, **sampling)
    for name in ("seed", "max_seconds"):
        if name in query:
            found[name] = number(query[name], int, name)
            if found[name] < (name == "max_seconds"):
                raise UserError(f"{name} in the link is too small: {found[name]}.")
    return found


def limits(seed: Any, max_seconds: Any, longest: float) -> tuple[int, float]:
    """A seed and a length that a run can take; the length is cut to ``longest``."""
    if isinstance(seed, bool) or not isinstance(seed, (int, float)) or not 0 <= seed < 2**63:
        raise UserError("The seed must be a whole number, 0 or more and below 2 to the power 63.")
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, (int, float)) or not max_seconds > 0:
        raise UserError("max_seconds must be a number above 0.")
    return int(seed), min(float(max_seconds), longest)


def number(word: str, kind: type, name: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise UserError(f"{name} in the link must be a {what}, not {word!r}.") from None
