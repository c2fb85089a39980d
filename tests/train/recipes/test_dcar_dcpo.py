"""The arithmetic of DCPO against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from tts_demo.train.recipes.dcpo import (
    KL_WEIGHT,
    advantages,
    kl_weight,
    local_advantages,
    mutual_information,
    policy_loss,
    range_distance,
    rewards,
)


def allowed(*sizes: int) -> torch.Tensor:
    return torch.tensor([[size in sizes for size in range(1, 8)]])


def test_distance_to_the_range():
    actions = torch.arange(7)[None]  # sizes 1 to 7
    assert range_distance(actions, allowed(2, 3, 4)).tolist() == [[1, 0, 0, 0, 1, 2, 3]]
    assert range_distance(actions, allowed(2, 6)).tolist() == [[1, 0, 1, 2, 1, 0, 1]]
    assert range_distance(actions, allowed(*range(1, 8))).sum() == 0


def test_reward_is_the_error_over_the_recordings_and_the_penalty():
    actions = torch.tensor([[0, 2, 6, 6]])  # sizes 1, 3, 7, and one that the mask drops
    mask = torch.tensor([[True, True, True, False]])
    found = rewards(torch.tensor([0.5]), torch.tensor([0.2]), actions, mask, allowed(2, 3, 4), torch.tensor([11]))
    assert found.item() == pytest.approx(-0.3 - 0.1 * (1 + 0 + 3) / 11)
    free = rewards(
        torch.tensor([0.5]), torch.tensor([0.2]), actions, mask, allowed(2, 3, 4), torch.tensor([11]), penalty=0.0
    )
    assert free.item() == pytest.approx(-0.3)


def test_advantages_are_normalised_within_each_group():
    found = advantages(torch.tensor([1.0, 2.0, 3.0, 10.0, 10.0, 10.0]), 3)
    step = math.sqrt(1.5)  # deviation 1 over the standard deviation sqrt(2/3)
    torch.testing.assert_close(found, torch.tensor([-step, 0, step, 0, 0, 0]), atol=1e-3, rtol=0)


def loss_of(probability: float, old: float, advantage: float, weight: float = 0.0) -> tuple[float, float]:
    """One row, one decision between two sizes, the first of which was taken."""
    log_probs = torch.tensor([[[probability, 1 - probability]]]).log()
    loss, kl = policy_loss(
        log_probs,
        torch.tensor([[0]]),
        torch.tensor([[old]]).log(),
        torch.tensor([[advantage]]),
        torch.tensor([[True]]),
        torch.tensor([[[0.5, 0.5]]]).log(),
        weight,
    )
    return loss.item(), kl.item()


@pytest.mark.parametrize(
    "probability, old, advantage, expected",
    [
        (0.5, 0.5, 2.0, -2.0),  # ratio 1
        (0.55, 0.5, 1.0, -1.1),  # inside the clip
        (0.9, 0.5, 1.0, -1.2),  # a good action may gain no more than 1 + 0.2
        (0.1, 0.5, -1.0, 0.8),  # a bad one no more than 1 - 0.2
        (0.9, 0.5, -1.0, 1.8),  # moving the wrong way is never clipped
        (0.1, 0.5, 1.0, -0.2),
    ],
)
def test_ratio_is_clipped(probability, old, advantage, expected):
    assert loss_of(probability, old, advantage)[0] == pytest.approx(expected, abs=1e-5)


def test_kl_to_the_reference():
    by_hand = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
    loss, kl = loss_of(0.8, 0.8, 0.0, weight=0.5)
    assert kl == pytest.approx(by_hand, abs=1e-6) and loss == pytest.approx(0.5 * by_hand, abs=1e-6)


def test_kl_warms_up_from_nothing():
    weights = [kl_weight(share) for share in (0, 0.25, 0.5, 0.99)]
    assert weights == [0, KL_WEIGHT / 2, KL_WEIGHT, KL_WEIGHT]


def test_masked_positions_get_no_gradient_and_rows_count_alike():
    """Inside a chunk, and after the end, no decision was taken."""
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 7, requires_grad=True)
    actions, mask = torch.randint(7, (2, 5)), torch.tensor([[1, 0, 0, 1, 0], [1, 1, 1, 1, 1]]).bool()
    log_probs = logits.log_softmax(-1)
    old = log_probs.detach().gather(2, actions[..., None])[..., 0]
    loss, _ = policy_loss(
        log_probs, actions, old, torch.tensor([[1.0], [3.0]]), mask, torch.zeros(2, 1, 7).log_softmax(-1), 0.1
    )
    loss.backward()
    assert (logits.grad[~mask] == 0).all() and (logits.grad[mask] != 0).any(-1).all()
    without_kl, _ = policy_loss(log_probs, actions, old, torch.tensor([[1.0], [3.0]]), mask, torch.zeros(2, 1, 7), 0.0)
    assert without_kl.item() == pytest.approx(-(1 + 3) / 2)  # ratio 1 everywhere: two decisions weigh what five do


def test_information_is_nothing_for_a_die_and_the_whole_choice_for_a_rule():
    mask = torch.tensor([[True, True, True, False]])
    die = torch.tensor([0.0, 0.5, 0.3, 0.2, 0, 0, 0]).log().expand(1, 4, 7)
    rule = torch.full((1, 4, 7), float("-inf"))
    rule[0, torch.arange(4), torch.tensor([1, 2, 3, 6])] = 0.0  # the last is masked
    assert mutual_information(die, mask) == pytest.approx(0, abs=1e-6)
    assert mutual_information(rule, mask) == pytest.approx(math.log(3), abs=1e-5)


def test_credit_in_time_compares_a_chunk_with_those_of_its_size_in_its_group():
    """Two groups of one rollout: costs above the mean of a size are blamed, below it praised; masked ones are not."""
    costs = torch.tensor([[1.0, 3.0, 10.0, 20.0, 99.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    actions = torch.tensor([[1, 1, 3, 3, 1], [1, 1, 1, 1, 1]])
    mask = torch.tensor([[True] * 4 + [False], [True] * 5])
    found = local_advantages(costs, actions, mask, 1)
    spread = math.sqrt((1 + 1 + 25 + 25) / 4)
    expected = torch.tensor([[1.0, -1, 5, -5, 0], [0.0] * 5]) / torch.tensor([[spread], [1.0]])
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    together = local_advantages(costs, actions, mask, 2)  # one group: sizes are compared across its rollouts
    assert together[0, 0] > found[0, 0] and together[1].max() < 0 and together[0, 4] == 0


def test_credit_in_time_prefers_no_size():
    torch.manual_seed(0)
    actions, mask = torch.randint(7, (8, 30)), torch.rand(8, 30) < 0.8
    found = local_advantages(torch.rand(8, 30) * (1 + actions), actions, mask, 4)
    for group in range(2):
        rows = slice(4 * group, 4 * group + 4)
        for size in range(7):
            chosen = mask[rows] & (actions[rows] == size)
            assert found[rows][chosen].sum().abs() < 1e-3
