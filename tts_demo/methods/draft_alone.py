"""The draft of speculative decoding speaking by itself: what SSD would be without the check (the paper's table 1)."""

from __future__ import annotations

from functools import cached_property

from torch import nn

from ..lm.decoder import Decoder
from ..lm.model import LanguageModel
from .baseline import Baseline
from .ssd import Draft, draft_decoder


class DraftAlone(Baseline):
    name = "ssd-draft-alone"
    title = "The draft alone"
    paper = "Speech Speculative Decoding (SSD)"
    idea = "The shallow draft model speaks token by token, and nobody checks it."
    needs_weights = ("ssd-draft",)

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {"ssd-draft": Draft(lm)}

    @cached_property
    def decoder(self) -> Decoder:
        return draft_decoder(self.lm, self.modules["ssd-draft"])
