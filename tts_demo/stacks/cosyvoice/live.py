"""The flow for a listener who is waiting: attention in blocks, each computed once and remembered."""

import torch
from torch import Tensor

from .configs import MEL_PER_TOKEN
from .flow import NOISE_FRAMES, Flow
from .memory import Budget, Mark
from .prompt import Voice


class LiveFlow:
    """One run. ``begin`` a segment of the text, then ``extend`` it by its next tokens."""

    def __init__(self, flow: Flow, noise: Tensor, voice: Voice, budget: Budget) -> None:
        """noise: the flow's table [1, mels, 15000] on the flow's device."""
        self._flow, self._noise = flow, noise
        self._prompt = voice.tokens.to(noise.device)  # [P]
        self._speaker, self._mel = voice.speaker.to(noise.device), voice.mel.to(noise.device)
        self._budget, self._memory = budget, flow.new_memory(budget)
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
        self._find_room(len(everything))
        new = len(self._prompt) + self._emitted
        self._emitted = len(tokens)
        first = self._memory.tokens
        mel = self._pass(everything, future)
        return mel[:, :, MEL_PER_TOKEN * (new - first) :]

    def _remember_prompt(self) -> None:
        """The blocks of the prompt that no token of the speech can change."""
        ahead, block = self._flow.config.lookahead, self._flow.config.block_tokens
        final = max(0, len(self._prompt) - ahead) // block * block
        self._find_room(final)
        final = self._memory.room(final)
        if final:
            self._pass(self._prompt[:final], self._prompt[final : final + ahead])
        self._behind_prompt = self._memory.mark()

    def _find_room(self, tokens: int) -> None:
        """Where no buffer of the pool is long enough, the run goes on without one, from its beginning."""
        if not self._memory.hold(tokens):
            self._memory = self._flow.new_memory(self._budget, plain=True)
            self._behind_prompt = self._memory.mark()

    def _pass(self, tokens: Tensor, future: Tensor | None) -> Tensor:
        """The mel of what is not remembered of tokens [F]; what can be is, where there is a future."""
        mels, memory, lookahead = [], self._memory, self._flow.config.lookahead
        for end in memory.ends(len(tokens), lookahead, future is None):
            ahead = tokens[end : end + lookahead] if end < len(tokens) else future
            keep = 0 if ahead is None else max(0, memory.room(end) - memory.tokens)
            noise = noise_for(self._noise, end)
            given = None if ahead is None else ahead[None]
            told = tokens[None, :end], self._speaker, self._mel, noise, given
            mels.append(self._flow(*told, blocks=True, memory=memory, keep=keep))
        return torch.cat(mels, -1)


def noise_for(table: Tensor, tokens: int) -> Tensor:
    """The first columns of the flow's table; beyond 300 s, where the released code gives up, it repeats."""
    return table[:, :, torch.arange(MEL_PER_TOKEN * tokens, device=table.device) % NOISE_FRAMES]
