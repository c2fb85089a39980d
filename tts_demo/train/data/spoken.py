"""Speech that the base model says itself, to learn from what it will really say: other tokens than recordings have, and
no end of them (on-policy distillation). Rows speak in lockstep."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...config import Sampling
from ...lm import Decoder
from ...lm.lockstep import TokenRows
from ...lm.model import LanguageModel
from .sequences import SpeechBatch, begin_lockstep, prefix_batch

LONGER, FURTHEST = 1.5, 500  # times the recording, frames: who has not come to an end then is stopped


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
        frames += rows.draw() >= 0
        tokens.append(rows.token[:, None])
        rows.feed()
        states.append(rows.hidden[:, None])
    longest = int(frames.max())
    spoken = torch.cat(tokens, 1)[:, :longest, None]
    new = replace(batch, codes=spoken, frames=frames, alignment=torch.full_like(spoken[..., 0], -1))
    return new, torch.cat(states, 1)[:, : longest + 1].to(prefix.x.dtype)
