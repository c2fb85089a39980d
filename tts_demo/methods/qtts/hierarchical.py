"""Hierarchy parallel, or dual autoregression (QTTS, section 2.3): the backbone steps over frames, inside a frame the
depth decoder predicts the codebooks one after the other, each from all lower ones."""

from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from ...lm import LanguageModel, Projection, Sampler
from ...lm.launch import Forward, launch, launch_passes
from ..base import Replay, Start, Step
from .codebooks import HIGHER_TEMPERATURE, CodebookAdapter, CodebookState, QTTSConfig, Strategy
from .depth import DepthDecoder, StackedDepth


class HierarchicalAdapter(CodebookAdapter):
    """LoRA, the codebooks' vectors and the depth decoder. Codebook 1 is the language model's head on the hidden state,
    to which the depth decoder's first row adds a correction that starts at zero."""

    def __init__(self, lm: LanguageModel) -> None:
        c = QTTSConfig.of(lm.config)
        super().__init__(lm, c, c.depth_width)
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
class HierarchicalState(CodebookState):
    generated: list[Tensor] = field(default_factory=list)  # each [K]


class HierarchicalStrategy(Strategy):
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
    def stacked(self) -> StackedDepth:
        return StackedDepth(self.adapter.depth, self.table[..., self.adapter.config.hidden :], self.base.backend)

    @torch.no_grad()
    def begin(self, start: Start) -> HierarchicalState:
        codebooks = start.options.codebooks
        prompt = start.prefix.prompt_codes[:, :codebooks]
        state = HierarchicalState(**self.begun(start, prompt, self.adapter.tag(codebooks)))
        state.caches["depth"] = self.stacked.new_block(codebooks)
        return state

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
        given = state.sampler(state.random), state.hidden, state.history.tokens, state.forbidden()
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
        generated = torch.cat([state.prompt[:0], *(codes[None] for codes in state.generated)])
        return self.replayed(state, generated, [1] * len(state.generated) + [0] * state.ended)
