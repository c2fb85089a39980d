"""SSD: speech speculative decoding. The draft, how many tokens it proposes, the verdict on them, and decoding, one file
each."""

from .draft import Draft, DraftConfig, before, draft_decoder, ear
from .length import LONGEST, DraftLength
from .method import SSD, SSDOptions
from .verdict import judge

__all__ = [
    "LONGEST",
    "SSD",
    "Draft",
    "DraftConfig",
    "DraftLength",
    "SSDOptions",
    "before",
    "draft_decoder",
    "ear",
    "judge",
]
