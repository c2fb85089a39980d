"""RESULTS.md's section "On a GPU", from the records of ``bench --gpu``."""

from collections.abc import Mapping
from typing import Any

from ..measure import gpu
from .markdown import columns, table


def section(records: list[dict[str, Any]]) -> str:
    """Every run, the newest first; "" where there is none."""
    return "\n\n".join(_run(run) for run in gpu.newest(records))


def at_scale(records: list[dict[str, Any]], tokens_a_step: Mapping[str, float]) -> dict[str, str]:
    """Row -> what it gained with half a billion random weights, in the newest run that has it. Random weights accept
    drafts and choose chunks by chance: ``tokens_a_step`` are those of trained weights, with which the gain is told
    too."""
    found: dict[str, str] = {}
    for run in gpu.newest(records):
        for r in run:
            figures, row = r["figures"], r["row"]
            if r["stack"] != gpu.STEPS_OF or row in found or not figures.get("lm_gain"):
                continue
            gain, tokens = figures["lm_gain"], figures["frames_per_step"]
            where = f"{r['machine']}, {r['dtype']}, graphs"
            text = f"With half a billion random weights on a GPU ({where}): LM gain {gain:.2f}"
            own = tokens_a_step.get(row)
            if own and abs(own / tokens - 1) > 0.05:
                text += f" at {tokens:.2f} tokens a step; at the {own:.2f} of trained weights it would be "
                text += f"{gain * own / tokens:.2f}"
            found[row] = f"{text}."
    return found


def _run(run: list[dict[str, Any]]) -> str:
    last = run[-1]
    parts = [
        f"{last['machine']}, torch {last['torch']}, {last['date'][:10]}, commit {last['commit']}, random weights, "
        f"{last['text']}, one run."
    ]
    for note in dict.fromkeys(r["figures"]["note"] for r in run if "note" in r["figures"]):
        parts.append(note)
    for stack, dtype in dict.fromkeys((r["stack"], r["dtype"]) for r in run):
        here = {r["row"]: r["figures"] for r in run if (r["stack"], r["dtype"]) == (stack, dtype)}
        parts += [f"{stack}, {dtype}: {line}" for line in _sentences(here)]
        for name in ("gpu-steps", "gpu-acoustics"):
            rows = [(f"`{row}`", f) for row, f in here.items() if f.keys() & columns(name).keys()]
            if rows:
                parts.append(f"{stack}, {dtype}:\n\n{table('row', columns(name).values(), rows)}")
    return "\n\n".join(parts)


def _sentences(here: dict[str, dict[str, Any]]) -> list[str]:
    """What no table holds."""
    lines = []
    if (same := here.get(gpu.SAME)) is not None:
        difference = f", largest difference of hidden states {same['difference']:.2g}" if "difference" in same else ""
        lines.append(
            f"as graphs, twice, and as plain code {same['same']} of {same['settings']} settings say the same tokens"
            f"{difference}."
        )
    if (acoustics := here.get(gpu.ACOUSTICS)) is not None:
        verdict = "compute the same" if acoustics["same"] else "do not compute the same"
        shares = ", ".join(f"{name} {share:.2g}" for name, share in acoustics["difference"].items())
        lines.append(
            f"flow and vocoder {verdict} as graphs and as plain code; largest differences, in shares of the largest "
            f"value: {shares}."
        )
    for row, figures in here.items():
        passes = [f"{name.rpartition('_')[2]} tokens {v:.2f}" for name, v in figures.items() if "pass_of" in name]
        if passes:
            lines.append(f"passes over more than one token take, in passes over one (`{row}`): {', '.join(passes)}.")
    if (memory := here.get(gpu.MEMORY)) is not None:
        lines.append(f"at most {memory['peak_bytes'] / 1e9:.1f} GB of the GPU's memory were in use.")
    return lines
