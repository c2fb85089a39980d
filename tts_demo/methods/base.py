"""The contract between a decoding method and the engine.

A method turns a prefix (voice + text) into codec frames, one ``step`` at a time. It knows the language model and
its own trained modules; it knows nothing of codecs, clocks, events or pages. Everything about one run lives in its
``State``, so one method object serves many runs. Adding a method: one file here, one line in ``__init__``, and a
recipe in ``train`` if it has weights. Its dials in the page, its command-line options, its rows in ``bench`` and
its place in the test matrix follow from ``Options``.
"""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..config import Sampling, UserError
from ..lm.prefix import Prefix
from ..lm.sampling import Ending


def dial(default: Any, label: str, help: str, *, min=None, max=None, step=None, choices=None, unit: str = "") -> Any:
    """A field of an ``Options`` dataclass: its default and everything a page or a command line must know about it."""
    meta = dict(label=label, help=help, min=min, max=max, step=step, choices=choices, unit=unit)
    return field(default=default, metadata=meta)


@dataclass(frozen=True)
class Options:
    """Base of every method's options: numbers are range-checked and choices enforced from the field metadata."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value, m = getattr(self, f.name), f.metadata
            kind = type(f.default)
            if kind in (int, float) and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise UserError(f"{f.name} must be a number, not {value!r}.")
            if kind is int and value != int(value):
                raise UserError(f"{f.name} must be a whole number, not {value!r}.")
            if m.get("choices") and value not in m["choices"]:
                raise UserError(f"{f.name} must be one of {', '.join(map(str, m['choices']))}, not {value!r}.")
            if m.get("min") is not None and not m["min"] <= value <= m["max"]:
                raise UserError(f"{f.name} must lie between {m['min']} and {m['max']}, not {value}.")

    @classmethod
    def parse(cls, pairs: dict[str, str]) -> Options:
        """From command-line words (``patch_size=4``). Raises UserError for an unknown key or a bad value."""
        known = {f.name: f for f in dataclasses.fields(cls)}
        values = {}
        for key, word in pairs.items():
            if key not in known:
                has = ", ".join(known) or "none"
                raise UserError(f"Unknown option {key!r}; this method's options are: {has}.")
            kind = type(known[key].default)
            try:
                values[key] = kind(word) if kind is not bool else str(word).lower() in ("1", "true", "yes", "on")
            except ValueError:
                raise UserError(
                    f"{key} must be a {'whole number' if kind is int else 'number'}, not {word!r}."
                ) from None
        return cls(**values)


@dataclass(frozen=True)
class Step:
    """What one pass of the big model (and the small work around it) committed.

    frames: [n, K] codes, n >= 0. ``marks``: one word a frame (``token``, ``patch``, ``chunk``, ``accepted``,
    ``resampled``, ``bonus``, ``delay`` ...), the first frame of a group may carry a trailing ``|``.
    proposed/accepted: speculative counts, 0 elsewhere. ``passes``: backbone passes made (1 unless a step needs none).
    """

    frames: Tensor
    done: bool = False
    marks: tuple[str, ...] = ()
    proposed: int = 0
    accepted: int = 0
    passes: int = 1
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Replay:
    """Inputs of the second, untimed, teacher-forced pass over a finished run.

    x: [T, H] inputs of the backbone; positions: [T] logical; mask: [T, T] bool, True = may attend.
    rows: [R] the row of x whose output decided step r; first_frame/frames_of: per row the first frame it emitted and
    how many (0 allowed). The engine turns rows into times. decoder: the backbone of this run, where a method has
    several; None: the method's own.
    """

    x: Tensor
    positions: Tensor
    mask: Tensor
    rows: Tensor
    first_frame: tuple[int, ...]
    frames_of: tuple[int, ...]
    decoder: Any = None


@dataclass
class State:
    """Everything about one run. Subclasses add fields; the engine reads ``prefix`` and ``caches`` alone."""

    prefix: Prefix
    caches: dict[str, Any]  # name -> KVCache, the backbone's under "backbone"
    sampling: Sampling
    generator: torch.Generator
    ending: Ending
    max_frames: int


@dataclass(frozen=True)
class Picture:
    """A method drawn for the page as two rows of cells: what the KV cache holds, left to right, and what one step
    emits. Cells: p prefix, s speech token, z patch, w summary, x dropped, d the draft's cache, a accepted draft token,
    r resampled token, h token of an extra head, k code of a higher codebook; a space is a gap."""

    cache: str
    emits: str


class Method(abc.ABC):
    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    idea: ClassVar[str]  # one or two plain sentences for the page
    cached: ClassVar[str]  # what is kept in the KV cache, in a few words
    emits: ClassVar[str]  # what one step emits, in a few words
    Options: ClassVar[type[Options]] = Options
    needs_weights: ClassVar[tuple[str, ...]] = ()  # folders under the checkpoint this method cannot run without
    bench_options: ClassVar[tuple[dict[str, Any], ...]] = ({},)  # dials worth a row in bench and evaluate
    picture: ClassVar[Picture | None] = None
    presets: ClassVar[tuple[dict[str, Any], ...]] = ()  # options of the page's three presets: fast, balanced, faithful
    runs_untrained: ClassVar[bool] = False  # whether fresh modules are usable: an untrained draft is exact, only slower
    pace_follows_weights: ClassVar[bool] = False  # whether what is said decides how many frames a step commits
    warm: bool = False  # set by the engine once a run of this object has finished; the first run is marked cold

    def __init__(self, lm: Any, modules: dict[str, nn.Module] | None = None) -> None:
        """lm: tts_demo.lm.LanguageModel; modules: folder name -> trained module, for each of ``needs_weights``."""
        self.lm = lm
        self.modules = modules or {}

    @cached_property
    def decoder(self) -> Any:
        """The backbone as this method runs it (tts_demo.lm.Decoder): a method with LoRA merges it here. The engine
        replays a finished run through it to draw attention maps."""
        return self.lm.decoder

    @classmethod
    def build_modules(cls, lm: Any) -> dict[str, nn.Module]:
        """Fresh (untrained) modules for this LM's shape, by folder name. Weights are loaded into these."""
        return {}

    def reads(self, options: Any) -> tuple[str, ...]:
        """Folders of the trained modules that a run with these options reads: what was measured of it holds while those
        stay as they are."""
        return tuple(self.modules)

    def check(self, options: Any) -> None:
        """Raises UserError where the trained weights at hand cannot serve these options."""

    @abc.abstractmethod
    def prefill(
        self,
        prefix: Prefix,
        options: Any,
        sampling: Sampling,
        generator: torch.Generator,
        max_frames: int,
        forced: bool = False,
    ) -> State:
        """Run the prefix through the backbone once. End of speech is not drawn before
        ``prefix.shortest`` frames; ``forced``: never."""

    @abc.abstractmethod
    def step(self, state: State) -> Step:
        """Advance by one backbone pass (speculation: one target pass)."""

    @abc.abstractmethod
    def replay(self, state: State) -> Replay:
        """Rebuild the finished run for a teacher-forced pass whose logits equal the stepwise ones."""

    @classmethod
    def output_codebooks(cls, options: Any) -> int:
        """How many codebooks the frames carry; a refiner fills in the rest."""
        return 1
