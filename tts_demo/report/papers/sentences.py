"""Sentences under a paper's table: their figures come from the records, and a verdict from an interval."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ...measure.rows import BASELINE, Row
from ...measure.summary import Difference, Results, difference, gain_of
from .data import Paper, Sentence


def sentences(paper: Paper, results: Results, codec: pd.DataFrame, readme: bool = False) -> list[str]:
    """What is said of a paper's method; ``readme``: what of it the README says. A sentence one of whose figures was not
    measured is left out."""
    tables = dict(quality=results.quality, points=100 * results.quality, speed=results.speed, codec=codec)
    filled = (_filled(s, results, tables) for s in paper.sentences if s.readme or not readme)
    return [text for text in filled if text]


def _filled(sentence: Sentence, results: Results, tables: Mapping[str, Any]) -> str:
    text, figures = sentence.text, dict(tables)
    if sentence.is_verdict:
        found = compared(sentence, results)
        if found is None:
            return ""
        text = {1: sentence.better, -1: sentence.worse, 0: sentence.equal}[verdict(sentence, found)]
        figures |= _figures(sentence, found, results)
    try:
        return text.format(**figures)
    except (AttributeError, KeyError):  # a column or a row that was not measured
        return ""


def compared(sentence: Sentence, results: Results) -> Difference | None:
    """Word errors of the two rows on the same texts and seeds, in points; or the speed-up over the baseline."""
    if sentence.figure == "lm_gain":
        return gain_of(results, sentence.row)
    return difference(results, sentence.row.label, sentence.against.label)


def verdict(sentence: Sentence, found: Difference) -> int:
    """1 the row is better, -1 it is worse, 0 they are not told apart by the 95 % interval."""
    neutral, sign = (1.0, 1) if sentence.figure == "lm_gain" else (0.0, -1)
    return sign if found.low > neutral else -sign if found.high < neutral else 0


def _figures(sentence: Sentence, found: Difference, results: Results) -> dict[str, float]:
    """points, low, high: of the difference; gain: the speed-up, or points saved; pairs, texts: compared; cost: a step
    of the row in steps of the baseline."""
    gain = found.value if sentence.figure == "lm_gain" else -found.value
    figures = {"points": found.value, "low": found.low, "high": found.high, "gain": gain}
    figures |= {"pairs": found.pairs, "texts": found.texts}
    labels = [sentence.row.label, Row.of(BASELINE).label]
    if "ms_per_step" in results.speed and set(labels) <= set(results.speed.index):
        mine, base = results.speed.loc[labels, "ms_per_step"]
        figures["cost"] = mine / base
    return figures
