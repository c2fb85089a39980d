"""The one registry of decoding methods, by name, in the order people see them."""

from ..config import UserError
from .base import Method, Options  # noqa: F401
from .baseline import Baseline
from .compressed import Compressed
from .dcar import Dcar
from .draft_alone import DraftAlone
from .qtts import QTTS
from .ssd import SSD
from .tldr import TLDR, MeanPooled, Parallel, Short, WithoutLora, WithoutSpeaker

METHODS: dict[str, type[Method]] = {method.name: method for method in (Baseline, TLDR, Dcar, QTTS, Compressed, SSD)}

# Comparison models of the papers: trained and evaluated by name like the methods, but no choice on the page.
ABLATIONS: dict[str, type[Method]] = {
    method.name: method for method in (Short, WithoutLora, WithoutSpeaker, MeanPooled, Parallel)
}


# Parts of a method that ``evaluate --all`` and ``bench --all`` measure by themselves; their weights are the method's.
PARTS: dict[str, type[Method]] = {DraftAlone.name: DraftAlone}


def find(name: str) -> type[Method]:
    """The method, ablation or part of this name. Raises UserError for an unknown one."""
    known = METHODS | ABLATIONS | PARTS
    if name not in known:
        raise UserError(f"Unknown method {name!r}; the methods are: {', '.join(METHODS)}.")
    return known[name]
