"""The one registry of decoding methods, by name, in the order people see them. A new method is one line here."""

from importlib import import_module

from ..config import UserError, nearest
from .base import Method, Options

# On white; the page's style sheet has the same as --lane-0 to --lane-7, and brighter ones for its dark theme.
COLOURS = "#2757ab #8e421b #824afa #1e8288 #986e02 #5c1127 #31714b #4e4e4f".split()
REQUIRED = ("name", "title", "paper", "idea", "cached", "emits")  # what page, command line and tables say of a method


def checked(method: type[Method]) -> type[Method]:
    """A method that can be registered. Raises UserError where it lacks something, or names options it does not take."""
    if missing := [name for name in REQUIRED if not isinstance(getattr(method, name, None), str)]:
        raise UserError(f"{method.__name__} cannot be registered: give it {', '.join(missing)} (methods/base.py).")
    if undefined := sorted(method.__abstractmethods__):
        raise UserError(f"{method.__name__} cannot be registered: define {', '.join(undefined)} (methods/base.py).")
    for options in (*method.presets, method.neutral or {}):
        try:
            method.Options(**options)
        except (TypeError, UserError) as error:
            raise UserError(
                f"{method.__name__} cannot be registered: its options {options} are wrong: {error}"
            ) from None
    return method


def _load(path: str) -> type[Method]:
    module, name = path.rsplit(".", 1)
    return checked(getattr(import_module(f"{__name__}.{module}"), name))


REGISTRY: dict[str, type[Method]] = {
    method.name: method
    for method in map(
        _load,
        (
            "baseline.Baseline",
            "tldr.TLDR",
            "dcar.Dcar",
            "qtts.QTTS",
            "compressed.Compressed",
            "ssd.SSD",
            # two methods at once
            "compressed_chunks.CompressedChunks",
            "verified_chunks.VerifiedChunks",
            # comparison models of the papers: measured by name, no choice on the page
            "tldr.Short",
            "tldr.WithoutLora",
            "tldr.WithoutSpeaker",
            "tldr.MeanPooled",
            "tldr.Parallel",
            "tldr.MultiToken",
            "dcar.WithoutChase",
            "dcar.WithoutPenalty",
            "dcar.ShortHeads",
            "dcar.EqualHeads",
            "draft_alone.DraftAlone",
        ),
    )
}
METHODS = {name: method for name, method in REGISTRY.items() if not method.variant_of}  # what people choose from


def find(name: str) -> type[Method]:
    """The method or comparison model of this name. Raises UserError for an unknown one."""
    if name not in REGISTRY:
        raise UserError(f"Unknown method {name!r}.{nearest(name, REGISTRY)} The methods are: {', '.join(METHODS)}.")
    return REGISTRY[name]


def colour(method: str) -> int:
    """The number of a method's colour, on the page and in every plot; of one that is gone, the last."""
    return list(METHODS).index(method) % len(COLOURS) if method in METHODS else len(COLOURS) - 1
