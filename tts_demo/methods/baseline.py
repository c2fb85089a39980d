"""Frame-level autoregression (FAR): one first-codebook token a backbone step. What every other method is held
against."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..config import Sampling
from ..lm.masks import prefix_mask
from ..lm.sampling import Ending, History, sample
from .base import Method, Options, Picture, Prefix, Replay, State, Step


@dataclass
class BaselineState(State):
    history: History
    hidden: Tensor  # [1, 1, H] backbone output that decides the next token
    token: Tensor | None = None  # [1] drawn, but not yet fed back
    tokens: list[Tensor] = field(default_factory=list)  # each [1]
    done: bool = False


class Baseline(Method):
    name = "baseline"
    title = "Token by token"
    paper = "Frame-level autoregression (the baseline of every paper here)"
    idea = "The language model predicts one speech token at a time and feeds it back."
    cached = "every text, prompt and speech token"
    emits = "1 token"
    picture = Picture("pppp ssssssssssss", "s")

    def prefill(
        self,
        prefix: Prefix,
        options: Options,
        sampling: Sampling,
        generator: torch.Generator,
        max_frames: int,
        forced: bool = False,
    ) -> BaselineState:
        decoder, config = self.decoder, self.lm.config
        x = torch.cat([prefix.x.to(decoder.dtype), decoder.embed(prefix.prompt_codes[:, 0])])[None]
        mask = prefix_mask(len(prefix.x), x.shape[1], config.bidirectional_text, x.device)
        cache = decoder.new_cache(x.shape[1] + max_frames)
        hidden = decoder.forward(x, cache, 0, mask, last=True)
        return BaselineState(
            prefix,
            {"backbone": cache},
            sampling,
            generator,
            Ending.of(config, prefix, max_frames, forced),
            max_frames,
            History(sampling.repeat_window, device=x.device),
            hidden,
        )

    def step(self, state: BaselineState) -> Step:
        decoder, cache = self.decoder, state.caches["backbone"]
        if state.token is not None:  # the first step reads what the prefill left
            state.hidden = decoder.forward(decoder.embed(state.token)[:, None], cache, cache.next_position)
        return self._say(state)

    def _say(self, state: BaselineState) -> Step:
        """Draw the token that ``state.hidden`` decides."""
        logits = self.decoder.logits(state.hidden[:, -1])
        token = sample(logits, state.sampling, state.generator, state.history.tokens, self._forbidden(state))
        if int(token) >= self.lm.config.speech_codes:
            state.done = True
            return Step(frames=token.new_empty(0, 1), done=True)
        state.token = token
        state.tokens.append(token)
        state.history.push(token)
        state.done = len(state.tokens) >= state.max_frames
        return Step(frames=token[:, None], done=state.done, marks=("token",))

    def _forbidden(self, state: BaselineState) -> Tensor | None:
        """[V] what the next token must not be, or None."""
        return state.ending.forbid(len(state.tokens))

    def replay(self, state: BaselineState) -> Replay:
        decoder, prefix = self.decoder, state.prefix
        fed = [decoder.embed(prefix.prompt_codes[:, 0])] + [decoder.embed(token) for token in state.tokens[:-1]]
        if len(state.tokens) and state.caches["backbone"].length == self._length(state):
            fed.append(decoder.embed(state.tokens[-1]))  # the last token was fed back too: end of speech followed it
        x = torch.cat([prefix.x.to(decoder.dtype), *fed])
        steps = len(state.tokens) + (state.done and len(state.tokens) < state.max_frames)
        first_row = len(prefix.x) + len(prefix.prompt_codes) - 1
        return Replay(
            x=x,
            positions=torch.arange(len(x), device=x.device),
            mask=prefix_mask(len(prefix.x), len(x), self.lm.config.bidirectional_text, x.device),
            rows=torch.arange(first_row, first_row + steps, device=x.device),
            first_frame=tuple(range(steps)),
            frames_of=tuple(1 if i < len(state.tokens) else 0 for i in range(steps)),
        )

    def _length(self, state: BaselineState) -> int:
        """Slots of a run in which every token drawn was also fed back."""
        return len(state.prefix.x) + len(state.prefix.prompt_codes) + len(state.tokens)
