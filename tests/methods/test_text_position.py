"""The place in the text: what is in sight of it, how it follows the heads that look at the spoken phoneme."""

from __future__ import annotations

import pytest
import torch

from conftest import base_of
from tts_demo.lm.masks import prefix_mask
from tts_demo.methods.compressed import RingCache, text_position
from tts_demo.methods.compressed.shifts import rotation_by
from tts_demo.methods.compressed.text_position import ALIGNMENT_LAYERS, BEHIND, DISTANCE, TextPosition, prefix_shifts


def looks(place: TextPosition, symbol: int, sharp: float = 6.0) -> None:
    """One frame whose guided heads look at ``symbol``, or about them when it is out of sight."""
    seen = place.window(place.index)
    keys = torch.zeros(place.text.stop, 2)
    keys[place.text.start + symbol, 0] = sharp * 2**0.5
    keys[place.text.start : place.text.start + seen.stop - seen.start] = keys[seen].clone()
    place.observe(ALIGNMENT_LAYERS[0], torch.tensor([1.0, 0.0]).view(1, 1, 1, 2), keys[None, None])
    assert len(place._attention) == seen.stop - seen.start
    place.advance()


def test_what_is_in_sight():
    place = TextPosition(slice(3, 23), 4)
    assert [place.window(now) for now in (0, 4, 10, 19)] == [slice(3, 8), slice(3, 12), slice(9, 18), slice(18, 23)]
    assert not place.end_visible and TextPosition(slice(3, 8), 4).end_visible


def test_it_follows_what_is_looked_at():
    place, spoken = TextPosition(slice(2, 62), 12), []
    for frame in range(160):  # three frames a symbol
        looks(place, frame // 3)
        spoken.append(place.index)
    assert max(abs(now - frame // 3) for frame, now in enumerate(spoken)) <= 2
    assert place.end_visible


def test_speech_is_through_a_while_after_the_last_symbol():
    place = TextPosition(slice(0, 20), 30)
    for frame in range(60):
        assert not place.finished
        looks(place, frame // 3)
    said = [looks(place, 19) or place.finished for _ in range(40)]
    assert not any(said[:25]) and said[-1] and said == sorted(said)


def test_a_glance_at_the_same_words_further_on_does_not_carry_it_away():
    """What the filter is for: attention alone would jump, and a window with it."""
    place = TextPosition(slice(0, 80), 20)
    for frame in range(90):
        looks(place, frame // 3)
    for frame in range(90, 96):
        looks(place, frame // 3 + 14)
        assert abs(place.index - frame // 3) <= 4
    for frame in range(96, 150):
        looks(place, frame // 3)
    assert abs(place.index - 49) <= 2


def test_it_never_goes_back_by_more_than_it_was_unsure():
    place = TextPosition(slice(0, 60), 15)
    for frame in range(90):
        looks(place, frame // 3)
    for _ in range(40):
        looks(place, 20)
    assert place.index >= 26


def test_heads_that_never_looked_are_a_mistake_of_the_program():
    with pytest.raises(AssertionError, match="guided"):
        TextPosition(slice(0, 5), 16).advance()


def test_what_is_looked_at_is_the_attention_of_the_first_head(tiny_lm, tiny_prefix, monkeypatch):
    monkeypatch.setattr(text_position, "ALIGNMENT_LAYERS", (1,))
    decoder, n = base_of(tiny_lm).decoder, len(tiny_prefix.x)
    x = torch.cat([tiny_prefix.x, torch.randn(1, 64)])
    mask = prefix_mask(n, n + 1, True)
    place = TextPosition(tiny_prefix.text, 2)
    mask[n, place.text] = False
    mask[n, place.window(3)] = True
    place.index = 3
    whole, cache = decoder.new_cache(n), RingCache.new(decoder, n, 30, 0, 10)
    decoder.forward(x[None, :n], whole, 0, mask[:n, :n])
    parts, still = (slice(0, place.text.start), place.window(3), slice(place.text.stop, n)), torch.zeros(3).long()
    cache.show_prefix(whole, parts, rotation_by(decoder, still))
    decoder.forward(x[None, n:], cache, n, cache.mask(), place.observe)
    _, weights = decoder.full(x[None], torch.arange(n + 1), mask, place.window(3))
    expected = weights[1, 0, n] / weights[1, 0, n].sum()
    torch.testing.assert_close(place._attention, expected, atol=1e-5, rtol=1e-4)


def test_what_stands_before_speech_is_always_as_far_away():
    """However far the run has come: the symbol being spoken, the speaker before the first visible one, TASK and prompt
    behind the last; so no two kinds of columns fall on the same positions."""
    start, symbols, prompt, reach = 2, 900, 7, 30
    fixed = start + symbols + 1 + prompt
    for spoken, place in ((0, 0), (40, 10), (400, 130), (30_000, 899)):
        by = [int(b) for b in prefix_shifts(start, fixed, prompt, reach, torch.tensor(place), torch.tensor(spoken))]
        here = fixed + spoken
        assert here - (start + place + by[1]) == DISTANCE + prompt
        assert here - (start - 1 + by[0]) == DISTANCE + prompt + min(place, reach) + 1
        assert here - (fixed - 1 + by[2]) == min(spoken, BEHIND) + 1
        last_symbol, task = start + place + reach + by[1], start + symbols + by[2]
        assert last_symbol < task


def test_a_prefix_that_moved_is_one_that_was_put_there(tiny_lm, tiny_prefix):
    """Keys turned in the cache are keys of a pass at other positions, in any order of moves."""
    decoder, x, count = base_of(tiny_lm).decoder, tiny_prefix.x[None], len(tiny_prefix.x)
    whole, put = (decoder.new_cache(count) for _ in range(2))
    ring = RingCache.new(decoder, count - 1, 30, 0, 10)
    decoder.forward(x, whole, 0)
    decoder.forward(x, put, torch.arange(count) + 5)
    for by, parts in ((300, (slice(0, 2),)), (-2, (slice(0, 3), slice(4, count))), (5, (slice(0, 2), slice(3, 6)))):
        ring.show_prefix(whole, parts, rotation_by(decoder, torch.full((len(parts),), by)))
    shown = [0, 1, 3, 4, 5]
    torch.testing.assert_close(ring.k[:, :, :, :5], put.k[:, :, :, shown], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ring.v[:, :, :, :5], put.v[:, :, :, shown], atol=1e-5, rtol=1e-5)
    assert ring.has_empty_slots and ring.mask().tolist() == [[True] * 5 + [False] * (count - 6) + [True]]
    assert ring.nbytes == whole.nbytes + (count - 1) * ring.slot_bytes
    with pytest.raises(AssertionError):
        ring.show_prefix(whole, (slice(0, count),), rotation_by(decoder, torch.zeros(1).long()))
