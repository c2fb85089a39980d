"""Sequences sampled from a model, to train on the tokens that it will really see: on-policy distillation. The base
model's rows decode in lockstep, those of a method one by one.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...config import Sampling, UserError
from ...lm import Decoder
from ...lm.base import Base
from ...lm.lockstep import TokenRows
from ...lm.model import LanguageModel
from ...methods.base import Method
from .corpora import pad_stack
from .sequences import SpeechBatch, begin_lockstep, prefix_batch

LONGER, FURTHEST = 1.5, 500  # limits of a sample: times its recording's length, frames
PER_GROUP, REPEATS = 4, 2  # batches that are sampled at once; steps that use each


def check_distilled(settings: Any) -> None:
    """Raises UserError where a recipe's settings ask for what the base model says, and do not load it."""
    if not settings.distil and (settings.on_policy or settings.sampled or settings.guide):
        raise UserError("on_policy, sampled and guide need what the base model says: set distil as well.")


class OnPolicy:
    """A ``share`` of a recipe's batches sampled from a model: ``generate`` makes those of a group of steps. All
    processes sample in the same groups, because they wait for each other; each samples sequences of its own."""

    def __init__(
        self,
        share: float,
        seed: int,
        generate: Callable[[np.random.Generator], list[Any]],
        base: LanguageModel | None = None,
    ) -> None:
        """base: the frozen model whose decoders ``generate`` samples with."""
        self.share, self.seed, self.generate = share, seed, generate
        self.base = Base(base, graphed=False) if share and base is not None else None  # decoders live for few batches
        self._group, self._samples = -1, []

    def batch(self, step: int, process: int) -> Any | None:
        """The batch of a step; None where the step trains on recordings."""
        group, position = divmod(step, PER_GROUP * REPEATS)
        if np.random.default_rng((self.seed, group)).random() >= self.share:
            return None
        if self._group != group:
            self._group, self._samples = group, self.generate(np.random.default_rng((self.seed, group, process, 1)))
        return self._samples[position % len(self._samples)]


@torch.no_grad()
def generate(
    lm: LanguageModel, decoder: Decoder, batch: SpeechBatch, kept: int, sampling: Sampling, generator: torch.Generator
) -> tuple[SpeechBatch, Tensor]:
    """The batch with everything after its first ``kept`` frames sampled from ``lm``: codes of the first codebook alone
    [B, F, 1], no alignment; and the hidden state [B, F + 1, H] before each token and after the last.

    decoder: of ``lm``. In bfloat16 it takes half the time for many rows; its distributions differ by 0.003 in total
    variation."""
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
    codes = torch.cat(tokens, 1)[:, :longest, None]
    new = replace(batch, codes=codes, frames=frames, alignment=torch.full_like(codes[..., 0], -1))
    return new, torch.cat(states, 1)[:, : longest + 1].to(prefix.x.dtype)


def generate_by(
    method: Method, options: Any, batch: SpeechBatch, kept: int, sampling: Sampling, generator: torch.Generator
) -> SpeechBatch:
    """``generate`` by any method, also one in training."""
    samples = []
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
        samples.append(torch.cat(steps).cpu().numpy())
    codes = pad_stack(samples).to(batch.codes.device)
    frames = torch.tensor([len(s) for s in samples], device=codes.device)
    return replace(batch, codes=codes, frames=frames, alignment=torch.full_like(codes[..., 0], -1))
