"""DCAR decoding (sections 3.1, 4.2): a policy chooses the chunk size, the heads predict it, one pass reads it."""

import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...config import UserError
from ...lm import Decoder, LanguageModel, Prefix
from ...lm.cache import KVCache
from ...lm.graphs import BufferPool
from ...lm.launch import Function, launch_passes
from ...lm.sampling import Sampler, is_greedy, numbers, race
from ..base import Method, Options, Picture, Replay, Start, State, Step, dial, first_pass, plain_replay, token_inputs
from .heads import Heads, HeadsRunner
from .policy import Policy, PolicyRunner
from .ranges import LONGEST, ChunkRange, confident_size, size_at


@dataclass(frozen=True)
class DcarOptions(Options):
    chunk_range: str = dial(
        "2,3,4",
        "Chunk sizes",
        "How many tokens a step may emit. 3: always three; 3,4: three or four, as a trained policy chooses; free: any "
        "from 1 to 7, as it chooses; sure:3,4: three, or four where the head for the fourth is sure; random:3,4: three "
        "or four, by chance; random:3,4@3.2: so that 3.2 is the mean.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        ChunkRange.parse(self.chunk_range)

    @property
    def chunks(self) -> ChunkRange:
        return ChunkRange.parse(self.chunk_range)


@dataclass(kw_only=True)
class DcarState(State):
    chunks: ChunkRange
    range_terms: tuple[Tensor, Tensor] | None  # of the policy: see ``PolicyRunner.range_terms``
    recent: Tensor  # [1, W] the last tokens, -1 = none
    hidden: Tensor  # [1, 1, H] backbone output that decides the next chunk
    taken: list[Tensor] = field(default_factory=list)  # tokens of each step, each [n]; the last is not fed back yet
    chosen: Counter[int] = field(default_factory=Counter)  # how often each size was chosen
    policy_seconds: float = 0.0
    seconds: float = 0.0


class Dcar(Method):
    name = "dcar"
    title = "Dynamic chunks"
    paper = "Robust and Efficient Autoregressive Speech Synthesis with Dynamic Chunk-wise Prediction Policy (DCAR)"
    arxiv = "2506.22023"
    idea = (
        "Six extra heads predict the tokens after the next one. A small policy, trained by reinforcement learning on "
        "what a recogniser mishears, chooses how many of them to emit at once."
    )
    cached = "every text, prompt and speech token, and one slot of the small policy per chunk"
    emits = "a chunk of 1 to 7 tokens"
    picture = Picture("pppp ssssssssssss", "hhh")
    presets = ({"chunk_range": "3,4"}, {"chunk_range": "2,3,4"}, {"chunk_range": "2,3"})
    Options = DcarOptions
    neutral = {"chunk_range": "1"}
    predicted = LONGEST
    heads_folder: ClassVar[str] = "dcar-heads"
    policy_folder: ClassVar[str] = "dcar-policy"
    needs_weights = (heads_folder,)  # a learned range needs the policy as well
    reads = (policy_folder,)

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {cls.heads_folder: Heads(lm), cls.policy_folder: Policy(lm)}

    @classmethod
    def modules_read(cls, options: DcarOptions) -> set[str]:
        unread = set() if options.chunks.chooser == "policy" else {cls.policy_folder}
        return super().modules_read(options) - unread

    @classmethod
    def paced_by_weights(cls, options: DcarOptions) -> bool:
        return options.chunks.chooser in ("policy", "sure")

    def parts(self) -> dict[str, BufferPool | None]:
        policy = {"policy, heads and sampling": self.policy.decoder.pool} if self.policy_folder in self.modules else {}
        return {**super().parts(), **policy}

    @property
    def heads(self) -> Heads:
        return self.modules[self.heads_folder]

    @cached_property
    def decoder(self) -> Decoder:
        return self.base.merged(self.heads.lora)

    @cached_property
    def extra(self) -> HeadsRunner:
        return HeadsRunner(self.heads, self.base.backend)

    @cached_property
    def policy(self) -> PolicyRunner:
        return PolicyRunner(self.modules[self.policy_folder], self.base.backend)

    def check(self, options: DcarOptions) -> None:
        if options.chunks.chooser == "policy" and self.policy_folder not in self.modules:
            raise UserError(
                f"A range of chunk sizes needs the trained policy ({self.policy_folder}), which this checkpoint lacks: "
                f"make it with 'python -m tts_demo train {self.policy_folder}', or set chunk_range to one size (3) or "
                "to sure:2,3,4 or random:2,3,4."
            )

    def begin(self, start: Start) -> DcarState:
        decoder, chunks, longest = self.decoder, start.options.chunks, start.ending.longest
        x = token_inputs(decoder, start.prefix)
        caches, terms = {"backbone": self.new_cache(start, len(x))}, None
        if chunks.chooser == "policy":
            caches["policy"] = self.policy.new_cache(longest // chunks.sizes[0] + 1)
            allowed = torch.tensor([[size in chunks.sizes for size in range(1, LONGEST + 1)]], device=x.device)
            inputs, logits = self.policy.range_terms(allowed)
            terms = inputs, logits.masked_fill(~allowed, float("-inf"))  # at inference no other size is ever taken
        return DcarState(
            start=start,
            caches=caches,
            chunks=chunks,
            range_terms=terms,
            recent=torch.full((1, start.sampling.repeat_window), -1, device=x.device),
            hidden=first_pass(decoder, start.prefix, x, caches["backbone"]),
        )

    def new_cache(self, start: Start, first: int) -> KVCache:
        """Of a run whose first pass is over ``first`` tokens."""
        return self.decoder.new_cache(first + start.ending.longest)

    def step(self, state: DcarState) -> Step:
        started = time.perf_counter()
        found = self._by_policy(state) if state.chunks.chooser == "policy" else self._by_rule(state)
        size, *tokens = found.tolist()
        state.chosen[size] += 1
        taken = found[1 : 1 + state.accept(tokens[:size])]
        state.taken.append(taken)
        if state.sampling.repeat_window:
            state.recent = torch.cat([state.recent, taken[None]], 1)[:, -state.sampling.repeat_window :]
        state.seconds += time.perf_counter() - started
        marks = ("chunk|",) + ("chunk",) * (len(taken) - 1) if len(taken) else ()
        return Step(frames=taken[:, None], done=state.done, marks=marks, stats=_stats(state))

    def _by_policy(self, state: DcarState) -> Tensor:
        """The policy chooses the size of the next chunk -> [1 + n] that size and the chunk's tokens, perhaps more."""
        if state.taken:  # the first chunk is decided by the first pass
            state.hidden = self.launch(state, "pass", lambda hidden, sampler: hidden, Sampler(state.sampling))
        cache, runner, seconds = state.caches["policy"], self.policy, 0.0

        def decide(
            forward: Callable[[Tensor], Tensor], sampler: Sampler, hidden: Tensor, *given: Tensor | None
        ) -> Tensor:
            nonlocal seconds
            started = time.perf_counter()
            logits = runner.logits(forward, hidden, *given[:2])
            # Drawn as in training; with greedy sampling, the most likely size.
            best = logits.argmax(-1) if is_greedy(sampler.sampling) else race(logits.softmax(-1), sampler.source)
            size = int(1 + best) if sampler.host_may_read else 1 + best
            seconds = time.perf_counter() - started
            return self._sample(size, sizes[-1], sampler, hidden, *given[2:])

        sizes = state.chunks.sizes
        given = self._sampler(state), state.hidden[:, 0], *state.range_terms, state.recent, state.forbidden(sizes[-1])
        found = launch_passes(runner.decoder, cache, 1, ("chunk", sizes[-1]), decide, *given)
        state.policy_seconds += 0.0 if runner.decoder.graphed else seconds
        return found

    def _by_rule(self, state: DcarState) -> Tensor:
        """Choose the size by a rule (fixed, random or sure) and sample: [1 + n], the size, then n tokens."""
        chunks, sampler = state.chunks, self._sampler(state)

        def decide(hidden: Tensor, sampler: Sampler, *given: Tensor | None) -> tuple[Tensor, Tensor]:
            size = self._size(chunks, sampler, hidden[:, 0])
            return self._sample(size, chunks.sizes[-1], sampler, hidden[:, 0], *given), hidden

        given = state.recent, state.forbidden(chunks.sizes[-1])
        if not state.taken:  # the first chunk is decided by the first pass
            return decide(state.hidden, sampler, *given)[0]
        found, state.hidden = self.launch(state, chunks, decide, sampler, *given)
        return found

    def _sampler(self, state: DcarState) -> Sampler:
        chunks, sampling = state.chunks, state.sampling
        choosing = {"random": len(chunks.sizes), "policy": 0 if is_greedy(sampling) else LONGEST}
        count = numbers(sampling, self.lm.config.vocab, chunks.sizes[-1])
        return state.sampler(count + choosing.get(chunks.chooser, 0))

    def launch(
        self, state: DcarState, key: Hashable, function: Function, sampler: Sampler, *inputs: Tensor | None
    ) -> Any:
        """The last chunk through the backbone, then ``function(hidden [1, 1, H], sampler, *inputs)``."""
        decoder, tokens = self.decoder, state.taken[-1]

        def of_last(forward: Callable[..., Tensor], sampler: Sampler, tokens: Tensor, *inputs: Tensor | None) -> Any:
            return function(forward(decoder.embed(tokens)[None], last=True), sampler, *inputs)

        return launch_passes(decoder, state.caches["backbone"], len(tokens), key, of_last, sampler, tokens, *inputs)

    def _size(self, chunks: ChunkRange, sampler: Sampler, hidden: Tensor) -> Tensor | int:
        """Size of the next chunk by a rule, for hidden [1, H]: an int, or a tensor [1] where reading it would make the
        host wait."""
        sizes, chooser = chunks.sizes, chunks.chooser
        if chooser == "fixed":
            return sizes[0]
        if chooser == "sure":
            size = confident_size(sizes, self._logits(hidden, sizes[-1]))
            return int(size) if sampler.host_may_read else size
        index = race(chunks.chances(hidden.device), sampler.source)
        return sizes[int(index)] if sampler.host_may_read else size_at(sizes, index)

    def _sample(
        self, size: Tensor | int, longest: int, sampler: Sampler, hidden: Tensor, recent: Tensor, forbid: Tensor | None
    ) -> Tensor:
        """Sample a chunk: [1 + n], the size, then its n tokens, or ``longest`` tokens where the host has not read the
        size."""
        count = size if isinstance(size, int) else longest
        forbid = forbid[:count] if forbid is not None and forbid.dim() == 2 else forbid
        tokens = sampler.sample(self._logits(hidden, count), recent, forbid)
        return torch.cat([torch.full_like(tokens[:1], size) if isinstance(size, int) else size, tokens])

    def _logits(self, hidden: Tensor, count: int) -> Tensor:
        """hidden [1, H] -> float32 logits [count, V] of the next ``count`` tokens, by the base head and the extra
        heads."""
        logits = self.decoder.logits(hidden)
        return torch.cat([logits, *self.extra(hidden, count - 1)]).float() if count > 1 else logits

    def replay(self, state: DcarState) -> Replay:
        prefix, counts = state.prefix, [len(tokens) for tokens in state.taken]
        x = token_inputs(self.decoder, prefix, torch.cat([prefix.prompt_codes[:0, 0], *state.taken[:-1]]))
        before = torch.tensor([0, *counts], device=x.device).cumsum(0)[:-1]  # frames generated before each step
        replay = plain_replay(self.decoder, prefix, x, counts)
        return replace(replay, rows=len(prefix.x) + len(prefix.prompt_codes) - 1 + before)

    @torch.no_grad()
    def head_logits(self, prefix: Prefix, codes: Tensor) -> Tensor:
        replay = plain_replay(self.decoder, prefix, token_inputs(self.decoder, prefix, codes[:-1]), [1] * len(codes))
        hidden, _ = self.decoder.full(replay.x[None], replay.positions, replay.mask)
        hidden = hidden[0, replay.rows]  # row t decides codes[t] and, by the heads, codes[t + 1 .. t + 6]
        logits = torch.cat([self.decoder.logits(hidden)[None], self.heads(hidden).float()])
        positions = len(codes) - LONGEST + 1
        return torch.stack([row[LONGEST - 1 - j : LONGEST - 1 - j + positions] for j, row in enumerate(logits)])


class PolicyAblation(Dcar):
    """A comparison model of the paper (table 2): its policy lacked a part of the training and has a folder of its
    name."""

    variant_of, neutral = Dcar.name, None

    def __init_subclass__(cls) -> None:
        cls.policy_folder, cls.reads = cls.name, (cls.name,)


class HeadsComparison(Dcar):
    """Heads in a folder of its name, which learnt otherwise. No policy was trained on them: ``chunk_range`` takes one
    size, ``sure`` or ``random``."""

    variant_of, neutral, reads = Dcar.name, None, ()

    def __init_subclass__(cls) -> None:
        cls.heads_folder, cls.needs_weights = cls.name, (cls.name,)

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {cls.heads_folder: Heads(lm)}


class WithoutChase(PolicyAblation):
    name, title = "dcar-no-chase", "Dynamic chunks, policy trained without chasing"


class WithoutPenalty(PolicyAblation):
    name, title = "dcar-no-penalty", "Dynamic chunks, policy trained without the penalty"


class ShortHeads(HeadsComparison):
    name, title = "dcar-short-heads", "Dynamic chunks, heads trained as briefly as those of equal weights"


class EqualHeads(HeadsComparison):
    name, title = "dcar-equal-heads", "Dynamic chunks, heads trained with equal weights"


def _stats(state: DcarState) -> dict[str, object]:
    """The method's own figures so far: how often each size was chosen, and the time the policy takes."""
    steps = state.chosen.total()
    stats: dict[str, object] = {
        "chunk_sizes": {str(size): state.chosen[size] for size in state.chunks.sizes},
        "mean_chunk_size": sum(size * times for size, times in state.chosen.items()) / steps,
    }
    if state.policy_seconds:  # a part of a CUDA graph takes no time of its own
        stats["policy_ms_per_step"] = 1000 * state.policy_seconds / steps
        stats["policy_share_of_time"] = state.policy_seconds / state.seconds
    return stats
