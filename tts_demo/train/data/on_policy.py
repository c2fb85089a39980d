"""Sequences sampled from a model, to train on the tokens that it will really see: on-policy distillation. The base
model's rows and TLDR's decode in lockstep, those of other methods one by one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...config import Sampling, UserError
from ...lm import Base, Decoder
from ...lm.lockstep import TokenRows
from ...lm.model import LanguageModel, Prefix
from ...methods.base import Method
from ...methods.batched import BatchedBaseline
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
        steps: int = PER_GROUP * REPEATS,
    ) -> None:
        """base: the frozen model whose decoders ``generate`` samples with. steps: those of a group."""
        self.share, self.seed, self.generate, self.steps = share, seed, generate, steps
        self.base = Base(base, graphed=False) if share and base is not None else None  # decoders live for few batches
        self._group, self._samples = -1, []

    def batch(self, step: int, process: int) -> Any | None:
        """The batch of a step; None where the step trains on recordings."""
        group, position = divmod(step, self.steps)
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
    """``generate`` by any method, also one in training, row by row."""
    samples = []
    for prefix, longest in zip(*_prefixes(method.lm, batch, kept)):
        with torch.inference_mode():
            state, steps = method.prefill(prefix, options, sampling, generator, longest), []
            while not state.done:
                steps.append(method.step(state).frames[:, 0])
        samples.append(torch.cat(steps))
    return _followed_by(batch, kept, samples)


def generate_rows(batched: BatchedBaseline, lm: LanguageModel, batch: SpeechBatch, kept: int) -> SpeechBatch:
    """``generate`` by a method that decodes all rows at once."""
    return _followed_by(batch, kept, batched.run(*_prefixes(lm, batch, kept))[0])


def _prefixes(lm: LanguageModel, batch: SpeechBatch, kept: int) -> tuple[list[Prefix], list[int]]:
    """Of each row the text behind its first ``kept`` frames, and the most frames that may follow."""
    rows = zip(batch.text, batch.text_lengths.tolist(), batch.speaker, batch.codes)
    prefixes = [lm.prefix(text[:length], (), speaker, codes[:kept]) for text, length, speaker, codes in rows]
    return prefixes, [min(int(frames * LONGER), kept + FURTHEST) - kept for frames in batch.frames.tolist()]


def _followed_by(batch: SpeechBatch, kept: int, samples: Sequence[Tensor]) -> SpeechBatch:
    """The batch with ``samples``, [n] of each row, behind its first ``kept`` frames: codes of the first codebook."""
    samples = [torch.cat([codes[:kept, 0], row]) for codes, row in zip(batch.codes, samples)]
    codes = pad_stack([row.cpu().numpy() for row in samples])[..., None].to(batch.codes.device)
    frames = torch.tensor([len(row) for row in samples], device=codes.device)
    return replace(batch, codes=codes, frames=frames, alignment=torch.full_like(codes[..., 0], -1))
