"""The draft of speculative decoding speaking by itself: what SSD would be without the check (the paper's table 1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from ..config import Sampling
from ..lm.decoder import Decoder
from ..lm.linear import Projection
from ..lm.masks import prefix_mask
from ..lm.sampling import Ending, History
from .base import Options, Prefix, Replay, Step
from .baseline import Baseline, BaselineState
from .ssd import SSD, before, draft_decoder, ear


@dataclass
class AloneState(BaselineState):
    fed: list[Tensor] = field(default_factory=list)  # each [rows, H]


class DraftAlone(Baseline):
    name = "ssd-draft-alone"
    title = "The draft alone"
    paper = "Speech Speculative Decoding (SSD)"
    idea = "The shallow draft model speaks token by token, and nobody checks it: it hears the base read the prompt, then only itself."
    needs_weights = ("ssd-draft",)
    picture = None

    build_modules = SSD.build_modules

    @cached_property
    def decoder(self) -> Decoder:
        return draft_decoder(self.lm, self.modules["ssd-draft"])

    @cached_property
    def listen(self) -> Projection:
        return ear(self.modules["ssd-draft"], self.decoder)

    def prefill(
        self,
        prefix: Prefix,
        options: Options,
        sampling: Sampling,
        generator: torch.Generator,
        max_frames: int,
        forced: bool = False,
    ) -> AloneState:
        base, config = self.lm.decoder, self.lm.config
        x = torch.cat([prefix.x.to(base.dtype), base.embed(prefix.prompt_codes[:, 0])])
        mask = prefix_mask(len(prefix.x), len(x), config.bidirectional_text, x.device)
        heard = before(base.forward(x[None], base.new_cache(len(x)), 0, mask)[0], len(prefix.x))
        cache, fed = self.decoder.new_cache(len(x) + max_frames), self.listen(heard, x)
        return AloneState(
            prefix,
            {"backbone": cache},
            sampling,
            generator,
            Ending.of(config, prefix, max_frames, forced),
            max_frames,
            History(sampling.repeat_window, device=x.device),
            self.decoder.forward(fed[None], cache, 0, mask, last=True),
            fed=[fed],
        )

    def step(self, state: AloneState) -> Step:
        if state.token is not None:  # the first step reads what the prefill left
            cache = state.caches["backbone"]
            state.fed.append(self.listen(state.hidden[0], self.decoder.embed(state.token)))
            state.hidden = self.decoder.forward(state.fed[-1][None], cache, cache.next_position)
        return self._say(state)

    def replay(self, state: AloneState) -> Replay:
        return replace(super().replay(state), x=torch.cat(state.fed))
