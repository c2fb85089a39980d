"""The arithmetic of dynamic chunk-wise policy optimisation (DCAR, section 4.2): rewards, advantages and the loss.

A variant of group relative policy optimisation. The published formulas are incomplete; the reading taken here is
R = -(error of the speech - error of the recording) - 0.1 * sum(distance of each size to the range) / frames, advantages
are rewards normalised within a group, the ratio is clipped at 0.2, and the weight of the KL term rises from 0.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

PENALTY = 0.1  # scale of the out-of-range penalty
CLIP = 0.2
KL_WEIGHT = 0.04  # at the end of training


def range_distance(actions: Tensor, allowed: Tensor) -> Tensor:
    """actions [R, S] = size - 1, allowed [R, 7] bool -> [R, S]: how far each size lies from the nearest allowed one."""
    sizes = torch.arange(allowed.shape[1], device=allowed.device)
    gaps = (sizes[:, None] - sizes).abs().masked_fill(~allowed[:, None, :], allowed.shape[1])  # [R, 7 taken, 7 allowed]
    return gaps.amin(-1).gather(1, actions)


def rewards(
    errors: Tensor,
    recorded: Tensor,
    actions: Tensor,
    mask: Tensor,
    allowed: Tensor,
    frames: Tensor,
    penalty: float = PENALTY,
) -> Tensor:
    """Equation 5, [R]: errors of the rollouts and of their recordings [R], actions and mask (True = a chunk was
    scheduled) [R, S], allowed [R, 7], frames [R] = tokens generated; ``penalty`` 0 = without the trace penalty."""
    outside = (range_distance(actions, allowed) * mask).sum(1)
    return -(errors - recorded) - penalty * outside / frames.clamp(min=1)


def advantages(rewards: Tensor, group: int) -> Tensor:
    """Rewards [U * group], one group after another -> rewards normalised within each group. Groups of equal rewards
    teach nothing: 0."""
    grouped = rewards.view(-1, group)
    spread = grouped.std(1, keepdim=True, correction=0)
    return ((grouped - grouped.mean(1, keepdim=True)) / (spread + 1e-4)).view(-1)


def local_advantages(costs: Tensor, actions: Tensor, mask: Tensor, group: int) -> Tensor:
    """Credit in time, [U * group, S] (not in the paper, where a rollout has one advantage for all its choices): how
    much less a chunk cost than the mean chunk of its size in its group, over the spread of such differences there.

    costs [U * group, S]: excess nats of each chunk; groups are one utterance each, in one range. A size is compared
    with itself alone, so no size is preferred to another, but each where it costs less than it does elsewhere.
    """
    shape = (-1, group * costs.shape[1])
    costs_, actions_, mask_ = (x.reshape(shape) for x in (costs, actions, mask))
    taken = F.one_hot(actions_) * mask_[..., None]  # [U, choices, sizes]
    mean = (taken * costs_[..., None]).sum(1) / taken.sum(1).clamp(min=1)
    less = (mean.gather(1, actions_) - costs_) * mask_
    spread = (less.square().sum(1, keepdim=True) / mask_.sum(1, keepdim=True).clamp(min=1)).sqrt()
    return (less / (spread + 1e-4)).view_as(costs)


@torch.no_grad()
def mutual_information(log_probs: Tensor, mask: Tensor) -> float:
    """Nats by which the state tells what the policy chooses: log_probs [R, S, 7] at the states of ``mask`` [R, S], -inf
    where a size is not allowed -> entropy of the mean choice minus the mean entropy of the choices. 0 = the policy is a
    die."""
    probs = log_probs[mask].exp()  # [N, 7]
    entropy = lambda p: -torch.xlogy(p, p).sum(-1)
    return float(entropy(probs.mean(0)) - entropy(probs).mean())


def kl_weight(progress: float) -> float:
    """Warm-up of the KL term by the share of the run that is over: 0 at the start, ``KL_WEIGHT`` from half on. Behind
    an informed start of half the run it is whole at once: with a weight that began at 0 again the policy left the
    informed one within six batches and won nothing."""
    return KL_WEIGHT * min(1.0, 2 * progress)


def policy_loss(
    log_probs: Tensor, actions: Tensor, old: Tensor, advantage: Tensor, mask: Tensor, reference: Tensor, weight: float
) -> tuple[Tensor, Tensor]:
    """Equation 4: log_probs [R, S, 7] of the policy in training, actions [R, S], old [R, S] = log-probability of each
    action when the rollouts were made, advantage [R, S] or [R, 1], mask [R, S], reference [R, S, 7] or [R, 1, 7]
    log-probabilities, weight of the KL.

    Returns the loss and the mean KL, both []. Each rollout counts alike, whatever its length, as in GRPO. Only
    positions that scheduled a chunk are in ``mask``: those inside a chunk took no decision.
    """
    taken = log_probs.gather(2, actions[..., None])[..., 0]
    ratio = (taken - old).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
    kl = (log_probs.exp() * (log_probs - reference)).sum(-1)
    per_row = ((weight * kl - gain) * mask).sum(1) / mask.sum(1).clamp(min=1)
    mean_kl = (kl * mask).sum() / mask.sum().clamp(min=1)
    return per_row.mean(), mean_kl.detach()
