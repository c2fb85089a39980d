"""The sampler draws from exactly the distribution it reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tts_demo.config import Sampling
from tts_demo.lm import sampling as sampling_module
from tts_demo.lm.sampling import (
    Distribution,
    Ending,
    History,
    Sampler,
    distribution,
    numbers,
    probabilities,
    sample,
    special_ids,
)

LOGITS = torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0]])


def frequencies(sampling: Sampling, n: int = 20_000, **kwargs) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.bincount(sample(LOGITS.expand(n, -1), sampling, generator, **kwargs), minlength=5) / n


@pytest.mark.parametrize(
    "sampling", [Sampling(1.0, 0, 1.0), Sampling(0.7, 3, 1.0), Sampling(1.0, 0, 0.8), Sampling(0.5, 4, 0.9)]
)
def test_frequencies_follow_the_distribution(sampling):
    expected = probabilities(LOGITS, sampling)[0]
    assert expected.sum() == pytest.approx(1, abs=1e-6)
    # Worst standard deviation of a frequency is 0.0035: five of them.
    torch.testing.assert_close(frequencies(sampling), expected, atol=0.018, rtol=0)


@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(1.0, 0, 1.0), Sampling(0.7, 3, 0.9)])
@pytest.mark.parametrize("repeated", [None, 2])
def test_a_draw_tells_its_law(sampling, repeated):
    """With its ids it is ``probabilities``, and what is drawn follows it; with a forbidden id and with what was said
    before."""
    n, forbid = 20_000, torch.tensor([False, True, False, False, False])
    history = None if repeated is None else torch.full((n, 10), -1).index_fill_(1, torch.arange(4), repeated)
    found = distribution(LOGITS.expand(n, -1), sampling, forbid, history)
    token = found.sample(torch.Generator().manual_seed(1))
    expected = probabilities(LOGITS, sampling, forbid, None if history is None else history[:1])[0]
    torch.testing.assert_close(found.full(5)[0], expected)
    torch.testing.assert_close(torch.bincount(token, minlength=5) / n, expected, atol=0.018, rtol=0)


def test_laws_of_some_ids_and_of_all_go_together():
    few, full = distribution(LOGITS, Sampling(1.0, 2, 1.0)), Distribution(LOGITS.softmax(-1), torch.arange(5)[None])
    for distributions in ((few, few), (few, full)):
        both = Distribution.concat(distributions, 5)
        torch.testing.assert_close(both.full(5), torch.cat([each.full(5) for each in distributions]))


def test_truncation_rules():
    full = LOGITS.softmax(-1)[0]
    top3 = probabilities(LOGITS, Sampling(1.0, 3, 1.0))[0]
    torch.testing.assert_close(top3, torch.cat([full[:3] / full[:3].sum(), torch.zeros(2)]))
    assert (probabilities(LOGITS, Sampling(1.0, 0, 0.6))[0] > 0).sum() == 2  # 0.58 is not yet 0.6
    assert probabilities(LOGITS, Sampling(0.0))[0].tolist() == [1, 0, 0, 0, 0]


def test_greedy_and_seed():
    assert sample(LOGITS, Sampling(0.0)).tolist() == [0]
    draws = [sample(LOGITS.expand(50, -1), Sampling(), torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*draws)


def test_repetition_is_drawn_again_from_the_untruncated_distribution():
    sampling = Sampling(1.0, 1, 1.0, repeat_window=10, repeat_ratio=0.3)  # top-1: always id 0 unless redrawn
    often, seldom = torch.full((20_000, 10), -1), torch.full((20_000, 10), -1)
    often[:, :3], seldom[:, :2] = 0, 0
    others = torch.cat([torch.zeros(1), LOGITS[0, 1:].softmax(-1)])  # the repeated id itself is out
    torch.testing.assert_close(frequencies(sampling, history=often), others, atol=0.018, rtol=0)
    assert frequencies(sampling, history=seldom)[0] == 1


def test_speech_may_not_end_before_its_shortest_length():
    ending, ids = Ending(3, 5, 6, 9), special_ids(3, 5, "cpu")
    assert all(torch.equal(found, ids) for found in (ending.forbid(0), ending.forbid(5), ending.forbid(2, 4)))
    assert ending.forbid(6) is None and Ending(3, 5, 0, 9).forbid(0, 3) is None
    mixed = ending.forbid(4, 3)  # frames 4 and 5 are too early, frame 6 is not
    assert torch.equal(mixed, torch.stack([ids, ids, torch.zeros_like(ids)]))


def test_forbidden_ids_never_appear():
    forbid = special_ids(3, 5, "cpu")
    assert frequencies(Sampling(2.0, 0, 1.0), forbid=forbid)[3:].sum() == 0
    assert probabilities(LOGITS, Sampling(1.0, 0, 1.0), forbid)[0, 3:].sum() == 0


def test_history_is_a_ring():
    history = History(3)
    for token in range(5):
        history.push(torch.tensor([token]))
    assert sorted(history.tokens[0].tolist()) == [2, 3, 4]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_no_host_sync():
    logits, generator = LOGITS.cuda(), torch.Generator("cuda").manual_seed(0)
    history = History(20, device="cuda")
    sample(logits, Sampling(), generator, history.tokens)
    torch.cuda.set_sync_debug_mode("error")
    try:
        history.push(sample(logits, Sampling(), generator, history.tokens))
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_greedy_token_that_is_repeated_gives_way_to_the_next_one():
    """In both forms, row by row; where it is not repeated, and without a history, it stays."""
    logits = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    greedy = Sampling(temperature=0, repeat_window=4, repeat_ratio=0.5)
    history = torch.tensor([[0, 0, 1, -1], [0, 0, 2, -1]])
    assert sample(logits, greedy, history=history).tolist() == [1, 2]
    assert distribution(logits, greedy, history=history).sample().tolist() == [1, 2]
    assert sample(logits, greedy).tolist() == [0, 2]
    forbidden = torch.tensor([False, True, False])
    assert sample(logits, greedy, history=history, forbid=forbidden).tolist() == [2, 2]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.0), Sampling(1.0, 0, 1.0), Sampling(0.9, 5, 0.8)])
@pytest.mark.parametrize("forbidden", [None, 1, 3], ids=["all", "one row", "a row each"])
def test_what_a_graph_is_given_samples_the_same(sampling, forbidden, monkeypatch):
    """Random numbers made ahead and a temperature on the device, with history and without."""
    monkeypatch.setattr(sampling_module, "host_may_read", lambda device: False)
    forbid = None if forbidden is None else torch.arange(30).expand(forbidden, -1).squeeze(0) > 25
    temperature = torch.tensor(sampling.temperature, dtype=torch.float64)
    for seed in range(20):
        torch.manual_seed(seed)
        logits = 3 * torch.randn(3, 30)
        often = logits.argmax(-1, keepdim=True).expand(-1, 9)
        for history in (None, torch.cat([often, torch.randint(-1, 30, (3, 11))], 1)):
            count = numbers(sampling, 30, 3, history is not None)
            new = lambda: Sampler.of(sampling, torch.Generator().manual_seed(seed), count, temperature)
            plain, given = new(), new()
            inside = Sampler.inside(given.structure, *given.inputs)
            assert given.structure == Sampler.of(
                replace(sampling, temperature=0.3), None, 0, temperature
            ).structure or (not sampling.temperature)
            tokens = [each.sample(logits, history, forbid).tolist() for each in (plain, inside)]
            assert tokens[0] == tokens[1]
            if count:
                assert plain.source._taken == inside.source._taken == count
            laws = [each.distribution(logits, forbid, history).full(30) for each in (plain, inside)]
            assert torch.equal(*laws)
            cooler = [each.cooler(0.5).distribution(logits, forbid, history).full(30) for each in (plain, inside)]
            assert torch.equal(*cooler)
