"""The baseline for several requests at once: rows of unequal length are padded on the left. Under greedy decoding every
row gets the tokens it gets alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import Sampling
from ..lm.decoder import Decoder
from ..lm.lockstep import Lockstep, TokenRows
from ..lm.masks import prefix_mask
from ..lm.prefix import Prefix
from .base import token_inputs


class BatchedBaseline:
    """Token-by-token decoding of B prefixes at once."""

    def __init__(self, decoder: Decoder, sampling: Sampling, generator: torch.Generator, forced: bool = False) -> None:
        self.decoder, self.sampling, self.generator, self.forced = decoder, sampling, generator, forced

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
        lockstep = Lockstep(decoder, valid, valid.sum(1), max_frames)
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
        return [row[row >= 0] for row in torch.stack(columns, 1)], rows
