"""Figures of ``evaluate`` and ``bench`` for people: each with words and its unit; for programs ``--json``."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

# column -> what it is, and what it is multiplied by to be that
WORDS: dict[str, tuple[str, float]] = {
    "texts": ("texts", 1),
    "runs": ("runs", 1),
    "wer": ("words wrong, %", 100),
    "over": ("more than the baseline, points", 100),
    "natural_over": ("more than the baseline in natural voices, points", 100),
    "pairs": ("runs compared with the baseline", 1),
    "times": ("errors of the baseline, times", 1),
    "times_natural": ("errors of natural recordings, times", 1),
    "distilmos": ("sound by DistilMOS, 1 to 5", 1),
    "dnsmos": ("sound by DNSMOS, 1 to 5", 1),
    "sim": ("voice similarity, up to 1", 1),
    "sim_over": ("similarity more than the baseline's", 1),
    "frames_per_step": ("frames a step", 1),
    "kv_peak": ("KV cache at most, MB", 1e-6),
    "cut": ("cut short, %", 100),
    "acceptance": ("proposed tokens accepted, %", 100),
    "seconds": ("speech, s", 1),
    "rounds": ("rounds", 1),
    "lm_gain": ("speed of the language model, times the baseline's", 1),
    "rtf_gain": ("speed of everything, times the baseline's", 1),
    "ttfa_share": ("time to first audio, % of the baseline's", 100),
    "load": ("load average", 1),
    "lm_rtf": ("LM-RTF, compute s a second of audio", 1),
    "rtf": ("RTF, compute s a second of audio", 1),
    "acoustics_rtf": ("RTF of codec or vocoder", 1),
    "ttfa": ("time to first audio, s", 1),
    "first_frame_ms": ("first frame after, ms", 1),
    "ms_per_step": ("a step, ms", 1),
    "ceiling_share": ("of the memory's speed limit, %", 100),
    "bandwidth_gb_s": ("memory bandwidth, GB/s", 1),
    "kv_prefix": ("KV cache before speech, MB", 1e-6),
    "kv_12s": ("KV cache of 12 s, MB", 1e-6),
    "kv_20s": ("KV cache of 20 s, MB", 1e-6),
    "kv_small_12s": ("of it of small models, 12 s, MB", 1e-6),
    "kv_small_20s": ("of it of small models, 20 s, MB", 1e-6),
    "kv_12s_share": ("KV cache of 12 s, % of the baseline's", 100),
    "kv_20s_share": ("KV cache of 20 s, % of the baseline's", 100),
    "kv_big_12s_share": ("KV cache of 12 s without small models, % of the baseline's", 100),
    "kv_growth": ("KV cache of a further second, % of the baseline's", 100),
    "ours_over_peer": ("our step over that of transformers' generate", 1),
    "pass_of_2": ("a pass over 2 tokens, times one over 1", 1),
    "pass_of_4": ("a pass over 4 tokens, times one over 1", 1),
    "pass_of_8": ("a pass over 8 tokens, times one over 1", 1),
}
BOUNDS = ("_low", "_high")
WIDTH = 120


def shown(table: pd.DataFrame) -> str:
    """A line a figure, a column a setting; intervals (95 %) stand behind their figure."""
    lines = {
        WORDS.get(column, (column.replace("_", " "), 1))[0]: [_cell(table, label, column) for label in table.index]
        for column in table
        if not column.endswith(BOUNDS)
    }
    return pd.DataFrame.from_dict(lines, orient="index", columns=list(table.index)).to_string(line_width=WIDTH)


def as_json(value: Any) -> str:
    """One line of JSON; a bound that is infinite is the text "no bound", for JSON has no such number."""
    return json.dumps(_finite(value))


def figures(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Row -> its figures under their names in the records, those that were not measured left out."""
    return {str(label): row.dropna().to_dict() for label, row in table.iterrows()}


def _cell(table: pd.DataFrame, label: Any, column: str) -> str:
    value, factor = table.at[label, column], WORDS.get(column, ("", 1))[1]
    if pd.isna(value):
        return "-"
    bounds = [table.at[label, column + end] for end in BOUNDS if column + end in table]
    words = _number(value, factor)
    if len(bounds) == 2 and not any(map(pd.isna, bounds)):
        words += f" ({_number(bounds[0], factor)} to {_number(bounds[1], factor)})"
    return words


def _number(value: float, factor: float) -> str:
    return f"{value * factor:.3g}" if math.isfinite(value) else "no bound"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return "no bound" if isinstance(value, float) and math.isinf(value) else value
