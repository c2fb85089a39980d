"""A toy sixth method, for test_registry.py: several tokens of one distribution a step, then one backbone pass over
them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tts_demo.lm.sampling import History, sample
from tts_demo.methods.base import (
    Method,
    Options,
    Picture,
    Replay,
    Start,
    State,
    Step,
    dial,
    first_pass,
    plain_replay,
    token_inputs,
)


@dataclass(frozen=True)
class SixthOptions(Options):
    count: int = dial(2, "Tokens", "How many tokens a step draws.", min=1, max=4, step=1, unit="tokens")


@dataclass(kw_only=True)
class SixthState(State):
    history: History
    hidden: Tensor  # [1, 1, H]
    drawn: list[Tensor] = field(default_factory=list)  # of each step [n]


class Sixth(Method):
    name = "sixth"
    title = "The sixth"
    paper = "A toy of the tests"
    idea = "Every step draws several tokens from one distribution."
    cached = "every text, prompt and speech token"
    emits = "1 to 4 tokens"
    picture = Picture("pppp ssss", "ss")
    Options = SixthOptions
    presets = ({"count": 4}, {"count": 2}, {"count": 1})
    neutral = {"count": 1}

    def begin(self, start: Start) -> SixthState:
        x = token_inputs(self.decoder, start.prefix)
        cache = self.decoder.new_cache(len(x) + start.ending.longest)
        hidden = first_pass(self.decoder, start.prefix, x, cache)
        return SixthState(start=start, caches={"backbone": cache}, history=start.history(), hidden=hidden)

    def step(self, state: SixthState) -> Step:
        cache = state.caches["backbone"]
        if state.drawn:
            x = self.decoder.embed(state.drawn[-1])[None]
            state.hidden = self.decoder.forward(x, cache, cache.next_position, last=True)
        count = state.start.options.count
        logits = self.decoder.logits(state.hidden[:, -1]).expand(count, -1)
        tokens = sample(logits, state.sampling, state.generator, state.history.tokens, state.forbidden(count))
        tokens = tokens[: state.accept(tokens.tolist())]
        for token in tokens:
            state.history.push(token)
        state.drawn.append(tokens)
        return Step(frames=tokens[:, None], done=state.done, marks=("token",) * len(tokens))

    def replay(self, state: SixthState) -> Replay:
        prefix, counts = state.prefix, [len(tokens) for tokens in state.drawn]
        x = token_inputs(self.decoder, prefix, torch.cat([prefix.prompt_codes[:0, 0], *state.drawn[:-1]]))
        before = torch.tensor([0, *counts]).cumsum(0)[:-1]
        first = len(prefix.x) + len(prefix.prompt_codes) - 1
        return replace(plain_replay(self.decoder, prefix, x, counts), rows=first + before)
