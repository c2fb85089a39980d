"""The baseline, and chunks or patches of one size, for several requests at once: rows of unequal length are padded on
the left. Under greedy decoding every row gets the tokens it gets alone."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ..config import Sampling
from ..lm import Decoder, Lockstep, Prefix, TokenRows
from ..lm.masks import prefix_mask
from .base import token_inputs
from .dcar import Dcar
from .dcar.heads import Heads
from .tldr import TLDR
from .tldr.local import PatchRows

MEASURED = {Dcar.name: 3, TLDR.name: 4}  # tokens a step of what ``bench --batch`` sets beside the baseline


class BatchedBaseline:
    """Token-by-token decoding of B prefixes at once."""

    def __init__(self, decoder: Decoder, sampling: Sampling, generator: Generator, forced: bool = False) -> None:
        self.decoder, self.sampling, self.generator, self.forced = decoder, sampling, generator, forced

    def inputs(self, prefixes: Sequence[Prefix]) -> list[tuple[Tensor, Tensor]]:
        """Of each prefix the backbone's inputs [n, H] and their positions [n]."""
        rows = [token_inputs(self.decoder, prefix) for prefix in prefixes]
        return [(row, torch.arange(len(row), device=row.device)) for row in rows]

    def slots(self, frames: int) -> int:
        """Slots of the cache that so many frames of speech take."""
        return frames

    @torch.inference_mode()
    def prefill(self, prefixes: Sequence[Prefix], max_frames: int | Sequence[int]) -> TokenRows:
        """max_frames: at which a row is cut, of all or of each."""
        most = [max_frames] * len(prefixes) if isinstance(max_frames, int) else list(max_frames)
        decoder, device = self.decoder, self.decoder.device
        rows, known = zip(*self.inputs(prefixes))
        columns = max(map(len, rows))
        valid = torch.stack([torch.arange(columns, device=device) >= columns - len(row) for row in rows])
        # padding sees itself, so that no row of the mask is empty
        mask = torch.eye(columns, dtype=torch.bool, device=device).repeat(len(rows), 1, 1)
        for i, (row, prefix) in enumerate(zip(rows, prefixes)):
            own = prefix_mask(len(prefix.x), len(row), decoder.config.bidirectional_text, device)
            mask[i, columns - len(row) :, columns - len(row) :] = own
        x = torch.stack([F.pad(row, (0, 0, columns - len(row), 0)) for row in rows])
        positions = torch.stack([F.pad(each, (columns - len(each), 0)) for each in known])
        lockstep = Lockstep(decoder, valid, positions[:, -1] + 1, self.slots(max(most)))
        return TokenRows(
            lockstep,
            lockstep.first(x, positions, mask, last=True)[:, 0],
            self.sampling,
            self.generator,
            longest=torch.tensor([p.room(n, self.forced) for p, n in zip(prefixes, most)], device=device),
            shortest=torch.tensor([n if self.forced else p.shortest for p, n in zip(prefixes, most)], device=device),
        )

    @torch.inference_mode()
    def step(self, rows: TokenRows) -> Tensor:
        """One token of every row [B]; -1 for rows that have ended."""
        if rows.frames:  # the first pass decides the first token
            rows.feed()
        return rows.sample_tokens()

    def run(self, prefixes: Sequence[Prefix], max_frames: int | Sequence[int]) -> tuple[list[Tensor], TokenRows]:
        """Until every row has ended: the codes of each row [F], and the rows as they were left."""
        rows = self.prefill(prefixes, max_frames)
        columns = [self.step(rows)]
        while bool(rows.alive.any()):
            columns.append(self.step(rows))
        return [row[row >= 0] for row in torch.cat([c.view(len(prefixes), -1) for c in columns], 1)], rows


class BatchedChunks(BatchedBaseline):
    """DCAR with chunks of one ``size``: every pass reads the last chunk of each row, and all heads sample the next."""

    def __init__(
        self, decoder: Decoder, heads: Heads, size: int, sampling: Sampling, generator: Generator, forced: bool = False
    ) -> None:
        """decoder: with the heads' LoRA."""
        super().__init__(decoder, sampling, generator, forced)
        self.heads, self.size = heads, size

    def slots(self, frames: int) -> int:
        return frames + self.size  # the last chunk may be longer than what is left

    @torch.inference_mode()
    def step(self, rows: TokenRows) -> Tensor:
        """The next chunk of every row [B, size]; -1 behind its end, and for rows that have ended."""
        if rows.frames:
            rows.hidden = rows.lockstep.feed(self.decoder.embed(rows.token))[:, -1]
        logits = self.decoder.logits(rows.hidden)[None]
        if self.size > 1:
            logits = torch.cat([logits, self.heads(rows.hidden, self.size - 1).float()])
        return rows.sample_chunk(logits)


class BatchedPatches(BatchedBaseline):
    """TLDR with whole patches of one ``size``: every pass of the backbone reads the last patch of each row, and the
    extractor samples the tokens of the next, one after the other in all rows."""

    def __init__(self, method: TLDR, size: int, sampling: Sampling, generator: Generator, forced: bool = False) -> None:
        super().__init__(method.decoder, sampling, generator, forced)
        self.method, self.size = method, size

    def inputs(self, prefixes: Sequence[Prefix]) -> list[tuple[Tensor, Tensor]]:
        method, size = self.method, self.size
        return [method.inputs(prefix, method.prompt_patches(prefix, size), size) for prefix in prefixes]

    def prefill(self, prefixes: Sequence[Prefix], max_frames: int | Sequence[int]) -> TokenRows:
        method, rows = self.method, super().prefill(prefixes, max_frames)
        prompts = [method.prompt_patches(prefix, self.size) for prefix in prefixes]
        speakers = [prefix.speaker for prefix in prefixes]
        with torch.inference_mode():
            rows.local = PatchRows(method.encoder, method.extractor, self.size, prompts, speakers)
        return rows

    def slots(self, frames: int) -> int:
        return -(-frames // self.size)

    @torch.inference_mode()
    def step(self, rows: TokenRows) -> Tensor:
        """The next patch of every row [B, size]; -1 behind its end, and for rows that have ended."""
        if rows.frames:
            rows.lockstep.next += self.size - 1  # a patch takes the position of its last token
            rows.hidden = rows.lockstep.feed(rows.local.encode(rows.token)[:, None])[:, 0]
        emitted: list[Tensor] = []

        def sample(logits: Tensor) -> Tensor:
            emitted.append(rows.sample_from(logits))
            return rows.token

        rows.token = rows.local.decode(rows.hidden, sample)
        return torch.stack(emitted, 1)


def batched(stack: Any, method: str, size: int, sampling: Sampling, generator: Generator) -> BatchedBaseline:
    """Requests up to their limits: by ``dcar`` in chunks of ``size``, ``tldr`` in patches, or the baseline."""
    if method == Dcar.name:
        dcar = stack.method(method)
        return BatchedChunks(dcar.decoder, dcar.heads, size, sampling, generator, forced=True)
    if method == TLDR.name:
        return BatchedPatches(stack.method(method), size, sampling, generator, forced=True)
    return BatchedBaseline(stack.decoder, sampling, generator, forced=True)
