"""Many DCAR runs at once, for the policy's training: rows in lockstep, each with its own chunk sizes.

A step feeds every row as many slots as the longest chunk; those behind a row's own chunk are masked, and closed now and
then. The policy decides once a step in every row, so its cache needs no mask at all.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ...config import Sampling
from ...lm import Decoder, sample
from ...lm.lockstep import room_for
from ...lm.sampling import race
from ...methods.dcar.heads import Heads
from ...methods.dcar.policy import PolicyRunner
from ...methods.dcar.ranges import CONFIDENT, LONGEST
from ..data.sequences import PrefixBatch, begin_lockstep
from .dcar_costs import excess_nats, sure_sizes

Rule = Literal["policy", "random", "sure"]


@dataclass(frozen=True)
class Rollouts:
    """R runs. codes: [n] first-codebook tokens each; hidden [R, S, H]: the states at which a chunk was scheduled, and
    no others; actions [R, S] = size - 1; log_probs [R, S] of those actions then; mask [R, S]: the row was still
    speaking; costs [R, S]: excess nats of the extra heads whose tokens were taken (``excess_nats``)."""

    codes: list[Tensor]
    hidden: Tensor
    actions: Tensor
    log_probs: Tensor
    mask: Tensor
    costs: Tensor

    @property
    def frames(self) -> Tensor:
        return torch.tensor([len(c) for c in self.codes])

    def excess(self, rows: Tensor) -> float:
        """Mean excess nats a token of ``rows`` [R] bool."""
        return float((self.costs * self.mask)[rows].sum() / self.frames[rows].sum())

    @property
    def mean_chunk(self) -> float:
        return float((self.actions + 1)[self.mask].float().mean())


@dataclass(frozen=True)
class Schedule:
    """How the chunk sizes of R rows are chosen: allowed [R, 7] bool, fixed [R] (0 = by the policy), whether sizes
    outside the range may be drawn (in training, where they are penalised, not in use), and who chooses where no size
    is fixed: the policy, chance, or how sure the heads are."""

    allowed: Tensor
    fixed: Tensor
    strict: bool = False
    rule: Rule = "policy"

    def choose(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """logits [R, 7] of the policy -> actions [R] = size - 1."""
        if self.strict:
            logits = logits.masked_fill(~self.allowed, float("-inf"))
        return torch.where(self.fixed > 0, self.fixed - 1, race(logits.softmax(-1), generator))

    @property
    def longest(self) -> int:
        """The largest chunk any row can take."""
        if not self.strict and bool((self.fixed == 0).any()):
            return LONGEST
        sizes = torch.arange(1, LONGEST + 1)
        return int(torch.where(self.fixed > 0, self.fixed, (self.allowed * sizes).amax(1)).max())


@torch.no_grad()
@torch.autocast("cpu", enabled=False)  # full precision: the ratio of the loss compares small differences
def roll_out(
    decoder: Decoder,
    heads: Heads,
    policy: PolicyRunner | None,
    prefix: PrefixBatch,
    schedule: Schedule,
    limits: Tensor,
    sampling: Sampling,
    generator: torch.Generator,
    before: Tensor | None = None,
) -> Rollouts:
    """Generate every row of ``prefix``, on the CPU, until it ends or has ``limits`` [R] frames beside the prompt.

    before [R, P]: codes of the prompt's speech, which stands in front; policy None: even chances in the range, or
    the sure rule, if ``schedule`` says so.
    """
    rows, codes, steps = len(prefix.x), decoder.config.speech_codes, int(limits.max())
    prompt = prefix.x[:, :0] if before is None else decoder.embed(before)
    lockstep, hidden = begin_lockstep(decoder, prefix, room_for(steps, schedule.longest), prompt)
    hidden = hidden[:, -1].float()  # [R, H], at TASK or the prompt's last frame
    if policy is not None:
        terms, history = policy.range_terms(schedule.allowed), policy.new_cache(steps + 1, rows)
    recent = torch.full((rows, sampling.repeat_window), -1)
    emitted, alive = torch.zeros(rows, dtype=torch.long), torch.ones(rows, dtype=torch.bool)
    kept: list[tuple[Tensor, ...]] = []
    while True:
        logits = torch.zeros(schedule.allowed.shape)
        if policy is not None:
            logits = policy.step(hidden, terms, history)
        elif schedule.rule == "sure":
            logits = _sure(_scores(decoder, heads, hidden, schedule.longest), schedule.allowed)
        actions = schedule.choose(logits, generator)
        log_prob = logits.log_softmax(-1).gather(1, actions[:, None])[:, 0]
        size = torch.minimum(actions + 1, limits - emitted) * alive
        offsets = torch.arange(int(size.max()))
        scores = _scores(decoder, heads, hidden, len(offsets))
        repeated = recent.repeat(len(offsets), 1)  # rows within heads, as scores are
        tokens = sample(scores.flatten(0, 1), sampling, generator, repeated).view(-1, rows).t()  # [R, T]
        ended = (tokens >= codes).int().cumsum(1) > 0
        mine = offsets < size[:, None]
        taken = mine & ~ended
        count = taken.sum(1)
        out = lockstep.feed(decoder.embed(tokens.clamp(max=codes - 1)), taken).float()
        # what the base head says after the tokens before each, and whether an extra head's was taken in its place
        excess = excess_nats(decoder.logits(out)[:, :-1], scores[1:].transpose(0, 1))
        cost = (excess * (taken[:, :-1] & mine[:, 1:])).sum(1)
        kept.append((_widen(tokens), _widen(taken), hidden, actions, log_prob, alive, cost))
        emitted = emitted + count
        alive = alive & ~(ended & mine).any(1) & (emitted < limits)
        if not bool(alive.any()):
            return _collect(kept)
        recent = _remember(recent, tokens, taken)
        hidden = torch.where(alive[:, None], out[torch.arange(rows), (count - 1).clamp(min=0)], hidden)


def _sure(scores: Tensor, allowed: Tensor) -> Tensor:
    """scores [T, R, V] of the heads -> logits [R, 7] of a choice that is certain."""
    confidence = (scores.amax(-1) - scores.logsumexp(-1)).t()
    confidence = F.pad(confidence, (0, LONGEST - len(scores)), value=float("-inf"))
    chosen = F.one_hot(sure_sizes(confidence, allowed, math.log(CONFIDENT)) - 1, LONGEST)
    return chosen.float().log()


def _widen(x: Tensor) -> Tensor:
    """[R, T] -> [R, 7], so that steps of unequal width stack."""
    return F.pad(x, (0, LONGEST - x.shape[1]))


def _scores(decoder: Decoder, heads: Heads, hidden: Tensor, count: int) -> Tensor:
    """hidden [R, H] -> logits of the next ``count`` tokens of every row [count, R, V]."""
    logits = decoder.logits(hidden)[None]
    return torch.cat([logits, heads(hidden, count - 1).float()]) if count > 1 else logits


def _remember(recent: Tensor, tokens: Tensor, taken: Tensor) -> Tensor:
    """The last W tokens of every row, order aside: rows that took fewer keep more of their old ones."""
    window = recent.shape[1]
    everything = torch.cat([recent, tokens], 1)
    counted = torch.cat([torch.ones_like(recent, dtype=torch.bool), taken], 1)
    order = counted.int().argsort(dim=1, stable=True)  # what was not taken moves to the front
    return everything.gather(1, order)[:, everything.shape[1] - window :]


def _collect(kept: list[tuple[Tensor, ...]]) -> Rollouts:
    tokens, taken, hidden, actions, log_probs, mask, costs = (torch.stack(part, 1) for part in zip(*kept))
    codes = [t[m] for t, m in zip(tokens.flatten(1), taken.flatten(1))]
    return Rollouts(codes, hidden, actions, log_probs, mask, costs)
