"""Patches of several requests at once, all of one size: the compressor and the extractor over the rows of a batch."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .local import PatchEncoder
from .modules import Extractor, window_mask


class PatchRows:
    """Compressor and extractor of B rows decoded in lockstep, whose patches all have ``size`` tokens."""

    def __init__(
        self,
        encoder: PatchEncoder,
        extractor: Extractor,
        size: int,
        prompts: Sequence[Tensor],
        speakers: Sequence[Tensor | None],
    ) -> None:
        """prompts: tokens [N P] before the first patch of each row; speakers: [E] of each, None: a vector of zeros."""
        self.encoder, self.extractor, self.size = encoder, extractor, size
        empty = torch.zeros(extractor.config.speaker, device=encoder.embedding.device)
        dtype = extractor.enter.weight.dtype
        self.speaker = torch.stack([empty if speaker is None else speaker.to(empty) for speaker in speakers]).to(dtype)
        self.cache, before = None, encoder.config.window - 1
        if encoder.pool_only:
            return
        self.cache = encoder.decoder.new_cache(before + encoder.reach, len(prompts))
        self.valid = torch.stack([torch.arange(before) >= before - len(prompt) for prompt in prompts])
        self.valid = self.valid.to(empty.device)  # [B, live] which columns hold a token of the row
        # What the window of the first patch reaches. Rows of shorter prompts begin with columns that nothing sees.
        tokens = torch.stack([F.pad(p[-before:], (max(0, before - len(p)), 0)) for p in prompts])
        places = torch.arange(-before, 0, device=empty.device) % size
        self._states(F.embedding(tokens, encoder.embedding) + encoder.compressor.position[size - 1, places])

    @torch.no_grad()
    def encode(self, tokens: Tensor) -> Tensor:
        """tokens [B, P] of the next patch of each row -> z [B, H]."""
        encoder, size = self.encoder, self.size
        embedded = F.embedding(tokens, encoder.embedding)
        pooled = encoder.compressor.pool(embedded)
        if self.cache is None:
            return pooled
        self.valid = F.pad(self.valid, (0, size), value=True)
        states = self._states(embedded + encoder.compressor.position[size - 1, :size])
        gone = self.cache.length - (encoder.config.window - 1)
        if self.cache.length + size > self.cache.capacity:
            self.cache.forget(gone)
            self.valid = self.valid[:, gone:]
        return encoder.compressor.gather(pooled, states)

    def _states(self, x: Tensor) -> Tensor:
        """What the local block makes of the next tokens x [B, n, H]; each sees those of its window that are there."""
        live, count = self.cache.length, x.shape[1]
        band = window_mask(live + count, self.encoder.config.window, x.device)[live:]
        itself = torch.ones(count, live + count, dtype=torch.bool, device=x.device).tril(live).triu(live)
        mask = band & self.valid[:, None] | itself  # so that no row of it is empty
        positions = (self.cache.next_position + torch.arange(count, device=x.device)).expand(len(x), -1)
        return self.encoder.decoder.forward(x, self.cache, positions, mask)

    @torch.no_grad()
    def decode(self, g: Tensor, sample: Callable[[Tensor], Tensor]) -> Tensor:
        """g [B, H] -> tokens [B, P], as ``Extractor.unroll``."""
        dtype = self.speaker.dtype
        embed = lambda tokens: F.embedding(tokens, self.encoder.embedding).to(dtype)
        in_float = lambda logits: sample(logits.float())
        return self.extractor.unroll(g.to(dtype), self.speaker, self.size, embed, in_float)
