"""What a program asks for, checked field by field: JSON brings any type at any place."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..config import Request, Sampling, UserError
from ..methods import METHODS
from .limits import Limits, Unavailable


class BadField(UserError):
    """One field is wrong; the sentence begins with its name."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field} {words}")
        self.field, self.words = field, words


@contextlib.contextmanager
def about(field: str) -> Iterator[None]:
    """What is wrong with what was asked, within, is wrong with this field."""
    try:
        yield
    except UserError as error:
        if not isinstance(error, Unavailable):
            error.field = field
        raise


@dataclass(frozen=True)
class Asked:
    """One speech that a program wants, without its voice."""

    text: str
    method: str
    options: Any
    prompt_text: str
    seed: int
    temperature: float | None  # None: the stack's
    max_seconds: float

    @classmethod
    def of(cls, limits: Limits, fields: Mapping[str, Any]) -> Asked:
        """From the fields as they came, each checked; UserError that names the field."""
        words = string(fields, "text")
        if not words.strip():
            raise BadField("text", "is empty: there is no text yet; give something to say.")
        if len(words) > limits.max_characters:
            raise BadField("text", f"has {len(words)} characters; the limit here is {limits.max_characters}.")
        method = string(fields, "method", "baseline")
        with about("method"):
            if method not in METHODS:
                raise UserError(f"Unknown method {method!r}; choose one of {', '.join(METHODS)}.")
        temperature = number(fields, "temperature", None)
        if temperature is not None:
            with about("temperature"):
                Sampling(temperature=temperature)  # says its range
        longest = number(fields, "max_seconds", float(limits.max_seconds))
        if not longest > 0:
            raise BadField("max_seconds", f"must be above 0, not {longest:g}.")
        return cls(
            words.strip(),
            method,
            options(fields, METHODS[method].Options),
            string(fields, "prompt_text", "").strip(),
            seed(fields),
            temperature,
            min(longest, limits.max_seconds),
        )

    def request(self, sampling: Sampling, plain: bool = False) -> Request:
        """For the engine; ``plain``: the baseline under the same conditions. ``sampling``: the stack's own."""
        if self.temperature is not None:
            sampling = dataclasses.replace(sampling, temperature=self.temperature)
        method, chosen = ("baseline", METHODS["baseline"].Options()) if plain else (self.method, self.options)
        return Request(self.text, None, method, chosen, sampling, self.seed, self.max_seconds)


def string(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    value = default if value is None and default is not None else value
    if not isinstance(value, str):
        raise BadField(name, f"must be a text, not {_shown(value)}.")
    return value


def number(fields: Mapping[str, Any], name: str, default: float | None) -> float | None:
    """A missing field is its default; null is not a number."""
    if name not in fields:
        return default
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadField(name, f"must be a number, not {_shown(value)}.")
    return float(value)


def seed(fields: Mapping[str, Any]) -> int:
    value = fields.get("seed", 1)
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not known or not 0 <= value < 2**63 or value != int(value):
        raise BadField("seed", f"must be a whole number, 0 or more and below 2 to the power 63, not {_shown(value)}.")
    return int(value)


def options(fields: Mapping[str, Any], kind: Any) -> Any:
    value = {} if fields.get("options") is None else fields["options"]
    if not isinstance(value, Mapping):
        raise BadField("options", f'must be an object such as {{"patch_size": 4}}, not {_shown(value)}.')
    with about("options"):
        for key, one in value.items():
            if not isinstance(one, (int, float, str)):
                raise BadField(f"options: {key}", f"must be a number or a word, not {_shown(one)}.")
        return kind.parse({key: str(one) for key, one in value.items()})


def consent(fields: Mapping[str, Any]) -> bool:
    value = fields.get("consent", False)
    if value is not True:
        given = "" if value is False or value is None else f", not {_shown(value)}"
        raise BadField(
            "consent", f"must be true{given}: it says that this is your own voice or that you may use the voice."
        )
    return True


def _shown(value: Any) -> str:
    """A value in a sentence, as JSON calls it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    words = repr(value)
    return words if len(words) <= 40 else f"a {type(value).__name__} of {len(words)} characters"
