"""The baseline for several requests in one step: rows of unequal length are padded on the left, so that all of them
write the same slot, each with its own positions and its own mask. Under greedy decoding every row says what it says
alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import Sampling
from ..lm.cache import KVCache
from ..lm.decoder import Decoder
from ..lm.masks import prefix_mask
from ..lm.prefix import Prefix
from ..lm.sampling import History, sample, special_ids


@dataclass
class Batch:
    """cache: [.., B, .., S, ..]; lengths [B] tokens each row has stored, padding not counted."""

    cache: KVCache
    padding: Tensor  # [B] unused slots in front of each row
    shortest: Tensor  # [B] frames before which a row may not end
    longest: Tensor  # [B] frames at which it is cut
    hidden: Tensor  # [B, H] what decides each row's next token
    history: History
    alive: Tensor  # [B] bool, rows that have not ended
    token: Tensor | None = None  # [B] drawn, not yet fed back
    frames: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the slots that hold a token of some row; padding is no one's."""
        rows = self.cache.batch
        return self.cache.slot_bytes // rows * (rows * self.cache.length - int(self.padding.sum()))


class BatchedBaseline:
    """Token-by-token decoding of B prefixes at once."""

    def __init__(self, decoder: Decoder, sampling: Sampling, generator: torch.Generator, forced: bool = False) -> None:
        self.decoder, self.sampling, self.generator, self.forced = decoder, sampling, generator, forced
        self.ends = special_ids(decoder.config.speech_codes, decoder.config.vocab, decoder.device)

    @torch.inference_mode()
    def prefill(self, prefixes: Sequence[Prefix], max_frames: int) -> Batch:
        decoder, c = self.decoder, self.decoder.config
        rows = [torch.cat([p.x.to(decoder.dtype), decoder.embed(p.prompt_codes[:, 0])]) for p in prefixes]
        longest = max(len(row) for row in rows)
        padding = torch.tensor([longest - len(row) for row in rows], device=decoder.device)
        x = torch.stack([torch.nn.functional.pad(row, (0, 0, longest - len(row), 0)) for row in rows])
        # padding sees itself
        mask = torch.eye(longest, dtype=torch.bool, device=decoder.device).repeat(len(rows), 1, 1)
        for i, (row, prefix) in enumerate(zip(rows, prefixes)):
            own = prefix_mask(len(prefix.x), len(row), c.bidirectional_text, decoder.device)
            mask[i, longest - len(row) :, longest - len(row) :] = own
        positions = (torch.arange(longest, device=decoder.device) - padding[:, None]).clamp_(min=0)
        cache = decoder.new_cache(longest + max_frames, batch=len(rows))
        hidden = decoder.forward(x, cache, positions, mask, last=True)[:, 0]
        history = History(self.sampling.repeat_window, len(rows), decoder.device)
        shortest = torch.tensor([max_frames if self.forced else p.shortest for p in prefixes], device=decoder.device)
        room = torch.tensor([p.room(max_frames, self.forced) for p in prefixes], device=decoder.device)
        alive = torch.ones(len(rows), dtype=torch.bool, device=decoder.device)
        return Batch(cache, padding, shortest, room, hidden, history, alive)

    @torch.inference_mode()
    def step(self, batch: Batch) -> Tensor:
        """One token of every row [B]; -1 for rows that have ended (they are fed on, and heard no more)."""
        decoder, cache = self.decoder, batch.cache
        if batch.token is not None:
            slot = cache.length
            seen = torch.arange(slot + 1, device=decoder.device) >= batch.padding[:, None]
            positions = (slot - batch.padding)[:, None]
            batch.hidden = decoder.forward(decoder.embed(batch.token)[:, None], cache, positions, seen[:, None])[:, 0]
        forbid = self.ends & (batch.frames < batch.shortest)[:, None]
        token = sample(decoder.logits(batch.hidden), self.sampling, self.generator, batch.history.tokens, forbid)
        batch.alive &= (token < decoder.config.speech_codes) & (batch.frames < batch.longest)
        batch.token = token.where(batch.alive, 0)
        batch.history.push(batch.token)
        batch.frames += 1
        return token.where(batch.alive, -1)

    def run(self, prefixes: Sequence[Prefix], max_frames: int) -> tuple[list[Tensor], Batch]:
        """Until every row has ended: the codes of each row [F], and the batch as it was left."""
        batch = self.prefill(prefixes, max_frames)
        columns = [self.step(batch)]
        while len(columns) < max_frames and bool(batch.alive.any()):
            columns.append(self.step(batch))
        return [row[row >= 0] for row in torch.stack(columns, 1)], batch
