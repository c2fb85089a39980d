"""Settings of recipes: what ``--set key=value`` may change. Typed, frozen, and checked before anything is loaded.

A recipe's settings are a subclass of ``Settings`` with a field each: its type, range, default and help. What every
recipe takes stands here, and in ``SequenceSettings`` what all take that train on sequences of codes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..config import UserError, nearest

# what cards may call settings by -> today's name
OLD_NAMES = {"drawn": "sampled", "spoken": "on_policy", "heard": "recognised", "ears": "recogniser"}

Weight = Annotated[float, Field(ge=0)]  # of a term of the loss
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Folders = Annotated[tuple[Path, ...], BeforeValidator(lambda v: v.split(":") if isinstance(v, str) else v)]
Optimiser = Annotated[
    Literal["adamw", "muon"], Field(description="muon trains the matrices inside blocks and adapters, AdamW all else")
]


def some_of(values: tuple[int, ...]) -> Any:
    """The type of a setting that is some of these numbers, separated by commas."""

    def known(chosen: tuple[int, ...]) -> tuple[int, ...]:
        if not chosen or any(value not in values for value in chosen):
            raise ValueError(f"must be some of {', '.join(map(str, sorted(set(values))))}, separated by commas")
        return chosen

    split = BeforeValidator(lambda v: tuple(v.split(",")) if isinstance(v, str) else v)
    return Annotated[tuple[int, ...], split, AfterValidator(known)]


class Settings(BaseModel):
    """What every recipe takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    start: Literal["new", "published"] = Field(
        "new", description="published: begin with the published weights of what the recipe trains"
    )
    helpers: Path | None = Field(
        None,
        description="folder that keeps discriminators and probes: begin with those that are there, leave one's own",
    )
    optimiser: Optimiser = "adamw"
    teacher: Folders = Field((), description="folders of a teacher's speech beside --data, separated by colons")

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "Settings":
        """From ``--set key=value``. Raises UserError for an unknown name, with the nearest, or a value out of range."""
        today = {old: new for old, new in OLD_NAMES.items() if new in cls.model_fields}
        given = {today.get(key, key): value for key, value in given.items()}
        for key in given:
            if key not in cls.model_fields:
                near, known = nearest(key, cls.model_fields), ", ".join(cls.model_fields)
                raise UserError(f"There is no setting {key!r}.{near} This recipe has: {known}.")
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            message = str(first.get("ctx", {}).get("error", "")) or first["msg"][:1].lower() + first["msg"][1:]
            raise UserError(f"--set {first['loc'][0]}={given[str(first['loc'][0])]}: {message}.") from None

    @classmethod
    def described(cls) -> Iterator[tuple[str, str, str]]:
        """Name, default and help of each setting, the recipe's own first."""
        common = lambda name: (name in Settings.model_fields) + (name in SequenceSettings.model_fields)
        for name in sorted(cls.model_fields, key=common):
            field = cls.model_fields[name]
            choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            choice = f"{' or '.join(map(str, choices))}. " if choices else ""
            yield name, _formatted(field.default), choice + (field.description or "")


def _formatted(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


class SequenceSettings(Settings):
    """What recipes take that train on sequences of text and codes."""

    chains: Share = Field(0.0, description="share of batches made of several utterances of a voice in a row")
    chained: Count = Field(3000, description="frames in such a row at most")
    longest: Count = Field(850, description="frames of an utterance; longer ones are cut between words, anew each time")


class AdapterSettings(SequenceSettings):
    """What recipes take whose adapter changes the base model's attention, and learns from the base what to say."""

    distil: Share = Field(0.0, description="share of the cross-entropy to the base model's distribution in the loss")
    sampled: Weight = Field(0.0, description="weight of how far apart tokens are sampled from the adapter and the base")
    guide: Weight = Field(0.0, description="weight of the attention guide: look where the base model's heads look")
    prompted: Share = Field(0.0, description="share of the batches behind a whole utterance of the voice, as a prompt")
    on_policy: Share = Field(0.0, description="share of the batches that are the method's own samples (on-policy)")
