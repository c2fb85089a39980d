"""What tests of recipes share: a few updates, and speech of a made-up language."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tts_demo.config import LMConfig
from tts_demo.train.data.sequences import SpeechBatch


def learn(
    weights: Iterable[Tensor],
    loss_of: Callable[[int], tuple[Tensor, Any]],
    steps: int,
    lr: float,
    kind: type[torch.optim.Optimizer] = torch.optim.AdamW,
) -> list[tuple[float, Any]]:
    """``steps`` updates down ``loss_of(step)``, a loss and its parts. Returns those of each step, before its update."""
    optimiser, seen = kind(weights, lr), []
    for step in range(steps):
        loss, parts = loss_of(step)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seen.append((loss.item(), parts))
    return seen


def climbing(text: Tensor, frames: int, codes: int) -> Tensor:
    """Every code is the one before plus a step that the text's first id sets: [B, F, 8], all codebooks alike."""
    spoken = (torch.arange(frames) * (1 + text[:, :1] % 3)) % codes
    return spoken[..., None].expand(-1, -1, 8)


def made_up(
    config: LMConfig,
    rng: np.random.Generator,
    size: int,
    shortest: int = 8,
    longest: int = 14,
    whole: int = 0,
    spoken: Callable[[Tensor, int, int], Tensor] = climbing,
) -> SpeechBatch:
    """``size`` sentences of 3 to 6 symbols and ``shortest`` to ``longest`` frames, the first ``whole`` of them as long
    as can be. spoken: text [B, 6], frames, number of codes -> codes [B, F, 8]."""
    lengths, frames = (torch.from_numpy(rng.integers(*ends, size)) for ends in ((3, 7), (shortest, longest + 1)))
    frames[:whole] = longest
    text = torch.from_numpy(rng.integers(1, config.text_vocab, (size, 6)))
    text[torch.arange(6) >= lengths[:, None]] = 0
    inside = torch.arange(longest) < frames[:, None]
    codes = spoken(text, longest, config.speech_codes) * inside[..., None]
    vectors = torch.from_numpy(rng.standard_normal((size, config.speaker))).float()
    return SpeechBatch(text, lengths, codes, frames, vectors, torch.zeros(size, longest).long())


def item_of(batch: SpeechBatch, index: int = 0) -> SpeechBatch:
    """One item alone, without padding."""
    n, f, i = int(batch.text_lengths[index]), int(batch.frames[index]), slice(index, index + 1)
    return SpeechBatch(
        batch.text[i, :n],
        batch.text_lengths[i],
        batch.codes[i, :f],
        batch.frames[i],
        batch.speaker[i],
        batch.alignment[i, :f],
    )
