"""Speech speculative decoding: the draft model, its length, the acceptance rule and decoding, one file each."""

from .draft import Draft, DraftConfig, draft_decoder, feature_projection, preceding
from .length import LONGEST, DraftLength
from .method import SSD, SSDOptions
from .verify import verify

__all__ = [
    "LONGEST",
    "SSD",
    "Draft",
    "DraftConfig",
    "DraftLength",
    "SSDOptions",
    "draft_decoder",
    "feature_projection",
    "preceding",
    "verify",
]
