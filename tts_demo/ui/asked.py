"""What a program asks for, checked field by field: JSON brings any type at any place."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from ..config import Request, Sampling, UserError, nearest
from ..methods import METHODS
from .limits import Limits, Unavailable


class BadField(UserError):
    """One field is wrong; the sentence begins with its name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field} {message}")
        self.field, self.message = field, message


@contextlib.contextmanager
def about(field: str) -> Iterator[None]:
    """What is wrong with what was asked, within, is wrong with this field."""
    try:
        yield
    except UserError as error:
        if not isinstance(error, Unavailable):
            error.field = field
        raise


NUMBER, TEXT = "must be a number", "must be a text"
TYPES = {  # pydantic's names of errors, in our words
    "string_type": TEXT,
    "float_type": NUMBER,
    "dict_type": 'must be an object such as {"patch_size": 4}',
}


def default(value: Any) -> BeforeValidator:
    """null stands for this."""
    return BeforeValidator(lambda given: value if given is None else given)


class Asked(BaseModel):
    """One speech that a program wants, without its voice. Read by ``of``."""

    model_config = ConfigDict(strict=True, frozen=True)

    text: str
    method: Annotated[str, default("baseline")] = "baseline"
    temperature: float = None  # None, where it is missing: the stack's
    max_seconds: float = Field(float("inf"), validate_default=True)
    options: Annotated[Any, default({})] = Field({}, validate_default=True)
    prompt_text: Annotated[str, default("")] = ""
    seed: Any = 1

    @classmethod
    def of(cls, limits: Limits, fields: Mapping[str, Any]) -> "Asked":
        """From the fields as they came, each checked; UserError that names the field."""
        known = {name: fields[name] for name in cls.model_fields if name in fields}
        try:
            return cls.model_validate({"text": None} | known, context=limits)
        except ValidationError as error:
            first = error.errors()[0]
            field, cause = str(first["loc"][0]), first.get("ctx", {}).get("error")
            if isinstance(cause, BadField):
                raise cause from None
            if isinstance(cause, UserError):
                cause.field = field
                raise cause from None
            raise BadField(field, f"{TYPES[first['type']]}, not {_formatted(first['input'])}.") from None

    @field_validator("text")
    @classmethod
    def _text(cls, text: str, info: ValidationInfo) -> str:
        if not text.strip():
            raise BadField("text", "is empty: there is no text yet; give something to say.")
        if len(text) > info.context.max_characters:
            raise BadField("text", f"has {len(text)} characters; the limit here is {info.context.max_characters}.")
        return text.strip()

    @field_validator("method")
    @classmethod
    def _method(cls, method: str) -> str:
        if method not in METHODS:
            raise UserError(f"Unknown method {method!r}.{nearest(method, METHODS)} Choose one of {', '.join(METHODS)}.")
        return method

    @field_validator("temperature")
    @classmethod
    def _temperature(cls, temperature: float) -> float:
        return Sampling(temperature=temperature).temperature  # says its range

    @field_validator("max_seconds")
    @classmethod
    def _longest(cls, longest: float, info: ValidationInfo) -> float:
        if not longest > 0:
            raise BadField("max_seconds", f"must be above 0, not {longest:g}.")
        return min(longest, info.context.max_seconds)

    @field_validator("options")
    @classmethod
    def _options(cls, options: Any, info: ValidationInfo) -> Any:
        if not isinstance(options, Mapping):
            raise BadField("options", f"{TYPES['dict_type']}, not {_formatted(options)}.")
        for key, one in options.items():
            if not isinstance(one, (int, float, str)):
                raise UserError(f"options: {key} must be a number or a word, not {_formatted(one)}.")
        method = METHODS.get(info.data.get("method", ""))
        return method.Options.parse({key: str(one) for key, one in options.items()}) if method else options

    @field_validator("prompt_text")
    @classmethod
    def _transcript(cls, transcript: str) -> str:
        return transcript.strip()

    @field_validator("seed")
    @classmethod
    def _seed(cls, seed: Any) -> int:
        known = isinstance(seed, (int, float)) and not isinstance(seed, bool)
        if not known or not 0 <= seed < 2**63 or seed != int(seed):
            limits = "a whole number, 0 or more and below 2 to the power 63"
            raise BadField("seed", f"must be {limits}, not {_formatted(seed)}.")
        return int(seed)

    def request(self, sampling: Sampling, plain: bool = False) -> Request:
        """For the engine; ``plain``: the baseline under the same conditions. ``sampling``: the stack's own."""
        if self.temperature is not None:
            sampling = dataclasses.replace(sampling, temperature=self.temperature)
        method, chosen = ("baseline", METHODS["baseline"].Options()) if plain else (self.method, self.options)
        return Request(self.text, None, method, chosen, sampling, self.seed, self.max_seconds)


def string(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = default if fields.get(name) is None else fields[name]
    if not isinstance(value, str):
        raise BadField(name, f"{TEXT}, not {_formatted(value)}.")
    return value


def consent(fields: Mapping[str, Any]) -> None:
    value = fields.get("consent", False)
    if value is not True:
        given = "" if value is False or value is None else f", not {_formatted(value)}"
        reason = "it says that this is your own voice or that you may use the voice."
        raise BadField("consent", f"must be true{given}: {reason}")


def _formatted(value: Any) -> str:
    """A value in a sentence, as JSON calls it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__} of {len(text)} characters"
