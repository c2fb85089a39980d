"""``bench``: speed and memory per method, each in turns with the baseline, appended to the records."""

import argparse
import dataclasses
import json
from typing import Any

from ..config import UserError
from . import tables
from .settings import add_measure, add_stack, check_least, methods_of, records_of, refuse_unused, split

HELP = "speed and memory per method"
# What --gpu decides itself: its rows, shapes, rounds and output are always the same.
UNUSED_WITH_GPU = (
    "shape batch runtime parts requests peer rounds all plan json methods minutes seed set stack adapters allow_stale "
    "dtype"
).split()


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shape", choices=("nano", "qwen2-0.5b", "cosyvoice2", "cosyvoice3"), help="random weights")
    parser.add_argument(
        "--batch", type=int, default=1, metavar="N", help="also one and N requests a step: baseline, DCAR, TLDR"
    )
    parser.add_argument("--seconds", type=float, default=6.0, metavar="S", help="audio to make per run (%(default)s)")
    parser.add_argument("--runtime", default="eager", choices=("eager", "graph"), help="(%(default)s)")
    parser.add_argument("--parts", action="store_true", help="also operators, launches and waits of a step")
    parser.add_argument(
        "--requests", type=int, default=0, metavar="N", help="also the first audio of N requests, and several at once"
    )
    parser.add_argument("--gpu", action="store_true", help="the first minutes on a GPU, on random weights, and no more")
    parser.add_argument("--peer", action="store_true", help="also transformers' own generate on the same weights")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="default: 4")
    add_measure(parser, "every dial, those for long speech also at a minute, and transformers' generate")
    add_stack(parser)


def run(args: argparse.Namespace) -> None:
    """A table for people, or with ``--json`` one JSON object as the last line."""
    from ..measure import rows, speed
    from ..measure.records import Records
    from ..report import papers
    from ..runtime import pick_device

    device = pick_device(args.device)
    if args.runtime == "graph" and device.type != "cuda":
        raise UserError("--runtime graph needs a CUDA device; use --runtime eager here.")
    if args.batch < 1 or not 0.5 <= args.seconds <= 120:
        raise UserError("--batch must be 1 or more and --seconds between 0.5 and 120.")
    if args.gpu:
        _first_run(args, device)
        return
    check_least(args, minutes=0, rounds=0, requests=0)
    if args.shape or args.stack == "random":
        refuse_unused(args, "on random weights", "adapters", "allow_stale", *(["stack"] if args.shape else []))
    settings, sampling = split(args.set)
    if args.all and settings:
        raise UserError(f"--set {next(iter(settings))} has no effect with --all, which measures every dial.")
    names, records = methods_of(args, settings), Records(records_of(args, usual=not args.shape))
    asked = lambda rows: [row for row in rows if args.methods is None or row.method.name in names]
    others = asked(papers.measured_rows()) if args.all else []
    wanted = list(dict.fromkeys([rows.Row.of(rows.BASELINE), *rows.chosen(names, settings), *others]))
    stack, spoken = _stack(args, device)
    wanted, skipped = rows.runnable(stack, wanted, bool(args.methods))
    long = rows.runnable(stack, asked(papers.long_rows()))[0] if args.all else []
    bench, minute = (
        speed.Bench(stack, spoken, records, seconds, args.seed, args.runtime, sampling=sampling)
        for seconds in (args.seconds, 60.0)
    )
    if args.plan:
        print("\n".join([speed.plan(bench, wanted, args.rounds), speed.plan(minute, long, args.rounds or 1)]))
        return
    bench.run(wanted, args.rounds, args.minutes, args.peer or args.all)
    minute.run(long, args.rounds or 1, args.minutes)
    conditions = dataclasses.asdict(bench.where) | {"setting": bench.setting}
    report = {"conditions": conditions, "rows": _rows(bench, not args.json)}
    if args.parts:
        report["operators"] = {row.label: _operators(bench, row) for row in wanted}
        report["launches"] = {row.label: _launches(bench, row) for row in wanted}
    if args.batch > 1:
        report["batch"] = _batch(bench, args.batch, {row.method.name for row in wanted})
    if args.requests:
        report["requests"] = {row.label: _requests(bench, row, args.requests) for row in wanted}
    if args.runtime == "graph":
        report["graphs"] = _graphs(stack, wanted)
    print("".join(f"skipped: {line}\n" for line in skipped), end="")
    if args.json:
        print(tables.as_json(report))


def _first_run(args: argparse.Namespace, device: Any) -> None:
    """A line for each record; everything is appended to the records."""
    from ..measure.gpu import FirstRun
    from ..measure.records import Records
    from ..stacks.random import shape_stack

    refuse_unused(args, "with --gpu", *UNUSED_WITH_GPU)
    if device.type != "cuda":
        raise UserError("--gpu needs a CUDA device, and this machine has none.")
    for record in FirstRun(device, Records(records_of(args)), shape_stack, args.seconds).run():
        print(json.dumps({"stack": record["stack"], "row": record["row"]} | record["figures"]), flush=True)


def _stack(args: argparse.Namespace, device: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """The stack, and the texts and prompts that it speaks."""
    from ..measure import speed, texts
    from ..stacks import load_stack, pick_dtype
    from ..stacks.random import shape_stack

    graphs = args.runtime == "graph"
    if args.shape or args.stack == "random":
        dtype = pick_dtype(args.dtype, device) if args.dtype else None
        stack = shape_stack(args.shape or "nano", device, dtype, graphs)
        return stack, [(speed.TEXT, stack.prompt)]
    stack = load_stack(args.stack, args.device, args.dtype, args.adapters, graphs, args.allow_stale)
    return stack, [(text, texts.encoded(stack, voice)) for text, voice in texts.timed()]


def _operators(bench: Any, row: Any) -> dict[str, float]:
    """How many a step calls, and how often the most frequent, printed and returned."""
    from ..measure import parts

    counts = parts.operators(*bench.begin(row))
    often = {name.removeprefix("aten::"): count / parts.STEPS for name, count in counts.most_common(8)}
    found = {"a step": counts.total() / parts.STEPS} | often
    print(f"{row.label}: {', '.join(f'{name} {count:.1f}' for name, count in found.items())}")
    return found


def _requests(bench: Any, row: Any, count: int) -> dict[str, Any]:
    """Percentiles of the first audio, and speech a second of several requests, printed and returned."""
    from ..measure import requests

    found = requests.measure(bench, row, count)["figures"]
    first = ", ".join(f"P{p} {found[f'ttfa_p{p}']:.3f}" for p in requests.PERCENTILES)
    several = ", ".join(f"{n} at once {found[f'throughput_{n}']:.2f}" for n in requests.AT_ONCE)
    print(f"{row.label}: first audio of {count} requests {first} s; seconds of speech a second, {several}")
    return found


def _batch(bench: Any, size: int, methods: set[str]) -> list[dict[str, Any]]:
    """Of one and of ``size`` requests in a step, printed as a table and returned."""
    from ..measure import batch
    from ..report.many import batch_table

    records = batch.measure(bench, size, methods)
    print(batch_table(records))
    return [{"row": record["row"]} | record["figures"] for record in records]


def _launches(bench: Any, row: Any) -> dict[str, Any]:
    """Of a step as a GPU runs it, printed and returned, with the most frequent operators and waits."""
    from ..measure.launches import launches
    from ..measure.speed import KV_SECONDS

    method, frames = bench.stack.method(row.method.name), bench.frames(KV_SECONDS[-1])
    found = launches(method, bench.prefix(), row.options, frames, sampling=bench.sampling)
    print(f"{row.label}, a step as on a GPU: {', '.join(f'{n:.1f} {name}' for name, n in found.a_step.items())}")
    often = {"operators": found.operators, "waits": found.waits}
    return found.a_step | {name: dict(counts.most_common(8)) for name, counts in often.items()}


def _graphs(stack: Any, wanted: list[Any]) -> dict[str, Any]:
    """What was captured, whether graphs compute what plain code does, and the device; printed and returned."""
    from ..measure import graphs

    methods = [stack.method(name) for name in dict.fromkeys(row.method.name for row in wanted)]
    print(graphs.table(methods))
    found = {"graph against plain code": graphs.difference(stack), "device": graphs.device_facts(stack.device)}
    print(json.dumps(found, indent=1))
    return {"parts": graphs.parts(methods), **found}


def _rows(bench: Any, printed: bool) -> dict[str, dict[str, float]]:
    """Medians of this stack at this setting."""
    from ..measure import summary

    same = {"stack": bench.where.stack, "checkpoint": bench.where.checkpoint, "machine": bench.where.machine}
    runs = [r for r in bench.records.read() if all(r[k] == v for k, v in same.items())]
    if not runs:
        raise UserError("Nothing was measured in that time: give --minutes more.")
    table = summary.speed_table(summary.frame(runs), bench.setting)
    if printed:
        print(tables.shown(table))
    return tables.figures(table)
