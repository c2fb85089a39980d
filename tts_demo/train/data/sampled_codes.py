"""Recordings whose first codebook stays and whose finer codebooks QTTS's adapters sample, each from its own samples so
far, as in decoding. Rows decode in lockstep.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from ...config import FRAME_RATE, Sampling
from ...lm.sampling import sample
from ...methods.qtts.codebooks import higher_sampling
from ...methods.qtts.delay import DelayStrategy
from ...methods.qtts.hierarchical import HierarchicalStrategy
from .corpora import Kept
from .rows import Rows
from .sequences import Sequences, SpeechBatch, begin_lockstep, prefix_batch


@torch.no_grad()
def sample_hierarchical(
    strategy: HierarchicalStrategy, sampling: Sampling, batch: SpeechBatch, generator: torch.Generator
) -> Tensor:
    """The codes [B, F, K] of a batch, codebooks 2 to K sampled. Codes after an item's end are meaningless."""
    codebooks, sampling_of_finer = batch.codes.shape[2], higher_sampling(sampling)
    tag, block = strategy.adapter.tag(codebooks), strategy.stacked.new_block(codebooks, len(batch.codes))

    def frame(hidden: Tensor, first: Tensor) -> Tensor:
        finer = lambda k, row: sample(strategy.heads[k - 1](row).float(), sampling_of_finer, generator)
        sample_level = lambda k, row: finer(k, row) if k else first
        return strategy.stacked.unrolled(hidden, block.kv, codebooks, sample_level)

    hidden, feed = _begin(strategy, batch, batch.codes.shape[1])
    codes = []
    for t in range(batch.codes.shape[1]):
        codes.append(frame(hidden, batch.codes[:, t, 0]))
        hidden = feed(strategy.adapter.codebooks.look_up(strategy.table[:codebooks], codes[-1])[0] + tag)
    return torch.stack(codes, 1)


@torch.no_grad()
def sample_delay(strategy: DelayStrategy, sampling: Sampling, batch: SpeechBatch, generator: torch.Generator) -> Tensor:
    """The same in the delay pattern: each codebook one step after the one below."""
    adapter, sampling_of_finer = strategy.adapter, higher_sampling(sampling)
    rows, frames, codebooks = batch.codes.shape
    table, tag, pad = strategy.table[:codebooks], adapter.tag(codebooks, 1), adapter.config.pad
    levels = torch.arange(codebooks, device=batch.codes.device)
    codes = F.pad(batch.codes.where(levels == 0, pad), (0, 0, 0, codebooks - 1), value=pad)  # [B, S, K] delayed
    known = codes.new_zeros(rows, codebooks, adapter.config.hidden, dtype=strategy.decoder.dtype)
    hidden, feed = _begin(strategy, batch, frames + codebooks - 1)
    for s in range(frames + codebooks - 1):
        scores = adapter.scores(hidden, known[:, :-1])
        sampled = torch.stack([sample(row.float(), sampling_of_finer, generator) for row in scores], 1)
        frame = s - levels  # of each codebook
        there = (frame >= 0) & (frame < batch.frames[:, None])
        codes[:, s, 1:] = sampled
        codes[:, s] = codes[:, s].where(there, pad)
        x, contexts = adapter.codebooks.look_up(table, codes[:, s])
        known = contexts + F.pad(known[:, :-1], (0, 0, 1, 0))  # of each codebook's frame: the codebooks up to it
        hidden = feed(x + tag)
    return torch.stack([codes[:, k : k + frames, k] for k in range(codebooks)], -1).clamp(max=pad - 1)


def _begin(
    strategy: DelayStrategy | HierarchicalStrategy, batch: SpeechBatch, steps: int
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """-> hidden state [B, H] before the first step of each row, and a function from a step's inputs [B, H] to the
    hidden state before the next step."""
    prefix = prefix_batch(strategy.base.lm, batch)
    lockstep, hidden = begin_lockstep(strategy.decoder, prefix, steps, prefix.x[:, :0])
    return hidden[:, -1], lambda x: lockstep.feed(x[:, None])[:, 0]


class SampledCodes:
    """Codes of some utterances as recorded, and with finer codebooks as each strategy samples them given the recorded
    first: made once for a set of adapters. ``hours`` of training speech, spread over all of it, and the first held-out
    utterances."""

    SOURCES = ("recorded", "delay", "hierarchical")
    HELD_OUT, ROWS = 96, 48  # utterances; rows decoded at once

    def __init__(
        self,
        data: Sequences,
        samplers: dict[str, Callable[[SpeechBatch, torch.Generator], Tensor]],
        made_by: str,
        hours: float,
    ) -> None:
        rows = Rows(data.speech.cache / f"drawn-{made_by}-{hours:g}")
        keys = data.codes.codes.keys  # of the first codebook, which stays
        self.kept = Kept(rows, keys)
        frames = np.asarray([len(data.codes.get(i)) for i in data.train])
        wanted = min(len(frames), max(1, round(len(frames) * hours * 3600 * FRAME_RATE / frames.sum())))
        train = [data.train[n * len(frames) // wanted] for n in range(wanted)]  # sorted by length, so of every length
        order = sorted(data.test[: self.HELD_OUT] + train, key=lambda i: len(data.codes.get(i)))
        missing = [i for i in order if i not in self.kept]
        rng, generator = np.random.default_rng(0), torch.Generator(data.device).manual_seed(0)
        starts = range(0, len(missing), self.ROWS)
        for start in tqdm(starts, desc="sampling finer codebooks", unit="batch", mininterval=2.0):
            chosen = missing[start : start + self.ROWS]
            batch = data.batch_of(rng, chosen)
            made = torch.stack([batch.codes] + [samplers[source](batch, generator) for source in self.SOURCES[1:]], 2)
            arrays = [row[:count] for row, count in zip(made.cpu().numpy().astype(np.uint16), batch.frames.tolist())]
            rows.add([keys[i] for i in chosen], arrays)

    def get(self, index: int) -> np.ndarray | None:
        """int64 [sources, F, K], or None for an utterance that is not among them."""
        return self.kept.get(index).astype(np.int64).swapaxes(0, 1) if index in self.kept else None
