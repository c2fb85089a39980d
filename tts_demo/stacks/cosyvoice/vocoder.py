"""Speech tokens -> 24 kHz samples: flow, then vocoder, for a listener who is waiting or for one who is not.

Live, the flow's attention works in blocks of 25 tokens counted from the start of the prompt, as in the released code's
streaming: a position sees its block and everything before it, so a block is final once its tokens and three more are
there. Chunks end at the ends of blocks, and all of them together are what one pass over the whole under the same mask
gives. The released code takes the mask off for the last chunk; its frames then fit the earlier ones less well, so here
it stays on. Not live, a segment is one pass with attention to everything, the released code's default.

Either way each segment of a text is spoken apart from the others: flow and vocoder start anew, as released.
"""

import numpy as np
import torch
from torch import Tensor

from ...runtime import synchronize
from .configs import MEL_PER_TOKEN, CosyConfig
from .flow import NOISE_FRAMES, Flow
from .hift import Hift, HiftStream
from .memory import Budget
from .prompt import PromptFeatures

FIRST_SOUND = 11  # tokens' worth of sound in the first chunk at least, 0.44 s, beyond what the vocoder holds back
LONGEST_HOP = 4  # blocks per pass at most: long passes cost less per token, short ones speak earlier
SILENT_RUN = 5  # silent tokens in a row that are kept


class CosyVocoder:
    """One run. ``push`` tokens as they come, ``end_segment`` where a segment of the text ends, then ``finish``."""

    def __init__(
        self, config: CosyConfig, flow: Flow, hift: Hift, noise: Tensor, voice: PromptFeatures, budget: Budget | None
    ) -> None:
        """noise: the flow's table [1, mels, 15000] on the flow's device. budget: of what may be remembered, to give
        sound out once it is final; None: all of a segment at its end."""
        self._config, self._flow, self._hift, self._noise = config, flow, hift, noise
        self._voice = voice
        self._block, self._lookahead = flow.config.block_tokens, flow.config.lookahead
        self._live = LiveFlow(flow, noise, voice, budget) if budget else None
        self._start()

    def _start(self) -> None:
        """A new segment begins."""
        self._tokens = torch.zeros(0, dtype=torch.long, device=self._noise.device)  # of this segment
        self._silence = SilenceFilter(self._config.silent_tokens)
        self._stream = HiftStream(self._hift)
        self._done = 0  # tokens whose mel was made
        self._hop = 1  # blocks of the chunk after the first
        if self._live:
            self._live.begin()

    def push(self, frames: Tensor) -> np.ndarray:
        """frames: [n, K], of which the first codebook counts -> float32 [N], N >= 0."""
        kept = self._silence(frames[:, 0].tolist())
        self._tokens = torch.cat((self._tokens, torch.tensor(kept, dtype=torch.long, device=self._tokens.device)))
        waves = []
        while self._live and len(self._tokens) >= (end := self._chunk_end()) + self._lookahead:
            longest = max(LONGEST_HOP, self._live.again // self._block)  # what is computed again bears longer chunks
            self._hop = min(2 * self._hop, longest) if self._done else 1
            waves.append(self._stream.push(self._mel_until(end)))
        return _samples(waves)

    def prepare(self) -> None:
        """Of a whole segment: its pass is made once more where it is the first of its padded length."""
        device, length = self._noise.device, len(self._voice.tokens) + len(self._tokens)
        if not self._live and len(self._tokens) and self._flow.is_new(length):
            self._mel_of_all()
            synchronize(device)

    def end_segment(self) -> np.ndarray:
        """Everything that is left of this segment -> float32 [N]."""
        waves = [self._stream.push(self._mel_until(len(self._tokens)), last=True)] if len(self._tokens) else []
        self._start()
        return _samples(waves)

    def finish(self) -> np.ndarray:
        """The end of the last segment -> float32 [N]."""
        return self.end_segment()

    def _chunk_end(self) -> int:
        """Tokens at the end of the next chunk: always the end of a block."""
        if self._done:
            return self._done + self._hop * self._block
        soonest = FIRST_SOUND + -(-self._stream.held_back // MEL_PER_TOKEN)
        return soonest + -(len(self._voice.tokens) + soonest) % self._block

    def _mel_until(self, end: int) -> Tensor:
        """Mel of the tokens _done..end -> [1, mels, n], n >= 0."""
        if self._done == end:
            return self._noise[:, :, :0]
        self._done = end
        if self._live:
            future = self._tokens[end : end + self._lookahead] if end < len(self._tokens) else None
            return self._live.extend(self._tokens[:end], future)
        return self._mel_of_all()

    def _mel_of_all(self) -> Tensor:
        """Mel of the segment [1, mels, n] in one pass."""
        voice, device = self._voice, self._noise.device
        tokens = torch.cat((voice.tokens.to(device), self._tokens))
        noise = noise_for(self._noise, len(tokens))
        mel = self._flow(tokens[None], voice.speaker.to(device), voice.mel.to(device), noise)
        return mel[:, :, MEL_PER_TOKEN * len(voice.tokens) :]


class LiveFlow:
    """The flow for a listener who is waiting: attention in blocks, each computed once and remembered. One run:
    ``begin`` a segment of the text, then ``extend`` it by its next tokens."""

    def __init__(self, flow: Flow, noise: Tensor, voice: PromptFeatures, budget: Budget) -> None:
        """noise: the flow's table [1, mels, 15000] on the flow's device."""
        self._flow, self._noise = flow, noise
        self._prompt = voice.tokens.to(noise.device)  # [P]
        self._speaker, self._mel = voice.speaker.to(noise.device), voice.mel.to(noise.device)
        self._budget, self._memory = budget, flow.new_memory(budget)
        self._prompt_is_remembered = False
        self._emitted = 0  # tokens of the segment whose mel was given out

    @property
    def again(self) -> int:
        """Tokens that every further pass computes again: they are final, but did not fit into memory."""
        return max(0, len(self._prompt) + self._emitted - self._memory.tokens)

    def begin(self) -> None:
        """A new segment: only the prompt is remembered."""
        self._emitted = 0
        self._memory.return_to_mark()

    def extend(self, tokens: Tensor, future: Tensor | None) -> Tensor:
        """tokens [F]: all of the segment so far, up to the end of a block or, with ``future`` None, of the segment;
        future: the next ``lookahead`` tokens -> mel of those that are new [1, mels, 2 n]."""
        if not self._prompt_is_remembered:
            self._remember_prompt()
            self._prompt_is_remembered = True
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
            self._memory.mark()

    def _find_room(self, tokens: int) -> None:
        """Where no buffer of the pool is long enough, the run goes on without one, from its beginning."""
        if not self._memory.hold(tokens):
            self._memory = self._flow.new_memory(self._budget, plain=True)

    def _pass(self, tokens: Tensor, future: Tensor | None) -> Tensor:
        """The mel of what is not remembered of tokens [F]; what can be is, where there is a future."""
        mels, memory, lookahead = [], self._memory, self._flow.config.lookahead
        for end in memory.ends(len(tokens), lookahead, future is None):
            ahead = tokens[end : end + lookahead] if end < len(tokens) else future
            keep = 0 if ahead is None else max(0, memory.room(end) - memory.tokens)
            noise = noise_for(self._noise, end)
            given = None if ahead is None else ahead[None]
            inputs = tokens[None, :end], self._speaker, self._mel, noise, given
            mels.append(self._flow(*inputs, blocks=True, memory=memory, keep=keep))
        return torch.cat(mels, -1)


def noise_for(table: Tensor, tokens: int) -> Tensor:
    """The first columns of the flow's table; beyond 300 s, where the released code gives up, it repeats."""
    return table[:, :, torch.arange(MEL_PER_TOKEN * tokens, device=table.device) % NOISE_FRAMES]


class SilenceFilter:
    """Drops what follows ``SILENT_RUN`` silent or breath tokens in a row (version 3; the language model keeps them)."""

    def __init__(self, silent: tuple[int, ...]) -> None:
        self._silent = frozenset(silent)
        self._run = 0

    def __call__(self, tokens: list[int]) -> list[int]:
        kept = []
        for token in tokens:
            self._run = self._run + 1 if token in self._silent else 0
            if self._run <= SILENT_RUN:
                kept.append(token)
        return kept


def _samples(waves: list[Tensor]) -> np.ndarray:
    return torch.cat(waves).float().cpu().numpy() if waves else np.zeros(0, np.float32)
