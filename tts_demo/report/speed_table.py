"""The report of ``bench`` for people."""

from __future__ import annotations

from typing import Any


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    c = report["conditions"]
    lines = [
        f"{c['stack']} on {c['device']}, {c['dtype']}, {c['runtime']}, {c['threads']} threads, torch {c['torch']}; "
        f"{c['seconds']:g} s of speech, {c['rounds']} interleaved rounds, medians (range).",
        f"A step reads {c['weight_bytes_per_step'] / 1e6:.1f} MB of weights; at {c['bandwidth_gb_s']:.1f} GB/s (the median of "
        f"probes before each run) that is {c['ceiling_ms']:.3f} ms. A row's ceiling is its own bytes, keys and values "
        f"included, at the bandwidth probed before it; the backbone's bytes only. Load average {c['load_average'][0]:.1f}.",
        "",
    ]
    head = (
        "",
        "ms/step",
        "ceiling ms",
        "LM-RTF",
        "gain",
        "RTF",
        "TTFA s",
        "frames/step",
        "KV 12 s",
        "KV 20 s",
        "+ prompt",
        "share",
    )
    body = []
    for label, r in report["rows"].items():
        kv = [f"{r[k] / 1e6:.2f} MB" for k in ("kv_speech_12s", "kv_speech_20s", "kv_prompt_and_text")]
        shown = (
            ("ms_per_step", 2),
            ("ceiling_ms", 2),
            ("lm_rtf", 3),
            ("lm_gain", 2),
            ("rtf", 3),
            ("ttfa", 3),
            ("frames_per_step", 2),
        )
        body.append(
            (label, *(ranged(r, name, digits) for name, digits in shown), *kv, f"{100 * r['ceiling_share']:.0f} %")
        )
    widths = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]
    lines += ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in (head, *body)]
    for label, r in report["rows"].items():
        lines += [f"{label}, seconds a second of audio: " + ", ".join(f"{k} {v:.3f}" for k, v in r["parts"].items())]
    if c["random_weights"]:
        lines += [
            "",
            "Random weights and a forced length: speed and memory depend on shapes, not on weights, except where a "
            "policy or a draft decides how many frames a step emits; there the frames per step mean nothing.",
        ]
    if "peer" in report:
        p = report["peer"]
        lines += [
            "",
            f"{p['name']}: {ranged(p, 'ms_per_token', 2)} ms per token; our baseline step takes "
            f"{ranged(p, 'ours_over_peer', 2)} of that.",
        ]
    if "batch" in report:
        b = report["batch"]
        lines += [
            "",
            f"Batch of {b['size']}, baseline: {b['ms_per_step']:.2f} ms/step, LM-RTF {b['lm_rtf_each']:.4f} each, KV "
            f"{b['kv_bytes_live'] / 1e6:.1f} MB live, {b['kv_bytes_allocated'] / 1e6:.1f} MB allocated.",
        ]
        lines += [
            f"  {label}: KV {kv['speech_12s'] / 1e6:.1f} MB at 12 s, {kv['speech_20s'] / 1e6:.1f} MB at 20 s"
            for label, kv in b["kv_bytes_of"].items()
        ]
    return "\n".join(lines + [f"skipped: {line}" for line in report.get("skipped", ())])


def ranged(row: dict[str, Any], name: str, digits: int) -> str:
    """Median and range in one cell."""
    if row[name] is None:
        return "-"
    low, high = row["spread"][name]
    return f"{row[name]:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"
