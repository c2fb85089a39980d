"""Each paper's own main table beside our figures: theirs are data (``data.py``), ours come from the records; the
sentence under a table is worked out from the two."""

from collections.abc import Mapping

import pandas as pd

from ...config import FRAME_RATE
from ...measure.rows import BASELINE, Row
from ...measure.summary import Results, of_rounds, on_shared_pairs
from ...methods import REGISTRY
from ..many import first_audio
from ..markdown import plain
from .data import Paper, papers
from .sentences import sentences

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


def render(results: Results, codec: pd.DataFrame, on_gpu: Mapping[str, str]) -> str:
    """on_gpu: row -> a sentence about it."""
    parts = []
    for paper in papers():
        if paper.baseline is not None:
            remarks = sentences(paper, results, codec)
            if paper.lines:
                first = paper.lines[0]
                against = sentence(paper.baseline.figures, first.figures, results, first.row)
                remarks = [against, *remarks, on_gpu.get(first.row.label, "")]
            text = " ".join(filter(None, remarks))
            parts += filter(None, [*_table(paper, results), text, _requests(paper, results)])
    return "\n\n".join(parts)


def shared(results: Results, paper: Paper) -> pd.DataFrame:
    """The baseline and every row of the paper's method and its comparison models on the texts, seeds and voices that
    all of them spoke."""
    names = {kind.name for kind in REGISTRY.values() if paper.method.name in (kind.name, kind.variant_of)}
    mine = [label for label in results.quality.index if label.split()[0] in names]
    return on_shared_pairs(results, [Row.of(BASELINE).label, *mine])


def _table(paper: Paper, results: Results) -> list[str]:
    """Title and table."""
    lines, method, paired = [paper.baseline, *paper.lines], paper.method, shared(results, paper)
    keys = [key for key in FIGURES if any(key in line.figures for line in lines)]
    heads = ["paper", "ours", *(f"{FIGURES[key][0]}: {whose}" for key in keys for whose in ("paper", "ours"))]
    rows = []
    for line in lines:
        sides = (line.figures, ours(paired, results.speed, line.row))
        rows.append([line.name, f"`{line.row.label}`", *(side.get(key) for key in keys for side in sides)])
    spoken = f"the {paired['runs'].max()} runs (text, seed and voice) that all rows share"
    return [f"*{method.title}*: {method.paper} ({paper.setting}); ours on {spoken}", plain(heads, rows)]


def _requests(paper: Paper, results: Results) -> str:
    """What many requests meet, where rows of the paper were measured so; the baseline stands beside them."""
    mine = [line.row.label for line in paper.lines]
    measured = first_audio(results.runs, mine)
    return measured and first_audio(results.runs, [Row.of(BASELINE).label, *mine])


def sentence(base: Mapping[str, float], theirs: Mapping[str, float], results: Results, row: Row) -> str:
    """What the method at its defaults changes against the baseline, in the paper and here: higher or lower only where
    our interval excludes the paper's figure."""
    parts, mine = [], of_rounds(results, row.label)
    gain = theirs.get("gain") or (base["rtf"] / theirs["rtf"] if {"rtf"} <= base.keys() & theirs.keys() else None)
    if gain and mine:
        parts.append(
            f"speed-up {gain:.2f} in the paper, {mine.value:.2f} here ({mine.low:.2f} to {mine.high:.2f}), which "
            f"{beside(gain, mine.low, mine.high)}"
        )
    if "wer" in theirs and "wer" in base and row.label in results.quality.index:
        found, change = results.quality.loc[row.label], theirs["wer"] - base["wer"]
        low, high = 100 * found["over_low"], 100 * found["over_high"]
        parts.append(
            f"WER changes by {change:+.2f} points in the paper, by {100 * found['over']:+.2f} here "
            f"({low:+.1f} to {high:+.1f} on {found['pairs']:.0f} pairs), which {beside(change, low, high)}"
        )
    return f"`{row.label}` against the baseline: {'; '.join(parts)}." if parts else ""


def beside(theirs: float, low: float, high: float) -> str:
    """What our interval says of a paper's figure."""
    return "is higher" if low > theirs else "is lower" if high < theirs else "cannot be told apart from it"
