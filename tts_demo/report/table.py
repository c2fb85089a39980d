"""Records of single runs summed up: one row of figures a method and dial, with bootstrap intervals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

Takes = list[dict[str, Any]]  # the records of one text: as often as it was spoken


def bootstrap(values: np.ndarray, weights: np.ndarray, draws: int = 1000) -> list[float]:
    """95 % interval of sum(values) / sum(weights), resampling texts."""
    index = np.random.default_rng(0).integers(len(values), size=(draws, len(values)))
    ratios = values[index].sum(1) / np.maximum(weights[index].sum(1), 1e-9)
    return [float(q) for q in np.quantile(ratios, (0.025, 0.975))]


def summarise(texts: list[Takes]) -> dict[str, Any]:
    """Error rates pool errors over words; everything else is a mean over runs. Takes of a text are resampled together:
    to speak it again says nothing of other texts."""
    out: dict[str, Any] = {"texts": len(texts), "runs": sum(map(len, texts))}
    for name, key in (("wer", "words"), ("cer", "characters"), ("per", "phonemes")):
        counts = _sums([[r[key] for r in takes if r.get(key)] for takes in texts])
        if len(counts):
            out[name], out[f"{name}_interval"] = _ratio(counts[:, 0], counts[:, 1])
    names = (
        "sim",
        "sim_others",
        "nearest",
        "mos",
        "lm_rtf",
        "rtf",
        "ttfa",
        "frames_per_step",
        "kv_peak",
        "acceptance",
        "seconds",
        "truncated",
        "short",
    )
    for name in names:
        values = _sums([[(float(r[name]), 1.0) for r in takes if r.get(name) is not None] for takes in texts])
        if len(values):
            out[name], out[f"{name}_interval"] = _ratio(values[:, 0], values[:, 1])
    stats = [r["stats"] for takes in texts for r in takes if "chunk_sizes" in r.get("stats", {})]
    return out | _chosen(stats) if stats else out


def _sums(texts: list[list[tuple[float, float]]]) -> np.ndarray:
    """[N, 2]: of each text that has any, its pairs summed up."""
    return np.asarray([np.sum(pairs, 0) for pairs in texts if pairs], dtype=float)


def _ratio(values: np.ndarray, weights: np.ndarray) -> tuple[float, list[float]]:
    return float(values.sum() / weights.sum()), bootstrap(values, weights)


def _chosen(stats: list[dict[str, Any]]) -> dict[str, Any]:
    """Of rows that take several tokens a step: how often each number was chosen, and the chooser's share of the
    time."""
    counts: Counter[str] = Counter()
    for each in stats:
        counts.update(each["chunk_sizes"])
    shares = [each["policy_share_of_time"] for each in stats if "policy_share_of_time" in each]
    chosen = {"chunk_sizes": {size: counts[size] for size in sorted(counts)}}
    return chosen | {"policy_share_of_time": float(np.mean(shares))} if shares else chosen


def compare(pairs: list[tuple[Takes, Takes]]) -> dict[str, Any]:
    """What a row and the baseline made of the same texts: how much higher WER and SIM are, of each text between the
    means of its takes. Resampled in pairs, because a hard text is hard for both: an interval from the two rows' own
    would be too
    wide."""
    out: dict[str, Any] = {}
    counts = [(mine[0] - base[0], mine[1]) for mine, base in _means(pairs, "words")]
    if counts:
        out["wer_above_baseline"], out["wer_above_baseline_interval"] = _ratio(*np.asarray(counts).T)
    sims = np.asarray([mine - base for mine, base in _means(pairs, "sim")])
    if len(sims):
        out["sim_above_baseline"], out["sim_above_baseline_interval"] = _ratio(sims, np.ones_like(sims))
    return out


def _means(pairs: list[tuple[Takes, Takes]], key: str) -> list[tuple[Any, Any]]:
    """A figure's mean over either side's takes, of every text that has it on both."""
    known = [[[r[key] for r in takes if r.get(key) is not None] for takes in pair] for pair in pairs]
    return [(np.mean(mine, 0), np.mean(base, 0)) for mine, base in known if mine and base]


COLUMNS = (
    ("wer", "WER %", 100),
    ("cer", "CER %", 100),
    ("per", "PER %", 100),
    ("sim", "SIM", 1),
    ("nearest", "voice %", 100),
    ("mos", "MOS", 1),
    ("lm_rtf", "LM-RTF", 1),
    ("rtf", "RTF", 1),
    ("ttfa", "TTFA s", 1),
    ("frames_per_step", "frames/step", 1),
    ("kv_peak", "KV MB", 1e-6),
    ("truncated", "cut %", 100),
    ("short", "short %", 100),
)


def format_table(table: dict[str, dict[str, Any]]) -> str:
    width = max(len(label) for label in table)
    lines = [" " * width + "".join(f"{head:>12}" for _, head, _ in COLUMNS)]
    for label, row in table.items():
        cells = [f"{row[k] * scale:12.3g}" if k in row else f"{'-':>12}" for k, _, scale in COLUMNS]
        lines.append(f"{label:<{width}}" + "".join(cells))
    return "\n".join(lines)
