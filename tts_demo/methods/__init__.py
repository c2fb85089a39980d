"""The one registry of decoding methods, by name, in the order people see them. A new method is one line here."""

from ..config import UserError
from .base import Method, Options  # noqa: F401
from .baseline import Baseline
from .compressed import Compressed
from .dcar import Dcar
from .draft_alone import DraftAlone
from .qtts import QTTS
from .ssd import SSD
from .tldr import TLDR, MeanPooled, Parallel, Short, WithoutLora, WithoutSpeaker

REGISTRY: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Baseline,
        TLDR,
        Dcar,
        QTTS,
        Compressed,
        SSD,
        # comparison models of the papers
        Short,
        WithoutLora,
        WithoutSpeaker,
        MeanPooled,
        Parallel,
        DraftAlone,
    )
}
METHODS = {name: method for name, method in REGISTRY.items() if not method.variant_of}  # what people choose from


def find(name: str) -> type[Method]:
    """The method or comparison model of this name. Raises UserError for an unknown one."""
    if name not in REGISTRY:
        raise UserError(f"Unknown method {name!r}; the methods are: {', '.join(METHODS)}.")
    return REGISTRY[name]
