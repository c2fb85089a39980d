"""Two methods at once: chunks on a compressed context, and drafts that are DCAR's heads."""

from __future__ import annotations

import pytest
import torch

from conftest import base_of, finish, make_prefix
from tts_demo.config import Sampling
from tts_demo.methods import METHODS
from tts_demo.methods.base import Method
from tts_demo.methods.compressed import RingCache

HOT = Sampling(1.5, 20, 0.95, repeat_window=4, repeat_ratio=0.25)


def stirred(lm, name: str, by: float = 0.03) -> Method:
    modules = METHODS[name].build_modules(lm)
    torch.manual_seed(5)
    for module in modules.values():
        for weight in module.eval().requires_grad_(False).parameters():
            weight.add_(torch.randn_like(weight) * by)
    return METHODS[name](base_of(lm), modules)


def speak(method: Method, prefix, sampling=HOT, seed=0, frames=40, forced=False, **options):
    generator = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        state = method.prefill(prefix, method.Options(**options), sampling, generator, frames, forced)
        steps, codes = finish(method, state)
    return state, steps, codes[:, 0]


@pytest.mark.parametrize("length", ("1", "2", "6", "auto"))
def test_verified_chunks_are_those_of_one_token_where_nothing_is_random(tiny_lm, tiny_prefix, length):
    method = stirred(tiny_lm, "dcar-ssd")
    greedy = Sampling(temperature=0)
    expected = speak(method.chunks, tiny_prefix, greedy, chunk_range="1")[2]
    state, steps, tokens = speak(method, tiny_prefix, greedy, tolerance=0.0, draft_length=length)
    assert torch.equal(tokens, expected) and len(tokens) > 3
    assert list(state.caches) == ["backbone"]


def test_verified_chunks_have_the_statistics_of_one_token(tiny_lm, tiny_prefix):
    """Two-sample chi-square on tokens 2 to 12 of 60 runs each."""
    method, size, counts = stirred(tiny_lm, "dcar-ssd"), tiny_lm.config.speech_codes, []
    drafted = accepted = 0
    for speaking, options in ((method.chunks, {"chunk_range": "1"}), (method, {"tolerance": 0.0})):
        said = []
        for seed in range(60):
            _, steps, tokens = speak(speaking, tiny_prefix, HOT, seed, 12, True, **options)
            said.append(tokens[1:])
            drafted, accepted = drafted + sum(s.proposed for s in steps), accepted + sum(s.accepted for s in steps)
        counts.append(torch.bincount(torch.cat(said), minlength=size).float())
    assert 0 < accepted < drafted
    a, b = (c[sum(counts) >= 20] for c in counts)
    statistic, degrees = float(((a - b) ** 2 / (a + b)).sum()), len(a) - 1
    assert degrees > 8 and statistic < degrees + 4 * (2 * degrees) ** 0.5 * 1.5, (statistic, degrees)


@pytest.mark.parametrize("chunks", ("1", "3", "7", "random:2,5,7"))
def test_a_cache_of_chunks_does_not_grow_but_for_summaries(tiny_lm, chunks):
    """The replay of such runs is held by the test matrix."""
    method = stirred(tiny_lm, "dcar-compressed")
    for group in (0, 5, 15):
        state, _, tokens = speak(
            method, make_prefix(tiny_lm), HOT, 3, 150, True, chunk_range=chunks, window=30, group=group
        )
        cache = state.caches["backbone"]
        made = cache.generated // (30 - 6) * ((30 - 6) // group) if group else 0
        assert len(tokens) == 150 and cache.length <= cache.fixed + 30 + (cache.generated // group if group else 0)
        assert not group or cache.summaries >= made > 0


def test_the_window_is_that_of_the_chunk(tiny_lm):
    """Summaries are due when their spans are whole, several at once, before any of their tokens is overwritten."""
    cache = RingCache(1, 1, 1, 4, fixed=2, window=10, group=3, tokens=60, most=4)
    cache.claim(torch.arange(2))
    for count in (4, 1, 3, 4, 2, 4, 4):  # two spans, six tokens, are summarised together
        ends, before = list(cache.span_ends(count)) if cache.summaries_due(count) else [], cache.generated
        mask, places = cache.mask(count), [*range(2 + before, 2 + before + count), *(2 + end for end in ends)]
        slots = torch.arange(cache.capacity)[cache.claim(torch.tensor(places))]
        assert cache.positions[slots].tolist() == places and mask.shape == (len(places), cache.attended)
        assert (cache.generated // 6 > before // 6) == bool(ends)
        for row, place in zip(mask[:count], places):
            seen = cache.positions[: len(row)][row]
            of_ring = seen[(torch.arange(len(row))[row] >= 2) & (torch.arange(len(row))[row] < 12)].tolist()
            assert sorted(of_ring) == [p for p in range(max(2, 2 + cache.generated - 10), place + 1)]
        for row, end in zip(mask[count:], ends):
            in_ring = row[2:12].nonzero()[:, 0] + 2
            assert sorted(cache.positions[in_ring].tolist()) == [end, end + 1, end + 2]  # the prefix counts two
    assert cache.summaries == 2 * (cache.generated // 6)
