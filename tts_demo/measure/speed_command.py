"""``python -m tts_demo bench``: from what was typed to a table, the kept results and one JSON object."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .. import audio
from ..cli.settings import pairs
from ..config import UserError
from ..methods import METHODS
from ..report import results
from ..report.machines import machine, still_paced
from ..report.speed_table import table
from ..runtime import pick_device, processor
from ..stacks import load_stack, pick_dtype
from ..stacks.random import shape_stack
from . import speed_analyses as bench_analyses
from .cases import EVERYTHING, ROWS_SHARE, paces_of, read_cases, rows_for, runnable
from .speed import Bench


def command(args: argparse.Namespace) -> None:
    """``python -m tts_demo bench``: a table for people, then one JSON object as the last line."""
    keep, device = results.check_keep(args), pick_device(args.device)
    if args.runtime == "graph" and device.type != "cuda":
        raise UserError("--runtime graph needs a CUDA device; use --runtime eager here.")
    if args.batch < 1 or not 0.5 <= args.seconds <= 120:
        raise UserError("--batch must be 1 or more and --seconds between 0.5 and 120.")
    graphs = args.runtime == "graph"
    names = args.methods.split(",") if args.methods else EVERYTHING if args.all else METHODS
    rows = rows_for(dict.fromkeys(["baseline", *names]), pairs(args.set)) + (
        bench_analyses.extra_rows() if args.all else []
    )
    rows = list({row.label: row for row in rows}.values())
    if args.shape != "nano" or args.stack == "random":
        stack = shape_stack(args.shape, device, pick_dtype(args.dtype, device) if args.dtype else None, graphs)
        prompt = stack.prompt
    else:
        stack = load_stack(args.stack, args.device, args.dtype, args.adapters, graphs)
        case = read_cases(None, 1)[0]
        recording = audio.read(case.prompt, target=None)
        prompt = stack.encode_prompt(recording.samples, recording.rate, case.prompt_text or None)
    rows, skipped = runnable(stack, rows, bool(args.methods))
    holds: set[str] = set()
    if args.changed:
        sections = results.load(results.RESULTS)
        if machine(sections.get("bench", {})) == processor(stack.device):
            holds = set().union(
                *(still_paced(sections.get(name, {}), paces_of(stack)) for name in ("bench", "analyses"))
            )
        rows = [row for row in rows if row.label not in holds or row.method.name == "baseline"]
    store = results.STORES / "bench.json" if args.all else None
    bench = Bench(stack, prompt, rows, args.seconds, args.seed, args.rounds or 0, store)
    bench.allow(args.minutes * (ROWS_SHARE if args.all else 1))
    bench.run(args.peer or args.all)
    report = {"command": typed(args), **bench.report()}
    if args.batch > 1:
        report["batch"] = bench.batch(args.batch)
    report["skipped"] = skipped
    print(table(report))
    if keep:
        results.keep("bench", report)
    if args.all:
        bench.allow(args.minutes * (1 - ROWS_SHARE))
        analyses = bench_analyses.run(bench, holds)
        results.keep(
            "analyses",
            {
                "command": report["command"],
                "conditions": report["conditions"],
                "rows": analyses,
                "follows": {name: bench_analyses.FOLLOWS[name] for name in analyses},
            },
        )
        report["analyses"] = analyses
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1))
    print(json.dumps(report))


def typed(args: argparse.Namespace) -> str:
    """What to type to measure this again."""
    words = ["python -m tts_demo bench"] + ["--all"] * args.all + ["--changed"] * args.changed
    words += [
        f"--{key} {getattr(args, key)}"
        for key in ("shape", "batch", "seconds", "runtime", "rounds", "methods")
        if getattr(args, key)
    ]
    words += [f"--minutes {args.minutes:g}"] * bool(args.minutes)
    words += [f"--set {' '.join(group)}" for group in args.set]
    words += ["--stack random"] * (args.stack == "random") + ["--peer"] * args.peer
    return " ".join(words)
