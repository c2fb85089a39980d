"""Frame-level autoregression: one token of the first codebook a backbone pass. What all methods are compared with."""

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from ..lm.decoder import Decoder
from ..lm.launch import Forward, launch_passes
from ..lm.sampling import History, Sampler, numbers
from .base import Method, Picture, Replay, Start, State, Step, first_pass, plain_replay, token_inputs


@dataclass(kw_only=True)
class BaselineState(State):
    history: History
    hidden: Tensor  # [1, 1, H] backbone output that decides the next token
    tokens: list[Tensor] = field(default_factory=list)  # each [1]; the last one is not fed back yet

    @property
    def frames_of(self) -> list[int]:
        """Frames of each step: one, and none of the step that sampled end of speech."""
        return [1] * len(self.tokens) + [0] * self.ended


class Baseline(Method):
    name = "baseline"
    title = "Token by token"
    paper = "Frame-level autoregression (the baseline of every paper here)"
    idea = "The language model predicts one speech token at a time and feeds it back."
    cached = "every text, prompt and speech token"
    emits = "1 token"
    picture = Picture("pppp ssssssssssss", "s")
    neutral = {}

    def begin(self, start: Start) -> BaselineState:
        decoder = self.decoder
        x = token_inputs(decoder, start.prefix)
        cache = decoder.new_cache(len(x) + start.ending.longest)
        hidden = first_pass(decoder, start.prefix, x, cache)
        return BaselineState(start=start, caches={"backbone": cache}, history=start.history(), hidden=hidden)

    def step(self, state: BaselineState) -> Step:
        if not state.tokens:  # the first token is decided by the first pass
            return self.sample_token(state)
        decoder, cache = self.decoder, state.caches["backbone"]
        inputs = self.sampler(state), state.tokens[-1], state.history.tokens, self.forbidden(state)
        token, state.hidden = launch_passes(decoder, cache, 1, "token", partial(next_token, decoder), *inputs)
        return self.emit(state, token)

    def sampler(self, state: BaselineState) -> Sampler:
        return state.sampler(numbers(state.sampling, self.lm.config.vocab))

    def sample_token(self, state: BaselineState) -> Step:
        """Sample the token that ``state.hidden`` decides."""
        logits = self.decoder.logits(state.hidden[:, -1])
        return self.emit(state, self.sampler(state).sample(logits, state.history.tokens, self.forbidden(state)))

    def emit(self, state: BaselineState, token: Tensor, ids: list[int] | None = None) -> Step:
        """Count and remember a sampled token [1]. ids: the same where the host knows it."""
        if not state.accept(token.tolist() if ids is None else ids):
            return Step(frames=token.new_empty(0, 1), done=True)
        state.tokens.append(token)
        state.history.push(token)
        return Step(frames=token[:, None], done=state.done, marks=("token",))

    def forbidden(self, state: BaselineState) -> Tensor | None:
        """[V] bool, True = the next token must not be this; or None."""
        return state.forbidden()

    def replay(self, state: BaselineState) -> Replay:
        steps = len(state.frames_of)
        fed = torch.cat([state.prefix.prompt_codes[:0, 0], *state.tokens[: max(0, steps - 1)]])
        return plain_replay(self.decoder, state.prefix, token_inputs(self.decoder, state.prefix, fed), state.frames_of)


def next_token(
    decoder: Decoder, forward: Forward, sampler: Sampler, token: Tensor, history: Tensor, forbid: Tensor | None
) -> tuple[Tensor, Tensor]:
    """One launch: token [1] through the backbone -> the next one [1], and hidden [1, 1, H] that decided it."""
    hidden = forward(decoder.embed(token)[:, None])
    return sampler.sample(decoder.logits(hidden[:, -1]), history, forbid), hidden
