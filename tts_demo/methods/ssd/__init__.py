"""Speech speculative decoding: the draft model, its length, the acceptance rule and decoding, one file each."""

from .draft import Draft, cache_over, catch_up, draft_decoder, feature_projection, preceding
from .method import SSD
