"""The baseline, and chunks of one size, for several requests at once: rows of unequal length are padded on the left.
Under greedy decoding every row gets the tokens it gets alone."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import Sampling
from ..lm.decoder import Decoder
from ..lm.lockstep import Lockstep, TokenRows
from ..lm.masks import prefix_mask
from ..lm.prefix import Prefix
from .base import token_inputs
from .dcar import Dcar
from .dcar.heads import Heads


class BatchedBaseline:
    """Token-by-token decoding of B prefixes at once."""

    def __init__(self, decoder: Decoder, sampling: Sampling, generator: torch.Generator, forced: bool = False) -> None:
        self.decoder, self.sampling, self.generator, self.forced = decoder, sampling, generator, forced
        self.spare = 0  # slots beyond the longest length

    @torch.inference_mode()
    def prefill(self, prefixes: Sequence[Prefix], max_frames: int) -> TokenRows:
        decoder, device = self.decoder, self.decoder.device
        rows = [token_inputs(decoder, prefix) for prefix in prefixes]
        columns = max(map(len, rows))
        valid = torch.stack([torch.arange(columns, device=device) >= columns - len(row) for row in rows])
        # padding sees itself, so that no row of the mask is empty
        mask = torch.eye(columns, dtype=torch.bool, device=device).repeat(len(rows), 1, 1)
        for i, (row, prefix) in enumerate(zip(rows, prefixes)):
            own = prefix_mask(len(prefix.x), len(row), decoder.config.bidirectional_text, device)
            mask[i, columns - len(row) :, columns - len(row) :] = own
        x = torch.stack([F.pad(row, (0, 0, columns - len(row), 0)) for row in rows])
        lockstep = Lockstep(decoder, valid, valid.sum(1), max_frames + self.spare)
        positions = (valid.cumsum(1) - 1).clamp_(min=0)
        return TokenRows(
            lockstep,
            lockstep.first(x, positions, mask, last=True)[:, 0],
            self.sampling,
            self.generator,
            longest=torch.tensor([p.room(max_frames, self.forced) for p in prefixes], device=device),
            shortest=torch.tensor([max_frames if self.forced else p.shortest for p in prefixes], device=device),
        )

    @torch.inference_mode()
    def step(self, rows: TokenRows) -> Tensor:
        """One token of every row [B]; -1 for rows that have ended."""
        if rows.frames:  # the first pass decides the first token
            rows.feed()
        return rows.sample_tokens()

    def run(self, prefixes: Sequence[Prefix], max_frames: int) -> tuple[list[Tensor], TokenRows]:
        """Until every row has ended: the codes of each row [F], and the rows as they were left."""
        rows = self.prefill(prefixes, max_frames)
        columns = [self.step(rows)]
        while bool(rows.alive.any()):
            columns.append(self.step(rows))
        return [row[row >= 0] for row in torch.cat([c.view(len(prefixes), -1) for c in columns], 1)], rows


class BatchedChunks(BatchedBaseline):
    """DCAR with chunks of one ``size``: every pass reads the last chunk of each row, and all heads sample the next."""

    def __init__(
        self,
        decoder: Decoder,
        heads: Heads,
        size: int,
        sampling: Sampling,
        generator: torch.Generator,
        forced: bool = False,
    ) -> None:
        """decoder: with the heads' LoRA."""
        super().__init__(decoder, sampling, generator, forced)
        self.heads, self.size = heads, size
        self.spare = size  # the last chunk may be longer than what is left

    @torch.inference_mode()
    def step(self, rows: TokenRows) -> Tensor:
        """The next chunk of every row [B, size]; -1 behind its end, and for rows that have ended."""
        if rows.frames:
            rows.hidden = rows.lockstep.feed(self.decoder.embed(rows.token))[:, -1]
        logits = self.decoder.logits(rows.hidden)[None]
        if self.size > 1:
            logits = torch.cat([logits, self.heads(rows.hidden, self.size - 1).float()])
        return rows.sample_chunk(logits)


def batched(stack: Any, chunk: int, sampling: Sampling, generator: torch.Generator) -> BatchedBaseline:
    """Decoding of several requests of a ``stack`` up to their length limits: a token a step, or with the heads of DCAR
    a ``chunk``."""
    if not chunk:
        return BatchedBaseline(stack.decoder, sampling, generator, forced=True)
    method = stack.method(Dcar.name)
    return BatchedChunks(method.decoder, method.heads, chunk, sampling, generator, forced=True)
