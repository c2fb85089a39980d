"""The draft of speculative decoding without verification (the paper's table 1)."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ..lm import Decoder, KVCache, Projection
from ..lm.masks import prefix_mask
from .base import Replay, Start, Step, first_pass, plain_replay, token_inputs
from .baseline import Baseline, BaselineState
from .ssd import SSD, cache_over, catch_up, draft_decoder, feature_projection, preceding


@dataclass(kw_only=True)
class AloneState(BaselineState):
    fed: list[Tensor] = field(default_factory=list)  # each [rows, H]
    base: KVCache | None = None  # of a draft that attends to the base's keys and values of the prefix


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
        base, prefix, layers = self.base.decoder, start.prefix, self.modules["ssd-draft"].config.base_layers
        x, longest = token_inputs(base, prefix), start.ending.longest
        base_cache = base.new_cache(len(x) + (0 if layers is None else longest))
        own = layers is None
        cache = self.decoder.new_cache(len(x) + longest) if own else cache_over(self.decoder, base_cache, layers)
        states = first_pass(base, prefix, x, base_cache, last=False)[0]
        if layers is None:
            fed = self.project(preceding(states, len(prefix.x)), x)
            hidden = first_pass(self.decoder, prefix, fed, cache)
            base_cache = None
        else:  # the base has read all but the last column for it
            base_cache.rollback(1)
            catch_up(cache, base_cache)
            fed = self.project(states[-2:-1], x[-1:])
            hidden = self.decoder.forward(fed[None], cache, cache.next_position)
        state = AloneState(start=start, caches={"backbone": cache}, history=start.history(), hidden=hidden)
        state.fed, state.base = [fed], base_cache
        return state

    def step(self, state: AloneState) -> Step:
        if state.tokens:  # the first token is decided by the first pass
            cache = state.caches["backbone"]
            state.fed.append(self.project(state.hidden[0], self.decoder.embed(state.tokens[-1])))
            state.hidden = self.decoder.forward(state.fed[-1][None], cache, cache.next_position)
        return self.sample_token(state)

    def replay(self, state: AloneState) -> Replay:
        x, prefix, steps = torch.cat(state.fed), state.prefix, len(state.frames_of)
        if state.base is None:
            return plain_replay(self.decoder, prefix, x, state.frames_of)
        read, fed = state.base.length, len(x)
        rows = torch.arange(fed, device=x.device)
        mask = prefix_mask(len(prefix.x), read + fed, self.decoder.config.bidirectional_text, x.device)
        return Replay(
            x=x,
            positions=read + rows,
            mask=mask[read:],
            rows=rows[-steps:],
            frames_of=tuple(state.frames_of),
            decoder=self.decoder,
            past=state.caches["backbone"].kv[:, :, :, :read],
        )
