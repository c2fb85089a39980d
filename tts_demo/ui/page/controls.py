"""What a visitor can set: methods with their dials and presets for the page to draw, and the checked settings of a run.

Nothing here names a method: one that is added to the registry gets its dials and presets from its class.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ...config import Sampling, UserError, nearest
from ...methods import METHODS, colour
from .. import voices

PRESET_NAMES = ("Saves most", "Balanced", "Closest to the baseline")  # of passes or of cache, whichever a method saves
MOST_LANES = 3  # beside the baseline
SAMPLING = (  # name, label, help, min, max, step
    ("temperature", "Temperature", "0 always takes the likeliest token.", 0, 2, 0.05),
    ("top_k", "Top k", "Draw from this many likeliest tokens; 0 is off.", 0, 200, 1),
    ("top_p", "Top p", "Draw from the tokens that make up this share.", 0.05, 1, 0.05),
    ("repeat_window", "Repetition window (tokens)", "Looks back this far for repetitions; 0 is off.", 0, 100, 1),
    ("repeat_ratio", "Repetition share", "A token that fills this share of the window is drawn again.", 0.05, 1, 0.05),
)


class Misplaced(UserError):
    """A mistake in one field of the form, in the words of its label. ``field``: the id of its element on the page;
    ``lane``: the setting it belongs to, None for none."""

    def __init__(self, field: str, words: str, lane: int | None = None) -> None:
        super().__init__(words)
        self.field, self.lane = field, lane


@contextmanager
def labelled(labels: Mapping[str, str], prefix: str = "", lane: int | None = None) -> Iterator[None]:
    """A mistake that begins with a field's name comes out as one in that field, under its label."""
    try:
        yield
    except UserError as error:
        name, _, words = str(error).partition(" ")
        if name not in labels:
            raise
        raise Misplaced(prefix + name, f"{labels[name]} {words}", lane) from None


class SentLane(BaseModel):
    """One lane of the page's JSON."""

    model_config = ConfigDict(strict=True)
    method: str
    options: dict[str, bool | int | float | str] = {}


class SentForm(BaseModel):
    """The page's JSON, by types alone. What a visitor types as a number has a sentence of its own: see ``limits`` and
    ``sampling``."""

    model_config = ConfigDict(strict=True)
    text: str = ""
    voice: str = ""
    own: str = ""
    consent: bool = False
    prompt_text: str = ""
    lanes: list[SentLane] = []
    seed: Any = None
    max_seconds: Any = None
    attention: bool = True


@dataclass(frozen=True)
class Setting:
    """One lane as it is asked for."""

    method: str
    options: Any


class Form(SentForm):
    """Everything the page sends with one press, checked. ``voice``: an example's name, or "" for ``own``, the path of
    a recording that this page has prepared."""

    lanes: tuple[Setting, ...]
    seed: int
    max_seconds: float
    sampling: Sampling

    @classmethod
    def parse(cls, raw: Any, longest: float) -> "Form":
        """From the page's JSON; UserError for what a run cannot take. The baseline is not among its lanes."""
        if not isinstance(raw, Mapping):
            raise UserError("The page has not finished loading; try again in a moment.")
        sent = _typed(SentForm, raw)
        if len(sent.lanes) > MOST_LANES:
            raise UserError(f"At most {MOST_LANES} settings can be compared with the baseline in one run.")
        seed, seconds = limits(sent.seed, sent.max_seconds, longest)
        known = voices.example(sent.voice)
        checked = {
            "text": sent.text.strip(),
            "prompt_text": known.transcript if known else "" if sent.voice else sent.prompt_text.strip(),
            "lanes": tuple(setting(lane, number) for number, lane in enumerate(sent.lanes)),
            "seed": seed,
            "max_seconds": seconds,
            "sampling": sampling(raw),
        }
        return cls.model_construct(**dict(sent) | checked)

    def changed(self, own: Sampling, longest: float) -> list[str]:
        """What differs from ``own``, the stack's sampling, and from the ``longest`` speech, in the words of the
        labels."""
        now = [(label.lower(), getattr(self.sampling, name), getattr(own, name)) for name, label, *_ in SAMPLING]
        now.append(("longest speech (s)", self.max_seconds, longest))
        return [f"{label} {value:g} (default {usual:g})" for label, value, usual in now if value != usual]


def _typed(kind: type[Any], raw: Any) -> Any:
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"])) or "The form"
        raise UserError(f"{field} is of a wrong type; load the page again.") from None


def setting(raw: Any, lane: int | None = None) -> Setting:
    """One lane of the page's JSON, the ``lane``-th."""
    sent = _typed(SentLane, raw)
    if sent.method not in METHODS:
        raise UserError(f"Unknown method in a setting; choose one of {', '.join(METHODS)}.")
    method = METHODS[sent.method]
    with labelled({f.name: f.metadata.get("label", f.name) for f in fields(method)}, "dial-", lane):
        return Setting(method.name, options(method, sent.options))


def sampling(raw: Mapping[str, Any]) -> Sampling:
    """A Sampling from the page's JSON; what it leaves out keeps its default."""
    values = {}
    with labelled({name: label for name, label, *_ in SAMPLING}):
        for f in dataclasses.fields(Sampling):
            value = raw.get(f.name, f.default)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 2**53:
                raise UserError(f"{f.name} must be a number, not {str(value)[:40]}.")
            if isinstance(f.default, int) and not float(value).is_integer():
                raise UserError(f"{f.name} must be a whole number, not {value!r}.")
            values[f.name] = type(f.default)(value)
        return Sampling(**values)


def catalogue() -> list[dict[str, Any]]:
    """Every method as the page draws it: words, picture, presets and dials."""
    return [
        {
            "name": m.name,
            "title": m.title,
            "slot": colour(m.name),
            "idea": m.idea,
            "cached": m.cached,
            "emits": m.emits,
            "paper": m.paper,
            "links": links(m),
            "picture": dataclasses.asdict(m.picture) if m.picture else None,
            "presets": [{"name": name, "options": preset(m, chosen)} for name, chosen in zip(PRESET_NAMES, m.presets)],
            "dials": [dial(f) for f in fields(m)],
        }
        for m in METHODS.values()
    ]


def links(method: type[Any]) -> list[list[str]]:
    """[words, address] of the papers of a method, or of the methods that it puts together."""
    parts = [METHODS[name] for name in method.combines] or [method]
    return [[f"arXiv {m.arxiv}", f"https://arxiv.org/abs/{m.arxiv}"] for m in parts if m.arxiv]


def dial(f: dataclasses.Field) -> dict[str, Any]:
    """One field for the browser. kind: choice, tick, slider, number or text."""
    m, kind = f.metadata, "text"
    if m.get("choices"):
        kind = "choice"
    elif isinstance(f.default, bool):
        kind = "tick"
    elif isinstance(f.default, (int, float)):
        kind = "number" if m.get("min") is None else "slider"
    found = {k: m.get(k) for k in ("help", "min", "max", "choices", "unit")}
    step = m.get("step") or (1 if isinstance(f.default, int) else 0.05)
    return {"name": f.name, "label": m.get("label", f.name), "kind": kind, "default": f.default, "step": step, **found}


def fields(method: type[Any]) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(method.Options)


def options(method: type[Any], chosen: Mapping[str, Any]) -> Any:
    """Values of a method's dials as its checked Options."""
    values = preset(method, chosen)
    for f in fields(method):
        if type(f.default) is int and isinstance(values[f.name], float) and values[f.name].is_integer():
            values[f.name] = int(values[f.name])
    return method.Options(**values)


def preset(method: type[Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's value for every dial; fields that it does not name keep their defaults."""
    return {f.name: chosen.get(f.name, f.default) for f in fields(method)}


def from_address(query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Settings found in the address, as the page's JSON: text, voice, seed, max_seconds, sampling, and one ``lane`` a
    lane, ``lane=tldr,patch_size:4``. Anything out of range raises."""
    found: dict[str, Any] = {}
    lanes = []
    for key, word in query:
        if key in ("text", "voice"):
            found[key] = word
        elif key == "lane":
            lanes.append(lane_from(word))
        elif key in ("seed", "max_seconds", *(row[0] for row in SAMPLING)):
            whole = key in ("seed", "max_seconds", "top_k", "repeat_window")
            found[key] = number(word, int if whole else float, key)
    sampling(found)
    limits(found.get("seed", 1), found.get("max_seconds", 1), 1)
    if lanes:
        if len(lanes) > MOST_LANES:
            raise UserError(f"The link asks for {len(lanes)} settings; at most {MOST_LANES} can be compared at once.")
        found["lanes"] = lanes
    return found


def lane_from(word: str) -> dict[str, Any]:
    """``tldr,patch_size:4`` -> {"method": "tldr", "options": {"patch_size": 4, ...}}. A comma inside a value is written
    ``+`` (``chunk_range:2+3``)."""
    name, *pairs = word.split(",")
    if name not in METHODS:
        near = nearest(name, METHODS)
        raise UserError(f"The link asks for the unknown method {name!r}.{near} Known are {', '.join(METHODS)}.")
    given = dict(pair.partition(":")[::2] for pair in pairs if pair)
    parsed = METHODS[name].Options.parse({k: v.replace("+", ",") for k, v in given.items()})
    return {"method": name, "options": dataclasses.asdict(parsed)}


def limits(seed: Any, max_seconds: Any, longest: float) -> tuple[int, float]:
    """A seed and a length that a run can take; the length is cut to ``longest``."""
    if isinstance(seed, bool) or not isinstance(seed, (int, float)) or not 0 <= seed < 2**53 or seed != int(seed):
        raise Misplaced("seed", "The seed must be a whole number, 0 or more and below 2 to the power 53.")
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, (int, float)) or not max_seconds > 0:
        raise Misplaced("max_seconds", "The longest speech must be a number above 0.")
    return int(seed), min(float(max_seconds), longest)


def number(word: str, kind: type, name: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise UserError(f"{name} in the link must be a {what}, not {word!r}.") from None
