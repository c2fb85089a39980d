"""Chunks on a compressed context: DCAR's heads and policy over the cache of compressed-to-fine language modelling. Few
passes and a bounded cache.

Nothing is trained for it: the LoRA of both methods is added up, and the heads read what the backbone then says. All
tokens of a chunk are fed in one pass and see the window of the last of them, with the summaries of the spans before
it."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..lm import Base, Decoder, KVCache, LanguageModel, LoraSum, Sampler
from ..lm.launch import Function
from .base import Picture, Replay, Start, Step
from .compressed import FULL_TEXT, Compressed, Layout, RingCache, SummaryAdapter, WindowOptions, launch, masks
from .dcar import Dcar
from .dcar.method import DcarOptions, DcarState
from .dcar.ranges import LONGEST


@dataclass(frozen=True)
class CompressedChunksOptions(WindowOptions, DcarOptions):
    """The chunk sizes and the window."""


class CompressedChunks(Dcar):
    name = "dcar-compressed"
    title = "Chunks on a compressed context"
    paper = "DCAR and compressed-to-fine language modelling together (in neither paper)"
    idea = "A chunk of tokens a step, as with dynamic chunks, while older speech is kept as a few summary tokens."
    cached = "every text and prompt token, a summary of each older span, the last tokens, the small policy's slots"
    picture = Picture("pppp wxxxwxxxw ssss", "hhh")
    presets = (
        {"chunk_range": "3,4", "window": 30, "group": 15},
        {"chunk_range": "2,3,4", "window": 50, "group": 10},
        {"chunk_range": "2,3", "window": 100, "group": 5},
    )
    Options = CompressedChunksOptions
    neutral = {"chunk_range": "1", "window": 0}
    needs_weights = ("dcar-heads", FULL_TEXT)
    reads = ("dcar-policy",)
    combines = (Dcar.name, Compressed.name)

    def __init__(self, base: Base, modules: dict[str, nn.Module] | None = None, weights_hash: str = "") -> None:
        super().__init__(base, modules, weights_hash)
        self.plain = Dcar(base, modules)  # with the window off: no adapter for it

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return Dcar.build_modules(lm) | {FULL_TEXT: SummaryAdapter(lm)}

    @cached_property
    def decoder(self) -> Decoder:
        return self.base.merged(LoraSum((self.heads.lora, self.modules[FULL_TEXT].lora)))

    @cached_property
    def summary(self) -> Tensor:
        """[1, H] the embedding of the summary token."""
        return self.modules[FULL_TEXT].row(self.decoder)

    def begin(self, start: Start) -> DcarState:
        return super().begin(start) if start.options.window else self.plain.begin(start)

    def new_cache(self, start: Start, first: int) -> KVCache:
        options = start.options
        return RingCache.new(self.decoder, first, options.window, options.group, start.ending.longest, most=LONGEST)

    def step(self, state: DcarState) -> Step:
        return super().step(state) if state.start.options.window else self.plain.step(state)

    def launch(
        self, state: DcarState, key: Hashable, function: Function, sampler: Sampler, *inputs: Tensor | None
    ) -> Any:
        of_last = lambda run, sampler, *given: function(run()[:, -1:], sampler, *given)
        given = state.caches["backbone"], key, of_last, self.summary, sampler, state.taken[-1]
        return launch(self.decoder, *given, *inputs)

    def replay(self, state: DcarState) -> Replay:
        plain, cache = self.plain.replay(state), state.caches["backbone"]
        if not isinstance(cache, RingCache):
            return plain
        prefix, counts = state.prefix, [len(tokens) for tokens in state.taken[:-1]]
        first, prompt, device = len(prefix.x), len(prefix.prompt_codes), prefix.x.device
        layout = Layout.of(prompt, cache.generated, cache.group, device)
        ends = torch.tensor(counts, dtype=torch.long, device=device).cumsum(0) - 1  # of each chunk that was fed
        last = torch.cat([torch.arange(-prompt, 0, device=device), ends.repeat_interleave(ends.new_tensor(counts))])
        x, positions = layout.inputs(prefix, plain.x[first:], self.summary)
        bidirectional = self.lm.config.bidirectional_text
        return replace(
            plain,
            x=x,
            positions=positions,
            mask=masks(first, layout, cache.window, cache.group, bidirectional, last[layout.index + prompt]),
            rows=torch.cat([ends.new_tensor([first + prompt - 1]), layout.fed[ends] + first]),
            decoder=self.decoder,
        )
