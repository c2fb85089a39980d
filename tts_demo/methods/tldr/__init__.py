"""TLDR, patch-level decoding: modules.py is what is trained, local.py decodes inside a patch, method.py is the
method."""

from .method import TLDR, MeanPooled, Parallel, Short, TLDROptions, WithoutLora, WithoutSpeaker
from .modules import TLDRAdapter, TLDRConfig

__all__ = [
    "TLDR",
    "MeanPooled",
    "Parallel",
    "Short",
    "TLDRAdapter",
    "TLDRConfig",
    "TLDROptions",
    "WithoutLora",
    "WithoutSpeaker",
]
