"""Figures as tables in Markdown."""

import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from pathlib import Path
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


@cache
def columns(name: str) -> dict[str, Column]:
    """Those of a table of ``columns.toml``, by the figure's name in the records."""
    found = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))[name]
    return {key: Column(key, **column) for key, column in found.items()}


def table(first: str, chosen: Collection[Column], rows: Iterable[tuple[str, Any]]) -> str:
    """rows: what stands in the first cell, and the figures (a mapping or a Series). Empty columns are left out."""
    cells = [[name, *(column.cell(figures) for column in chosen)] for name, figures in rows]
    heads = [first, *(column.head for column in chosen)]
    kept = [True, *map(any, zip(*(line[1:] for line in cells)))]
    return _rows(compress(line, kept) for line in (heads, ["---"] * len(heads), *cells))


def between(values: pd.Series) -> str:
    """'48 to 201', or '48' where all are the same."""
    return " to ".join(map(str, sorted({int(values.min()), int(values.max())})))


def plain(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers with three digits that say something; None is an empty cell."""
    shown = lambda value: f"{value:.3g}" if isinstance(value, float) else value
    cell = lambda value: "" if value is None or value != value else shown(value)
    return _rows([heads, ["---"] * len(heads), *([str(cell(value)) for value in row] for row in rows)])


def _rows(lines: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
