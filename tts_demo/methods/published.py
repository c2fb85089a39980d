"""A paper's figures of its method, and our goals for it: attributes of the method classes, which reports read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Line:
    """A row of a paper's table. ``name``: the paper's; ``figures``: wer (%), sim, rtf, gain (speed-up), step (tokens a
    step), kv (share of the baseline's of 12 s), first (ms until the first frame), frame (ms a frame); ``options``:
    what our row has beside its defaults."""

    name: str
    figures: Mapping[str, float]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """A paper's main table: its model and data, and the row that the others are compared with. ``why``: what of our
    measurements explains that ours go another way, the figures to be filled in."""

    setting: str
    baseline: Line
    why: str = ""

    def reason(self, tables: Mapping[str, Any]) -> str:
        """``why`` with the figures of tables (``{quality.wer[baseline]:.1%}``: a column and a row); "" where one of
        them was not measured."""
        try:
            return self.why.format(**tables)
        except (AttributeError, KeyError):
            return ""


@dataclass(frozen=True)
class Goal:
    """A figure of the method at its defaults (measure/summary.py), changed by ``options``. ``against``: instead of the
    baseline, of errors those of the method with these options are taken off; a gain is over its gain."""

    what: str
    figure: str
    bound: float
    higher: bool = False  # whether more than the bound is wanted, or at most the bound
    options: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0  # of the figure in the table: 100 for per cent and points
    against: Mapping[str, Any] | None = None
