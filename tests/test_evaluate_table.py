"""Records summed up: rates pool errors over words, and what a row adds to the baseline's errors is judged in pairs."""

from __future__ import annotations

import numpy as np
import pytest

from tts_demo.evaluate_table import compare, summarise


def record(errors: int, words: int = 10, sim: float | None = 0.8) -> dict:
    return {"words": [errors, words], "sim": sim}


def test_rates_pool_errors_over_words_and_lie_in_their_interval() -> None:
    row = summarise([record(1, 10), record(9, 30), {"words": None, "sim": None}])
    assert row["runs"] == 3 and row["wer"] == pytest.approx(10 / 40) and row["sim"] == pytest.approx(0.8)
    assert row["wer_interval"] == pytest.approx([1 / 10, 9 / 30])


def test_what_is_added_to_every_text_is_found_exactly_however_unlike_the_texts_are() -> None:
    hard = np.random.default_rng(0).integers(0, 8, 40)
    pairs = [(record(e + 1, sim=0.7), record(e)) for e in hard]
    found, alone = compare(pairs), summarise([mine for mine, _ in pairs])
    assert found["wer_above_baseline"] == pytest.approx(0.1) and found["wer_above_baseline_interval"] == pytest.approx([0.1, 0.1])
    assert found["sim_above_baseline"] == pytest.approx(-0.1)
    low, high = alone["wer_interval"]
    assert high - low > 0.1  # what the row's own interval would have left open


def test_chance_alone_has_zero_in_its_interval_and_missing_judges_no_figure() -> None:
    rng = np.random.default_rng(1)
    pairs = [(record(int(a)), record(int(b))) for a, b in rng.integers(0, 6, (200, 2))]
    low, high = compare(pairs)["wer_above_baseline_interval"]
    assert low < 0 < high
    assert compare([({"words": None, "sim": None}, record(1))]) == {} == compare([])
