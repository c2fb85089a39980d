"""Compressed-to-fine language modelling: layout, cache, text window and decoding, one file each."""

from .layout import Layout, masks
from .method import FULL_TEXT, GROUPS, NEIGHBOURS, TEXT_WINDOW, Compressed, SummaryAdapter, WindowOptions
from .ring import RingCache, launch
