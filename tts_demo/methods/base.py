"""The contract between a decoding method and the engine, and what all methods share.

A method turns a prefix (voice and text) into codec frames, one ``step`` at a time. It knows the language model and its
own trained modules, and nothing of codecs, clocks, events or pages. Everything about one run lives in its ``State``, so
one method object serves many runs at once.

Adding a method: one file here, one line in ``methods/__init__.py``, and a recipe in ``train`` if it has weights. Its
controls on the page, its command-line options, its rows in ``evaluate`` and ``bench`` and its place in the test matrix
follow from the class."""

import abc
import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..config import Sampling, UserError, nearest
from ..lm import Base, BufferPool, Decoder, Ending, History, KVCache, LanguageModel, Prefix, Replay, Sampler
from ..lm.masks import prefix_mask


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
    def parse(cls, pairs: dict[str, str], others: Collection[str] = ()) -> "Options":
        """From command-line words (``patch_size=4``). Raises UserError for an unknown key or a bad value. others: names
        that are accepted beside the options, where the caller reads them; the sentence about an unknown key lists
        them."""
        known = {f.name: f for f in dataclasses.fields(cls)}
        values = {}
        for key, word in pairs.items():
            if key not in known:
                names = [*known, *others]
                has = ", ".join(names) or "none"
                raise UserError(f"Unknown option {key!r}.{nearest(key, names)} The options here are: {has}.")
            kind = type(known[key].default)
            try:
                values[key] = kind(word) if kind is not bool else str(word).lower() in ("1", "true", "yes", "on")
            except ValueError:
                number = "whole number" if kind is int else "number"
                raise UserError(f"{key} must be a {number}, not {word!r}.") from None
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a run starts from."""

    prefix: Prefix
    options: Any  # of the method's own ``Options``
    sampling: Sampling
    generator: torch.Generator
    ending: Ending  # shortest and longest length

    def history(self) -> History:
        """The recent tokens of this run, none yet."""
        return History(self.sampling.repeat_window, device=self.prefix.x.device)

    @cached_property
    def temperature(self) -> Tensor:
        """[] float64 on the device, for CUDA graphs."""
        return torch.tensor(self.sampling.temperature, dtype=torch.float64, device=self.prefix.x.device)


@dataclass(kw_only=True)
class State:
    """Everything about one run. Subclasses add fields."""

    start: Start
    caches: dict[str, KVCache]  # by name, the backbone's is "backbone"
    emitted: int = 0  # frames so far
    ended: bool = False  # end of speech was sampled

    @property
    def prefix(self) -> Prefix:
        return self.start.prefix

    @property
    def sampling(self) -> Sampling:
        return self.start.sampling

    @property
    def generator(self) -> torch.Generator:
        return self.start.generator

    @property
    def done(self) -> bool:
        return self.ended or self.emitted >= self.start.ending.longest

    def sampler(self, numbers: int) -> Sampler:
        """For a launch that takes up to so many random numbers."""
        return Sampler.of(self.sampling, self.generator, numbers, self.start.temperature)

    def forbidden(self, count: int = 1) -> Tensor | None:
        """The ids that the next ``count`` tokens must not take: see ``Ending.forbid``."""
        return self.start.ending.forbid(self.emitted, count)

    def accept(self, tokens: list[int]) -> int:
        """Counts the tokens that are frames, those before end of speech and the limit; records end of speech."""
        ending = self.start.ending
        end = next((i for i, token in enumerate(tokens) if token >= ending.speech_codes), len(tokens))
        count = min(end, ending.longest - self.emitted)
        self.ended |= end < len(tokens)
        self.emitted += count
        return count


@dataclass(frozen=True)
class Step:
    """What one pass of the backbone, and the small modules around it, committed.

    frames: [n, K] codes, n >= 0. ``marks``: one word a frame (``token``, ``patch``, ``chunk``, ``accepted``,
    ``resampled``, ``bonus``, ``delay`` ...); the first frame of a group may carry a trailing ``|``. proposed/accepted:
    drafted tokens of speculative decoding, 0 elsewhere. ``passes``: backbone passes made (1 unless a step needs
    none)."""

    frames: Tensor
    done: bool = False
    marks: tuple[str, ...] = ()
    proposed: int = 0
    accepted: int = 0
    passes: int = 1
    stats: dict[str, Any] = field(default_factory=dict)


def token_inputs(decoder: Decoder, prefix: Prefix, tokens: Tensor | None = None) -> Tensor:
    """Backbone inputs [T, H], token by token: the prefix, the prompt's first codebook, and ``tokens`` [N]."""
    speech = prefix.prompt_codes[:, 0]
    return prefix.followed_by(decoder.embed(speech if tokens is None else torch.cat([speech, tokens])))


def first_pass(
    decoder: Decoder, prefix: Prefix, x: Tensor, cache: KVCache, positions: Tensor | int = 0, last: bool = True
) -> Tensor:
    """The first pass of every run: x [T, H], the prefix followed by the prompt's speech, into an empty cache -> hidden
    [1, 1, H] of the last row, [1, T, H] of all rows if not ``last``."""
    mask = prefix_mask(len(prefix.x), len(x), decoder.config.bidirectional_text, x.device)
    return decoder.forward(x[None], cache, positions, mask, last=last)


def plain_replay(
    decoder: Decoder, prefix: Prefix, x: Tensor, frames_of: Sequence[int], positions: Tensor | None = None
) -> Replay:
    """The replay of a run that fed x [T, H] (the prefix, the prompt's speech, and what each step but the last emitted)
    under the ordinary mask, one row a step: the last rows decided the steps. positions: None = consecutive."""
    steps, total = len(frames_of), len(x)
    return Replay(
        x=x,
        positions=torch.arange(total, device=x.device) if positions is None else positions,
        mask=prefix_mask(len(prefix.x), total, decoder.config.bidirectional_text, x.device),
        rows=torch.arange(total - steps, total, device=x.device),
        frames_of=tuple(frames_of),
        decoder=decoder,
    )


@dataclass(frozen=True)
class Picture:
    """A method as a picture for the page as two rows of cells: what the KV cache holds, left to right, and what one
    step emits. Cells: p prefix, s speech token, z patch, w summary, x dropped, d the draft's cache, a accepted draft
    token, r resampled token, h token of an extra head, k code of a higher codebook; a space is a gap."""

    cache: str
    emits: str


class Method(abc.ABC):
    """A decoding method: class attributes describe it, an object holds the language model and its trained modules."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    arxiv: ClassVar[str] = ""  # the paper's number there
    idea: ClassVar[str]  # one or two plain sentences for the page
    cached: ClassVar[str]  # what is kept in the KV cache, in a few words
    emits: ClassVar[str]  # what one step emits, in a few words
    picture: ClassVar[Picture | None] = None
    Options: ClassVar[type[Options]] = Options
    presets: ClassVar[tuple[dict[str, Any], ...]] = ()  # the page's three: saves most, balanced, closest to baseline
    neutral: ClassVar[dict[str, Any] | None] = None  # options under which it equals the baseline token for token
    needs_weights: ClassVar[tuple[str, ...]] = ()  # folders of the checkpoint without which it cannot run
    reads: ClassVar[tuple[str, ...]] = ()  # other folders that no other method reads, or only its combinations
    runs_untrained: ClassVar[bool] = False  # whether fresh modules are usable: an untrained draft is exact, only slower
    variant_of: ClassVar[str] = ""  # the method it is a comparison model of: measured like one, no choice on the page
    predicted: ClassVar[int] = 1  # tokens that its heads predict of one hidden state, with the base head's
    combines: ClassVar[tuple[str, ...]] = ()  # names of the methods it puts together; no row of the small table

    def __init__(self, base: Base, modules: dict[str, nn.Module] | None = None, weights_hash: str = "") -> None:
        """modules: folder name -> trained module, for each of ``needs_weights``. weights_hash: of those that are not in
        the stack's own checkpoint, but in a folder of adapters."""
        self.base, self.lm, self.weights_hash = base, base.lm, weights_hash
        self.modules = modules or {}
        self._settled: set[tuple[Any, ...]] = set()

    def warm(self, options: Options | None) -> bool:
        """Whether a run with such options has been made: the first one also builds weights and graphs. Float options
        such as tolerances build nothing and are ignored."""
        return self._built_for(options) in self._settled

    def has_run(self, options: Options | None) -> None:
        """Note that a run with these options has been made, which makes ``warm`` true for them. The engine calls it."""
        self._settled.add(self._built_for(options))

    def _built_for(self, options: Options | None) -> tuple[Any, ...]:
        return tuple(v for v in dataclasses.astuple(options or self.Options()) if not isinstance(v, float))

    @cached_property
    def decoder(self) -> Decoder:
        """The backbone as this method runs it: a method with LoRA merges it here."""
        return self.base.decoder

    def parts(self) -> dict[str, BufferPool | None]:
        """What a step launches, and the CUDA graphs it runs as; None: launched operator by operator."""
        return {"backbone, logits and sampling": self.decoder.pool}

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        """Fresh (untrained) modules for this LM's shape, by folder name. Weights are loaded into these."""
        return {}

    @classmethod
    def modules_read(cls, options: Any) -> set[str]:
        """Folders of the checkpoint that a run with these options reads for this method."""
        return {*cls.needs_weights, *cls.reads}

    @classmethod
    def paced_by_weights(cls, options: Any) -> bool:
        """Whether weights decide how many frames a step yields, so that others of the same shapes are another speed."""
        return False

    def check(self, options: Any) -> None:
        """Raises UserError where the trained modules at hand cannot serve these options."""

    def prefill(
        self,
        prefix: Prefix,
        options: Any,
        sampling: Sampling,
        generator: torch.Generator,
        max_frames: int,
        forced: bool = False,
    ) -> State:
        """Begin a run: the prefix goes through the backbone once. End of speech is not sampled before
        ``prefix.shortest`` frames; ``forced``: not before ``max_frames``."""
        self.check(options)
        ending = Ending.of(self.lm.config, prefix, max_frames, forced)
        start = Start(prefix=prefix, options=options, sampling=sampling, generator=generator, ending=ending)
        return self.begin(start)

    @abc.abstractmethod
    def begin(self, start: Start) -> State:
        """The state of a run after the first pass, from which ``step`` samples the first frames."""

    @abc.abstractmethod
    def step(self, state: State) -> Step:
        """Advance by one backbone pass (speculation: one target pass)."""

    @abc.abstractmethod
    def replay(self, state: State) -> Replay:
        """Rebuild the finished run for a teacher-forced pass whose logits equal the stepwise ones."""

    def head_logits(self, prefix: Prefix, codes: Tensor) -> Tensor:
        """Predictions [P, F - P + 1, V] of the tokens codes[P - 1:] of a recording, codes [F] of its first codebook,
        under teacher forcing, P = ``predicted``. Column p holds P predictions of the same token: head j (0 = the base
        head) makes its own j tokens earlier than the base head. For methods with P > 1."""
        raise NotImplementedError(f"{type(self).__name__} has no heads of its own")

    @classmethod
    def output_codebooks(cls, options: Any) -> int:
        """How many codebooks the frames carry; a refiner fills in the rest."""
        return 1
