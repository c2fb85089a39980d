"""``checkpoints/nano/results.json`` and what the README shows of it. Figures get into the README this way only.

A section is what one command measured (``evaluate``, ``bench``, ``codec``, ``analyses``), with its conditions.
``--keep`` or ``--all`` on those commands writes it, and draws the plot and renders the README anew; a test holds them
equal. ``python -m tts_demo.report.results`` does the latter alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

from .. import checkpoints
from ..config import UserError
from . import analyses as results_analyses
from . import goals as results_goals
from . import machines as results_machines
from . import papers as results_papers
from . import plot as results_plot
from .machines import still_paced

ROOT = Path(__file__).parents[2]
RESULTS, README = ROOT / "checkpoints" / "nano" / "results.json", ROOT / "README.md"
STORES = ROOT / ".train"  # where --all keeps what it has measured so far
PLOT = "assets/quality-speed.svg"  # beside the README
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
SEPARATOR = " && "  # between the commands that made one section
LABELS = {"recordings": "natural recordings"}


def load(path: Path = RESULTS) -> dict[str, Any]:
    """{} when nothing has been kept yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def check_keep(args: argparse.Namespace) -> bool:
    """Whether the figures of this command are to be kept. Raises UserError where they would not be the bundled
    stack's."""
    wanted = args.keep or args.all
    if wanted and (args.stack != "nano" or getattr(args, "shape", "nano") != "nano"):
        raise UserError(
            "--all and --keep write the results of the bundled stack: leave out --stack and --shape, or name "
            "--methods without them."
        )
    return wanted


def keep(
    section: str,
    figures: dict[str, Any],
    path: Path | None = None,
    readme: Path | None = None,
    reads: Callable[[str], list[str] | None] = lambda label: None,
) -> None:
    """Store a section and bring plot and README up to date. Rows of an earlier one stay where they are not measured
    again and nothing that made them has changed (``unchanged``, which takes ``reads``), and so do the commands that
    made
    them."""
    path, readme = path or RESULTS, readme or README
    results = load(path)
    old, others = results.get(section, {}), {}
    if section == "bench":
        if results_machines.machine(old) != results_machines.machine(figures):
            results_machines.forget_speeds(results.get("analyses", {}))
        old, others = results_machines.apart(old, figures)
    results[section] = _joined(old, figures, unchanged(section, path=path, reads=reads)) | {"commit": _commit()}
    if others:
        results[section]["elsewhere"] = others
    if joined := results_analyses.trade_off(results):
        results.setdefault("analyses", {"conditions": results["bench"]["conditions"]}).setdefault("rows", {})[
            "qtts trade-off"
        ] = joined
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_readme(results, readme)


def made_of(modules: Iterable[str], root: Path | None = None) -> dict[str, Any]:
    """What a row was made with: folders of modules, and the hash of their weights."""
    return {"modules": sorted(modules), "hash": checkpoints.checkpoint_hash(root or RESULTS.parent, modules)}


def unchanged(
    section: str,
    alike: Callable[[dict[str, Any]], bool] = lambda conditions: True,
    path: Path | None = None,
    reads: Callable[[str], list[str] | None] = lambda label: None,
) -> dict[str, dict[str, Any]]:
    """Rows of a section whose modules are still as they were, label -> figures; none where its conditions are not
    ``alike``. ``reads``: the modules that a row would be made with now, where that may differ from those it was made
    with. Rows that do not say what they were made with (speeds: they need one machine and hour) are not among them."""
    path = path or RESULTS
    old = load(path).get(section, {})
    if not alike(old.get("conditions", {})):
        return {}
    holds = {
        label
        for label, made in old.get("made_of", {}).items()
        if made == made_of(made["modules"], path.parent) and reads(label) in (None, made["modules"])
    }
    return {label: row for label, row in old.get("rows", {}).items() if label in holds}


def _joined(old: dict[str, Any], new: dict[str, Any], holds: Container[str]) -> dict[str, Any]:
    """``new`` with what it leaves of ``old`` and still holds; ``made_by`` names the command of each row where there is
    more than one. Of a speed ``follows`` names the method that it is about: it holds as long as the weights do that the
    method's speed
    follows from."""
    before, now = old.get("conditions", {}), new.get("conditions", {})
    same = before.get("checkpoint") == now.get("checkpoint")
    speeds = still_paced(old, now.get("paces", {}))
    stays = {label: row for label, row in old.get("rows", {}).items() if same or label in holds or label in speeds}
    if not stays.keys() - new.get("rows", {}).keys():
        return new
    made_by = old.get("made_by") or dict.fromkeys(old["rows"], old.get("command", ""))
    made_by = {label: made_by.get(label, "") for label in stays} | dict.fromkeys(new["rows"], new["command"])
    made_of = {label: made for label, made in old.get("made_of", {}).items() if label in stays} | new.get("made_of", {})
    follows = {label: name for label, name in old.get("follows", {}).items() if label in stays} | new.get("follows", {})
    rows = stays | new["rows"]
    # in the order people know
    rows = {label: rows[label] for label in dict.fromkeys([*old["rows"], *rows]) if label in rows}
    peer = {"peer": old["peer"]} if same and "peer" in old else {}  # of the same weights, in an earlier hour
    return (
        peer
        | new
        | {
            "conditions": old["conditions"] | new["conditions"],
            "rows": rows,
            "made_of": made_of,
            "made_by": made_by,
            "follows": follows,
            "command": SEPARATOR.join(dict.fromkeys(filter(None, made_by.values()))),
        }
    )


def _commit() -> str | None:
    """The commit that was measured, where this is a clone."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return head.stdout.strip() or None


def write_readme(results: dict[str, Any], readme: Path = README) -> None:
    """The part between the markers, and the plot it shows."""
    if found := results_plot.points(results):
        plot = readme.parent / PLOT
        plot.parent.mkdir(parents=True, exist_ok=True)
        plot.write_text(results_plot.draw(found), encoding="utf-8")
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    readme.write_text(f"{before}{BEGIN}\n{render(results)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def shown(readme: Path = README) -> str:
    """What stands between the markers of the README."""
    return readme.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip("\n")


def render(results: dict[str, Any]) -> str:
    """Whatever has been measured, in the order one asks for it; a section that is missing leaves no trace but in the
    goals."""
    if not results:
        return "Nothing has been measured with these weights yet."
    parts = [
        show(results[section])
        for section, show in (("evaluate", _quality), ("bench", _speed), ("codec", _codec))
        if results.get(section, {}).get("rows")
    ]
    if found := results_plot.points(results):
        best = ", ".join(f"`{p.label}`" for p in results_plot.front(found))
        parts.append(
            f"![Word errors against the time of the language model, a point a setting]({PLOT})\n\nTime is over that of the "
            f"baseline beside it. No other setting is both faster and better understood than one of these (fastest first): {best}. "
            "Settings that err more than twice as often as the baseline are left out."
        )
    if "evaluate" in results or "bench" in results:
        parts.append(results_papers.render(results))
    parts += [results_analyses.render(results.get("analyses", {})), results_goals.render(results)]
    return "\n\n".join(filter(None, parts))


QUALITY = (
    ("texts", "texts", 1, 0),
    ("runs", "runs", 1, 0),
    ("wer", "WER %", 100, 1),
    ("wer_above_baseline", "WER over the baseline", 100, 1),
    ("cer", "CER %", 100, 1),
    ("per", "PER %", 100, 1),
    ("sim", "SIM", 1, 2),
    ("mos", "MOS", 1, 2),
    ("frames_per_step", "frames a step", 1, 2),
    ("kv_peak", "KV peak MB", 1e-6, 2),
    ("truncated", "cut %", 100, 0),
)
DIFFERENCES = ("wer_above_baseline",)  # shown with their sign


def _quality(section: dict[str, Any]) -> str:
    c, rows = section["conditions"], section["rows"]
    head = (
        f"**Quality.** `{section['command']}`: every row speaks the same texts in the same voices, a row of fewer texts "
        f"the first of them, the recordings those that have one, a row of more runs than texts each with several seeds; WER and CER by {c['recogniser']}, PER (phonemes) by the bundled recogniser, SIM by {c['voice model']}, MOS by {c['mos model']} (higher is better for these two, lower for "
        f"all others); ± is half of a 95 % bootstrap interval, WER over the baseline is that of the same texts in points, resampled in "
        f"pairs of texts. {_hardware(c)}. Speeds stand in the speed table: these rows were not measured side by side."
    )
    earlier = {label for label, row in rows.items() if row.get("precision", "float32") != c["dtype"]}
    if earlier:
        head += " Rows marked * were spoken with float32 weights, before the large matrices were kept as float16."
    lines = [
        head,
        "",
        "| method | " + " | ".join(h for _, h, _, _ in QUALITY) + " |",
        "|---" * (len(QUALITY) + 1) + "|",
    ]
    for label, row in rows.items():
        cells = [_cell(row, key, scale, digits) for key, _, scale, digits in QUALITY]
        lines.append(f"| {LABELS.get(label, label)}{' *' * (label in earlier)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: dict[str, Any], key: str, scale: float, digits: int) -> str:
    if key not in row:
        return ""
    text = f"{row[key] * scale:{'+' if key in DIFFERENCES else ''}.{digits}f}"
    if key in ("wer", "per", "sim", "mos", *DIFFERENCES) and f"{key}_interval" in row:
        low, high = row[f"{key}_interval"]
        text += f" ± {(high - low) / 2 * scale:.{digits}f}"
    return text


def _hardware(c: dict[str, Any]) -> str:
    return (
        f"{c['device']} ({c['machine']}), {c['dtype']}, {c['threads']} threads, torch {c['torch']}, "
        f"checkpoint {c['checkpoint']}, seed {c['seed']}"
    )


CODEC = (
    ("stoi", "STOI", 1, 3),
    ("pesq", "PESQ wide band", 1, 2),
    ("si_sdr", "SI-SDR dB", 1, 1),
    ("log_mel", "log-mel distance", 1, 2),
    ("sim", "SIM to the recording", 1, 2),
    ("wer", "WER %", 100, 1),
    ("per", "PER %", 100, 1),
)


def _codec(section: dict[str, Any]) -> str:
    """STOI, PESQ, SI-SDR and SIM: higher is better; the rest: lower."""
    lines = [
        f"**Codec.** `{section['command']}`: {section['recordings']} held-out recordings against their decoded selves (STOI, PESQ, "
        f"SI-SDR and SIM: higher is better; the others lower). Checkpoint {section['conditions']['checkpoint']}.",
        "",
        "| | " + " | ".join(h for _, h, _, _ in CODEC) + " |",
        "|---" * (len(CODEC) + 1) + "|",
    ]
    for label, row in section["rows"].items():
        same = label == "recording"  # compared with itself: only what a recogniser hears says anything
        cells = [
            f"{row[k] * scale:.{digits}f}" if k in row and not (same and k not in ("wer", "per")) else ""
            for k, _, scale, digits in CODEC
        ]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


SPEED = (
    ("ms_per_step", "ms a step", 1, 2),
    ("lm_rtf", "LM-RTF", 1, 3),
    ("lm_gain", "LM gain", 1, 2),
    ("rtf", "RTF", 1, 3),
    ("ttfa", "TTFA s", 1, 2),
    ("frames_per_step", "frames a step", 1, 2),
    ("acceptance", "accepted", 1, 2),
    ("kv_speech_12s", "KV of 12 s MB", 1e-6, 3),
    ("kv_speech_20s", "KV of 20 s MB", 1e-6, 3),
    ("kv_small_12s", "of 12 s in small models MB", 1e-6, 3),
    ("kv_prompt_and_text", "+ prompt and text MB", 1e-6, 3),
    ("ceiling_share", "share of ceiling", 1, 2),
)


def _speed(section: dict[str, Any]) -> str:
    c = section["conditions"]
    rounds = " or ".join(map(str, sorted({row.get("rounds", c["rounds"]) for row in section["rows"].values()})))
    lines = [
        f"**Speed and memory.** `{section['command']}`: {rounds} rounds a row of {c['seconds']:g} s of speech in one "
        f"process, medians; LM gain is over a run of the baseline side by side, in turns of a fraction of a second (higher is better, all times lower). "
        f"{c['device']}, {c['dtype']}, {c['runtime']}, {c['threads']} threads, torch {c['torch']}, checkpoint {c['checkpoint']}, "
        f"load average {c['load_average'][0]:.1f} at the end. A step reads {c['weight_bytes_per_step'] / 1e6:.1f} MB; at the measured "
        f"{c['bandwidth_gb_s']:.0f} GB/s that is the ceiling.",
        "",
        "| method | " + " | ".join(h for _, h, _, _ in SPEED) + " |",
        "|---" * (len(SPEED) + 1) + "|",
    ]
    for label, row in section["rows"].items():
        cells = [f"{row[k] * scale:.{digits}f}" if row.get(k) is not None else "" for k, _, scale, digits in SPEED]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    if "peer" in section:
        p = section["peer"]
        lines += [
            "",
            f"transformers' own `generate` with the same weights: {p['ms_per_token']:.2f} ms a token; our baseline step takes "
            f"{p['ours_over_peer']:.2f} of that.",
        ]
    return "\n\n".join(["\n".join(lines), *results_machines.tables(section)])


if __name__ == "__main__":
    write_readme(load())
