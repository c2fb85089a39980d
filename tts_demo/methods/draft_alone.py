"""The draft of speculative decoding speaking by itself: what SSD would be without the check (the paper's table 1)."""

from __future__ import annotations

from functools import cached_property

from ..lm.decoder import Decoder
from .baseline import Baseline
from .ssd import SSD, draft_decoder


class DraftAlone(Baseline):
    name = "ssd-draft-alone"
    title = "The draft alone"
    paper = "Speech Speculative Decoding (SSD)"
    idea = "The shallow draft model speaks token by token, and nobody checks it."
    needs_weights = ("ssd-draft",)

    build_modules = SSD.build_modules

    @cached_property
    def decoder(self) -> Decoder:
        return draft_decoder(self.lm, self.modules["ssd-draft"])
