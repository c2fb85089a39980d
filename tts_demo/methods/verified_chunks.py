"""Drafts verified by chunks: speech speculative decoding whose draft is DCAR's heads. No second model and no second
cache: the heads read the state that decided the last token, and propose those after it all at once.

What verifies is the backbone with the heads' LoRA, which is DCAR that takes one token a step: at tolerance 0 the tokens
have exactly its distribution (the acceptance rule asks nothing of a draft but the distribution it drew from)."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ..lm import Base, BufferPool, Decoder, Distribution, LanguageModel, Sampler
from ..lm.launch import launch
from .base import Picture, first_pass
from .dcar import Dcar
from .dcar.ranges import LONGEST
from .ssd import SSD
from .ssd.method import SSDOptions, SSDState, draft_length_dial, numbers_of_draft


@dataclass(frozen=True)
class VerifiedChunksOptions(SSDOptions):
    draft_length: str = draft_length_dial("2", "Tokens that the heads propose", LONGEST - 1)


class VerifiedChunks(SSD):
    name = "dcar-ssd"
    title = "Chunks, verified"
    paper = "DCAR and SSD together (in neither paper)"
    idea = (
        "The extra heads of dynamic chunks propose the next tokens, one pass of the model verifies them: speculative "
        "decoding without a second model."
    )
    cached = "every text, prompt and speech token"
    picture = Picture("pppp ssssssssss", "aar")
    Options = VerifiedChunksOptions
    needs_weights = ("dcar-heads",)
    combines = (Dcar.name, SSD.name)

    def __init__(self, base: Base, modules: dict[str, nn.Module] | None = None, weights_hash: str = "") -> None:
        super().__init__(base, modules, weights_hash)
        self.chunks = Dcar(base, modules)

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {"dcar-heads": Dcar.build_modules(lm)["dcar-heads"]}

    def parts(self) -> dict[str, BufferPool | None]:
        return {"heads and their samples, backbone and verdict": self.decoder.pool}

    @cached_property
    def decoder(self) -> Decoder:
        return self.chunks.decoder

    def read_prefix(self, state: SSDState, x: Tensor) -> None:
        state.hidden = first_pass(self.decoder, state.prefix, x, state.caches["backbone"])

    def length(self, state: SSDState) -> int:
        """The first token is sampled alone: the heads predict the tokens after it."""
        return super().length(state) if len(state.last) else 0

    def draft_tokens(self, state: SSDState, length: int) -> tuple[Tensor, Distribution, Tensor | None]:
        """All tokens are sampled at once: no head knows the others' tokens or how often they occurred."""
        sampler = state.sampler(numbers_of_draft(state.sampling, self.lm.config.vocab, length, False))

        def whole(kv: Tensor, sampler: Sampler, hidden: Tensor, forbid: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
            p = sampler.distribution(torch.cat(self.chunks.extra(hidden, length)).float(), forbid)
            return p.sample(sampler.source), p.weights, p.ids

        given = sampler, state.features[-1][-1:], state.forbidden(length)
        drafted, weights, ids = launch(self.decoder.pool, state.caches["backbone"], ("heads", length), whole, *given)
        recent = torch.cat([self._recent(state), drafted]) if self._may_repeat(state, length) else None
        return drafted, Distribution(weights, ids), recent

    def note_unread(self, state: SSDState, accepted: Tensor, token: Tensor, length: int, rows: Tensor) -> None:
        state.features = [rows[len(accepted) : len(accepted) + 1]]
