"""What a map says about the words of a text, on maps whose reading is known."""

from __future__ import annotations

import numpy as np
import pytest

from tts_demo.ui.run import plots, reading
from tts_demo.ui.run.session import AttentionPicture

WORDS = ("and", "gave", "one", "of", "them", "away")


def read(*stretches: tuple[int, float], words: tuple[str, ...] = WORDS, step: float = 0.02) -> AttentionPicture:
    """A map that reads these words, (which, seconds) each, two tokens a word, one step every ``step`` seconds."""
    path = [word for word, seconds in stretches for _ in range(round(seconds / step))]
    weights = np.full((1, 1, len(path), 2 * len(words)), 0.01, np.float16)
    for at, word in enumerate(path):
        first = path[:at].count(word) < path.count(word) / 2
        weights[0, 0, at, 2 * word + (0 if first else 1)] = 0.9
    start = np.arange(len(path), dtype=np.float32) * step
    return AttentionPicture(
        weights, ("x",) * 2 * len(words), start, start + step, tuple(w for w in words for _ in range(2))
    )


def test_words_read_once_are_neither_missing_nor_repeated():
    once = read(*((i, 0.2) for i in range(6)))
    assert reading.unread(once) == [] and reading.repeated(once) == []
    assert [v.word for v in reading.visits(once)] == list(range(6))
    second = reading.visits(once)[1]
    assert (second.word, second.start, second.end) == (1, pytest.approx(0.2), pytest.approx(0.4))


def test_a_clause_that_is_read_twice_is_repeated():
    """Two parallel diagonals, one after the other."""
    clause = [(i, 0.2) for i in range(2, 6)]
    again = read(*((i, 0.2) for i in range(6)), *clause)
    assert reading.repeated(again) == [2, 3, 4, 5]
    then = read(*((i, 0.2) for i in range(4)), (2, 0.2), (3, 0.2), (4, 0.2), (5, 0.2))
    assert reading.repeated(then) == [2, 3]
    shown = plots.attention_payload(again)
    assert [shown["words"][k][2] for k in shown["repeated"]] == ["one", "of", "them", "away"]
    assert reading.repeated(read(*((i, 0.2) for i in range(6)), *clause, step=0.08)) == [2, 3, 4, 5]  # of patches


def test_a_glance_back_is_no_repetition():
    plain = [(i, 0.2) for i in range(6)]
    assert reading.repeated(read(*plain[:3], (1, 0.02), *plain[3:])) == []  # one step at a word
    assert reading.repeated(read(*plain[:3], (1, 0.04), (2, 0.04), *plain[3:])) == []  # two, briefly
    assert reading.repeated(read(*plain[:3], (1, 0.2), *plain[3:])) == []  # a single word is in no order
    assert reading.repeated(read(*plain, (0, 0.02))) == []
    assert reading.repeated(read((0, 0.04), (1, 0.04), *plain)) == []  # nor is a glance ahead
    assert reading.repeated(read((1, 0.06), *plain)) == []


def test_words_that_attention_never_came_to_are_missing():
    cut = read(*((i, 0.2) for i in (0, 1, 2, 4, 5)))
    assert reading.unread(cut) == [3]
    nothing = AttentionPicture(cut.weights, cut.labels, cut.start, cut.end, ())
    assert reading.unread(nothing) == [] and reading.repeated(nothing) == []
