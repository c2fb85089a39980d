"""Our goals for methods and codec (``papers/data.py``), judged by the measured figures alone."""

from collections.abc import Mapping

import pandas as pd

from ..measure.analyses import alignment
from ..measure.rows import BASELINE, Row
from ..measure.summary import Results, difference
from .markdown import plain
from .papers import Goal, papers

ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))


def figures(results: Results, row: Row) -> dict[str, float]:
    """Everything that was measured of a row."""
    looks = alignment(results.runs)
    if row.label in looks.index:
        base = looks["monotonicity"].get(Row.of(BASELINE).label)
        looks = looks.assign(monotonicity_over=looks["monotonicity"] - base)
    tables = [table for table in (results.speed, results.quality, looks) if row.label in table.index]
    return {name: value for table in tables for name, value in table.loc[row.label].dropna().items()}


def against(results: Results, row: Row, other: Row, figure: str) -> dict[str, float]:
    """A figure set against that of another row: errors on the texts and seeds of both, gains as their ratio."""
    if figure == "over":
        found = difference(results, row.label, other.label)
        return {f"over{end}": getattr(found, name) / 100 for end, name in ENDS} if found else {}
    mine, its = (figures(results, each).get(figure) for each in (row, other))
    return {figure: mine / its} if mine and its else {}


def render(results: Results, codec: pd.DataFrame) -> str:
    lines = [_line(goal, _found(results, goal, codec)) for paper in papers() for goal in paper.goals]
    return plain(["row", "goal", "wanted", "measured", ""], [line for line in lines if line])


def _found(results: Results, goal: Goal, codec: pd.DataFrame) -> Mapping[str, float]:
    if goal.row is None:
        name = goal.label.removeprefix("codec, ")
        return codec.loc[name] if name in codec.index else {}
    return against(results, goal.row, goal.against, goal.figure) if goal.against else figures(results, goal.row)


def _line(goal: Goal, found: Mapping[str, float]) -> list[str]:
    """Met or missed; where the figure has a 95 % interval, only if the bound lies outside it."""
    wanted, scale = f"{'≥' if goal.higher else '≤'} {goal.bound:g}", goal.scale
    value, low, high = (found.get(f"{goal.figure}{end}", float("nan")) * scale for end in ("", "_low", "_high"))
    if value != value:
        return [f"`{goal.label}`", goal.what, wanted, "", "not measured"]
    if low != low:
        low = high = value
    sure = (low >= goal.bound, high < goal.bound) if goal.higher else (high <= goal.bound, low > goal.bound)
    verdict = "met" if sure[0] else "**missed**" if sure[1] else "open"
    measured = f"{value:.3g}" if low == high else f"{value:.3g} ({low:.3g} to {high:.3g})"
    return [f"`{goal.label}`", goal.what, wanted, measured, verdict]
