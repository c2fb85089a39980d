"""Speech tokens -> 24 kHz samples while they are being made: the flow over a bounded window, then the vocoder.

The flow's streaming attention works in blocks of 25 tokens that see everything before them, so a block is final once
its tokens and three more are there. The released code recomputes the whole utterance for every chunk, starts its
blocks at the prompt and so waits for up to 53 tokens, and ends on a chunk with another attention mask. Here the first
block ends where the first chunk ends, the window holds the prompt and the last seconds only, and the mask stays.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .configs import MEL_PER_TOKEN, CosyConfig
from .flow import NOISE_FRAMES, Flow
from .hift import Hift
from .hift_stream import HiftStream
from .prompt import Voice

FIRST_SOUND = 11  # tokens' worth of sound in the first chunk, 0.44 s, beyond what the vocoder holds back
LONGEST_HOP = 4  # blocks per pass at most: long passes cost less per token, short ones speak earlier
CONTEXT_BLOCKS = 8  # blocks of speech before a chunk that the flow sees, 8 s; the prompt it always sees
SILENT_RUN = 5  # silent tokens in a row that are kept


class CosyVocoder:
    """One run. ``push`` tokens as they come, then ``finish``."""

    def __init__(self, config: CosyConfig, flow: Flow, hift: Hift, noise: Tensor, voice: Voice) -> None:
        """noise: the flow's table [1, mels, 15000] on the flow's device."""
        self._flow, self._noise = flow, noise
        device = noise.device
        self._prompt = voice.tokens.to(device)  # [P]
        self._speaker, self._mel = voice.speaker.to(device), voice.mel.to(device)
        self._hift = HiftStream(hift)
        self._silence = SilenceFilter(config.silent_tokens)
        self._block, self._lookahead = flow.config.block_tokens, flow.config.lookahead
        self._first = FIRST_SOUND + -(-self._hift.held_back // MEL_PER_TOKEN)  # tokens of the first chunk
        self._tokens = self._prompt[:0]  # generated, from number ``_dropped`` on
        self._dropped = 0
        self._done = 0  # tokens whose mel was made
        self._hop = 1  # blocks of the next pass

    def push(self, frames: Tensor) -> np.ndarray:
        """frames: [n, K], of which the first codebook counts -> float32 [N], N >= 0."""
        kept = self._silence(frames[:, 0].tolist())
        self._tokens = torch.cat((self._tokens, torch.tensor(kept, dtype=torch.long, device=self._tokens.device)))
        waves = []
        while self._dropped + len(self._tokens) >= self._done + self._next() + self._lookahead:
            waves.append(self._hift.push(self._run(self._done + self._next(), last=False)))
        return _samples(waves)

    def finish(self) -> np.ndarray:
        """Everything that is left -> float32 [N]."""
        total = self._dropped + len(self._tokens)
        if not total:
            return np.zeros(0, np.float32)
        waves = [self._hift.push(self._run(total, last=True))] if total > self._done else []
        return _samples([*waves, self._hift.finish()])

    def _next(self) -> int:
        """Tokens of the next chunk. All chunks but the first are whole blocks."""
        return self._hop * self._block if self._done else self._first

    def _run(self, end: int, last: bool) -> Tensor:
        """Mel of the tokens _done..end. -> [1, mels, n]."""
        self._slide()
        own = end - self._dropped
        tokens = torch.cat((self._prompt, self._tokens[:own]))[None]
        future = None if last else self._tokens[None, own : own + self._lookahead]
        mel = self._flow(tokens, self._speaker, self._mel, self._window_noise(own), future, self._first_block())
        start = len(self._prompt) + self._done - self._dropped
        if self._done:
            self._hop = min(2 * self._hop, LONGEST_HOP)
        self._done = end
        return mel[:, :, MEL_PER_TOKEN * start :]

    def _slide(self) -> None:
        """Forget the oldest speech, in whole blocks counted from the end of the first chunk."""
        while self._done - self._dropped >= CONTEXT_BLOCKS * self._block + self._size_of_oldest():
            count = self._size_of_oldest()
            self._tokens = self._tokens[count:]
            self._dropped += count

    def _size_of_oldest(self) -> int:
        return self._block if self._dropped else self._first

    def _first_block(self) -> int:
        """Tokens of the window's first attention block, such that one block ends where the first chunk ends."""
        border = len(self._prompt) + (0 if self._dropped else self._first)
        return border % self._block or self._block

    def _window_noise(self, own: int) -> Tensor:
        """The noise of the prompt and of ``own`` tokens after the dropped ones, each where it always was."""
        device, prompt = self._noise.device, MEL_PER_TOKEN * len(self._prompt)
        speech = prompt + MEL_PER_TOKEN * self._dropped + torch.arange(MEL_PER_TOKEN * own, device=device)
        index = torch.cat((torch.arange(prompt, device=device), speech % NOISE_FRAMES))
        return self._noise[:, :, index]


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
