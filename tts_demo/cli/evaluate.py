"""``evaluate``: error rates, sound and voice similarity per method, appended to the records."""

import argparse
from pathlib import Path
from typing import Any

from ..config import UserError
from . import tables
from .settings import add_measure, add_stack, check_least, methods_of, records_of, split

TAKES = 3  # of the 67 texts of a report: 201 pairs of text and seed of a row that something is concluded from

HELP = "error rates, sound and voice similarity per method"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--list", default="report", metavar="L", help="report, or development: to make choices on (%(default)s)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="the first N texts of the list")
    parser.add_argument("--data", type=Path, metavar="SPEECH", help="corpora: natural voices and recordings")
    parser.add_argument("--teacher", type=Path, metavar="DIR", help="a teacher's audio, judged beside ours")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="deal texts to N processes (%(default)s)")
    parser.add_argument(
        "--takes", type=int, metavar="N", help="speak each text with N seeds, from --seed on; default: 1, with --all 3"
    )
    add_measure(parser, "every dial, the codec and the analyses; a row of secondary interest speaks fewer texts")
    add_stack(parser)


def run(args: argparse.Namespace) -> None:
    """A table for people, or with ``--json`` one JSON object as the last line."""
    from ..measure import analyses, codec, heads, quality, rows, texts
    from ..measure.judges import missing
    from ..report import papers

    check_least(args, processes=1, takes=1, limit=1, minutes=0)
    settings, sampling = split(args.set)
    if args.all and not args.methods and settings:
        raise UserError(
            f"--set {next(iter(settings))} has no effect with --all, which measures every dial: name --methods too."
        )
    names = methods_of(args, settings)
    records = records_of(args)
    if args.processes > 1 and records is None:
        raise UserError("Several processes need a file to write to: give --records FILE.")
    takes = args.takes or (TAKES if args.all else 1)
    cases = texts.cases(args.list, args.data, args.limit, takes, args.seed)
    others = texts.natural(args.list, args.data, args.limit) if args.data else []
    others += texts.teacher(args.teacher, args.limit or len(cases) // takes) if args.teacher else []
    setup = quality.Setup(args.stack, args.device, args.dtype, args.adapters, records, sampling, args.allow_stale)
    wanted = papers.measured_rows() if args.all and not args.methods else rows.chosen(names, settings)
    evaluation = setup.build()
    wanted, skipped = rows.runnable(evaluation.stack, wanted, bool(args.methods))
    judged = papers.judged_rows()
    most = {row: rows.OTHER_PAIRS for row in wanted if not (row.main or row in judged)} if args.all else {}
    todo = quality.measurements(wanted, cases, others, most)
    if args.all:
        main, recordings = [row for row in wanted if row.main], [case for case in others if case.kind == "arctic"]
        long, endless = (rows.runnable(evaluation.stack, papers.long_rows(which))[0] for which in ("", "endless"))
        todo += [
            *codec.measurements(evaluation.stack, recordings),
            *heads.measurements(evaluation.stack, recordings),
            *analyses.measurements(main, cases, long, endless),
        ]
    if args.plan:
        print(quality.plan(evaluation, todo, args.processes))
        return
    quality.run(setup, evaluation, todo, args.processes, args.minutes)
    table = _measured(evaluation, todo)
    notes = [*(f"skipped: {line}" for line in skipped), *(f"{f}: {fix}" for f, fix in missing().items())]
    print("\n".join(notes if args.json else [tables.shown(table), *notes]))
    if args.json:
        print(tables.as_json(tables.figures(table)))


def _measured(evaluation: Any, todo: list[Any]) -> Any:
    """The figures of what was asked for."""
    from ..measure import quality, summary

    asked = {(measurement.label, measurement.case.id, measurement.seed) for measurement in todo}
    spoken = [r for r in evaluation.records.read() if r["kind"] == quality.KIND]
    spoken = [r for r in spoken if r["checkpoint"] in ("", evaluation.where.checkpoint)]
    runs = [r for r in spoken if (r["row"], r["text"], r["seed"]) in asked]
    if not runs:
        raise UserError("Nothing was measured in that time: give --minutes more.")
    return summary.quality_table(summary.frame(runs))
