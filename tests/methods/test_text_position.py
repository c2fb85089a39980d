"""The position in the text: which symbols are visible from it, and how it follows the alignment heads."""

from __future__ import annotations

import pytest
import torch

from conftest import base_of
from tts_demo.lm.masks import prefix_mask
from tts_demo.methods.compressed import RingCache, text_position
from tts_demo.methods.compressed.ring import COLUMNS, write_columns
from tts_demo.methods.compressed.text_position import (
    ALIGNMENT_LAYERS,
    BEHIND,
    DISTANCE,
    TextFilter,
    TextPosition,
    prefix_shifts,
)

SPECIAL = torch.tensor([False, True])  # of a vocabulary of one code and end of speech


def looks(place: TextPosition, symbol: int, sharp: float = 6.0) -> bool:
    """One frame whose alignment heads look at ``symbol``, or at nothing in particular where it is not visible
    -> whether speech must end then."""
    seen = place.window(place.index)
    keys = torch.zeros(place.text.stop, 2)
    keys[place.text.start + symbol, 0] = sharp * 2**0.5
    keys[place.text.start : place.text.start + seen.stop - seen.start] = keys[seen].clone()
    frame, visible = TextFilter(*place.inputs), seen.stop - seen.start
    frame.observe(ALIGNMENT_LAYERS[0], torch.tensor([1.0, 0.0]).view(1, 1, 1, 2), keys[None, None])
    (attention,) = frame.attention
    assert len(attention) == 2 * place.reach + 1 and not attention[visible:].any()
    assert float(attention[:visible].sum()) == pytest.approx(1)
    posterior, found = frame.advance()
    assert not posterior[place.symbols :].any() and float(posterior.sum()) == pytest.approx(1)
    place.move(posterior, int(found))
    may_speak, may_end = (~frame.forbidden(found, SPECIAL)).tolist()
    assert may_end == place.end_visible
    return not may_speak


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
    assert not any(looks(place, frame // 3) for frame in range(60))
    ends = [looks(place, 19) for _ in range(40)]
    assert not any(ends[:25]) and ends[-1] and ends == sorted(ends)


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
    with pytest.raises(AssertionError, match="alignment head"):
        TextFilter(*TextPosition(slice(0, 5), 16).inputs).advance()


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
    parts = slice(0, place.text.start), place.window(3), slice(place.text.stop, n)
    cache.show_prefix(whole, parts, (0, 0, 0))
    cache.write_prefix(decoder)
    frame = TextFilter(*place.inputs)
    decoder.forward(x[None, n:], cache, n, cache.mask(), frame.observe)
    _, weights = decoder.full(x[None], torch.arange(n + 1), mask, place.window(3))
    expected = weights[1, 0, n] / weights[1, 0, n].sum()
    torch.testing.assert_close(frame.attention[0][: len(expected)], expected, atol=1e-5, rtol=1e-4)


def test_what_stands_before_speech_is_always_as_far_away():
    """However far the run has come: the symbol being spoken, the speaker before the first visible one, TASK and prompt
    behind the last; so no two kinds of columns fall on the same positions."""
    start, symbols, prompt, reach = 2, 900, 7, 30
    fixed = start + symbols + 1 + prompt
    for spoken, place in ((0, 0), (40, 10), (400, 130), (30_000, 899)):
        by = prefix_shifts(start, fixed, prompt, reach, place, spoken)
        on_device = prefix_shifts(start, fixed, prompt, reach, torch.tensor(place), torch.tensor(spoken))
        assert [int(b) for b in on_device] == list(by)
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
        ring.show_prefix(whole, parts, [by] * len(parts))
        ring.write_prefix(decoder)
    shown = [0, 1, 3, 4, 5]
    torch.testing.assert_close(ring.k[:, :, :, :5], put.k[:, :, :, shown], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ring.v[:, :, :, :5], put.v[:, :, :, shown], atol=1e-5, rtol=1e-5)
    columns = ring.prefix_columns()
    assert columns.shape == (3, COLUMNS) and columns[:, 4:].unique(dim=1).tolist() == [[5], [4], [5]]
    by_columns = torch.full_like(ring.kv, 7.0)
    write_columns(decoder, by_columns, whole.kv, columns)
    assert torch.equal(by_columns[:, :, :, :5], ring.kv[:, :, :, :5]) and (by_columns[:, :, :, 5:] == 7).all()
    assert ring.has_empty_slots and ring.mask().tolist() == [[True] * 5 + [False] * (count - 6) + [True]]
    assert ring.nbytes == whole.nbytes + (count - 1) * ring.slot_bytes
    with pytest.raises(AssertionError):
        ring.show_prefix(whole, (slice(0, count),), (0,))
