"""The goals that methods name for themselves, and those of the codec, judged by the measured figures alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from ..measure.analyses import alignment
from ..measure.rows import BASELINE, Row
from ..measure.summary import Results, on_shared_texts
from ..methods import METHODS
from ..methods.published import Goal
from .markdown import plain

CODEC_GOALS = {
    "8 books": (
        Goal("STOI", "stoi", 0.94, True),
        Goal("PESQ wide band", "pesq", 2.6, True),
        Goal("DistilMOS", "distilmos", 3.8, True),
        Goal("WER over the recordings', times", "times", 1.05),
        Goal("SIM to the recording", "sim", 0.95, True),
    ),
    "first book, refined": (
        Goal("DistilMOS", "distilmos", 3.7, True),
        Goal("WER over the recordings', times", "times", 1.3),
    ),
}


def figures(results: Results, row: Row) -> dict[str, float]:
    """Everything that was measured of a row."""
    looks = alignment(results.runs)
    if row.label in looks.index:
        looks = looks.assign(
            monotonicity_over=looks["monotonicity"] - looks["monotonicity"].get(Row.of(BASELINE).label)
        )
    tables = [table for table in (results.speed, results.quality, looks) if row.label in table.index]
    return {name: value for table in tables for name, value in table.loc[row.label].dropna().items()}


def against(results: Results, row: Row, other: Row, goal: Goal) -> dict[str, float]:
    """The goal's figure set against that of another row: errors on the texts that both spoke, gains as their ratio."""
    both = on_shared_texts(results, [row.label, other.label])
    mine, its = (figures(results, each).get(goal.figure) for each in (row, other))
    if goal.figure != "over":
        return {goal.figure: mine / its} if mine and its else {}
    return {"over": both["wer"].iloc[0] - both["wer"].iloc[1]} if len(both) == 2 else {}


def wanted() -> Iterator[tuple[Row, Goal]]:
    """Every method's own goals (a class does not inherit another's)."""
    for kind in METHODS.values():
        for goal in vars(kind).get("goals", ()):
            yield Row.of(kind, **goal.options), goal


def render(results: Results, codec: pd.DataFrame) -> str:
    lines = []
    for row, goal in wanted():
        other = Row.of(row.method, **goal.against) if goal.against else None
        lines.append(_line(row.label, goal, against(results, row, other, goal) if other else figures(results, row)))
    for name, goals in CODEC_GOALS.items():
        lines += [_line(f"codec, {name}", goal, codec.loc[name]) for goal in goals if name in codec.index]
    return plain(["row", "goal", "wanted", "measured", ""], lines)


def _line(label: str, goal: Goal, found: Mapping[str, float]) -> list[str]:
    wanted, value = f"{'≥' if goal.higher else '≤'} {goal.bound:g}", found.get(goal.figure, float("nan")) * goal.scale
    if value != value:
        return [f"`{label}`", goal.what, wanted, "", "not measured"]
    met = value >= goal.bound if goal.higher else value <= goal.bound
    return [f"`{label}`", goal.what, wanted, f"{value:.3g}", "met" if met else "**missed**"]
