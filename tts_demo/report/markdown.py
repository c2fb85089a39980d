"""Figures as tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Column:
    """A figure of a row. ``interval``: with half the width between key_low and key_high; ``signed``: a difference."""

    key: str
    head: str
    scale: float = 1.0
    digits: int = 2
    interval: bool = False
    signed: bool = False

    def cell(self, row: Any) -> str:
        value = row.get(self.key)
        if value is None or pd.isna(value):
            return ""
        text = f"{value * self.scale:{'+' if self.signed else ''}.{self.digits}f}"
        if self.interval and not pd.isna(low := row.get(f"{self.key}_low")):
            text += f" ± {(row[f'{self.key}_high'] - low) / 2 * self.scale:.{self.digits}f}"
        return text


def table(first: str, columns: Sequence[Column], rows: Iterable[tuple[str, Any]]) -> str:
    """rows: what stands in the first cell, and the figures (a mapping or a Series). Empty columns are left out."""
    rows = [(name, [column.cell(figures) for column in columns]) for name, figures in rows]
    kept = [i for i in range(len(columns)) if any(cells[i] for _, cells in rows)]
    lines = [[first, *(columns[i].head for i in kept)], ["---"] * (len(kept) + 1)]
    lines += [[name, *(cells[i] for i in kept)] for name, cells in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers with three digits that say something; None is an empty cell."""
    cell = lambda value: (
        "" if value is None or value != value else f"{value:.3g}" if isinstance(value, float) else value
    )
    lines = [heads, ["---"] * len(heads), *([str(cell(value)) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
