"""What each chunk size costs at each state, in nats, and the choice that follows from it (not in the paper).

The tokens of a chunk are sampled from heads that do not know one another's tokens. The base head does: it has read all
tokens before its own. The excess cost of a head is the divergence of its distribution from the base head's of the same
token. On recordings one teacher-forced pass gives the cost of every size at every state, where the outcome of a rollout
is one number for some hundred choices: this is what the policy learns first, with ``--set informed``.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...lm import LanguageModel
from ...methods.dcar.heads import Heads
from ...methods.dcar.ranges import LONGEST, ChunkRange, tilt_of
from ...runtime import autocast
from ..data.batch import TensorBatch
from ..data.sequences import SpeechBatch, prefix_batch, speech_rows
from .lm import base_inputs

TAU = 0.1  # nats by which a choice must be better to be made e times as often
OUTSIDE = 0.01  # probability of all sizes outside the range in the target
EVEN = 2.0  # nats that a mean size one above or below that of an even choice costs

# states of some rows: hidden [R, H], log-probability of each head's likeliest token [R, 7] -> actions [R] = size - 1
Chooser = Callable[[Tensor, Tensor], Tensor]


def excess_nats(base: Tensor, head: Tensor) -> Tensor:
    """Logits [..., V] of the base head and of an extra head about the same token -> divergence of the extra head's
    distribution from the base head's [...]."""
    log_probs = base.float().log_softmax(-1)
    return (log_probs.exp() * (log_probs - head.float().log_softmax(-1))).sum(-1)


def merged(lm: LanguageModel, heads: Heads) -> LanguageModel:
    """A copy of the language model with the heads' LoRA merged into its weights."""
    lm = copy.deepcopy(lm).requires_grad_(False)
    for index, layer in enumerate(lm.backbone.layers):
        for owner in (layer.self_attn, layer.mlp):
            for name, linear in owner.named_children():
                delta = heads.lora.delta(index, name)
                if delta is not None:
                    linear.weight += delta
    return lm


@dataclass(frozen=True)
class States(TensorBatch):
    """All states of recordings: hidden [R, S, H] after every number of tokens; costs [R, S, 7]: nats of a chunk of each
    size that begins there, infinite where they were not computed; confidence [R, S, 7]: log-probability of the
    likeliest token of the base head and of each extra head; frames [R]: the last state of each row."""

    hidden: Tensor
    costs: Tensor
    confidence: Tensor
    frames: Tensor


@torch.no_grad()
def recorded_states(lm: LanguageModel, heads: Heads, batch: SpeechBatch, longest: int = LONGEST) -> States:
    """Of one teacher-forced pass through ``lm``, into which the heads' LoRA is merged. Tokens behind the end cost
    nothing. Sizes above ``longest`` are not computed."""
    prefix = prefix_batch(lm, batch)
    with autocast(lm.device):
        hidden, _ = speech_rows(lm, prefix, base_inputs(lm, prefix, batch.codes[..., 0]))
        extra = heads(hidden.flatten(0, 1), longest - 1).unflatten(1, hidden.shape[:2])
        logits = [lm.head(hidden), *extra]
    size, count = hidden.shape[:2]
    after = torch.arange(count, device=hidden.device)
    costs = [torch.zeros(size, count, device=hidden.device)]
    for ahead in range(1, longest):
        known = max(0, count - ahead)
        excess = excess_nats(logits[0][:, ahead:], logits[ahead][:, :known])
        excess = excess * (after[:known] + ahead <= batch.frames[:, None])
        costs.append(costs[-1] + F.pad(excess, (0, count - known)))
    likeliest = torch.stack([(x.amax(-1) - x.float().logsumexp(-1)) for x in logits], -1)
    rest = (0, LONGEST - longest)
    costs, likeliest = (
        F.pad(x, rest, value=v) for x, v in ((torch.stack(costs, -1), torch.inf), (likeliest, -torch.inf))
    )
    return States(hidden.float(), costs, likeliest, batch.frames)


@dataclass(frozen=True)
class Walk:
    """Chunks scheduled over recordings: the states at which they begin, hidden [R, S, H] and costs [R, S, 7], actions
    [R, S] = size - 1, mask [R, S]: the recording had not ended."""

    hidden: Tensor
    costs: Tensor
    actions: Tensor
    mask: Tensor

    @property
    def mean_chunk(self) -> float:
        return float((self.actions + 1)[self.mask].float().mean())

    @property
    def excess(self) -> float:
        """Mean excess nats a token."""
        taken = self.costs.gather(2, self.actions[..., None])[..., 0][self.mask]
        return float(taken.sum() / (self.actions + 1)[self.mask].sum())


@torch.no_grad()
def walk(states: States, start: Tensor, choose: Chooser) -> Walk:
    """Schedule chunks from frame ``start`` [R] of each recording to its end."""
    rows, position = torch.arange(len(start), device=start.device), start
    kept: list[tuple[Tensor, ...]] = []
    while bool((alive := position <= states.frames).any()):
        at = rows, torch.minimum(position, states.frames)
        hidden = states.hidden[at]
        actions = choose(hidden, states.confidence[at])
        kept.append((hidden, states.costs[at], actions, alive))
        position = position + actions + 1
    return Walk(*(torch.stack(part, 1) for part in zip(*kept)))


def by_chance(weights: Tensor, generator: torch.Generator) -> Chooser:
    """Each size with a probability in proportion to ``weights`` [R, 7], whatever the state."""
    return lambda *_: torch.multinomial(weights, 1, generator=generator)[:, 0]


def sure_sizes(confidence: Tensor, allowed: Tensor, threshold: float) -> Tensor:
    """confidence [..., 7] (log-probabilities), allowed [..., 7] -> the largest allowed size whose tokens beyond the
    smallest size all come from heads that are at least so confident [...]."""
    sizes = torch.arange(1, LONGEST + 1, device=confidence.device)
    smallest = torch.where(allowed, sizes, LONGEST + 1).amin(-1, keepdim=True)
    within = ((confidence >= threshold) | (sizes <= smallest)).long().cumprod(-1)
    return (sizes * (within * allowed)).amax(-1)


def tilted(allowed: Tensor, mean: float) -> Tensor:
    """allowed [7] -> probabilities [7] of a choice by chance with that mean size."""
    sizes = tuple((1 + allowed.nonzero()[:, 0]).tolist())
    chances = ChunkRange(sizes, "random", tilt_of(sizes, mean)).chances(allowed.device)[0]
    return torch.zeros(LONGEST, device=allowed.device).masked_scatter(allowed, chances / chances.sum())


def informed_loss(log_probs: Tensor, costs: Tensor, allowed: Tensor, mask: Tensor, tau: float = TAU) -> Tensor:
    """log_probs [R, S, 7] of the policy at the states of a walk, their costs [R, S, 7], allowed [R, 7], mask [R, S] ->
    mean loss of the ranges (``range_loss``), []."""
    ranges = allowed.unique(dim=0)
    here = [(allowed == sizes).all(1)[:, None] & mask for sizes in ranges]
    return torch.stack([range_loss(log_probs[h], costs[h], a, tau) for h, a in zip(here, ranges)]).mean()


def range_loss(log_probs: Tensor, costs: Tensor, allowed: Tensor, tau: float) -> Tensor:
    """log_probs and costs [N, 7] at states of one range, allowed [7] -> divergence of the policy from the softmax of
    -(cost - price of a token) / tau, [].

    The price is what a further token costs on average, and the mean size is held at that of an even choice: what is
    chosen well costs no speed. In this direction the divergence is least at the softmax of the expected cost; the
    cross-entropy is least at the mean of what would have been best in hindsight, which rare high costs hardly move.
    """
    sizes = torch.arange(1, LONGEST + 1, device=costs.device)
    low, high = (int(size) for size in sizes[allowed].aminmax())
    price = (costs[:, high - 1] - costs[:, low - 1]).mean() / max(1, high - low)
    worth = ((price * sizes - costs) / tau).masked_fill(~allowed, -torch.inf).log_softmax(-1)
    outside = torch.full_like(worth, math.log(OUTSIDE / max(1, int((~allowed).sum()))))
    target = torch.where(allowed, worth + math.log(1 - OUTSIDE), outside)
    probs = log_probs.exp()
    inside = probs * allowed
    gap = ((inside * sizes).sum(-1) / inside.sum(-1)).mean() - sizes[allowed].float().mean()
    return (probs * (log_probs - target)).sum(-1).mean() + EVEN / tau * gap.square()
