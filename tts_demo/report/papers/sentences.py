"""Sentences under a paper's table: templates filled with measured figures. A verdict (better, worse, equal) follows
from a 95 % interval."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ...measure.rows import BASELINE, Row
from ...measure.summary import Difference, Results, difference, of_rounds
from .data import Paper, Sentence


def sentences(paper: Paper, results: Results, codec: pd.DataFrame, readme: bool = False) -> list[str]:
    """The filled sentences of ``paper``, or with ``readme`` those that the README shows. A sentence is left out where a
    figure in it was not measured."""
    tables = tables_of(results) | {"codec": codec}
    goals = {goal.row: goal.bound for goal in paper.goals if goal.figure == "lm_gain" and not goal.against}
    filled = (_filled(s, results, tables, goals.get(s.row)) for s in paper.sentences if s.readme or not readme)
    return [text for text in filled if text]


def tables_of(results: Results) -> dict[str, pd.DataFrame]:
    """What templates read by row. speed.cost: time of a step over that of the baseline beside it: a machine that is
    faster at one hour than at another makes both so."""
    speed, base = results.speed, Row.of(BASELINE).label
    if "ms_per_step" in speed and base in speed.index:
        beside = speed["ms_per_step"] / (speed["lm_gain"] * speed["lm_rtf"])  # over the language model's time beside it
        speed = speed.assign(cost=beside / beside[base])
    return {"quality": results.quality, "points": 100 * results.quality, "speed": speed}


def _filled(sentence: Sentence, results: Results, tables: Mapping[str, Any], goal: float | None) -> str:
    text, figures = sentence.text, tables | _costs(sentence.row, tables["speed"], goal)
    if sentence.is_verdict:
        found = compared(sentence, results)
        if found is None:
            return ""
        text = {1: sentence.better, -1: sentence.worse, 0: sentence.equal}[verdict(sentence, found)]
        figures |= _figures(sentence, found)
    try:
        filled = text.format(**figures)
    except (AttributeError, KeyError):  # a column or a row that was not measured
        return ""
    return "" if re.search(r"\bnan\b", filled) else filled


def compared(sentence: Sentence, results: Results) -> Difference | None:
    """The measured difference behind a verdict: word errors of ``row`` less those of ``against`` on the same texts and
    seeds, in points, or the speed-up of ``row`` over the baseline. None where it was not measured."""
    if sentence.figure == "lm_gain":
        return of_rounds(results, sentence.row.label)
    return difference(results, sentence.row.label, sentence.against.label)


def verdict(sentence: Sentence, found: Difference) -> int:
    """1: the row is better, -1: worse, 0: the 95 % interval contains no difference (a speed-up of 1)."""
    neutral, sign = (1.0, 1) if sentence.figure == "lm_gain" else (0.0, -1)
    return sign if found.low > neutral else -sign if found.high < neutral else 0


def _costs(row: Row, speed: pd.DataFrame, goal: float | None) -> dict[str, float]:
    """Values for the template. tokens: of a step of the row; cost: what such a step takes, in steps of the baseline;
    wanted: how many tokens the goal of the speed-up takes at this cost."""
    if "cost" not in speed or row.label not in speed.index:
        return {}
    tokens, cost = speed.loc[row.label, ["frames_per_step", "cost"]]
    return {"tokens": tokens, "cost": cost} | ({"wanted": goal * cost} if goal else {})


def _figures(sentence: Sentence, found: Difference) -> dict[str, float]:
    """Values for the template. points, low, high: the difference and its interval; gain: the speed-up, or the points
    that the row errs less; pairs: how many were compared."""
    gain = found.value if sentence.figure == "lm_gain" else -found.value
    return {"points": found.value, "low": found.low, "high": found.high, "gain": gain, "pairs": found.pairs}
