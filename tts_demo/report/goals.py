"""The goals that methods name for themselves, and those of the codec, judged by the measured figures alone."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ..config import UserError
from ..measure.rows import Row
from ..measure.summary import Results
from ..methods import METHODS
from ..methods.published import Goal
from .markdown import plain

CODEC_GOALS = {
    "8 books": (
        Goal("STOI", "stoi", 0.93, True),
        Goal("PESQ wide band", "pesq", 2.6, True),
        Goal("DistilMOS", "distilmos", 3.8, True),
        Goal("WER over the recordings', times", "times", 1.05),
    ),
    "first book, refined": (
        Goal("DistilMOS", "distilmos", 3.7, True),
        Goal("WER over the recordings', times", "times", 1.3),
    ),
}


def figures(results: Results, row: Row) -> pd.Series:
    """Everything that was measured of a row. Raises UserError where it was not measured."""
    for name, table in (("evaluate", results.quality), ("bench", results.speed)):
        if row.label not in table.index:
            raise UserError(f"{row.label!r} has no figures of '{name}': run 'python -m tts_demo {name} --all'.")
    quality, speed = results.quality.loc[row.label], results.speed.loc[row.label]
    return pd.concat([speed[speed.index.difference(quality.index)], quality])


def wanted() -> Iterator[tuple[Row, Goal]]:
    """Every method's own goals (a class does not inherit another's)."""
    for kind in METHODS.values():
        for goal in vars(kind).get("goals", ()):
            yield Row.of(kind, **goal.options), goal


def render(results: Results, codec: pd.DataFrame) -> str:
    lines = [_line(row.label, goal, figures(results, row)) for row, goal in wanted()]
    for name, goals in CODEC_GOALS.items():
        lines += [_line(f"codec, {name}", goal, codec.loc[name]) for goal in goals if name in codec.index]
    return plain(["row", "goal", "wanted", "measured", ""], lines)


def _line(label: str, goal: Goal, found: pd.Series) -> list[str]:
    value = found.get(goal.figure)
    if value is None or pd.isna(value):
        raise UserError(f"{label!r} has no figure {goal.figure!r}: measure it again where its judge is installed.")
    value *= goal.scale
    met = value >= goal.bound if goal.higher else value <= goal.bound
    sign = "≥" if goal.higher else "≤"
    return [f"`{label}`", goal.what, f"{sign} {goal.bound:g}", f"{value:.3g}", "met" if met else "**missed**"]
