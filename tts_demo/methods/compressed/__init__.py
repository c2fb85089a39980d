"""Compressed-to-fine language modelling: adapter, layout, cache, text window and decoding, one file each."""

from .adapter import FULL_TEXT, TEXT_WINDOW, SummaryAdapter
from .layout import Layout, masks
from .method import GROUPS, NEIGHBOURS, Compressed, WindowOptions
from .ring import RingCache, launch
