"""``checkpoints/nano/results.json`` and what the README shows of it. Figures get into the README this way only.

A section is what one command measured (``evaluate``, ``bench``, ``codec``), with its conditions. ``--keep`` on those
commands writes it and renders the README anew; a test holds the two equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
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
    parts += [_goals(results)] if results else []
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


CODEC = (("stoi", "STOI", 1, 3), ("pesq", "PESQ wide band", 1, 2), ("si_sdr", "SI-SDR dB", 1, 1), ("log_mel", "log-mel distance", 1, 2),
         ("sim", "SIM to the recording", 1, 2), ("wer", "WER %", 100, 1), ("per", "PER %", 100, 1))


def _codec(section: dict[str, Any]) -> str:
    """STOI, PESQ, SI-SDR and SIM: higher is better; the rest: lower."""
    lines = [f"**Codec.** `{section['command']}`: {section['recordings']} held-out recordings against their decoded selves (STOI, PESQ, "
             f"SI-SDR and SIM: higher is better; the others lower). Checkpoint {section['conditions']['checkpoint']}.", "",
             "| | " + " | ".join(h for _, h, _, _ in CODEC) + " |", "|---" * (len(CODEC) + 1) + "|"]
    for label, row in section["rows"].items():
        same = label == "recording"  # compared with itself: only what a recogniser hears says anything
        cells = [f"{row[k] * scale:.{digits}f}" if k in row and not (same and k not in ("wer", "per")) else ""
                 for k, _, scale, digits in CODEC]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


SPEED = (("ms_per_step", "ms a step", 1, 2), ("lm_rtf", "LM-RTF", 1, 3), ("lm_gain", "LM gain", 1, 2), ("rtf", "RTF", 1, 3),
         ("ttfa", "TTFA s", 1, 2), ("frames_per_step", "frames a step", 1, 2), ("acceptance", "accepted", 1, 2),
         ("kv_speech_12s", "KV of 12 s MB", 1e-6, 3), ("kv_speech_20s", "KV of 20 s MB", 1e-6, 3),
         ("kv_prompt_and_text", "+ prompt and text MB", 1e-6, 3), ("ceiling_share", "share of ceiling", 1, 2))


def _speed(section: dict[str, Any]) -> str:
    c = section["conditions"]
    lines = [f"**Speed and memory.** `{section['command']}`: {c['rounds']} interleaved rounds of {c['seconds']:g} s of speech in one "
             f"process, medians; LM gain is over the baseline in the same round (higher is better, all times lower). "
             f"{c['device']}, {c['dtype']}, {c['runtime']}, {c['threads']} threads, torch {c['torch']}, checkpoint {c['checkpoint']}, "
             f"load average {c['load_average'][0]:.1f} at the end. A step reads {c['weight_bytes_per_step'] / 1e6:.1f} MB; at the measured "
             f"{c['bandwidth_gb_s']:.0f} GB/s that is the ceiling.", "",
             "| method | " + " | ".join(h for _, h, _, _ in SPEED) + " |", "|---" * (len(SPEED) + 1) + "|"]
    for label, row in section["rows"].items():
        cells = [f"{row[k] * scale:.{digits}f}" if row.get(k) is not None else "" for k, _, scale, digits in SPEED]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    if "peer" in section:
        p = section["peer"]
        lines += ["", f"transformers' own `generate` with the same weights: {p['ms_per_token']:.2f} ms a token; our baseline step takes "
                      f"{p['ours_over_peer']:.2f} of that."]
    return "\n".join(lines)


@dataclass(frozen=True)
class Goal:
    """A line of the specification: ``value(results)`` is the measured figure, met when ``sign * value >= sign * bound``."""

    what: str
    bound: float
    higher: bool
    value: Callable[[dict[str, Any]], float]
    digits: int = 2


def _row(section: str, start: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The first row of a section whose label starts so."""
    return lambda r: next(row for label, row in r[section]["rows"].items() if label.startswith(start))


def _figure(section: str, start: str, key: str) -> Callable[[dict[str, Any]], float]:
    return lambda r: _row(section, start)(r)[key]


def _over(section: str, start: str, key: str, base: str = "baseline") -> Callable[[dict[str, Any]], float]:
    return lambda r: _row(section, start)(r)[key] / _row(section, base)(r)[key]


def _above(start: str, key: str, scale: float = 100.0) -> Callable[[dict[str, Any]], float]:
    return lambda r: scale * (_row("evaluate", start)(r)[key] - _row("evaluate", "baseline")(r)[key])


GOALS = (
    Goal("baseline: PocketSphinx WER over that of natural recordings", 1.6, False, _over("evaluate", "baseline", "wer", "recordings")),
    Goal("baseline: share of runs cut at the limit, %", 2, False, lambda r: 100 * _row("evaluate", "baseline")(r)["truncated"]),
    Goal("baseline: nearest of the prompt voices is the right one, %", 80, True, lambda r: 100 * _row("evaluate", "baseline")(r)["nearest"]),
    Goal("baseline: RTF", 0.5, False, _figure("bench", "baseline", "rtf")),
    Goal("baseline: TTFA, s", 0.6, False, _figure("bench", "baseline", "ttfa")),
    Goal("baseline: LM-RTF", 0.2, False, _figure("bench", "baseline", "lm_rtf"), 3),
    Goal("baseline: step time over transformers' generate", 0.75, False, lambda r: r["bench"]["peer"]["ours_over_peer"]),
    Goal("tldr, patch 4: LM gain", 1.8, True, _figure("bench", "tldr patch_size=4", "lm_gain")),
    Goal("tldr, patch 8: LM gain", 2.4, True, _figure("bench", "tldr patch_size=8", "lm_gain")),
    Goal("tldr, patch 4: KV of 12 s of speech over the baseline's", 0.26, False, _over("bench", "tldr patch_size=4", "kv_speech_12s")),
    Goal("tldr, patch 4: WER above the baseline's, points", 1, False, _above("tldr patch_size=4", "wer")),
    Goal("tldr, patch 4: SIM below the baseline's", 0.01, False, lambda r: -_above("tldr patch_size=4", "sim", 1)(r), 3),
    Goal("dcar, 2,3,4: LM gain", 2.4, True, _figure("bench", "dcar chunk_range=2,3,4", "lm_gain")),
    Goal("dcar, 2,3,4: WER above the baseline's, points", 0, False, _above("dcar chunk_range=2,3,4", "wer")),
    Goal("qtts, delay: WER above single's, points", 3, False, lambda r: 100 * (
        _row("evaluate", "qtts strategy=delay")(r)["wer"] - _row("evaluate", "qtts strategy=single")(r)["wer"])),
    Goal("qtts: hierarchical's LM-RTF over delay's", 1.4, True, _over("bench", "qtts strategy=hierarchical", "lm_rtf", "qtts strategy=delay")),
    Goal("compressed, 50 and 10: KV of 20 s of speech over the baseline's", 0.35, False,
         _over("bench", "compressed window=50 group=10", "kv_speech_20s")),
    Goal("compressed, 50 and 10: WER above the baseline's, points", 0, False, _above("compressed window=50 group=10", "wer")),
    Goal("ssd, tolerance 0.4: LM gain", 1.4, True, _figure("bench", "ssd tolerance=0.4", "lm_gain")),
    Goal("ssd, tolerance 0, auto: LM gain", 1.15, True, _figure("bench", "ssd tolerance=0.0 draft_length=auto", "lm_gain")),
    Goal("ssd, tolerance 0.4: WER above the baseline's, points", 2, False, _above("ssd tolerance=0.4", "wer")),
    Goal("codec, 8 codebooks: STOI", 0.93, True, lambda r: r["codec"]["rows"]["8 books"]["stoi"], 3),
    Goal("codec, 8 codebooks: PESQ wide band", 2.3, True, lambda r: r["codec"]["rows"]["8 books"]["pesq"]),
)


def _goals(results: dict[str, Any]) -> str:
    lines = ["**Goals.** Each line of our specification, measured above; what misses is said.", "",
             "| goal | wanted | measured | |", "|---|---|---|---|"]
    for goal in GOALS:
        try:
            value = goal.value(results)
        except (KeyError, StopIteration, TypeError):
            value = None
        sign = 1 if goal.higher else -1
        verdict = "not measured" if value is None else "met" if sign * value >= sign * goal.bound else "**missed**"
        shown = "" if value is None else f"{value:.{goal.digits}f}"
        lines.append(f"| {goal.what} | {'≥' if goal.higher else '≤'} {goal.bound:g} | {shown} | {verdict} |")
    return "\n".join(lines)
