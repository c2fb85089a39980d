"""Each paper's own main table beside our figures: theirs stand in the method's class, ours come from the records; the
sentence under a table is worked out from the two."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..config import FRAME_RATE
from ..measure.rows import BASELINE, Row
from ..measure.summary import Results, on_shared_texts
from ..methods import METHODS, REGISTRY
from ..methods.base import Method
from ..methods.published import Line
from .markdown import plain

NEAR = 0.15  # speed-ups within this share of each other agree
POINTS = 1.0  # changes of WER within so many points of each other agree, where as many can be told apart
FIGURES = {  # key -> head of its columns, column of the summary, scale
    "rtf": ("RTF (ours: LM-RTF)", "lm_rtf", 1),
    "gain": ("speed-up", "lm_gain", 1),
    "step": ("tokens a step", "frames_per_step", 1),
    "kv": ("the big model's KV of 12 s over the baseline's", "kv_big_12s_share", 1),
    "first": ("first frame, ms", "first_frame_ms", 1),
    "frame": ("ms a frame", "lm_rtf", 1000 / FRAME_RATE),
    "wer": ("WER %", "wer", 100),
    "sim": ("SIM", "sim", 1),
}


def ours(quality: pd.DataFrame, speed: pd.DataFrame, row: Row) -> dict[str, float]:
    """Those of FIGURES that were measured of a row."""
    found = {}
    for key, (_, column, scale) in FIGURES.items():
        for table in (quality, speed):
            value = table[column].get(row.label) if column in table else None
            if value is not None and not pd.isna(value):
                found[key] = scale * float(value)
                break
    return found


def lines_of(method: type[Method]) -> list[tuple[Line, Row]]:
    """The rows of a method's paper with ours: its own, then those of its comparison models. Each class speaks for
    itself alone."""
    kinds = [method, *(kind for kind in REGISTRY.values() if kind.variant_of == method.name)]
    return [(line, Row.of(kind, **line.options)) for kind in kinds for line in vars(kind).get("lines", ())]


def render(results: Results, codec: pd.DataFrame) -> str:
    shown = [method for method in METHODS.values() if vars(method).get("published")]
    tables = dict(quality=results.quality, points=100 * results.quality, speed=results.speed, codec=codec)
    parts = []
    for method in shown:
        together = shared(results, method)
        why = method.published.reason(tables | {"shared": 100 * together})
        parts.append(f"{_table(method, results, together)} {why}".strip())
    return "\n\n".join(parts)


def shared(results: Results, method: type[Method]) -> pd.DataFrame:
    """The baseline and every row of the method and its comparison models on the texts that all of them spoke."""
    names = {kind.name for kind in REGISTRY.values() if method.name in (kind.name, kind.variant_of)}
    mine = [label for label in results.quality.index if label.split()[0] in names]
    return on_shared_texts(results, [Row.of(BASELINE).label, *mine])


def _table(method: type[Method], results: Results, together: pd.DataFrame) -> str:
    paper, lines = method.published, lines_of(method)
    both = [(paper.baseline, Row.of(BASELINE)), *lines]
    keys = [key for key in FIGURES if any(key in line.figures for line, _ in both)]
    heads = ["paper", "ours", *(f"{FIGURES[key][0]}: {whose}" for key in keys for whose in ("paper", "ours"))]
    rows = []
    for line, row in both:
        cells = [side.get(key) for key in keys for side in (line.figures, ours(together, results.speed, row))]
        rows.append([line.name, f"`{row.label}`", *cells])
    said = sentence(paper.baseline.figures, lines[0][0].figures, results, lines[0][1]) if lines else ""
    title = f"*{method.title}*: {method.paper} ({paper.setting}); ours on {together['texts'].max()} texts of all rows"
    return "\n\n".join([title, plain(heads, rows), said]).strip()


def sentence(base: Mapping[str, float], theirs: Mapping[str, float], results: Results, row: Row) -> str:
    """What the method at its defaults changes against the baseline, in the paper and here, and whether they agree."""
    parts, mine = [], ours(results.quality, results.speed, row)
    gain = theirs.get("gain") or (base["rtf"] / theirs["rtf"] if {"rtf"} <= base.keys() & theirs.keys() else None)
    if gain and "gain" in mine:
        apart = mine["gain"] / gain - 1
        verdict = "agrees" if abs(apart) <= NEAR else f"is {abs(apart):.0%} {'higher' if apart > 0 else 'lower'}"
        parts.append(f"speed-up {gain:.2f} in the paper, {mine['gain']:.2f} here, which {verdict}")
    if "wer" in theirs and "wer" in base and row.label in results.quality.index:
        found, change = results.quality.loc[row.label], theirs["wer"] - base["wer"]
        apart, half = 100 * found["over"] - change, 50 * (found["over_high"] - found["over_low"])
        if abs(apart) > max(POINTS, half):
            verdict = f"is {abs(apart):.1f} points {'worse' if apart > 0 else 'better'}"
        else:
            verdict = "agrees" if half <= POINTS else f"{found['texts']:.0f} texts cannot tell apart (± {half:.1f})"
        parts.append(
            f"WER changes by {change:+.2f} points in the paper, by {100 * found['over']:+.2f} here, which {verdict}"
        )
    return f"`{row.label}` against the baseline: {'; '.join(parts)}." if parts else ""
