"""Speech speculative decoding (SSD): a shallow draft model proposes tokens, one pass of the base model verifies them.

Section 2.2, algorithm 1: accept x_i if r < min(1, q_i(x_i) / p_i(x_i)) + tolerance; on the first rejection sample from
normalise(max(0, q_i - p_i)) and stop; if every token was accepted, one more is sampled from q_{L+1}. One rule is added:
a token with q_i(x_i) = 0 (beyond the base model's top-k or top-p) is rejected whatever the tolerance. It is rare, so
the speed stays, and it removes most of the errors that a tolerance causes.

p and q are the distributions that tokens are actually sampled from: after temperature, top-k and top-p, with the
redraws of repetition-aware sampling included (``lm.sampling.distribution``; the recent tokens of draft position i
include the tokens drafted before it). So at tolerance 0 the tokens have exactly the distribution of the baseline."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from ...config import Sampling
from ...lm import Base, BufferPool, Decoder, KVCache, LanguageModel, Projection
from ...lm.launch import Forward, launch_passes
from ...lm.sampling import Distribution, Ending, Sampler, numbers
from ...runtime import generator_for
from ..base import Method, Options, Picture, Replay, Start, State, Step, dial, first_pass, plain_replay, token_inputs
from ..baseline import next_token
from .draft import Draft, cache_over, catch_up, draft_decoder, feature_projection, preceding
from .length import FURTHEST, LONGEST, MEASURED_FRAMES, DraftLength, Length, round_costs
from .verify import verify


def draft_length_dial(default: str, drafted: str, longest: int) -> Any:
    rule = "as many as pay off, up to 4, or none, by the acceptance rate and by what drafting costs on this machine."
    help = f"{drafted} for each pass of the base model. auto: {rule}"
    choices = ("auto", *map(str, range(1, longest + 1)))
    return dial(default, "Draft length", help, choices=choices, unit="tokens")


@dataclass(frozen=True)
class SSDOptions(Options):
    tolerance: float = dial(
        0.1,
        "Tolerance",
        "Added to the probability of accepting a drafted token: the higher, the faster and the less like the base "
        "model. 0 keeps its distribution exactly. A token that the base model would never sample is never accepted.",
        min=0.0,
        max=1.0,
        step=0.05,
    )
    draft_length: str = draft_length_dial("3", "Tokens drafted", LONGEST)

    def __post_init__(self) -> None:
        if type(self.draft_length) is int:  # a number is as good as the word
            object.__setattr__(self, "draft_length", str(self.draft_length))
        super().__post_init__()


@dataclass(kw_only=True)
class SSDState(State):
    hidden: Tensor = field(init=False)  # [1, 1, H] of the base, decides the first token
    draft_hidden: Tensor | None = None  # [1, 1, H] of a draft with a cache of its own, decides its first token
    shared_cache: KVCache | None = None  # of a draft without, over the base's memory
    length: Length
    tolerance: Tensor  # []
    last: Tensor  # [0 or 1] token that the base has not read
    unread: list[Tensor] = field(default_factory=list)  # each [N] tokens that the draft has not read
    features: list[Tensor] = field(default_factory=list)  # each [N, H] of the base, from which those were sampled
    tokens: list[int] = field(default_factory=list)
    proposed: int = 0
    accepted: int = 0
    passes: int = 0

    @property
    def options(self) -> SSDOptions:
        return self.start.options


class SSD(Method):
    name = "ssd"
    title = "Draft and verify"
    paper = "Speech Speculative Decoding (SSD)"
    arxiv = "2505.15380"
    idea = (
        "A draft model of a few blocks, which reads the base model's hidden states, proposes a few tokens; one pass of "
        "the base model verifies them all, as strictly as the tolerance says."
    )
    cached = "every text, prompt and speech token"
    emits = "the accepted tokens and 1 token of the model's own"
    picture = Picture("pppp ssssssssss", "aaar")
    presets = ({"tolerance": 0.4}, {"tolerance": 0.1}, {"tolerance": 0.0})
    runs_untrained = True
    Options = SSDOptions
    neutral = {"tolerance": 0.0}
    needs_weights = ("ssd-draft",)

    def __init__(self, base: Base, modules: dict[str, nn.Module] | None = None, weights_hash: str = "") -> None:
        super().__init__(base, modules, weights_hash)
        self._costs: tuple[float, ...] | None = None

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {"ssd-draft": Draft(lm)}

    @classmethod
    def paced_by_weights(cls, options: SSDOptions) -> bool:
        return True

    def parts(self) -> dict[str, BufferPool | None]:
        return {"draft and its samples": self.draft.pool, "backbone and verdict": self.decoder.pool}

    @cached_property
    def draft(self) -> Decoder:
        return draft_decoder(self.base.decoder, self.modules["ssd-draft"])

    @cached_property
    def project(self) -> Projection:
        return feature_projection(self.modules["ssd-draft"], self.draft)

    def begin(self, start: Start) -> SSDState:
        return self.begin_with(start, self.length_of(start))

    def length_of(self, start: Start) -> Length:
        """The first run with ``auto`` measures what rounds cost, once: a seed gives the same tokens again."""
        word = start.options.draft_length
        if word != "auto":
            return Length(int(word))
        if self._costs is None:
            self._costs = self._measured_costs(start)
        return DraftLength(self._costs, start.options.tolerance)

    def _measured_costs(self, start: Start) -> tuple[float, ...]:
        """Of rounds with 0 to ``FURTHEST`` drafted tokens, behind this prefix, relative to the first."""
        ending = Ending.of(self.lm.config, start.prefix, MEASURED_FRAMES, True)

        def rounds(length: int) -> Callable[[], Step]:
            generator = generator_for(self.lm.device, length)
            state = self.begin_with(replace(start, generator=generator, ending=ending), Length(length))
            self.step(state)  # without a pass of the base model, or without a draft
            return lambda: self.step(state)

        return round_costs([rounds(length) for length in range(FURTHEST + 1)], self.lm.device)

    def begin_with(self, start: Start, length: Length) -> SSDState:
        x = token_inputs(self.decoder, start.prefix)
        state = SSDState(
            start=start,
            caches={"backbone": self.decoder.new_cache(len(x) + start.ending.longest + 1)},
            length=length,
            tolerance=torch.tensor(start.options.tolerance, device=x.device),
            last=torch.empty(0, dtype=torch.long, device=x.device),
        )
        self.read_prefix(state, x)
        return state

    def read_prefix(self, state: SSDState, x: Tensor) -> None:
        """The first pass, over x [T, H], and the draft's own where it has a cache of its own."""
        draft, prefix, caches = self.draft, state.prefix, state.caches
        layers = self.modules["ssd-draft"].config.base_layers
        if layers is not None:  # before the pass: leasing a cache clears its memory
            state.shared_cache = cache_over(draft, caches["backbone"], layers)
        hidden = first_pass(self.decoder, prefix, x, caches["backbone"], last=layers is not None)
        state.hidden = hidden[:, -1:]
        if layers is not None:
            return
        caches["draft"] = draft.new_cache(len(x) + state.start.ending.longest + 1)
        fed = self.project(preceding(hidden[0], len(prefix.x)), x)
        state.draft_hidden = first_pass(draft, prefix, fed, caches["draft"])

    def step(self, state: SSDState) -> Step:
        length = self.length(state)
        rows, tokens, new = self._speculate(state, length) if length else self._sample_one(state)
        accepted = len(new) - 1
        marks = ["accepted"] * accepted + ["bonus" if accepted == length else "resampled"]
        last = tokens[accepted : accepted + 1]
        count = state.accept(new)
        if state.ended:  # tokens drafted after end of speech do not count
            new, marks, accepted = new[:count], marks[:count], count
        if length > accepted:
            state.caches["backbone"].rollback(length - accepted)
        self.note_unread(state, tokens[:accepted], last, length, rows)
        state.last = last
        state.length.observe(accepted, min(accepted + 1, length))
        state.tokens += new
        state.proposed += length
        state.accepted += accepted
        state.passes += 1
        if marks:
            marks[0] += "|"
        return Step(
            frames=tokens[: len(new), None],
            done=state.done,
            marks=tuple(marks),
            proposed=length,
            accepted=accepted,
            stats=self._stats(state, length),
        )

    def length(self, state: SSDState) -> int:
        """How many tokens to draft now: none before the first token for a draft that reads the base's cache."""
        if state.shared_cache is not None and not len(state.last):
            return 0
        left = state.start.ending.longest - state.emitted - 1  # the pass itself emits one token
        return min(left, state.length.best())

    def _speculate(self, state: SSDState, length: int) -> tuple[Tensor, Tensor, list[int]]:
        """Draft and verify: the base's hidden states that verify the drafted tokens [L + 1, H]; the accepted tokens and
        the one after them, on the device [n, or more] and on the host."""
        drafted, p, recent = self.draft_tokens(state, length)
        decoder, cache, first = self.decoder, state.caches["backbone"], not len(state.last)
        sampler, forbid = Sampler.of(state.sampling, None, 0, state.start.temperature), state.forbidden(length + 1)
        given = state.last, drafted, state.hidden if first else None, recent, forbid

        def whole(
            forward: Forward,
            sampler: Sampler,
            r: Tensor,
            tolerance: Tensor,
            weights: Tensor,
            ids: Tensor,
            *given: Tensor | None,
        ) -> tuple[Tensor, Tensor]:
            rows = self._base_states(forward, *given[:3])
            q = self._base_distributions(rows, sampler, *given[3:])
            p = Distribution(weights, ids)
            return rows, verify(r, given[1], p, q, tolerance, self.lm.config.vocab)

        r = torch.rand(length + 1, generator=state.generator, device=drafted.device)
        given = sampler, r, state.tolerance, p.weights, p.ids, *given
        rows, found = launch_passes(decoder, cache, length + 1 - first, "verdict", whole, *given)
        accepted, *tokens = found.tolist()
        return rows, found[1:], tokens[: accepted + 1]

    def _sample_one(self, state: SSDState) -> tuple[Tensor, Tensor, list[int]]:
        """The same for a draft of no tokens, at the baseline's cost: one token, sampled from the base model."""
        sampler = state.sampler(numbers(state.sampling, self.lm.config.vocab))
        history, forbid, cache = self._recent(state)[None], state.forbidden(), state.caches["backbone"]
        if not len(state.last):  # the first token is decided by the first pass
            rows = state.hidden[0]
            token = sampler.sample(self.decoder.logits(rows), history, forbid)
        else:
            function, given = partial(next_token, self.decoder), (sampler, state.last, history, forbid)
            token, hidden = launch_passes(self.decoder, cache, 1, "token", function, *given)
            rows = hidden[0]
        return rows, token, token.tolist()

    def draft_tokens(self, state: SSDState, length: int) -> tuple[Tensor, Distribution, Tensor | None]:
        """Draft ``length`` tokens: tokens [L], the distributions they were sampled from [L, M], and the recent tokens
        before and with them [W + L], None where no token can reach the redraw threshold."""
        recent = self._recent(state) if self._may_repeat(state, length) else None
        feed = joined(state.unread)
        count = (0 if feed is None else len(feed)) + length - 1
        sampler = state.sampler(numbers_of_draft(state.sampling, self.lm.config.vocab, length, recent is not None))
        given = feed, joined(state.features), None if feed is not None else state.draft_hidden, recent
        state.unread, state.features = [], []
        function, forbid = partial(self._draft, length), state.forbidden(length)
        cache = state.shared_cache or state.caches["draft"]
        given = sampler, *given, forbid
        drafted, weights, ids = launch_passes(self.draft, cache, count, ("draft", length), function, *given)
        return drafted, Distribution(weights, ids), recent if recent is None else torch.cat([recent, drafted])

    def _draft(
        self,
        length: int,
        forward: Forward,
        sampler: Sampler,
        feed: Tensor | None,
        features: Tensor | None,
        hidden: Tensor | None,
        recent: Tensor | None,
        forbid: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One launch: the draft reads the tokens it has not read, ``feed`` [N], with the base model's hidden states
        before them, ``features`` [N, H] (None: it goes on from ``hidden`` [1, 1, H]), then drafts L = ``length``
        tokens. Returns tokens [L], and weights and ids [L, M] of their distributions."""
        draft, drafted, distributions = self.draft, [], []
        for i in range(length):
            if feed is not None:
                hidden = forward(self.project(features, draft.embed(feed))[None], last=True)
            features = hidden[0]
            history = None if recent is None else torch.cat([recent, *drafted])[None, i:]
            row = forbid[i] if forbid is not None and forbid.dim() == 2 else forbid
            distributions.append(sampler.distribution(draft.logits(features), row, history))
            feed = distributions[-1].sample(sampler.source)
            drafted.append(feed)
        p = Distribution.concat(distributions, self.lm.config.vocab)
        return torch.cat(drafted), p.weights, p.ids

    def _may_repeat(self, state: SSDState, length: int) -> bool:
        """Whether any token could reach the redraw threshold within this pass: most passes save the counting."""
        window = state.sampling.repeat_window
        if not window:
            return False
        recent = state.tokens[-window:]
        return max(map(recent.count, recent), default=0) + length >= state.sampling.repeat_threshold

    def _recent(self, state: SSDState) -> Tensor:
        """The last W tokens [W] for repetition-aware sampling; -1 where there are fewer."""
        window = state.sampling.repeat_window
        recent = state.tokens[-window:] if window else []
        recent = torch.tensor([-1] * (window - len(recent)) + recent, dtype=torch.long)
        return recent.to(state.last.device, non_blocking=True)

    def _base_states(self, forward: Forward, last: Tensor, drafted: Tensor, hidden: Tensor | None) -> Tensor:
        """The base model's hidden states [L + 1, H] that decide every drafted token and the one after them, from one
        pass. hidden: [1, 1, H] of the first pass, which decides the first token of a run; ``last`` is empty then."""
        after = forward(self.decoder.embed(torch.cat([last, drafted]))[None])
        return (after if hidden is None else torch.cat([hidden, after], 1))[0]

    def _base_distributions(
        self, rows: Tensor, sampler: Sampler, recent: Tensor | None, forbid: Tensor | None
    ) -> Distribution:
        """The base model's distributions [L + 1, M] of every drafted token and of the one after them."""
        history = None if recent is None else recent.unfold(0, sampler.sampling.repeat_window, 1)
        return sampler.distribution(self.decoder.logits(rows), forbid, history)

    def note_unread(self, state: SSDState, accepted: Tensor, token: Tensor, length: int, rows: Tensor) -> None:
        """Roll the draft's cache back to the tokens it read with the base model's hidden states, and note what it has
        not read: of ``length`` drafted tokens ``accepted`` [n], and the token [1] after them, with rows [L + 1, H]."""
        count = len(accepted)
        if state.shared_cache is not None:
            catch_up(state.shared_cache, state.caches["backbone"])
            state.unread, state.features = [token], [rows[count : count + 1]]
        else:
            if length > 1:
                state.caches["draft"].rollback(length - 1)
            state.unread += [accepted, token]
            state.features.append(rows[: count + 1])

    def _stats(self, state: SSDState, length: int) -> dict[str, Any]:
        return {
            "drafted": state.proposed,
            "accepted": state.accepted,
            "draft_length": length,
            "acceptance": state.accepted / state.proposed if state.proposed else 0.0,
            "tokens_per_pass": len(state.tokens) / state.passes,
        }

    def replay(self, state: SSDState) -> Replay:
        """One row a token, not a pass: every token was decided by a row of its own."""
        fed = state.last.new_tensor(state.tokens if state.ended else state.tokens[:-1])
        x = token_inputs(self.decoder, state.prefix, fed)
        return plain_replay(self.decoder, state.prefix, x, [1] * len(state.tokens) + [0] * state.ended)


def joined(parts: list[Tensor]) -> Tensor | None:
    """Tensors of one kind as one, None for none."""
    parts = [part for part in parts if len(part)]
    return torch.cat(parts) if len(parts) > 1 else parts[0] if parts else None


def numbers_of_draft(sampling: Sampling, vocab: int, length: int, redraws: bool) -> int:
    """How many random numbers the samples of ``length`` distributions take (see ``distribution``)."""
    few = min(sampling.top_k or vocab, vocab)
    return length * (1 if sampling.temperature == 0 else vocab if redraws else few)
