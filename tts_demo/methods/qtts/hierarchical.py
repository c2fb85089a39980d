"""Hierarchy parallel, or dual autoregression (QTTS, section 2.3): the backbone walks over frames, and inside a frame
the depth decoder speaks the codebooks one after the other, each knowing all lower ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from ...config import Sampling
from ...lm.decoder import Decoder
from ...lm.linear import Projection
from ...lm.lora import LoraDelta, LoraFactors
from ...lm.masks import prefix_mask
from ...lm.model import LanguageModel
from ...lm.sampling import Ending, History, sample
from ..base import Prefix, Replay, State, Step
from .books import Books, QTTSConfig, finer
from .depth import DepthDecoder, StackedDepth


class HierarchicalAdapter(nn.Module):
    """LoRA, the books' vectors and the depth decoder. Book 1 is the language model's head on the hidden state, to which
    the depth decoder's first row adds a correction that starts at zero."""

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__()
        self.config = c = QTTSConfig.of(lm.config)
        self.lora = LoraFactors(lm.backbone, c.lora)
        self.books = Books(c, c.depth_width)
        self.depth = DepthDecoder(c)
        self.correct = nn.Linear(c.depth_width, c.hidden, bias=False)
        nn.init.zeros_(self.correct.weight)
        self.outer = nn.Parameter(torch.zeros(c.books - 1, c.depth_width, c.code_width))
        self.bias = nn.Parameter(torch.zeros(c.books - 1, 1, c.entries))

    def tag(self, books: int) -> Tensor:
        """[H], added to every speech input of a run."""
        return self.books.count_tag[books - 1]

    def scores(self, rows: Tensor) -> Tensor:
        """Depth decoder outputs [R, k, W] of books 2 to k + 1 -> logits [k, R, entries]."""
        heads = rows.shape[1]
        vectors = torch.bmm(rows.transpose(0, 1), self.outer[:heads])
        return torch.baddbmm(self.bias[:heads], vectors, self.books.codes[1 : heads + 1].transpose(1, 2))


@dataclass
class HierarchicalState(State):
    history: History  # of the first book
    finer: Sampling  # of the others
    table: Tensor  # [K, entries + 1, H + W]
    tag: Tensor  # [H]
    prompt: Tensor  # [F', K]
    hidden: Tensor  # [1, H] backbone output that decides the next frame
    spoken: list[Tensor] = field(default_factory=list)  # each [K]
    ended: bool = False  # end of speech was drawn
    done: bool = False


class HierarchicalStrategy:
    def __init__(self, lm: LanguageModel, adapter: HierarchicalAdapter) -> None:
        self.lm, self.adapter = lm, adapter

    @cached_property
    def decoder(self) -> Decoder:
        return Decoder.from_model(self.lm, LoraDelta(self.adapter.lora.state_dict(), self.adapter.config.lora))

    @cached_property
    @torch.inference_mode(False)  # built lazily, perhaps inside a run: it must stay ordinary tensors
    @torch.no_grad()
    def heads(self) -> list[Projection]:
        """Per book from the second, W -> entries: the two factors of a head multiplied out, because one row of scores
        is a matter of few operators, not of few multiplications."""
        a, dtype = self.adapter, self.decoder.dtype
        weights = torch.bmm(a.books.codes[1:], a.outer.transpose(1, 2)).to(dtype)
        return [Projection(w, b) for w, b in zip(weights, a.bias[:, 0].to(dtype))]

    @cached_property
    @torch.inference_mode(False)
    @torch.no_grad()
    def table(self) -> Tensor:
        """[books, entries + 1, H + W], of which a run reads its first K books."""
        return self.adapter.books.table(self.decoder.embedding, self.adapter.config.books).to(self.decoder.dtype)

    @cached_property
    def stacked(self) -> StackedDepth:
        return StackedDepth(self.adapter.depth, self.table[..., self.adapter.config.hidden :])

    @torch.no_grad()
    def prefill(
        self, prefix: Prefix, books: int, sampling: Sampling, generator: torch.Generator, max_frames: int, forced: bool
    ) -> HierarchicalState:
        decoder, adapter, prompt = self.decoder, self.adapter, prefix.prompt_codes[:, :books]
        table = self.table[:books]
        tag = adapter.tag(books).to(decoder.dtype)
        x = torch.cat([prefix.x.to(decoder.dtype), adapter.books.look_up(table, prompt)[0] + tag])[None]
        mask = prefix_mask(len(prefix.x), x.shape[1], self.lm.config.bidirectional_text, x.device)
        cache = decoder.new_cache(x.shape[1] + max_frames)
        hidden = decoder.forward(x, cache, 0, mask, last=True)[0]
        caches = {"backbone": cache, "depth": self.stacked.new_block(books)}
        return HierarchicalState(
            prefix,
            caches,
            sampling,
            generator,
            Ending.of(self.lm.config, prefix, max_frames, forced),
            max_frames,
            History(sampling.repeat_window, device=x.device),
            finer(sampling),
            table,
            tag,
            prompt,
            hidden,
        )

    @torch.no_grad()
    def step(self, state: HierarchicalState) -> Step:
        if state.spoken:
            x = self.adapter.books.look_up(state.table, state.spoken[-1])[0] + state.tag
            cache = state.caches["backbone"]
            state.hidden = self.decoder.forward(x[None, None], cache, cache.next_position)[0]
        codes = self._frame(state)
        stats = {"codebooks": len(codes), "depth_passes": len(codes)}
        if int(codes[0]) >= self.adapter.config.entries:
            state.ended = state.done = True
            return Step(frames=codes.new_empty(0, len(codes)), done=True, stats=stats)
        state.spoken.append(codes)
        state.history.push(codes[:1])
        state.done = len(state.spoken) >= state.max_frames
        return Step(frames=codes[None], done=state.done, marks=("frame",), stats=stats)

    def _frame(self, state: HierarchicalState) -> Tensor:
        """Codes [K] of the frame that ``state.hidden`` decides. The first may be end of speech."""

        def draw(k: int, row: Tensor) -> Tensor:
            if k == 0:
                logits = self.decoder.logits(state.hidden + self.adapter.correct(row))
                forbid = state.ending.forbid(len(state.spoken))
                return sample(logits, state.sampling, state.generator, state.history.tokens, forbid)
            return sample(self.heads[k - 1](row).float(), state.finer, state.generator)

        return self.stacked.unroll(state.hidden, state.caches["depth"], draw)[0]

    def replay(self, state: HierarchicalState) -> Replay:
        steps = len(state.spoken) + state.ended
        fed = (
            torch.stack([*state.prompt, *state.spoken[: max(0, steps - 1)]])
            if steps + len(state.prompt) > 1
            else state.prompt
        )
        x = torch.cat(
            [state.prefix.x.to(self.decoder.dtype), self.adapter.books.look_up(state.table, fed)[0] + state.tag]
        )
        first_row = len(state.prefix.x) + len(state.prompt) - 1
        return Replay(
            x=x,
            positions=torch.arange(len(x), device=x.device),
            mask=prefix_mask(len(state.prefix.x), len(x), self.lm.config.bidirectional_text, x.device),
            rows=torch.arange(first_row, first_row + steps, device=x.device),
            first_frame=tuple(range(steps)),
            frames_of=tuple(int(i < len(state.spoken)) for i in range(steps)),
            decoder=self.decoder,
        )
