"""Our goals for methods and codec (``papers/data.py``), judged by the measured figures alone."""

from collections.abc import Mapping

import pandas as pd

from ..measure.analyses import ALIGNMENT
from ..measure.intervals import mean
from ..measure.rows import BASELINE, Row
from ..measure.summary import Difference, Results, difference, of_rounds
from .markdown import plain
from .papers import Goal, papers

ENDS = (("", "value"), ("_low", "low"), ("_high", "high"))
EXACT = ("kv_", "cut")  # how figures begin that are counted: the same each time


def figures(results: Results, row: Row) -> dict[str, float]:
    """Everything that was measured of a row, what was spoken with its 95 % intervals."""
    tables = [table for table in (results.speed, results.quality) if row.label in table.index]
    found = {name: value for table in tables for name, value in table.loc[row.label].dropna().items()}
    return found | _monotonicity(results.runs, row)


def against(results: Results, row: Row, other: Row, figure: str) -> dict[str, float]:
    """A figure set against that of another row: errors on the texts and seeds of both, figures of speed as their
    ratio."""
    if figure == "over":
        found, scale = difference(results, row.label, other.label), 0.01
    else:
        found, scale = of_rounds(results, row.label, figure, other.label), 1.0
    return _named(figure, found, scale) if found else {}


def render(results: Results, codec: pd.DataFrame) -> str:
    lines = [_line(goal, _found(results, goal, codec)) for paper in papers() for goal in paper.goals]
    return plain(["row", "goal", "wanted", "measured", ""], [line for line in lines if line])


def _named(figure: str, found: Difference, scale: float = 1.0) -> dict[str, float]:
    return {f"{figure}{end}": scale * getattr(found, name) for end, name in ENDS}


def _monotonicity(runs: pd.DataFrame, row: Row) -> dict[str, float]:
    """How much more monotonic attention is than the baseline's, on the texts of both."""
    looks, base = runs[runs["kind"] == ALIGNMENT], Row.of(BASELINE).label
    if not {row.label, base} <= set(looks["row"]):
        return {}
    by_text = looks.pivot_table(index="text", columns="row", values="monotonicity")
    return mean("monotonicity_over", by_text[row.label] - by_text[base])


def _found(results: Results, goal: Goal, codec: pd.DataFrame) -> Mapping[str, float]:
    if goal.row is None:
        name = goal.label.removeprefix("codec, ")
        return codec.loc[name] if name in codec.index else {}
    if goal.against:
        return against(results, goal.row, goal.against, goal.figure)
    found = figures(results, goal.row)
    timed = of_rounds(results, goal.row.label, goal.figure) if goal.figure in results.speed else None
    return found | _named(goal.figure, timed) if timed and not goal.figure.startswith(EXACT) else found


def _line(goal: Goal, found: Mapping[str, float]) -> list[str]:
    """Met or missed only where the bound lies outside the figure's 95 % interval, or the figure is exact."""
    wanted, scale = f"{'≥' if goal.higher else '≤'} {goal.bound:g}", goal.scale
    value, low, high = (found.get(f"{goal.figure}{end}", float("nan")) * scale for end, _ in ENDS)
    if value != value:
        return [f"`{goal.label}`", goal.what, wanted, "", "not measured"]
    if low != low and goal.figure.startswith(EXACT):
        low = high = value
    sure = (low >= goal.bound, high < goal.bound) if goal.higher else (high <= goal.bound, low > goal.bound)
    verdict = "met" if sure[0] else "**missed**" if sure[1] else "open"
    measured = f"{value:.3g}" if low == high or low != low else f"{value:.3g} ({low:.3g} to {high:.3g})"
    return [f"`{goal.label}`", goal.what, wanted, measured, verdict]
