"""Hierarchy parallel, or dual autoregression (QTTS, section 2.3): the backbone steps over frames, and inside a frame
the depth decoder predicts the codebooks one after the other, each from all lower ones.
"""

from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from ...config import Sampling
from ...lm import Base, Decoder, LanguageModel, LoraFactors, Projection
from ...lm.launch import Forward, launch, launch_passes
from ...lm.sampling import History, Sampler, numbers
from ..base import Replay, Start, State, Step, first_pass, plain_replay
from .codebooks import HIGHER_TEMPERATURE, CodebookEmbeddings, QTTSConfig, higher_sampling
from .depth import DepthDecoder, StackedDepth


class HierarchicalAdapter(nn.Module):
    """LoRA, the codebooks' vectors and the depth decoder. Codebook 1 is the language model's head on the hidden state,
    to which the depth decoder's first row adds a correction that starts at zero."""

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__()
        self.config = c = QTTSConfig.of(lm.config)
        self.lora = LoraFactors(lm.backbone, c.lora)
        self.codebooks = CodebookEmbeddings(c, c.depth_width)
        self.depth = DepthDecoder(c)
        self.correct = nn.Linear(c.depth_width, c.hidden, bias=False)
        nn.init.zeros_(self.correct.weight)
        self.outer = nn.Parameter(torch.zeros(c.codebooks - 1, c.depth_width, c.code_width))
        self.bias = nn.Parameter(torch.zeros(c.codebooks - 1, 1, c.entries))

    def tag(self, codebooks: int) -> Tensor:
        """[H], added to every speech input of a run."""
        return self.codebooks.count_tag[codebooks - 1]

    def scores(self, rows: Tensor) -> Tensor:
        """Depth decoder outputs [R, k, W] of codebooks 2 to k + 1 -> logits [k, R, entries]."""
        heads = rows.shape[1]
        vectors = torch.bmm(rows.transpose(0, 1), self.outer[:heads])
        return torch.baddbmm(self.bias[:heads], vectors, self.codebooks.codes[1 : heads + 1].transpose(1, 2))


@dataclass(kw_only=True)
class HierarchicalState(State):
    history: History  # of the first codebook
    higher_sampling: Sampling  # of the others
    table: Tensor  # [K, entries + 1, H + W]
    tag: Tensor  # [H]
    prompt: Tensor  # [F', K]
    hidden: Tensor  # [1, H] backbone output that decides the next frame
    generated: list[Tensor] = field(default_factory=list)  # each [K]


class HierarchicalStrategy:
    def __init__(self, base: Base, adapter: HierarchicalAdapter) -> None:
        self.base, self.adapter = base, adapter

    @cached_property
    def decoder(self) -> Decoder:
        return self.base.merged(self.adapter.lora)

    @cached_property
    @torch.inference_mode(False)  # built lazily, perhaps inside a run: it must stay ordinary tensors
    @torch.no_grad()
    def heads(self) -> list[Projection]:
        """Per codebook from the second, W -> entries: the two factors of a head multiplied out, because for one row the
        number of operators matters, not the number of multiplications."""
        a = self.adapter
        weights = torch.bmm(a.codebooks.codes[1:], a.outer.transpose(1, 2))
        return [self.base.backend.projection(w, b) for w, b in zip(weights, a.bias[:, 0])]

    @cached_property
    @torch.inference_mode(False)
    @torch.no_grad()
    def table(self) -> Tensor:
        """[codebooks, entries + 1, H + W], of which a run reads its first K codebooks."""
        table = self.adapter.codebooks.table(self.decoder.embedding, self.adapter.config.codebooks)
        return table.to(self.decoder.dtype)

    @cached_property
    def stacked(self) -> StackedDepth:
        return StackedDepth(self.adapter.depth, self.table[..., self.adapter.config.hidden :], self.base.backend)

    @torch.no_grad()
    def begin(self, start: Start) -> HierarchicalState:
        decoder, adapter, codebooks = self.decoder, self.adapter, start.options.codebooks
        table, prompt = self.table[:codebooks], start.prefix.prompt_codes[:, :codebooks]
        tag = adapter.tag(codebooks).to(decoder.dtype)
        x = start.prefix.followed_by(adapter.codebooks.look_up(table, prompt)[0] + tag)
        cache = decoder.new_cache(len(x) + start.ending.longest)
        return HierarchicalState(
            start=start,
            caches={"backbone": cache, "depth": self.stacked.new_block(codebooks)},
            history=start.history(),
            higher_sampling=higher_sampling(start.sampling),
            table=table,
            tag=tag,
            prompt=prompt,
            hidden=first_pass(decoder, start.prefix, x, cache)[0],
        )

    @torch.no_grad()
    def step(self, state: HierarchicalState) -> Step:
        if state.generated:  # the first frame is decided by the first pass
            cache, asleep = state.caches["backbone"], Sampler(state.sampling)
            given = asleep, state.generated[-1], state.tag
            state.hidden = launch_passes(self.decoder, cache, 1, "frame", self._feed, *given)
        codes = self._frame(state)
        stats = {"codebooks": len(codes), "depth_passes": len(codes)}
        if not state.accept(codes[:1].tolist()):
            return Step(frames=codes.new_empty(0, len(codes)), done=True, stats=stats)
        state.generated.append(codes)
        state.history.push(codes[:1])
        return Step(frames=codes[None], done=state.done, marks=("frame",), stats=stats)

    def _feed(self, forward: Forward, sampler: Sampler, codes: Tensor, tag: Tensor) -> Tensor:
        """codes [K] of the frame before -> hidden [1, H]."""
        x = self.adapter.codebooks.look_up(self.table[: len(codes)], codes)[0]
        return forward((x + tag)[None, None])[0]

    def _frame(self, state: HierarchicalState) -> Tensor:
        """Codes [K] of the frame that ``state.hidden`` decides. The first may be end of speech."""
        block = state.caches["depth"]
        count = numbers(state.sampling, self.base.config.vocab)
        count += numbers(state.higher_sampling, self.adapter.config.entries, block.length - 1, redraws=False)
        given = state.sampler(count), state.hidden, state.history.tokens, state.forbidden()
        return launch(self.stacked.pool, block, "frame", partial(self._decide, block.length), *given)

    def _decide(
        self, codebooks: int, kv: Tensor, sampler: Sampler, hidden: Tensor, history: Tensor, forbid: Tensor | None
    ) -> Tensor:
        """One launch: hidden [1, H] -> codes [K], one after the other over the depth decoder's memory kv."""
        cooler = sampler.cooler(HIGHER_TEMPERATURE)

        def sample(k: int, row: Tensor) -> Tensor:
            if k:
                return cooler.sample(self.heads[k - 1](row).float())
            return sampler.sample(self.decoder.logits(hidden + self.adapter.correct(row)), history, forbid)

        return self.stacked.unrolled(hidden, kv, codebooks, sample)[0]

    def replay(self, state: HierarchicalState) -> Replay:
        steps = len(state.generated) + state.ended
        fed = torch.cat([state.prompt, *(codes[None] for codes in state.generated[: max(0, steps - 1)])])
        x = state.prefix.followed_by(self.adapter.codebooks.look_up(state.table, fed)[0] + state.tag)
        return plain_replay(self.decoder, state.prefix, x, [1] * len(state.generated) + [0] * state.ended)
