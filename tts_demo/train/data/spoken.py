"""Speech that a model says itself, to learn from what it will really say: other tokens than recordings have, and no end
of them (on-policy distillation). The base model's rows speak in lockstep, those of a method one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...config import Sampling
from ...lm import Decoder
from ...lm.lockstep import TokenRows
from ...lm.model import LanguageModel
from ...methods.base import Method
from .corpora import pad_stack
from .sequences import SpeechBatch, begin_lockstep, prefix_batch

LONGER, FURTHEST = 1.5, 500  # times the recording, frames: who has not come to an end then is stopped
TOGETHER, AGAIN = 4, 2  # batches that are said at once, and how often each is learnt from


class OwnSpeech:
    """A ``share`` of a recipe's batches, said by a model: ``say`` makes those of a group of steps. Which groups they
    are is the same for all processes, which wait for each other; what is said is not."""

    def __init__(self, share: float, seed: int, say: Callable[[np.random.Generator], list[Any]]) -> None:
        self.share, self.seed, self.say = share, seed, say
        self._group, self._said = -1, []

    def batch(self, step: int, process: int) -> Any | None:
        """The batch of a step; None where the step learns from recordings."""
        group, place = divmod(step, TOGETHER * AGAIN)
        if np.random.default_rng((self.seed, group)).random() >= self.share:
            return None
        if self._group != group:
            self._group, self._said = group, self.say(np.random.default_rng((self.seed, group, process, 1)))
        return self._said[place % len(self._said)]


@torch.no_grad()
def speak(
    lm: LanguageModel, decoder: Decoder, batch: SpeechBatch, kept: int, sampling: Sampling, generator: torch.Generator
) -> tuple[SpeechBatch, Tensor]:
    """The batch with everything behind its first ``kept`` frames spoken by ``lm``: codes of the first book alone [B, F,
    1], no alignment; and the hidden states that decided each token and what comes after the last one [B, F + 1, H].

    decoder: of ``lm``. In bfloat16 it is faster by half where many rows speak, and its laws lie 0.003 (total variation)
    off."""
    prefix, codes = prefix_batch(lm, batch), batch.codes[:, :kept, 0]
    limits = (batch.frames * LONGER).long().clamp(max=kept + FURTHEST)
    lockstep, hidden = begin_lockstep(decoder, prefix, int(limits.max()), decoder.embed(codes))
    rows = TokenRows(lockstep, hidden[:, -1], sampling, generator, longest=limits - kept)
    states, tokens, frames = [hidden], [codes], torch.full_like(limits, kept)
    while bool(rows.alive.any()):
        frames += rows.sample_tokens() >= 0
        tokens.append(rows.token[:, None])
        rows.feed()
        states.append(rows.hidden[:, None])
    longest = int(frames.max())
    spoken = torch.cat(tokens, 1)[:, :longest, None]
    new = replace(batch, codes=spoken, frames=frames, alignment=torch.full_like(spoken[..., 0], -1))
    return new, torch.cat(states, 1)[:, : longest + 1].to(prefix.x.dtype)


def speak_by(
    method: Method, options: Any, batch: SpeechBatch, kept: int, sampling: Sampling, generator: torch.Generator
) -> SpeechBatch:
    """``speak`` by any method, one that is still being trained as well."""
    said = []
    for text, length, codes, frames, speaker in zip(
        batch.text, batch.text_lengths.tolist(), batch.codes, batch.frames.tolist(), batch.speaker
    ):
        prefix = method.lm.prefix(text[:length], (), speaker, codes[:kept])
        longest = min(int(frames * LONGER), kept + FURTHEST) - kept
        with torch.inference_mode():
            state = method.prefill(prefix, options, sampling, generator, longest)
            steps = [codes[:kept, :1]]
            while not state.done:
                steps.append(method.step(state).frames[:, :1])
        said.append(torch.cat(steps).cpu().numpy())
    codes = pad_stack(said).to(batch.codes.device)
    frames = torch.tensor([len(s) for s in said], device=codes.device)
    return replace(batch, codes=codes, frames=frames, alignment=torch.full_like(codes[..., 0], -1))
