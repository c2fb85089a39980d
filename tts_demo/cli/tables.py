"""Figures of ``evaluate`` and ``bench`` for people: each with its unit; for programs ``--json``."""

import json
import math
from typing import Any

import pandas as pd

from ..report.markdown import Column, columns

BOUNDS = ("_low", "_high")
WIDTH = 120


def shown(table: pd.DataFrame) -> str:
    """A line a figure, a column a setting; intervals (95 %) stand behind their figure."""
    usual = lambda key: columns("lines").get(key, Column(key, key.replace("_", " ")))
    chosen = [usual(key) for key in table if not key.endswith(BOUNDS)]
    lines = {column.head: [_cell(table, label, column) for label in table.index] for column in chosen}
    return pd.DataFrame.from_dict(lines, orient="index", columns=list(table.index)).to_string(line_width=WIDTH)


def as_json(value: Any) -> str:
    """One line of JSON; a bound that is infinite is the text "no bound", for JSON has no such number."""
    return json.dumps(_finite(value))


def figures(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Row -> its figures under their names in the records, those that were not measured left out."""
    return {str(label): row.dropna().to_dict() for label, row in table.iterrows()}


def _cell(table: pd.DataFrame, label: Any, column: Column) -> str:
    value, bounds = table.at[label, column.key], [f"{column.key}{end}" for end in BOUNDS]
    if pd.isna(value):
        return "-"
    text = _number(value, column.scale)
    if set(bounds) <= set(table) and table.loc[label, bounds].notna().all():
        text += f" ({' to '.join(_number(table.at[label, bound], column.scale) for bound in bounds)})"
    return text


def _number(value: float, scale: float) -> str:
    return f"{value * scale:.3g}" if math.isfinite(value) else "no bound"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return "no bound" if isinstance(value, float) and math.isinf(value) else value
