"""The flow for a listener who is waiting: attention in blocks, each computed once and remembered."""

from __future__ import annotations

import torch
from torch import Tensor

from .configs import MEL_PER_TOKEN
from .flow import NOISE_FRAMES, Flow
from .memory import Budget, FlowMemory, Mark
from .prompt import Voice


class LiveFlow:
    """One run. ``begin`` a segment of the text, then ``extend`` it by its next tokens."""

    def __init__(self, flow: Flow, noise: Tensor, voice: Voice, budget: Budget) -> None:
        """noise: the flow's table [1, mels, 15000] on the flow's device."""
        self._flow, self._noise = flow, noise
        self._prompt = voice.tokens.to(noise.device)  # [P]
        self._speaker, self._mel = voice.speaker.to(noise.device), voice.mel.to(noise.device)
        self._memory = FlowMemory(flow.config.block_tokens, flow.config.remembered_bytes, budget)
        self._behind_prompt: Mark | None = None
        self._emitted = 0  # tokens of the segment whose mel was given out

    @property
    def again(self) -> int:
        """Tokens that every further pass computes again: they are final, but did not fit into memory."""
        return max(0, len(self._prompt) + self._emitted - self._memory.tokens)

    def begin(self) -> None:
        """A new segment: only the prompt is remembered."""
        self._emitted = 0
        if self._behind_prompt is not None:
            self._memory.return_to(self._behind_prompt)

    def extend(self, tokens: Tensor, future: Tensor | None) -> Tensor:
        """tokens [F]: all of the segment so far, up to the end of a block or, with ``future`` None, of the segment;
        future: the next ``lookahead`` tokens -> mel of those that are new [1, mels, 2 n]."""
        if self._behind_prompt is None:
            self._remember_prompt()
        everything = torch.cat((self._prompt, tokens))
        new = len(self._prompt) + self._emitted
        self._emitted = len(tokens)
        keep = 0 if future is None else max(0, self._memory.room(len(everything)) - self._memory.tokens)
        first = self._memory.tokens
        mel = self._pass(everything, future, keep)
        return mel[:, :, MEL_PER_TOKEN * (new - first) :]

    def _remember_prompt(self) -> None:
        """The blocks of the prompt that no token of the speech can change."""
        ahead, block = self._flow.config.lookahead, self._flow.config.block_tokens
        final = self._memory.room(max(0, len(self._prompt) - ahead) // block * block)
        if final:
            self._pass(self._prompt[:final], self._prompt[final : final + ahead], final)
        self._behind_prompt = self._memory.mark()

    def _pass(self, tokens: Tensor, future: Tensor | None, keep: int) -> Tensor:
        ahead = None if future is None else future[None]
        noise = noise_for(self._noise, len(tokens))
        return self._flow(
            tokens[None], self._speaker, self._mel, noise, ahead, blocks=True, memory=self._memory, keep=keep
        )


def noise_for(table: Tensor, tokens: int) -> Tensor:
    """The first columns of the flow's table; beyond 300 s, where the released code gives up, it repeats."""
    return table[:, :, torch.arange(MEL_PER_TOKEN * tokens, device=table.device) % NOISE_FRAMES]
