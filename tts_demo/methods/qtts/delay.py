"""Delay multihead (QTTS, section 2.2): one head per codebook, all of them on every backbone step, codebook k delayed by
k * d steps. When head k predicts frame f, codebooks < k of that frame are known: the backbone has read them, and the
head gets their context."""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm import LanguageModel, Sampler
from ...lm.launch import Forward, launch_passes
from ...lm.linear import Projection, unit_rms
from ..base import Replay, Start, Step
from .codebooks import HIGHER_TEMPERATURE, CodebookAdapter, CodebookState, QTTSConfig, Strategy


def delay(codes: Tensor, d: int, fill: int) -> Tensor:
    """codes [..., F, K] -> [..., F + (K - 1) d, K]: step s holds, of codebook k, frame s - k d, or ``fill``."""
    last = codes.shape[-1] - 1
    return torch.stack([F.pad(codes[..., k], (k * d, (last - k) * d), value=fill) for k in range(last + 1)], -1)


class DelayAdapter(CodebookAdapter):
    """LoRA, the codebooks' vectors and the heads of codebooks 2 to K; codebook 1 keeps the language model's head. One
    adapter serves every K and d: a tag added to the backbone's inputs stands for them."""

    def __init__(self, lm: LanguageModel) -> None:
        c = QTTSConfig.of(lm.config)
        super().__init__(lm, c, c.hidden)
        self.pads = nn.Parameter(torch.zeros(c.codebooks, c.hidden))  # input where the pattern has no frame
        self.delay_tag = nn.Parameter(torch.zeros(c.max_delay, c.hidden))
        heads = c.codebooks - 1
        self.inner = nn.Parameter(torch.randn(heads, c.hidden, c.head_width) * c.hidden**-0.5)
        self.inner_bias = nn.Parameter(torch.zeros(heads, 1, c.head_width))
        self.outer = nn.Parameter(torch.zeros(heads, c.hidden + c.head_width, c.code_width))
        self.bias = nn.Parameter(torch.zeros(heads, 1, c.entries))

    def table(self, base: Tensor, codebooks: int) -> Tensor:
        return self.codebooks.table(base, codebooks, self.pads)

    def tag(self, codebooks: int, d: int) -> Tensor:
        """[H], added to every speech input of a run."""
        return self.codebooks.count_tag[codebooks - 1] + self.delay_tag[d - 1]

    def below(self, contexts: Tensor, d: int) -> Tensor:
        """contexts [B, F, K, H] of single codes -> [B, F + (K - 1) d, K - 1, H]: the context of head k at step s, of
        frame s - k d, the sum over the lower codebooks, laid out as the steps are."""
        known = contexts.cumsum(2)
        heads = known.shape[2] - 1
        return torch.stack([F.pad(known[:, :, k], (0, 0, (k + 1) * d, (heads - 1 - k) * d)) for k in range(heads)], 2)

    def scores(self, hidden: Tensor, below: Tensor) -> Tensor:
        """hidden [R, H], below [R, k, H] -> logits [k, R, entries] of codebooks 2 to k + 1."""
        heads = below.shape[1]
        known = (hidden[:, None] + below).transpose(0, 1)
        normed = F.rms_norm(known, known.shape[-1:])
        inner = F.silu(torch.baddbmm(self.inner_bias[:heads], normed, self.inner[:heads]))
        vectors = torch.bmm(torch.cat([known, inner], -1), self.outer[:heads])
        return torch.baddbmm(self.bias[:heads], vectors, self.codebooks.codes[1 : heads + 1].transpose(1, 2))


@dataclass(kw_only=True)
class DelayState(CodebookState):
    d: int
    lead: Tensor  # [(K - 1) d, K] prompt codes that the delay moves past the prompt, or padding; -1 = to be sampled
    # d entries [K, H], used in rotation: in the one of step s (s modulo d), row k is the sum of the contexts of
    # codebooks 0 to k of the frame that codebook k emitted in that step; head k + 1 reads it d steps later. Nothing
    # reads row K - 1.
    known: list[Tensor]
    generated: Tensor  # [max_frames + (K - 1) d, K] codes as emitted, delayed
    end: int  # frames in all: the limit until end of speech is sampled
    steps: int = 0

    @property
    def done(self) -> bool:
        return self.steps >= self.end + self.tail or not self.end

    @property
    def codebooks(self) -> int:
        return self.generated.shape[1]

    @property
    def tail(self) -> int:
        """Steps by which the last codebook is delayed against the first."""
        return (self.codebooks - 1) * self.d

    def frame(self, f: int) -> Tensor:
        """[K] the codes of frame f, of which codebook k was emitted k d steps after the first: a view."""
        return self.generated.as_strided((self.codebooks,), (self.d * self.codebooks + 1,), f * self.codebooks)


class DelayStrategy(Strategy):
    @cached_property
    @torch.inference_mode(False)  # built lazily, perhaps inside a run: they must stay ordinary tensors
    @torch.no_grad()
    def heads(self) -> list[tuple[Projection, Projection, Projection]]:
        """Of codebooks 2 to K: H -> head width, H + head width -> code width, code width -> entries."""
        a, project = self.adapter, self.base.backend.projection
        inner = (project(weight.t(), bias[0]) for weight, bias in zip(a.inner, a.inner_bias))
        outer = (project(weight.t()) for weight in a.outer)
        codes = (project(weight, bias[0]) for weight, bias in zip(a.codebooks.codes[1:], a.bias))
        return list(zip(inner, outer, codes))

    @torch.no_grad()
    def begin(self, start: Start) -> DelayState:
        adapter, options, longest, pad = self.adapter, start.options, start.ending.longest, self.adapter.config.pad
        codebooks, d, device = options.codebooks, options.delay, self.decoder.device
        prompt, tail = start.prefix.prompt_codes[:, :codebooks], (codebooks - 1) * d
        grid, count = delay(prompt, d, pad), len(prompt)  # [F' + tail, K]
        below = adapter.below(adapter.codebooks.look_up(self.table[:codebooks], prompt[None])[1], d)[0]
        open_ = torch.arange(tail, device=device)[:, None] >= torch.arange(codebooks, device=device) * d
        return DelayState(
            **self.begun(start, grid[:count], adapter.tag(codebooks, d), tail),
            d=d,
            lead=torch.where(open_, -1, grid[count:]),
            known=[F.pad(known, (0, 0, 0, 1)) for known in below[count : count + d]],
            generated=torch.full((longest + tail, codebooks), pad, device=device),
            end=longest,
        )

    @torch.no_grad()
    def step(self, state: DelayState) -> Step:
        s, tail = state.steps, state.tail
        codes = self._sample(state)
        if s < tail:
            codes = torch.where(state.lead[s] < 0, codes, state.lead[s])
        if s < state.end and int(codes[0]) >= self.adapter.config.entries:
            state.end = s
        if s >= state.end:  # the first codebooks have ended; the others are still behind by their delay
            codes[: (s - state.end) // state.d + 1] = self.adapter.config.pad
        else:
            state.history.push(codes[:1])
        state.generated[s] = codes
        state.steps += 1
        complete = tail <= s < state.end + tail
        frames = codes.new_empty(0, state.codebooks)
        if complete:
            state.emitted += 1
            frames = state.frame(s - tail)[None]
        stats = {"codebooks": state.codebooks, "frames_held_back": tail}
        return Step(frames=frames, done=state.done, marks=("delay",) * complete, stats=stats)

    def _scores(self, hidden: Tensor, below: Tensor) -> Tensor:
        """hidden [1, H], below [k, H] -> logits [k, entries] of codebooks 2 to k + 1 in float32. On the CPU one head
        after the other: packed matrices are the fastest for one row there, all heads at once on a GPU."""
        if self.decoder.device.type != "cpu":
            return self.adapter.scores(hidden, below[None])[:, 0].float()
        logits = []
        for (inner, outer, codes), known in zip(self.heads, (hidden + below).split(1)):
            normed = unit_rms(known, torch.finfo(known.dtype).eps)
            logits.append(codes(outer(torch.cat([known, F.silu(inner(normed))], -1))))
        return torch.cat(logits).float()

    def _sample(self, state: DelayState) -> Tensor:
        """Feed the codes of the step before; codes [K] of this step, all heads at once."""
        s, d = state.steps, state.d
        given = state.sampler(state.random), state.history.tokens, state.start.ending.forbid(s)
        if not s:  # the first step is decided by the first pass
            return self._decide(state.hidden, state.known[0][:-1], *given)
        before = state.known[(s - 1) % d]
        inputs = state.generated[s - 1], state.tag, before, None if d == 1 else state.known[s % d]
        codes, state.hidden, state.known[(s - 1) % d] = launch_passes(
            self.decoder, state.caches["backbone"], 1, "delay", self._next, given[0], *inputs, *given[1:]
        )
        return codes

    def _next(
        self,
        forward: Forward,
        sampler: Sampler,
        codes: Tensor,
        tag: Tensor,
        before: Tensor,
        known: Tensor | None,
        *given: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One launch: codes [K] of the previous step through the backbone -> codes of this step [K], hidden [1, H], and
        the entry [K, H] that replaces ``before`` in ``DelayState.known``. known [K, H]: the entry that this step reads;
        None (d = 1): the one just made."""
        x, contexts = self.adapter.codebooks.look_up(self.table[: len(codes)], codes)
        hidden = forward((x + tag)[None, None])[0]
        after = contexts + F.pad(before[:-1], (0, 0, 1, 0))
        return self._decide(hidden, (after if known is None else known)[:-1], sampler, *given), hidden, after

    def _decide(
        self, hidden: Tensor, below: Tensor, sampler: Sampler, history: Tensor, forbid: Tensor | None
    ) -> Tensor:
        """Codes [K] of the step that hidden [1, H] decides."""
        rest = self._scores(hidden, below)
        first = sampler.sample(self.decoder.logits(hidden), history, forbid)
        return torch.cat([first, sampler.cooler(HIGHER_TEMPERATURE).sample(rest)])

    def replay(self, state: DelayState) -> Replay:
        frames = range(-state.tail, state.steps - state.tail)  # what each step completed, if there is such a frame
        return self.replayed(state, state.generated, [int(0 <= frame < state.end) for frame in frames])
