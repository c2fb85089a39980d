"""Compressed-to-fine: who sees whom, summaries that are never said, masked and evicted decoding alike, a bounded
cache."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
import torch

from conftest import base_of, make_prefix
from tts_demo.config import Sampling, UserError
from tts_demo.methods import METHODS
from tts_demo.methods.baseline import Baseline
from tts_demo.methods.compressed import Compressed, Layout, RingCache, masks
from tts_demo.methods.compressed.text_position import TextFilter

GREEDY, HOT = Sampling(temperature=0), Sampling(1.0, 0, 1.0)


@pytest.fixture(scope="module")
def method(tiny_lm):
    torch.manual_seed(7)
    modules = Compressed.build_modules(tiny_lm)
    for adapter in modules.values():
        for weight in adapter.requires_grad_(False).parameters():
            weight.add_(torch.randn_like(weight) * 0.05)  # an adapter that does something
    return Compressed(base_of(tiny_lm), modules)


def start(method, prefix, sampling=HOT, seed=0, max_frames=60, forced=True, **options):
    return method.prefill(
        prefix, method.Options(**options), sampling, torch.Generator().manual_seed(seed), max_frames, forced
    )


def finish(method, state):
    """-> tokens, and the hidden state that decided each step [R, H]."""
    hidden, tokens = [], []
    while True:
        step = method.step(state)
        hidden.append(state.hidden[0, 0])
        tokens += step.frames[:, 0].tolist()
        if step.done:
            return tokens, torch.stack(hidden)


def test_registry_and_options():
    assert METHODS["compressed"] is Compressed
    assert Compressed.Options.parse({"window": "120", "group": "5"}) == Compressed.Options(120, 5)
    for bad in ({"window": "20"}, {"window": "201"}, {"group": "7"}, {"window": "-1"}):
        with pytest.raises(UserError):
            Compressed.Options.parse(bad)


@pytest.mark.parametrize("window, group, prompt", [(3, 2, 4), (4, 3, 0), (5, 5, 2), (6, 4, 1), (4, 0, 3)])
def test_mask_position_by_position(window, group, prompt):
    """Against the definition spelled out as sets, for every row of a small case, borders included."""
    tokens, prefix = 19, 3
    layout = Layout.of(prompt, tokens, group)
    names = [("p", i) for i in range(prefix)] + [
        ("w" if s else "y", int(i)) for i, s in zip(layout.index, layout.summary)
    ]
    expected_order, said = [], 0
    for i in range(-prompt, tokens):
        expected_order.append(("y", i))
        if group and i >= 0 and (i + 1) % group == 0:
            expected_order.append(("w", i))
    assert names[prefix:] == expected_order
    mask = masks(prefix, layout, window, group, True)
    everything = {("p", i) for i in range(prefix)}
    for row, (kind, i) in zip(mask, names):
        seen = {name for name, allowed in zip(names, row) if allowed}
        if kind == "p":
            assert seen == everything
        elif kind == "w":  # its span and itself, nothing else
            assert seen == {("y", u) for u in range(i - group + 1, i + 1)} | {("w", i)}
        else:
            t = i + 1  # the token this row decides
            spans = max(0, (t - window) // group) if group else 0
            assert seen == (
                everything
                | {("y", u) for u in range(-prompt, min(0, t))}
                | {("y", u) for u in range(max(0, t - window), t)}
                | {("w", (j + 1) * group - 1) for j in range(spans)}
            )
            said += 1
    assert said == prompt + tokens


def decode_masked(decoder, x, positions, mask, prefix):
    """Vanilla inference: everything stays in an ordinary cache, one row at a time, under the mask. x [T, H], positions
    [T], mask [T, T]; the first ``prefix`` rows in one pass -> hidden [T, H]."""
    cache = decoder.new_cache(len(x))
    hidden = [decoder.forward(x[None, :prefix], cache, positions[:prefix], mask[:prefix, :prefix])[0]]
    for i in range(prefix, len(x)):
        hidden.append(decoder.forward(x[None, i : i + 1], cache, positions[i : i + 1], mask[i : i + 1, : i + 1])[0])
    return torch.cat(hidden)


@pytest.mark.parametrize("window, group", [(50, 10), (30, 15), (40, 5), (50, 0), (35, 10)])
def test_evicting_equals_masking_over_400_steps(method, tiny_lm, tiny_prefix, window, group):
    state = start(method, tiny_prefix, max_frames=400, window=window, group=group)
    tokens, evicted = finish(method, state)
    replay = method.replay(state)
    assert len(tokens) == len(replay.rows) == 400 and replay.first_frame == tuple(range(400))
    n = len(tiny_prefix.x) + len(tiny_prefix.prompt_codes)
    masked = decode_masked(method.decoder, replay.x, replay.positions, replay.mask, n)[replay.rows]
    at_once = method.decoder.full(replay.x[None], replay.positions, replay.mask, None)[0][0, replay.rows]
    logits = method.decoder.logits
    assert (logits(masked) - logits(evicted)).abs().max() < 1e-4
    assert (logits(at_once) - logits(evicted)).abs().max() < 1e-4
    assert state.caches["backbone"].generated == 399


def test_summaries_matter_and_are_never_emitted(method, tiny_lm, tiny_prefix):
    """Without summaries the logits differ once the first span has left the window, and not before."""
    runs = {
        group: finish(method, start(method, tiny_prefix, GREEDY, window=30, group=group, max_frames=41))[1]
        for group in (0, 10)
    }
    same = [torch.allclose(a, b, atol=1e-5) for a, b in zip(runs[0], runs[10])]
    assert all(same[:40]) and not same[40]  # token 40 is the first whose window begins behind span 0
    tokens, _ = finish(method, start(method, tiny_prefix, Sampling(2.0, 0, 1.0), forced=False, max_frames=80))
    assert all(0 <= token < tiny_lm.config.speech_codes for token in tokens)


@pytest.mark.parametrize("window, group", [(30, 10), (50, 5), (30, 0)])
def test_cache_size_follows_prompt_window_and_groups(method, tiny_prefix, window, group):
    state = start(method, tiny_prefix, window=window, group=group, max_frames=300)
    cache, fixed = state.caches["backbone"], len(tiny_prefix.x) + len(tiny_prefix.prompt_codes)
    peak = 0
    while not method.step(state).done:
        spoken = len(state.tokens) - 1  # the last one is not fed yet
        summaries = spoken // group if group else 0
        assert fixed + min(spoken, window) <= cache.length <= fixed + min(spoken, window) + summaries
        assert summaries - cache.summaries < (window // group if group else 1)  # at most a window's worth still to come
        assert cache.nbytes == cache.length * 2 * 2 * 2 * 16 * 4  # K and V, 2 layers, 2 KV heads of 16 floats
        live = cache.positions[cache.positions >= 0]
        assert len(live) == cache.length and int(live.max()) == fixed + spoken - 1
        peak = max(peak, cache.length)
    assert peak <= fixed + window + (299 // group if group else 0) and cache.length < cache.capacity + 1


def test_a_cache_that_is_too_small_says_so():
    cache = RingCache(1, 1, 1, 4, fixed=2, window=4, group=2, tokens=4)
    cache.claim(torch.arange(2))
    for position in range(2, 6):
        cache.claim(torch.arange(position, position + 1 + cache.summaries_due()))
    with pytest.raises(ValueError, match="allocate"):
        for position in range(6, 10):
            cache.claim(torch.arange(position, position + 1 + cache.summaries_due()))


def test_window_0_is_the_baseline(method, tiny_lm, tiny_prefix):
    base = Baseline(base_of(tiny_lm))
    for sampling, seed in ((GREEDY, 0), (HOT, 3)):
        expected, _ = finish(
            base, base.prefill(tiny_prefix, base.Options(), sampling, torch.Generator().manual_seed(seed), 60)
        )
        state = start(method, tiny_prefix, sampling, seed, forced=False, window=0)
        assert finish(method, state)[0] == expected
    replay = method.replay(state)
    assert replay.decoder is base_of(tiny_lm).decoder and torch.equal(replay.mask, base.replay(state).mask)
    on = finish(method, start(method, tiny_prefix, GREEDY, forced=False, window=200))[0]
    assert on != expected  # the adapter is real: what window 0 leaves out matters


def test_a_fresh_adapter_with_a_long_window_is_the_baseline(tiny_lm, tiny_prefix):
    fresh = Compressed(base_of(tiny_lm), Compressed.build_modules(tiny_lm))
    base = Baseline(base_of(tiny_lm))
    expected, _ = finish(base, base.prefill(tiny_prefix, base.Options(), GREEDY, torch.Generator(), 60))
    assert finish(fresh, start(fresh, tiny_prefix, GREEDY, forced=False, window=100))[0] == expected


def test_replay_after_end_of_speech_has_the_deciding_row(method, tiny_prefix):
    for seed in range(40):
        state = start(method, tiny_prefix, Sampling(2.0, 0, 1.0), seed, forced=False, max_frames=80, window=30, group=5)
        tokens, hidden = finish(method, state)
        if 40 < len(tokens) < 80:
            break
    replay = method.replay(state)
    assert len(replay.rows) == len(tokens) + 1 == len(hidden) and replay.frames_of[-1] == 0
    full = method.decoder.full(replay.x[None], replay.positions, replay.mask)[0][0, replay.rows]
    torch.testing.assert_close(full, hidden, atol=1e-4, rtol=1e-4)


def test_without_prompt_speech(method, tiny_lm, tiny_prefix):
    prefix = replace(tiny_prefix, prompt_codes=tiny_prefix.prompt_codes[:0])
    state = start(method, prefix, window=30, max_frames=70)
    tokens, hidden = finish(method, state)
    replay = method.replay(state)
    full = method.decoder.full(replay.x[None], replay.positions, replay.mask)[0][0, replay.rows]
    torch.testing.assert_close(full, hidden, atol=1e-4, rtol=1e-4)
    assert len(tokens) == 70


def test_two_runs_interleaved_are_two_runs_apart(method, tiny_prefix):
    apart = [finish(method, start(method, tiny_prefix, seed=seed, window=30))[0] for seed in (1, 2)]
    states = [start(method, tiny_prefix, seed=seed, window=30) for seed in (1, 2)]
    for _ in range(60):
        for state in states:
            method.step(state)
    assert [torch.cat(s.tokens).tolist() for s in states] == apart and apart[0] != apart[1]


@pytest.fixture
def windowed(method, guided, monkeypatch):
    """The method with windows as short as the texts here."""
    text = next(f for f in dataclasses.fields(Compressed.Options) if f.name == "text")
    monkeypatch.setattr(text, "metadata", text.metadata | {"choices": (0, 4, 40)})
    return method


def long_prefix(lm, symbols=24):
    return make_prefix(lm, text=symbols)


@pytest.mark.parametrize("group", [10, 0])
def test_text_through_a_window_evicting_equals_masking(windowed, tiny_lm, group):
    """The replay hides from every row what its step could not see, and gives the same hidden states."""
    prefix = long_prefix(tiny_lm)
    state = start(windowed, prefix, max_frames=150, window=30, group=group, text=4)
    tokens, hidden = finish(windowed, state)
    replay = windowed.replay(state)
    full = replay.decoder.full(replay.x[None], replay.positions, replay.mask, hook=replay.hook)[0][0, replay.rows]
    torch.testing.assert_close(full, hidden, atol=1e-4, rtol=1e-4)
    text = prefix.text
    assert len(state.indices) == 149 and sorted(set(state.indices))[0] == 0 and len(set(state.indices)) > 1
    for place, row in zip(state.indices, replay.rows[1:]):  # the first step reads the prefill, which sees all
        seen = replay.mask[row, text].nonzero()[:, 0]
        assert seen.tolist() == [i for i in range(24) if abs(i - place) <= 4]
    assert replay.mask[replay.rows[0], text].all() and replay.mask[:, : text.start].any(1).sum() > 100
    whole = finish(windowed, start(windowed, prefix, max_frames=150, window=30, group=group))[0]
    assert whole != tokens


def test_a_step_attends_to_as_many_slots_however_long_the_text_is(windowed, tiny_lm):
    attended = []
    for symbols in (24, 240):
        state = start(windowed, long_prefix(tiny_lm, symbols), max_frames=60, window=30, group=0, text=4)
        finish(windowed, state)
        attended.append(state.caches["backbone"].attended)
    assert attended[0] == attended[1] == 30 + len(long_prefix(tiny_lm, 9).x) + len(state.prefix.prompt_codes)


def test_what_is_cached_before_speech_counts_from_the_first_step_on(windowed, tiny_lm):
    """All of a text that moves, kept aside, and the slots that show a part of it: only the latter stay with speech."""
    state = start(windowed, long_prefix(tiny_lm, 60), max_frames=60, window=30, group=0, text=4)
    cache, slot = state.caches["backbone"], 2 * 2 * 2 * 16 * 4
    before = cache.nbytes
    assert before == (state.full_prefix.length + cache.fixed) * slot
    windowed.step(state)
    assert cache.nbytes == before, "the first token is decided by the first pass"
    for _ in range(40):
        windowed.step(state)
    assert cache.nbytes == before + 30 * slot


def test_a_text_that_moves_stands_behind_no_transcript(windowed, tiny_lm):
    """It would say words of that one too; a text that is always in sight stays behind it."""
    prefix = long_prefix(tiny_lm)
    own = slice(prefix.text.start + 6, prefix.text.stop)
    behind = dataclasses.replace(prefix, text=own, transcript=6)
    alone = behind.without_prompt()
    assert not len(alone.prompt_codes) and alone.text == slice(prefix.text.start, own.stop - 6)
    assert torch.equal(alone.x, torch.cat([prefix.x[: prefix.text.start], prefix.x[own.start :]]))
    run = lambda prefix, text: finish(windowed, start(windowed, prefix, window=30, text=text))
    assert run(behind, 4)[0] == run(alone, 4)[0] and run(behind, 40)[0] != run(alone, 40)[0]
    state = start(windowed, behind, window=30, text=4)
    hidden, replay = finish(windowed, state)[1], windowed.replay(state)
    full = replay.decoder.full(replay.x[None], replay.positions, replay.mask, hook=replay.hook)[0][0, replay.rows]
    torch.testing.assert_close(full, hidden, atol=1e-4, rtol=1e-4)


def test_a_window_longer_than_the_text_is_the_whole_text(windowed, tiny_lm, tiny_prefix):
    same = Compressed(
        base_of(tiny_lm), dict.fromkeys(("compressed", "compressed-text"), windowed.modules["compressed"])
    )
    runs = [finish(same, start(same, tiny_prefix, forced=False, seed=3, text=text))[0] for text in (0, 40)]
    assert runs[0] == runs[1]
    other = finish(windowed, start(windowed, tiny_prefix, forced=False, seed=3, text=40))[0]
    assert other != runs[0]  # it has an adapter of its own


def test_speech_does_not_end_before_the_end_of_the_text_is_in_sight(windowed, tiny_lm, monkeypatch):
    def runs() -> list[tuple[int, bool]]:
        states = [
            start(windowed, long_prefix(tiny_lm, 60), Sampling(2.0, 0, 1.0), seed, forced=False, max_frames=200, text=4)
            for seed in range(12)
        ]
        return [(len(finish(windowed, state)[0]), state.position.end_visible) for state in states]

    assert all(length == 200 or sees for length, sees in runs())
    monkeypatch.setattr(Compressed, "forbidden", Baseline.forbidden)
    monkeypatch.setattr(TextFilter, "forbidden", lambda self, symbol, special: None)
    assert not all(length == 200 or sees for length, sees in runs())  # what would be said without the rule


def test_a_model_without_guided_layers_says_so(method, tiny_prefix):
    with pytest.raises(UserError, match="no layers that follow the text"):
        start(method, tiny_prefix, text=20)


def test_a_window_on_the_text_needs_weights_of_its_own(windowed, tiny_lm, tiny_prefix):
    method = windowed
    alone = Compressed(base_of(tiny_lm), {"compressed": method.modules["compressed"]})
    finish(alone, start(alone, tiny_prefix))
    with pytest.raises(UserError, match="set text to 0"):
        start(alone, tiny_prefix, text=40)
    for bad in ({"text": "5"}, {"text": "many"}, {"text": "-20"}):
        with pytest.raises(UserError):
            Compressed.Options.parse(bad)
