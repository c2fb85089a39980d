"""Records summed up: rates pool errors over words, and what a row adds to the baseline's errors is judged in pairs."""

from __future__ import annotations

import numpy as np
import pytest

from tts_demo.report.table import compare, summarise


def record(errors: int, words: int = 10, sim: float | None = 0.8) -> dict:
    return {"words": [errors, words], "sim": sim}


def test_rates_pool_errors_over_words_and_lie_in_their_interval() -> None:
    row = summarise([[record(1, 10)], [record(9, 30)], [{"words": None, "sim": None}]])
    assert (
        row["runs"] == row["texts"] == 3 and row["wer"] == pytest.approx(10 / 40) and row["sim"] == pytest.approx(0.8)
    )
    assert row["wer_interval"] == pytest.approx([1 / 10, 9 / 30])


def test_what_is_added_to_every_text_is_found_exactly_however_unlike_the_texts_are() -> None:
    hard = np.random.default_rng(0).integers(0, 8, 40)
    pairs = [([record(e + 1, sim=0.7)], [record(e)]) for e in hard]
    found, alone = compare(pairs), summarise([mine for mine, _ in pairs])
    assert found["wer_above_baseline"] == pytest.approx(0.1) and found["wer_above_baseline_interval"] == pytest.approx(
        [0.1, 0.1]
    )
    assert found["sim_above_baseline"] == pytest.approx(-0.1)
    low, high = alone["wer_interval"]
    assert high - low > 0.1  # what the row's own interval would have left open


def test_chance_alone_has_zero_in_its_interval_and_missing_judges_no_figure() -> None:
    rng = np.random.default_rng(1)
    pairs = [([record(int(a))], [record(int(b))]) for a, b in rng.integers(0, 6, (200, 2))]
    low, high = compare(pairs)["wer_above_baseline_interval"]
    assert low < 0 < high
    assert compare([([{"words": None, "sim": None}], [record(1)])]) == {} == compare([])


def test_takes_of_a_text_are_one_text_spoken_more_often() -> None:
    rng = np.random.default_rng(2)
    errors = rng.integers(0, 6, 30)
    once, thrice = ([[record(int(e))] * n for e in errors] for n in (1, 3))
    one, three = summarise(once), summarise(thrice)
    assert (three.pop("runs"), one.pop("runs")) == (90, 30) and three == one  # the same again tells nothing new
    uneven = compare([([record(4)], [record(1), record(2), record(3)]), ([record(5), record(3)], [record(2)])])
    assert uneven["wer_above_baseline"] == pytest.approx((4 - 2 + 4 - 2) / 20)


def test_speaking_each_text_more_often_narrows_what_its_own_chance_leaves_open() -> None:
    rng = np.random.default_rng(3)
    takes = lambda n: [record(int(e)) for e in rng.integers(0, 6, n)]
    width = lambda n: np.diff(compare([(takes(n), takes(n)) for _ in range(100)])["wer_above_baseline_interval"])[0]
    assert width(9) < 0.5 * width(1)
