"""What chunk sizes cost, on recordings and in rollouts, and the choice that follows: against single passes, the method
alone and values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from learning import learn
from test_dcar_recipes import GREEDY, counting_batch, mixed, noisy, steps_alone, task, toy_speak

from tts_demo.lm.masks import prefix_mask
from tts_demo.methods.dcar import Dcar
from tts_demo.methods.dcar.policy import Policy
from tts_demo.methods.dcar.ranges import LONGEST, confident_size
from tts_demo.train.data.sequences import SpeechBatch, prefix_batch
from tts_demo.train.progress import Progress
from tts_demo.train.recipes import dcar_policy
from tts_demo.train.recipes.dcar_costs import (
    OUTSIDE,
    States,
    by_chance,
    excess_nats,
    informed_loss,
    merged,
    recorded_states,
    sure_sizes,
    tilted,
    walk,
)
from tts_demo.train.recipes.dcar_policy import Experience, PolicySettings, Recorded
from tts_demo.train.recipes.dcar_rollouts import Schedule, roll_out
from tts_demo.train.recipes.dcpo import KL_WEIGHT, kl_weight, mutual_information

__all__ = ["noisy", "task"]  # fixtures


ONES = torch.ones(1, 300, dtype=torch.bool)


def allowed(*sizes: int) -> torch.Tensor:
    return torch.tensor([size in sizes for size in range(1, 8)])


@pytest.fixture(autouse=True)
def full_precision(monkeypatch):
    off = torch.autocast("cpu", enabled=False)
    monkeypatch.setattr("tts_demo.train.recipes.dcar_costs.autocast", lambda device: off)


def alone(noisy: Dcar, batch: SpeechBatch, row: int, codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One row by the decoder that dcar decodes with: hidden [F + 1, H], logits [7, F + 1, V] of the heads there."""
    text = batch.text[row, : batch.text_lengths[row]]
    prefix = noisy.lm.prefix(text, (), batch.speaker[row], batch.codes[row, :0]).x
    x = torch.cat([prefix, noisy.lm.embed_speech(codes)])
    hidden, _ = noisy.decoder.full(x[None], torch.arange(len(x)), prefix_mask(len(prefix), len(x), True))
    hidden = hidden[0, len(prefix) - 1 :]
    return hidden, torch.cat([noisy.decoder.logits(hidden)[None], noisy.heads(hidden)])


def test_costs_on_recordings_are_those_of_each_row_alone(noisy):
    batch = counting_batch(noisy.lm, 3, seed=3)
    states = recorded_states(merged(noisy.lm, noisy.heads), noisy.heads, batch)
    for row, frames in enumerate(batch.frames.tolist()):
        hidden, logits = alone(noisy, batch, row, batch.codes[row, :frames, 0])
        torch.testing.assert_close(states.hidden[row, : frames + 1], hidden, atol=2e-3, rtol=2e-3)
        for at in (0, 3, frames - 2, frames):
            cost = 0.0
            for ahead in range(LONGEST):
                if ahead and at + ahead <= frames:  # the end of speech, too, is a token
                    cost += float(excess_nats(logits[0, at + ahead], logits[ahead, at]))
                assert float(states.costs[row, at, ahead]) == pytest.approx(cost, rel=0.02, abs=1e-3)
                likeliest = float(logits[ahead, at].log_softmax(-1).max())
                assert float(states.confidence[row, at, ahead]) == pytest.approx(likeliest, rel=0.02, abs=1e-3)
    short = recorded_states(merged(noisy.lm, noisy.heads), noisy.heads, batch, 3)
    assert torch.equal(short.costs[..., :3], states.costs[..., :3]) and short.costs[..., 3:].isinf().all()


def test_costs_of_rollouts_are_those_of_teacher_forcing_on_their_tokens(noisy):
    batch, _, _, rollouts = mixed(noisy)
    for row, codes in enumerate(rollouts.codes):
        _, logits = alone(noisy, batch, row, codes)
        sizes = (rollouts.actions[row] + 1)[rollouts.mask[row]].tolist()
        start = 0
        for step, size in enumerate(sizes):
            used = range(1, min(size, len(codes) - start + 1))
            if step == len(sizes) - 1:  # a head after the last token may have said that speech ends, or was cut off
                used = range(1, min(size, len(codes) - start))
                whole = float(rollouts.costs[row, step])
                least = sum(float(excess_nats(logits[0, start + j], logits[j, start])) for j in used)
                assert whole >= least - 1e-3
                break
            cost = sum(float(excess_nats(logits[0, start + j], logits[j, start])) for j in used)
            assert float(rollouts.costs[row, step]) == pytest.approx(cost, rel=0.02, abs=1e-3)
            start += size
    assert rollouts.excess(torch.ones(6, dtype=torch.bool)) > 0


def test_a_head_that_says_what_the_base_says_costs_nothing():
    base = torch.randn(4, 9)
    assert excess_nats(base, base + 3).abs().max() < 1e-5
    by_hand = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    found = excess_nats(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.9, 0.1]).log())
    assert found.item() == pytest.approx(by_hand, abs=1e-6)


def test_a_walk_begins_each_chunk_where_the_last_one_ended():
    count = torch.arange(9.0)
    states = States(count[None, :, None], count[None, :, None].expand(1, 9, 7), torch.zeros(1, 9, 7), torch.tensor([8]))
    sizes = iter([2, 3, 1, 2, 4])
    found = walk(states, torch.tensor([1]), lambda *_: torch.tensor([next(sizes) - 1]))
    assert found.hidden.flatten().tolist() == [1, 3, 6, 7] and found.mask.all()
    assert found.mean_chunk == 2 and found.excess == pytest.approx((1 + 3 + 6 + 7) / 8)


def test_sure_sizes_are_the_methods():
    torch.manual_seed(0)
    logits = torch.randn(7, 40, 5)
    confidence = (logits.amax(-1) - logits.logsumexp(-1)).t()
    for sizes in ((2, 3, 4), (1, 7), (3, 5, 6), (2, 4)):
        expected = [int(confident_size(sizes, logits[:, i])) for i in range(40)]
        assert sure_sizes(confidence, allowed(*sizes).expand(40, -1), math.log(0.3)).tolist() == expected
    assert len(set(expected)) > 1


def test_sure_rollouts_equal_the_method_alone(noisy):
    lm, batch = noisy.lm, counting_batch(noisy.lm, 3, seed=3)
    schedule = Schedule(allowed(2, 3, 4).expand(3, -1), torch.zeros(3, dtype=torch.long), True, "sure")
    limits = torch.full((3,), 15)
    found = roll_out(
        noisy.decoder, noisy.heads, None, prefix_batch(lm, batch), schedule, limits, GREEDY, torch.Generator()
    )
    for row in range(3):
        prefix = lm.prefix(batch.text[row, : batch.text_lengths[row]], (), batch.speaker[row], batch.codes[row, :0])
        assert found.codes[row].tolist() == torch.cat(steps_alone(noisy, prefix, "sure:2,3,4", 15)).tolist()


def test_chance_at_a_given_mean_chunk():
    found = tilted(allowed(2, 3, 4), 3.4)
    assert (
        float((found * torch.arange(1.0, 8)).sum()) == pytest.approx(3.4, abs=1e-3) and found[[0, 4, 5, 6]].sum() == 0
    )
    assert tilted(allowed(2, 3, 4), 3.0)[1:4].tolist() == pytest.approx([1 / 3] * 3, abs=1e-3)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (3, 4), (1, 2, 3, 4, 5, 6, 7)])
def test_the_informed_loss_is_least_where_expected_costs_are_and_costs_no_speed(sizes):
    """States of three kinds, whose costs vary by chance: what is learned follows from the mean cost of each kind."""
    torch.manual_seed(0)
    kind, numbers, tau = torch.arange(300) % 3, torch.arange(1.0, 8), 0.5
    dear = torch.tensor([0.2, 0.5, 0.8])[kind]
    chance = torch.where(torch.rand(300) < 0.2, 5.0, 0.0)  # five times the mean, one time in five
    costs = (dear * chance)[:, None] * torch.arange(7)
    logits = torch.zeros(3, 7, requires_grad=True)
    given = costs[None], allowed(*sizes)[None], ONES, tau
    loss_of = lambda _: (informed_loss(logits.log_softmax(-1)[kind][None], *given), None)
    learn([logits], loss_of, 400, 0.05, torch.optim.Adam)
    found = logits.detach().softmax(-1)
    assert float((found * numbers).sum(-1).mean()) == pytest.approx(sum(sizes) / len(sizes), abs=0.1)
    assert found[:, ~allowed(*sizes)].sum(-1).mean() < 5 * OUTSIDE
    slope = torch.stack([costs[kind == k, 1].mean() for k in range(3)])
    ratio = (found[:, sizes[-1] - 1] / found[:, sizes[0] - 1]).log() * tau / (sizes[-1] - sizes[0])
    assert (ratio[:-1] - ratio[1:]).tolist() == pytest.approx((slope[1:] - slope[:-1]).tolist(), abs=0.03)


def test_positions_that_are_masked_teach_nothing():
    logits, mask = torch.zeros(2, 9, 7, requires_grad=True), torch.rand(2, 9) < 0.5
    ranges = torch.stack([allowed(2, 3, 4), allowed(3, 4)])
    informed_loss(logits.log_softmax(-1), torch.rand(2, 9, 7).cumsum(-1), ranges, mask).backward()
    assert (logits.grad[~mask] == 0).all() and (logits.grad[mask] != 0).any(-1).all()


def test_the_policy_learns_where_tokens_are_cheap(tiny_lm):
    """States say what a token costs: in a few updates the choice tells them apart, at an even choice's mean size."""
    torch.manual_seed(0)
    policy = Policy(tiny_lm)
    ranges, generator = torch.stack([allowed(2, 3, 4), allowed(2, 3)] * 4), torch.Generator().manual_seed(0)

    def seen() -> States:
        hidden = torch.randn(8, 61, tiny_lm.config.hidden)
        costs = (hidden[..., :1] > 0) * torch.arange(7.0)
        return States(hidden, costs, torch.zeros(8, 61, 7), torch.full((8,), 60))

    def loss_of(_: int) -> tuple[torch.Tensor, None]:
        taken = walk(seen(), torch.zeros(8, dtype=torch.long), by_chance(ranges.float(), generator))
        return informed_loss(policy(taken.hidden, ranges).log_softmax(-1), taken.costs, ranges, taken.mask), None

    learn(policy.parameters(), loss_of, 60, 1e-2)
    taken = walk(seen(), torch.zeros(8, dtype=torch.long), by_chance(ranges.float(), generator))
    log_probs = policy(taken.hidden, ranges).log_softmax(-1).detach()
    inside = log_probs.masked_fill(~ranges[:, None], -torch.inf).log_softmax(-1)[::2]
    assert mutual_information(inside, taken.mask[::2]) > 0.2
    sizes = (inside.exp() * torch.arange(1.0, 8)).sum(-1)[taken.mask[::2]]
    assert float(sizes.mean()) == pytest.approx(3, abs=0.2)
    assert (log_probs.exp() * ~ranges[:, None]).sum(-1)[taken.mask].mean() < 0.1


def test_reinforcement_goes_on_from_the_informed_policy(task, monkeypatch):
    weights = []  # of the KL term: whole from the beginning of reinforcement on, which stays near the informed policy
    spied = lambda share: weights.append(kl_weight(share)) or weights[-1]
    monkeypatch.setattr(dcar_policy, "kl_weight", spied)
    task.settings = PolicySettings(informed=0.5, local=0.5)
    task.prepare(task.heads)
    task.roll_out = toy_speak(task)
    batches, kept, task.total = [], [], 10

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        batches.append(task.batch(np.random.default_rng(step), step))
        kept.append({key: value.clone() for key, value in task.policy.state_dict().items()})
        return task.loss(batches[-1], Progress.of(step, task.total))

    for step, (loss, parts) in enumerate(learn(task.policy.parameters(), loss_of, task.total, 1e-2)):
        assert math.isfinite(loss) and (parts.get("kl", 0) == pytest.approx(0, abs=1e-5)) == (step < 6)
    kinds, batch, before = list(map(type, batches)), batches[-1], kept[5]
    assert kinds == [Recorded] * 5 + [Experience] * 5
    assert weights == [KL_WEIGHT] * 5
    reference = task.helpers["reference"]
    assert reference.over and all(torch.equal(v, before[k]) for k, v in reference.policy.state_dict().items())
    assert batch.advantage.shape == batch.rollouts.actions.shape and batch.reference.shape == (
        *batch.advantage.shape,
        7,
    )
    state = reference.state_dict()
    task.prepare(task.heads)  # a resumed run: it is not informed again, and its reference is what it was
    task.helpers["reference"].load_state_dict(state)
    assert isinstance(task.batch(np.random.default_rng(6), 6), Experience)
    assert torch.equal(task.helpers["reference"].policy.enter.weight, reference.policy.enter.weight)


def test_without_the_settings_the_recipe_is_the_papers(task):
    task.roll_out = toy_speak(task)
    assert task.helpers == {}
    batch = task.batch(np.random.default_rng(0), 0)
    assert isinstance(batch, Experience) and batch.advantage.shape == (len(batch.reward), 1)
    assert torch.equal(batch.reference, task.policy.reference(batch.allowed)[:, None])


def test_the_evaluation_compares_at_one_mean_chunk(task):
    task.roll_out = toy_speak(task)
    task.settings = PolicySettings(profiled=(2, 3))
    scores = task.evaluate()
    assert not any("fixed 4" in name or "1,2,3" in name for name in scores)
    chunks = [value for name, value in scores.items() if name.startswith("mean chunk on") and name.endswith(" 2,3,4")]
    assert len(chunks) == 3 and max(chunks) - min(chunks) < 1
    assert scores["information of the state about the choice, nats 2,3,4"] >= 0
    assert scores["excess nats a token on recordings, sure at its mean chunk 2,3,4"] > 0
