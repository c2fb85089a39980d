"""Speech that the base model says itself, to learn from what it will really say: other tokens than recordings have, and
no end of them (on-policy distillation). Rows speak in lockstep."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...config import Sampling
from ...lm import Decoder
from ...lm.masks import causal_mask
from ...lm.model import LanguageModel
from ...lm.sampling import History, sample
from .sequences import SpeechBatch, attention_mask, prefix_batch

LONGER, FURTHEST = 1.5, 500  # times the recording, frames: who has not come to an end then is stopped


@torch.no_grad()
def speak(
    lm: LanguageModel, decoder: Decoder, batch: SpeechBatch, kept: int, sampling: Sampling, generator: torch.Generator
) -> tuple[SpeechBatch, Tensor]:
    """The batch with everything behind its first ``kept`` frames spoken by ``lm``: codes of the first book alone [B, F,
    1], no alignment; and the hidden states that decided each token and what comes after the last one [B, F + 1, H].

    decoder: of ``lm``. In bfloat16 it is faster by half where many rows speak, and its laws lie 0.003 (total variation)
    off."""
    prefix = prefix_batch(lm, batch)
    (rows, columns), device = prefix.valid.shape, batch.codes.device
    limits = (batch.frames * LONGER).long().clamp(max=kept + FURTHEST)
    cache = decoder.new_cache(columns + int(limits.max()), rows)
    codes = batch.codes[:, :kept, 0]
    x = torch.cat([prefix.x.to(decoder.dtype), decoder.embed(codes)], 1)
    positions = torch.cat([prefix.positions, prefix.next[:, None] + torch.arange(kept, device=device)], 1)
    mask = attention_mask(prefix, causal_mask(kept, kept, device), decoder.config.bidirectional_text)
    states = [decoder.forward(x, cache, positions, mask)[:, columns - 1 :]]
    live = torch.cat([prefix.valid, prefix.valid.new_ones(rows, int(limits.max()))], 1)  # columns that may be seen
    history, said = History(sampling.repeat_window, rows, device), [codes]
    frames, alive = torch.full_like(limits, kept), kept < limits
    while bool(alive.any()):
        token = sample(decoder.logits(states[-1][:, -1]), sampling, generator, history.tokens)
        alive = alive & (token < decoder.config.speech_codes)
        token = token.where(alive, 0)
        history.push(token)
        said.append(token[:, None])
        frames = frames + alive
        alive = alive & (frames < limits)
        place = (prefix.next + cache.length - columns)[:, None]
        states.append(decoder.forward(decoder.embed(token)[:, None], cache, place, live[:, None, : cache.length + 1]))
    longest = int(frames.max())
    spoken = torch.cat(said, 1)[:, :longest, None]
    new = replace(batch, codes=spoken, frames=frames, alignment=torch.full_like(spoken[..., 0], -1))
    return new, torch.cat(states, 1)[:, : longest + 1].to(prefix.x.dtype)
