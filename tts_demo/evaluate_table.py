"""Records of single runs summed up: one row of figures a method and dial, with bootstrap intervals."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np


def bootstrap(values: np.ndarray, weights: np.ndarray, draws: int = 1000) -> list[float]:
    """95 % interval of sum(values) / sum(weights), resampling runs."""
    index = np.random.default_rng(0).integers(len(values), size=(draws, len(values)))
    ratios = values[index].sum(1) / np.maximum(weights[index].sum(1), 1e-9)
    return [float(q) for q in np.quantile(ratios, (0.025, 0.975))]


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Error rates pool errors over words; everything else is a mean over runs."""
    out: dict[str, Any] = {"runs": len(records)}
    for name, key in (("wer", "words"), ("cer", "characters"), ("per", "phonemes")):
        counts = np.asarray([r[key] for r in records if r.get(key)], dtype=float)
        if len(counts):
            out[name] = float(counts[:, 0].sum() / counts[:, 1].sum())
            out[f"{name}_interval"] = bootstrap(counts[:, 0], counts[:, 1])
    names = ("sim", "sim_others", "nearest", "mos", "lm_rtf", "rtf", "ttfa", "frames_per_step", "kv_peak", "acceptance", "seconds",
             "truncated", "short")
    for name in names:
        values = np.asarray([float(r[name]) for r in records if r.get(name) is not None])
        if len(values):
            out[name] = float(values.mean())
            out[f"{name}_interval"] = bootstrap(values, np.ones_like(values))
    stats = [r["stats"] for r in records if "chunk_sizes" in r.get("stats", {})]
    return out | _chosen(stats) if stats else out


def _chosen(stats: list[dict[str, Any]]) -> dict[str, Any]:
    """Of rows that take several tokens a step: how often each number was chosen, and the chooser's share of the time."""
    counts: Counter[str] = Counter()
    for each in stats:
        counts.update(each["chunk_sizes"])
    shares = [each["policy_share_of_time"] for each in stats if "policy_share_of_time" in each]
    chosen = {"chunk_sizes": {size: counts[size] for size in sorted(counts)}}
    return chosen | {"policy_share_of_time": float(np.mean(shares))} if shares else chosen


def compare(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    """Records of a row and the baseline's of the same texts: how much higher WER and SIM are. Resampled in pairs, because
    a hard text is hard for both: an interval from the two rows' own would be too wide."""
    out: dict[str, Any] = {}
    counts = np.asarray([(*mine["words"], *base["words"]) for mine, base in pairs if mine.get("words") and base.get("words")], dtype=float)
    if len(counts):
        out["wer_above_baseline"], out["wer_above_baseline_interval"] = _apart(counts[:, 0] - counts[:, 2], counts[:, 1])
    sims = np.asarray([mine["sim"] - base["sim"] for mine, base in pairs if None not in (mine.get("sim"), base.get("sim"))])
    if len(sims):
        out["sim_above_baseline"], out["sim_above_baseline_interval"] = _apart(sims, np.ones_like(sims))
    return out


def _apart(values: np.ndarray, weights: np.ndarray) -> tuple[float, list[float]]:
    return float(values.sum() / weights.sum()), bootstrap(values, weights)


COLUMNS = (("wer", "WER %", 100), ("cer", "CER %", 100), ("per", "PER %", 100), ("sim", "SIM", 1), ("nearest", "voice %", 100),
           ("mos", "MOS", 1), ("lm_rtf", "LM-RTF", 1), ("rtf", "RTF", 1), ("ttfa", "TTFA s", 1), ("frames_per_step", "frames/step", 1),
           ("kv_peak", "KV MB", 1e-6), ("truncated", "cut %", 100), ("short", "short %", 100))


def format_table(table: dict[str, dict[str, Any]]) -> str:
    width = max(len(label) for label in table)
    lines = [" " * width + "".join(f"{head:>12}" for _, head, _ in COLUMNS)]
    for label, row in table.items():
        cells = [f"{row[k] * scale:12.3g}" if k in row else f"{'-':>12}" for k, _, scale in COLUMNS]
        lines.append(f"{label:<{width}}" + "".join(cells))
    return "\n".join(lines)
