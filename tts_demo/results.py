"""``checkpoints/nano/results.json`` and what the README shows of it. Figures get into the README this way only.

A section is what one command measured (``evaluate``, ``bench``, ``codec``), with its conditions. ``--keep`` on those
commands writes it and renders the README anew; a test holds the two equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, README = ROOT / "checkpoints" / "nano" / "results.json", ROOT / "README.md"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
LABELS = {"recordings": "natural recordings"}


def load(path: Path = RESULTS) -> dict[str, Any]:
    """{} when nothing has been kept yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def keep(section: str, figures: dict[str, Any], path: Path = RESULTS, readme: Path = README) -> None:
    """Store a section (rows of an earlier one with the same checkpoint stay where they are not measured again) and
    bring the README up to date."""
    results = load(path)
    old = results.get(section, {})
    same = old.get("conditions", {}).get("checkpoint") == figures.get("conditions", {}).get("checkpoint")
    if same and "rows" in figures:
        figures = figures | {"rows": old.get("rows", {}) | figures["rows"]}
    results[section] = figures
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write_readme(results, readme)


def write_readme(results: dict[str, Any], readme: Path = README) -> None:
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    readme.write_text(f"{before}{BEGIN}\n{render(results)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def shown(readme: Path = README) -> str:
    """What stands between the markers of the README."""
    return readme.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip("\n")


def render(results: dict[str, Any]) -> str:
    parts = [_quality(results["evaluate"])] if "evaluate" in results else []
    parts += [_codec(results["codec"])] if "codec" in results else []
    parts += [_speed(results["bench"])] if "bench" in results else []
    return "\n\n".join(parts) or "Nothing has been measured with these weights yet."


QUALITY = (("wer", "WER %", 100, 1), ("cer", "CER %", 100, 1), ("per", "PER %", 100, 1), ("sim", "SIM", 1, 2),
           ("mos", "MOS", 1, 2), ("lm_rtf", "LM-RTF", 1, 3), ("rtf", "RTF", 1, 3), ("ttfa", "TTFA s", 1, 2),
           ("frames_per_step", "frames a step", 1, 2), ("kv_peak", "KV peak MB", 1e-6, 2), ("truncated", "cut %", 100, 0))


def _quality(section: dict[str, Any]) -> str:
    c, rows = section["conditions"], section["rows"]
    runs = max(r["runs"] for r in rows.values())
    head = (f"**Quality.** `{section['command']}`: {runs} texts a row; WER and CER by {c['recogniser']}, PER (phonemes) by the "
            f"bundled recogniser, SIM by {c['voice model']}, MOS by {c['mos model']} (higher is better for these two, lower for "
            f"all others); ± is half of a 95 % bootstrap interval. {_hardware(c)}. RTF here is while the judges share the "
            f"machine: compare speeds in the speed table.")
    lines = [head, "", "| method | " + " | ".join(h for _, h, _, _ in QUALITY) + " |", "|---" * (len(QUALITY) + 1) + "|"]
    for label, row in rows.items():
        cells = [_cell(row, key, scale, digits) for key, _, scale, digits in QUALITY]
        lines.append(f"| {LABELS.get(label, label)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any], key: str, scale: float, digits: int) -> str:
    if key not in row:
        return ""
    text = f"{row[key] * scale:.{digits}f}"
    if key in ("wer", "per", "sim", "mos") and f"{key}_interval" in row:
        low, high = row[f"{key}_interval"]
        text += f" ± {(high - low) / 2 * scale:.{digits}f}"
    return text


def _hardware(c: dict[str, Any]) -> str:
    return (f"{c['device']} ({c['machine']}), {c['dtype']}, {c['threads']} threads, torch {c['torch']}, "
            f"checkpoint {c['checkpoint']}, seed {c['seed']}")


def _codec(section: dict[str, Any]) -> str:
    names = list(next(iter(section["rows"].values())))
    lines = [f"**Codec.** `{section['command']}`, held-out recordings.", "",
             "| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for label, row in section["rows"].items():
        lines.append(f"| {label} | " + " | ".join("" if row[n] is None else f"{row[n]:.3g}" for n in names) + " |")
    return "\n".join(lines)


def _speed(section: dict[str, Any]) -> str:
    rows = section["rows"]
    names = [n for n in next(iter(rows.values())) if isinstance(next(iter(rows.values()))[n], (int, float))]
    lines = [f"**Speed and memory.** `{section['command']}`, interleaved runs in one process.", "",
             "| method | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for label, row in rows.items():
        lines.append(f"| {label} | " + " | ".join(f"{row[n]:.3g}" if row.get(n) is not None else "" for n in names) + " |")
    return "\n".join(lines)
