"""Decoding a batch of rows in lockstep: every pass appends the same slots to all rows, each with its own positions.

Rows have prefixes of unequal length, may take fewer tokens in a pass than others, and end at different times. Columns
of the cache that are no token of a row (padding, tokens beyond a shorter chunk) are never attended to by it, and closed
now and then where passes leave many."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..config import Sampling
from .cache import KVCache
from .decoder import Decoder
from .sampling import History, sample, special_ids

CLOSED_EVERY = 16  # passes of unequal chunks between two closings of the gaps that they leave


def room_for(frames: int, longest: int) -> int:
    """Slots that chunks of unequal length need for ``frames`` tokens of a row, the longest chunk being ``longest``."""
    return frames + (CLOSED_EVERY + 1) * longest


class Lockstep:
    """The cache of B rows, and which of its columns each row may attend to."""

    def __init__(self, decoder: Decoder, valid: Tensor, next: Tensor, room: int) -> None:
        """valid [B, C]: columns of the first pass that are tokens; next [B]: positions after them; room: more slots."""
        self.decoder, self.next = decoder, next
        rows, columns = valid.shape
        self.cache = decoder.new_cache(columns + room, rows)
        self.live = torch.cat([valid, valid.new_zeros(rows, room)], 1)  # [B, slots]
        self._passes = 0  # of unequal chunks

    def first(self, x: Tensor, positions: Tensor, mask: Tensor, last: bool = False) -> Tensor:
        """The first pass: x [B, C, H], positions [B, C], mask [B, C, C] -> hidden [B, C, H] ([B, 1, H]: ``last``)."""
        return self.decoder.forward(x.to(self.decoder.dtype), self.cache, positions, mask, last=last)

    def feed(self, x: Tensor, taken: Tensor | None = None) -> Tensor:
        """Append x [B, T, H] -> hidden [B, T, H]. taken [B, T]: which of them are tokens of the row, None: all. Rows
        attend to all their tokens before, causally to those of this pass, and what is no token to itself."""
        if taken is not None:
            self._passes += 1
            if self._passes % CLOSED_EVERY == 0:
                self._close_gaps()
        (rows, count, _), start = x.shape, self.cache.length
        taken = self.live.new_ones(rows, count) if taken is None else taken
        offsets = torch.arange(count, device=x.device)
        itself = torch.eye(count, dtype=torch.bool, device=x.device)
        new_columns = (offsets[:, None] >= offsets) & taken[:, None] | itself
        mask = torch.cat([self.live[:, None, :start].expand(-1, count, -1), new_columns], 2)
        positions = self.next[:, None] + offsets
        self.live[:, start : start + count] = taken
        self.next = self.next + taken.sum(1)
        return self.decoder.forward(x.to(self.decoder.dtype), self.cache, positions, mask)

    def _close_gaps(self) -> None:
        """Each row's tokens move to the front, in order: keys are rotated, so none hangs on its column."""
        live = self.live[:, : self.cache.length]
        longest = int(live.sum(1).max())
        if longest == self.cache.length:
            return
        order = (~live).byte().argsort(dim=1, stable=True)[:, :longest]
        self.cache.keep(order)
        kept = live.gather(1, order)
        self.live.zero_()[:, : kept.shape[1]] = kept

    @property
    def nbytes(self) -> int:
        """Bytes of the slots that hold a token of some row."""
        return self.cache.slot_bytes // self.cache.batch * int(self.live.sum())


@dataclass
class TokenRows:
    """Rows that are decoded token by token. ``hidden`` [B, H] decides each row's next token."""

    lockstep: Lockstep
    hidden: Tensor
    sampling: Sampling
    generator: torch.Generator
    longest: Tensor  # [B] frames at which a row is cut
    shortest: Tensor | int = 0  # [B] frames before which a row may not end
    local: Any = None  # what a method's small models remember of the rows
    history: History = field(init=False)
    alive: Tensor = field(init=False)  # [B] bool, rows that have not ended
    token: Tensor = field(init=False)  # [B] sampled last, or [B, N] of a chunk
    frames: int = 0  # frames sampled so far by the rows that are alive

    @property
    def cache(self) -> KVCache:
        return self.lockstep.cache

    @property
    def nbytes(self) -> int:
        return self.lockstep.nbytes

    def __post_init__(self) -> None:
        rows, config = len(self.hidden), self.lockstep.decoder.config
        self.history = History(self.sampling.repeat_window, rows, self.hidden.device)
        self.alive = torch.zeros_like(self.longest) < self.longest
        self._special_ids = special_ids(config.speech_codes, config.vocab, self.hidden.device)

    def sample_tokens(self) -> Tensor:
        """One token of every row [B]; -1 for rows that have ended."""
        return self.sample_from(self.lockstep.decoder.logits(self.hidden))

    def sample_from(self, logits: Tensor, recent: Tensor | None = None) -> Tensor:
        """The same from logits [B, V] of one's own. recent [B, W]: the tokens before, None: those of ``history``."""
        decoder = self.lockstep.decoder
        short = torch.as_tensor(self.frames < self.shortest, device=self._special_ids.device)
        forbid = self._special_ids & short.view(-1, 1)
        recent = self.history.tokens if recent is None else recent
        token = sample(logits, self.sampling, self.generator, recent, forbid)
        self.alive = self.alive & (token < decoder.config.speech_codes)
        emitted, self.token = self.alive, token.where(self.alive, 0)
        self.history.push(self.token)
        self.frames += 1
        self.alive = self.alive & (self.frames < self.longest)
        return token.where(emitted, -1)

    def sample_chunk(self, logits: Tensor) -> Tensor:
        """logits [N, B, V] of the next N tokens -> those of every row [B, N], -1 behind its end; all are to be fed.
        Which tokens are repeated is known from before the chunk: its tokens are sampled at once."""
        known, emitted, fed = self.history.tokens.clone(), [], []
        for each in logits:
            emitted.append(self.sample_from(each, known))
            fed.append(self.token)
        self.token = torch.stack(fed, 1)
        return torch.stack(emitted, 1)

    def feed(self) -> None:
        """Feed the sampled tokens back. Rows that have ended are fed too; their results are ignored."""
        self.hidden = self.lockstep.feed(self.lockstep.decoder.embed(self.token)[:, None])[:, 0]
