"""Speculative decoding: exact at tolerance 0, both caches honest, end of speech wherever it is drafted."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from conftest import base_of
from tts_demo import checkpoints
from tts_demo.config import Sampling, UserError
from tts_demo.lm.launch import Passes
from tts_demo.lm.masks import prefix_mask
from tts_demo.lm.sampling import Distribution, Sampler, probabilities, sample
from tts_demo.methods import METHODS
from tts_demo.methods.baseline import Baseline
from tts_demo.methods.ssd import SSD, Draft, preceding
from tts_demo.methods.ssd import length as length_module
from tts_demo.methods.ssd.draft import DraftConfig
from tts_demo.methods.ssd.length import FURTHEST, DraftLength, round_costs
from tts_demo.methods.ssd.verify import verify

GREEDY = Sampling(temperature=0)
PLAIN = Sampling(1.0, 0, 1.0, repeat_window=0)
LENGTHS = ("1", "3", "8", "auto")
each_cache = pytest.mark.parametrize("base_cache", [True, False], ids=["base's cache", "own cache"])
DEEP = (1.0, 1.45, 1.8, 2.15, 2.5)  # costs of rounds with 0 to 4 drafted tokens, as in a deep model


def make_method(lm, noise: float = 0.3, base_cache: bool = True) -> SSD:
    """noise 0: the draft of a two-layer model is the model itself; more: it often disagrees."""
    torch.manual_seed(3)
    modules = {"ssd-draft": Draft(lm, DraftConfig.of(lm.config, base_cache))}
    for weight in modules["ssd-draft"].parameters():
        weight.requires_grad_(False).add_(torch.randn_like(weight) * weight.std() * noise)
    return SSD(base_of(lm), modules)


def start(method, prefix, sampling=GREEDY, seed=0, max_frames=24, forced=False, **options):
    state = method.prefill(
        prefix, method.Options(**options), sampling, torch.Generator().manual_seed(seed), max_frames, forced
    )
    if options.get("draft_length") == "auto":
        state.length = DraftLength(DEEP)  # here the draft is as deep as its target
    return state


def finish(method, state):
    steps = [method.step(state)]
    while not steps[-1].done:
        steps.append(method.step(state))
    return steps, torch.cat([s.frames for s in steps])[:, 0].tolist()


def decode(method, prefix, *args, **kwargs):
    return finish(method, start(method, prefix, *args, **kwargs))[1]


def with_end_of_speech(lm, prefix):
    """A copy whose greedy run ends by itself: the end outdoes the token that a greedy run says for the first time
    last."""
    tokens = decode(Baseline(base_of(lm)), prefix, max_frames=30)
    last = max(set(tokens), key=tokens.index)
    lm = copy.deepcopy(lm)
    lm.__dict__.pop("decoder", None)  # built anew from the changed head
    lm.head.weight[lm.config.eos] = 1.05 * lm.head.weight[last]
    return lm


def chi_square(counts: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((counts - expected) ** 2 / expected.clamp(min=1e-9))[expected > 0].sum())


def test_registry_and_options():
    assert METHODS["ssd"] is SSD
    assert SSD.Options(draft_length=4) == SSD.Options(draft_length="4") == SSD.Options.parse({"draft_length": "4"})
    assert SSD.Options.parse({"draft_length": "auto", "tolerance": "0"}).draft_length == "auto"
    for bad in ({"draft_length": "0"}, {"draft_length": "9"}, {"tolerance": "1.5"}, {"tolerance": "-0.1"}):
        with pytest.raises(UserError):
            SSD.Options.parse(bad)


def rows_of(probs: torch.Tensor, shuffled: bool = False) -> Distribution:
    """A law [R, V] of all ids, in order or each row in one of its own."""
    ids = torch.stack([torch.randperm(probs.shape[-1]) if shuffled else torch.arange(probs.shape[-1]) for _ in probs])
    return Distribution(probs.gather(-1, ids), ids)


def judged(drafted, p, q, tolerance: float, generator: torch.Generator) -> list[int]:
    """The accepted tokens, and the one after them."""
    vocab = int(max(p.ids.max(), q.ids.max())) + 1
    r = torch.rand(len(drafted) + 1, generator=generator)
    accepted, *tokens = verify(r, drafted, p, q, torch.tensor(tolerance), vocab).tolist()
    return tokens[: accepted + 1]


@pytest.mark.parametrize("shuffled", (False, True))
def test_emitted_tokens_follow_the_target_exactly(shuffled):
    """20,000 rounds of two drafted tokens: what is said first, and what is said second, both follow q."""
    generator, rounds = torch.Generator().manual_seed(1), 20_000
    p = rows_of(torch.tensor([[0.50, 0.30, 0.10, 0.05, 0.05, 0.0], [0.1, 0.1, 0.1, 0.1, 0.3, 0.3]]), shuffled)
    q = torch.tensor([[0.20, 0.30, 0.05, 0.25, 0.10, 0.1], [0.3, 0.3, 0.1, 0.1, 0.1, 0.1], [1, 0, 0, 0, 0, 0.0]])
    judging = rows_of(q, shuffled)
    said = [judged(p.sample(generator), p, judging, 0.0, generator) for _ in range(rounds)]
    first, second = (
        torch.bincount(torch.tensor([s[i] for s in said if len(s) > i]), minlength=6).float() for i in (0, 1)
    )
    assert all(s[2] == 0 for s in said if len(s) == 3) and {len(s) for s in said} == {1, 2, 3}
    assert chi_square(first, q[0] * rounds) < 25.7  # 5 degrees of freedom: exceeded once in 10,000
    assert chi_square(second, q[1] * second.sum()) < 25.7
    # The chance to accept is 1 minus the distance of the two laws; five standard deviations.
    assert second.sum() / rounds == pytest.approx(torch.minimum(p.full(6)[0], q[0]).sum().item(), abs=0.018)


def test_tolerance_raises_acceptance_by_what_it_says():
    """By 0.4 for a token that the base says now and then; not at all for one that it never says."""
    generator, rounds = torch.Generator().manual_seed(2), 5_000
    drafted, p = torch.ones(1, dtype=torch.long), rows_of(torch.tensor([[0.0, 1.0]]))
    for chance, tolerance, share in (
        (0.1, 0.4, 0.5),
        (0.1, 0.0, 0.1),
        (0.0, 0.4, 0.0),
        (0.0, 1.0, 0.0),
        (0.001, 1.0, 1.0),
    ):
        q = rows_of(torch.tensor([[1 - chance, chance], [0.5, 0.5]]))
        accepted = sum(len(judged(drafted, p, q, tolerance, generator)) - 1 for _ in range(rounds))
        assert accepted / rounds == pytest.approx(share, abs=0.036), (chance, tolerance)  # five standard deviations


def test_where_draft_and_base_agree_but_for_rounding_something_is_said():
    p = rows_of(torch.tensor([[0.5, 0.5]]))
    q = rows_of(torch.tensor([[0.5 - 1e-7, 0.5 - 1e-7], [0.0, 1.0]]))
    for seed in range(50):
        assert judged(torch.tensor([0]), p, q, 0.0, torch.Generator().manual_seed(seed)) == [0, 1]
    halves = Distribution(p.weights / 2, p.ids)  # weights need not sum to 1
    assert {tuple(judged(torch.tensor([0]), halves, q, 0.0, torch.Generator().manual_seed(s))) for s in range(50)} == {
        (0, 1)
    }


@pytest.mark.parametrize("ids", ["all", "some"])
def test_a_verdict_is_that_of_the_rule_token_by_token(ids):
    """Laws of all ids, and of candidates of their own in any order, some of no weight."""
    generator, counts = torch.Generator().manual_seed(7), set()
    for seed in range(300):
        torch.manual_seed(seed)
        p, q = (torch.rand(rows, 40).pow(4) * (torch.rand(rows, 40) < 0.6) + 1e-9 for rows in (3, 4))
        laws = [rows_of(p, True), rows_of(q, True)]
        if ids == "some":
            laws = [Distribution(law.weights.topk(12)[0], law.ids.gather(-1, law.weights.topk(12)[1])) for law in laws]
        drafted, tolerance = laws[0].sample(generator), (0.0, 0.1, 0.4)[seed % 3]
        r = torch.rand(4, generator=torch.Generator().manual_seed(seed))
        new = judged(drafted, *laws, tolerance, torch.Generator().manual_seed(seed))
        p, q = (law.full(40) for law in laws)
        ratios = [float(q[i, token] / p[i, token]) for i, token in enumerate(drafted.tolist())]
        accepted = [max(0.0, float(r[i]) - tolerance) < ratio for i, ratio in enumerate(ratios)]
        count = ([*accepted, False]).index(False)
        assert new[:-1] == drafted[:count].tolist(), seed
        left = (q[count] - p[count]).clamp(min=0) if count < 3 else q[count]
        assert (left if left.any() else q[count])[new[-1]] > 0, seed
        counts.add(len(new))
    assert counts == {1, 2, 3, 4}


def test_law_counts_redraws_of_repeated_tokens():
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0]])
    sampling = Sampling(0.9, 3, 0.95, repeat_window=6, repeat_ratio=0.3)
    history = torch.tensor([[0, 0, 1, -1, -1, -1]])
    law = probabilities(logits, sampling, history=history)[0]
    generator = torch.Generator().manual_seed(0)
    drawn = sample(logits.expand(20_000, -1), sampling, generator, history.expand(20_000, -1))
    assert chi_square(torch.bincount(drawn, minlength=5).float(), law * 20_000) < 23.5  # 4 degrees, 1 in 10,000
    assert law.sum() == pytest.approx(1, abs=1e-5) and law[0] < probabilities(logits, sampling)[0, 0]


def test_counting_is_skipped_only_where_it_changes_nothing(tiny_lm, tiny_prefix, monkeypatch):
    method, sampling = make_method(tiny_lm, 0.1), Sampling(0.4, 4, 1.0, repeat_window=10, repeat_ratio=0.4)
    needed = []
    may_repeat = SSD._may_repeat
    monkeypatch.setattr(SSD, "_may_repeat", lambda *args: needed.append(may_repeat(*args)) or needed[-1])
    tokens = decode(method, tiny_prefix, sampling, 2, 40, True, draft_length=2)
    monkeypatch.setattr(SSD, "_may_repeat", lambda *args: True)
    assert decode(method, tiny_prefix, sampling, 2, 40, True, draft_length=2) == tokens
    assert True in needed and False in needed


@each_cache
@pytest.mark.parametrize("length", LENGTHS)
def test_greedy_at_tolerance_0_is_the_baseline(tiny_lm, tiny_prefix, length, base_cache):
    for lm in (tiny_lm, with_end_of_speech(tiny_lm, tiny_prefix)):
        base = Baseline(base_of(lm))
        expected = decode(base, tiny_prefix, max_frames=40)
        steps, tokens = finish(
            method := make_method(lm, base_cache=base_cache),
            start(method, tiny_prefix, max_frames=40, tolerance=0.0, draft_length=length),
        )
        assert tokens == expected
        assert sum(s.proposed for s in steps) > sum(s.accepted for s in steps)  # some drafts were rejected
    assert len(expected) < 40  # the second model ended by itself


@each_cache
def test_sampled_tokens_have_the_baseline_statistics(tiny_lm, tiny_prefix, base_cache):
    """Two-sample chi-square on tokens 2 to 12 of 60 runs each, with truncation and repetition-aware redraws on."""
    sampling = Sampling(1.5, 20, 0.95, repeat_window=4, repeat_ratio=0.25)
    runs, size = 60, tiny_lm.config.speech_codes
    counts = []
    drafting = make_method(tiny_lm, 0.1, base_cache)
    for method, options in ((Baseline(base_of(tiny_lm)), {}), (drafting, {"tolerance": 0.0})):
        spoken = [decode(method, tiny_prefix, sampling, seed, 12, True, **options)[1:] for seed in range(runs)]
        counts.append(torch.bincount(torch.tensor(spoken).flatten(), minlength=size).float())
    a, b = (c[sum(counts) >= 20] for c in counts)
    statistic, degrees = float(((a - b) ** 2 / (a + b)).sum()), len(a) - 1
    # Tokens of a run depend on each other, which widens the statistic; four standard deviations of it.
    assert degrees > 8 and statistic < degrees + 4 * (2 * degrees) ** 0.5 * 1.5, (statistic, degrees)


@each_cache
def test_a_draft_equal_to_the_target_accepts_everything(tiny_lm, tiny_prefix, base_cache):
    method, alone = make_method(tiny_lm, 0, base_cache), int(base_cache)  # the first token is sampled without a draft
    state = start(method, tiny_prefix, Sampling(1.0), 5, 25 + alone, True, tolerance=0.0, draft_length=4)
    steps, tokens = finish(method, state)
    assert [len(s.frames) for s in steps] == [1] * alone + [5] * 5
    assert all(s.accepted == s.proposed == 4 for s in steps[alone:])
    assert steps[alone].marks == ("accepted|", "accepted", "accepted", "accepted", "bonus")
    assert steps[-1].stats["acceptance"] == 1 and steps[-1].stats["tokens_per_pass"] == (26 / 6 if alone else 5)


def test_tolerance_1_accepts_everything_that_the_base_may_say(tiny_lm, tiny_prefix, monkeypatch):
    """Whatever was drafted where nothing is beyond the base; where its law is cut short, no token beyond it is ever
    said."""
    method = make_method(tiny_lm, noise=1)
    steps, _ = finish(method, start(method, tiny_prefix, PLAIN, 5, 20, True, tolerance=1.0))
    assert all(s.accepted == s.proposed for s in steps)
    said = []

    def watch(r, drafted, p, q, *rest):
        found = verify(r, drafted, p, q, *rest)
        new = found[1 : 2 + int(found[0])]
        said.append(q.full(tiny_lm.config.vocab)[: len(new)].gather(-1, new[:, None]))
        return found

    monkeypatch.setattr("tts_demo.methods.ssd.method.verify", watch)
    steps, _ = finish(
        method, start(method, tiny_prefix, Sampling(1.0, 5, 0.8, repeat_window=0), 5, 60, True, tolerance=1.0)
    )
    assert 0 < sum(s.accepted for s in steps) < sum(s.proposed for s in steps) and torch.cat(said).min() > 0


@pytest.mark.parametrize("length", ("2", "8", "auto"))
def test_caches_after_rollback_equal_a_fresh_prefill(tiny_lm, tiny_prefix, length):
    method = make_method(tiny_lm, 0.2, base_cache=False)
    state = start(method, tiny_prefix, Sampling(1.0), 1, 60, True, tolerance=0.0, draft_length=length)
    outcomes = set()
    while not (step := method.step(state)).done:
        behind = torch.cat(state.unread)
        outcomes.add(step.accepted == step.proposed)
        embedded = torch.cat(
            [
                tiny_prefix.x,
                tiny_lm.embed_speech(torch.cat([tiny_prefix.prompt_codes[:, 0], torch.tensor(state.tokens)])),
            ]
        )
        heard = None
        for name, decoder, unseen in (
            ("backbone", base_of(tiny_lm).decoder, state.last),
            ("draft", method.draft, behind),
        ):
            cache, n = state.caches[name], len(embedded) - len(unseen)
            # of the base, all of it
            x = (
                embedded[:n]
                if heard is None
                else method.project(preceding(heard, len(tiny_prefix.x))[:n], embedded[:n])
            )
            fresh = decoder.new_cache(n)
            hidden = decoder.forward(x[None], fresh, 0, prefix_mask(len(tiny_prefix.x), n, True))
            heard = hidden[0] if heard is None else heard
            assert cache.length == cache.next_position == n
            torch.testing.assert_close(cache.k[:, :, :, :n], fresh.k, atol=2e-5, rtol=1e-4)
            torch.testing.assert_close(cache.v[:, :, :, :n], fresh.v, atol=2e-5, rtol=1e-4)
            assert cache.positions[n:].eq(-1).all()
    # rejections, and passes accepted as a whole, occurred
    assert False in outcomes and (length == "8" or True in outcomes)


@pytest.mark.parametrize("length", ("2", "8", "auto"))
def test_a_draft_on_the_bases_cache_attends_to_what_the_base_has_read_and_to_its_own_round(
    tiny_lm, tiny_prefix, length
):
    """Every round's first distribution and its last, worked out from a fresh cache of the base; and the base's cache
    has nothing of the draft's in it afterwards."""
    method, sampling = make_method(tiny_lm, 0.2), PLAIN
    state = start(method, tiny_prefix, sampling, 1, 60, True, tolerance=0.0, draft_length=length)
    drafted_by, rounds, wholly = method.draft_tokens, [], set()
    method.draft_tokens = lambda *args: rounds.append(drafted_by(*args)) or rounds[-1]
    while not state.done:
        read, hidden, last = list(state.tokens), state.features, state.last
        before = len(rounds)
        step = method.step(state)
        codes = torch.cat([tiny_prefix.prompt_codes[:, 0], torch.tensor(state.tokens[:-1], dtype=torch.long)])
        embedded = torch.cat([tiny_prefix.x, tiny_lm.embed_speech(codes)])
        n, fresh = len(embedded), base_of(tiny_lm).decoder.new_cache(len(embedded) + 9)
        states = base_of(tiny_lm).decoder.forward(embedded[None], fresh, 0, prefix_mask(len(tiny_prefix.x), n, True))[0]
        cache, shared = state.caches["backbone"], state.shared_cache
        assert (
            cache.length == shared.length == shared.next_position == n and shared.kv.data_ptr() == cache.kv.data_ptr()
        )
        torch.testing.assert_close(cache.k[:, :, :, :n], fresh.k[:, :, :, :n], atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(cache.v[:, :, :, :n], fresh.v[:, :, :, :n], atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(state.features[0][0], states[-1], atol=2e-5, rtol=1e-4)
        if len(rounds) == before:
            continue
        tokens, p, _ = rounds[-1]
        # the draft's blocks by hand: the base's keys and values up to the token before the round, then its own
        begin = len(tiny_prefix.x) + len(tiny_prefix.prompt_codes) + len(read) - 1
        mine, feature = method.draft.new_cache(begin + 9), hidden[0]
        mine.kv[:, :, :, :begin], mine.length = fresh.kv[:, :, :, :begin], begin
        for i, token in enumerate(torch.cat([last, tokens[:-1]])):
            x = method.project(feature, tiny_lm.embed_speech(token[None]).detach())
            feature = method.draft.forward(x[None], mine, begin + i)[0]
            law = probabilities(method.draft.logits(feature), sampling)
            got = p.full(tiny_lm.config.vocab)[i]
            forbidden = got.new_zeros(len(got), dtype=torch.bool)
            forbidden[tiny_lm.config.speech_codes :] = True  # a forced run does not end
            expected = law[0].masked_fill(forbidden, 0)
            torch.testing.assert_close(got, expected / expected.sum(), atol=2e-4, rtol=1e-3)
        wholly.add(step.accepted == step.proposed)
    assert False in wholly and (length == "8" or True in wholly)


def test_truncation_applies_to_both_sides(tiny_lm, tiny_prefix):
    method = make_method(tiny_lm, base_cache=False)
    sampling = Sampling(0.8, 5, 0.9, repeat_window=0)
    state = start(method, tiny_prefix, sampling, draft_length=3)
    drafted, p, recent = method.draft_tokens(state, 3)
    cache = state.caches["backbone"]
    forward = Passes(method.decoder, cache.kv, cache.next_position, cache=cache)
    rows = method._base_states(forward, state.last, drafted, state.hidden)
    q = method._base_distributions(rows, Sampler(sampling), recent, None)
    for laws in (p.full(tiny_lm.config.vocab), q.full(tiny_lm.config.vocab)):
        assert ((laws > 0).sum(-1) <= 5).all()
        torch.testing.assert_close(laws.sum(-1), torch.ones(len(laws)))
    full = start(method, tiny_prefix, PLAIN)
    torch.testing.assert_close(
        method.draft_tokens(full, 1)[1].full(tiny_lm.config.vocab),
        method.draft.logits(full.draft_hidden[:, 0]).softmax(-1),
    )


@each_cache
def test_end_of_speech_drafted_and_rejected(tiny_lm, tiny_prefix, base_cache):
    method = make_method(tiny_lm, 0, base_cache)
    method.draft.head_bias = torch.zeros(tiny_lm.config.vocab)
    method.draft.head_bias[tiny_lm.config.eos] = 1e4  # the draft would always end
    state = start(method, tiny_prefix, tolerance=0.0)
    steps, tokens = finish(method, state)
    assert tokens == decode(Baseline(base_of(tiny_lm)), tiny_prefix) and not state.ended
    drafting = steps[int(base_cache) : -1]
    assert all(s.marks == ("resampled|",) for s in drafting) and steps[-1].marks == ("bonus|",)


@each_cache
def test_end_of_speech_drafted_and_accepted_and_drawn_behind(tiny_lm, tiny_prefix, base_cache):
    lm = with_end_of_speech(tiny_lm, tiny_prefix)
    expected = decode(Baseline(base_of(lm)), tiny_prefix, max_frames=40)
    assert 0 < len(expected) < 40
    for length in range(1, 9):  # the end falls on a drafted token for some lengths, on the bonus for others
        method = make_method(lm, 0, base_cache)
        state = start(method, tiny_prefix, max_frames=40, tolerance=0.0, draft_length=length)
        steps, tokens = finish(method, state)
        assert tokens == expected and state.ended and len(steps[-1].frames) == len(steps[-1].marks)
        assert state.caches["backbone"].length == len(tiny_prefix.x) + 5 + len(tokens)


def test_forced_length_never_ends_early(tiny_lm, tiny_prefix):
    for length in LENGTHS:
        tokens = decode(make_method(tiny_lm), tiny_prefix, Sampling(2.0, 0, 1.0), 0, 33, True, draft_length=length)
        assert len(tokens) == 33 and max(tokens) < tiny_lm.config.speech_codes


def test_replay_rows_decide_every_token(tiny_lm, tiny_prefix):
    method = make_method(tiny_lm, 0.1, base_cache=False)  # every token is judged, the first too
    state = start(method, tiny_prefix, PLAIN, 4, 20, True, tolerance=0.2)
    laws, judging = [], method._base_distributions

    def watch(*args):
        found = judging(*args)
        laws.append(found.full(tiny_lm.config.vocab))
        return found

    method._base_distributions = watch
    steps, tokens = finish(method, state)
    stepwise = torch.cat([law[: len(step.frames)] for law, step in zip(laws, steps)])
    replay = method.replay(state)
    hidden, _ = method.decoder.full(replay.x[None], replay.positions, replay.mask)
    logits = method.decoder.logits(hidden[0, replay.rows])
    logits[:, tiny_lm.config.speech_codes :] = float("-inf")
    assert len(stepwise) in (19, 20)  # a last token that needs no draft is not judged
    torch.testing.assert_close(logits.softmax(-1)[: len(stepwise)], stepwise, atol=1e-5, rtol=1e-3)
    assert sum(replay.frames_of) == len(tokens) == 20 and replay.first_frame == tuple(range(20))


def test_replay_after_end_of_speech_has_the_deciding_row(tiny_lm, tiny_prefix):
    method = make_method(lm := with_end_of_speech(tiny_lm, tiny_prefix))
    state = start(method, tiny_prefix, Sampling(temperature=0, repeat_window=0), max_frames=40, tolerance=0.0)
    _, tokens = finish(method, state)
    replay = method.replay(state)
    assert (
        len(replay.rows) == len(tokens) + 1 and replay.frames_of[-1] == 0 and int(replay.rows[-1]) == len(replay.x) - 1
    )
    hidden, _ = method.decoder.full(replay.x[None], replay.positions, replay.mask)
    assert method.decoder.logits(hidden[0, replay.rows]).argmax(-1).tolist() == tokens + [lm.config.eos]


def test_two_runs_interleaved_are_two_runs_apart(tiny_lm, tiny_prefix):
    method, sampling = make_method(tiny_lm), Sampling(1.0)
    apart = [decode(method, tiny_prefix, sampling, seed, 20, True, draft_length="auto") for seed in (1, 2)]
    states = [start(method, tiny_prefix, sampling, seed, 20, True, draft_length="auto") for seed in (1, 2)]
    while not all(len(s.tokens) >= 20 for s in states):
        for state in states:
            if len(state.tokens) < 20:
                method.step(state)
    assert [s.tokens for s in states] == apart and apart[0] != apart[1]


def test_draft_shares_memory_and_stores_only_what_is_trained(tiny_lm):
    method = make_method(tiny_lm)
    base, draft = base_of(tiny_lm).decoder, method.draft
    assert draft.layers[-1] is base.layers[-1] and draft.embedding is base.embedding and draft.norm is base.norm
    assert draft.layers[0].qkv is not base.layers[0].qkv
    stored = method.modules["ssd-draft"].state_dict()
    assert {key.split(".")[0] for key in stored} == {"layers", "head", "feature_projection"}
    assert {key.split(".")[1] for key in stored if key.startswith("layers")} == {"0"}


@each_cache
def test_kv_bytes_list_both_models(tiny_lm, tiny_prefix, base_cache):
    """A draft that attends to the base's keys and values adds none."""
    method = make_method(tiny_lm, base_cache=base_cache)
    state = start(method, tiny_prefix, max_frames=10, forced=True)
    finish(method, state)
    assert set(state.caches) == ({"backbone"} if base_cache else {"backbone", "draft"})
    for cache, decoder in zip(state.caches.values(), (base_of(tiny_lm).decoder, method.draft)):
        assert cache.nbytes == cache.length * 2 * len(decoder.layers) * 2 * 16 * 4  # K and V, 2 KV heads of 16 floats


def test_a_checkpoint_says_which_kind_of_draft_it_holds(tiny_lm, tmp_path):
    """Those from before there were two say nothing: their draft has a cache of its own."""
    for base_cache in (True, False):
        checkpoints.save_module(tmp_path, "ssd-draft", Draft(tiny_lm, DraftConfig.of(tiny_lm.config, base_cache)))
        for fresh in SSD.build_modules(tiny_lm).values():
            loaded = checkpoints.load_module(tmp_path, "ssd-draft", fresh)
            assert loaded.config == DraftConfig.of(tiny_lm.config, base_cache)
    fresh.use_config({"trained": 1, "shared": 1, "layers": 2})
    assert fresh.config.attends is None and SSD.build_modules(tiny_lm)["ssd-draft"].config.attends == 0
    assert DraftConfig.of(replace(tiny_lm.config, layers=12)).base_layers == slice(5, 12, 6)
    assert DraftConfig.of(replace(tiny_lm.config, layers=24)).attends is None  # two blocks of its own
    with pytest.raises(ValueError, match="one block"):
        DraftConfig.of(replace(tiny_lm.config, layers=24), base_cache=True)


def test_auto_length_follows_acceptance():
    length = DraftLength((1.0, 1.48, 1.87, 2.25, 2.63))
    for _ in range(60):
        length.observe(8, 8)
    eager = length.best()
    for _ in range(150):
        length.observe(0, 1)
    shy = length.best()
    for _ in range(300):
        length.observe(0, 0)  # nothing drafted: the estimate drifts back, so that it tries again
    assert eager == FURTHEST and shy == 0 and length.best() >= 1


def test_costs_are_of_rounds_in_a_row(monkeypatch):
    """As in a run. A round behind one of another length also waits for what that has driven from the cache, which for
    the cheapest round is most of its time: all lengths would seem to pay."""
    now, before = 0.0, -1

    def rounds(length):
        def each():
            nonlocal now, before
            now += 1 + length / 2 + 2 * (length != before)
            before = length

        return each

    monkeypatch.setattr(length_module, "work_clock", lambda device: lambda: now)
    assert round_costs([rounds(length) for length in range(4)], torch.device("cpu")) == (1, 1.5, 2, 2.5)


def test_auto_length_starts_from_what_the_tolerance_lets_through(tiny_lm, tiny_prefix):
    """Where exact drafts do not pay, tolerant ones may: auto must not wait for a rate that it never observes."""
    costs = (1.0, 2.0, 2.5, 3.0, 3.5)
    assert DraftLength(costs, tolerance=0.0).best() == 0 and DraftLength(costs, tolerance=0.4).best() > 1
    assert DraftLength(costs, tolerance=1.0).rate == 1 and DraftLength(costs, tolerance=1.0).best() == FURTHEST
    method = make_method(tiny_lm)
    method._costs = costs
    exact, tolerant = (
        method.length_of(start(method, tiny_prefix, tolerance=t, draft_length="auto").start) for t in (0.0, 0.4)
    )
    assert tolerant.prior > exact.prior


def test_auto_drafts_nothing_where_that_is_fastest(tiny_lm, tiny_prefix):
    method = make_method(tiny_lm)
    method._costs = (1.0, 5.0, 6.0, 7.0, 8.0)
    state = method.prefill(
        tiny_prefix, method.Options(draft_length="auto"), Sampling(), torch.Generator().manual_seed(0), 24
    )
    steps, tokens = finish(method, state)
    assert all(step.proposed == 0 for step in steps)
    theirs = Baseline(base_of(tiny_lm)).prefill(tiny_prefix, None, Sampling(), torch.Generator().manual_seed(0), 24)
    assert tokens == finish(Baseline(base_of(tiny_lm)), theirs)[1]  # token for token, seed for seed


def test_auto_measures_what_rounds_cost_once(tiny_lm, tiny_prefix, monkeypatch):
    """By a clock that says how many tokens the two models read: a round costs what it reads."""
    method, read = make_method(tiny_lm), [0.0]
    for decoder in (method.decoder, method.draft):
        forward = decoder.forward

        def counted(x, *args, forward=forward, **kw):
            read[0] += x.shape[1]
            return forward(x, *args, **kw)

        monkeypatch.setattr(decoder, "forward", counted)
    monkeypatch.setattr(length_module, "work_clock", lambda device: lambda: read[0])
    auto = method.Options(draft_length="auto")
    prefill = lambda: method.prefill(tiny_prefix, auto, GREEDY, torch.Generator().manual_seed(0), 24)
    prefill()
    costs = method._costs
    assert len(costs) == FURTHEST + 1 and costs[0] == 1 and list(costs) == sorted(costs) and costs[1] >= 2
    before = read[0]
    prefill()
    assert method._costs is costs and read[0] - before <= 2 * len(tiny_prefix.x) + 2 * len(tiny_prefix.prompt_codes)
