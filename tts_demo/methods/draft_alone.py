"""The draft of speculative decoding without verification (the paper's table 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ..lm.decoder import Decoder
from ..lm.linear import Projection
from .base import Replay, Start, Step, first_pass, plain_replay, token_inputs
from .baseline import Baseline, BaselineState
from .ssd import SSD, draft_decoder, feature_projection, preceding


@dataclass(kw_only=True)
class AloneState(BaselineState):
    fed: list[Tensor] = field(default_factory=list)  # each [rows, H]


class DraftAlone(Baseline):
    name = "ssd-draft-alone"
    title = "The draft alone"
    paper = "Speech Speculative Decoding (SSD)"
    idea = (
        "The shallow draft model speaks token by token without verification: it reads the base model's features of the "
        "prompt, then only its own."
    )
    needs_weights = ("ssd-draft",)
    picture = None
    neutral = None
    variant_of = SSD.name

    build_modules = SSD.build_modules

    @cached_property
    def decoder(self) -> Decoder:
        return draft_decoder(self.base.decoder, self.modules["ssd-draft"])

    @cached_property
    def project(self) -> Projection:
        return feature_projection(self.modules["ssd-draft"], self.decoder)

    def begin(self, start: Start) -> AloneState:
        base, prefix = self.base.decoder, start.prefix
        x = token_inputs(base, prefix)
        features = preceding(first_pass(base, prefix, x, base.new_cache(len(x)), last=False)[0], len(prefix.x))
        cache, fed = self.decoder.new_cache(len(x) + start.ending.longest), self.project(features, x)
        hidden = first_pass(self.decoder, prefix, fed, cache)
        return AloneState(start=start, caches={"backbone": cache}, history=start.history(), hidden=hidden, fed=[fed])

    def step(self, state: AloneState) -> Step:
        if state.tokens:  # the first token is decided by the first pass
            cache = state.caches["backbone"]
            state.fed.append(self.project(state.hidden[0], self.decoder.embed(state.tokens[-1])))
            state.hidden = self.decoder.forward(state.fed[-1][None], cache, cache.next_position)
        return self.sample_token(state)

    def replay(self, state: AloneState) -> Replay:
        return plain_replay(self.decoder, state.prefix, torch.cat(state.fed), state.frames_of)
