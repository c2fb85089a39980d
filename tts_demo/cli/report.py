"""``report``: records to RESULTS.md, the README's small table and its plot."""

import argparse
from pathlib import Path

from ..config import UserError
from .settings import check_writable

HELP = "write RESULTS.md, the README's table and its plot from what was measured"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=Path, metavar="F", help="default: checkpoints/nano/records.jsonl")
    parser.add_argument(
        "--readme",
        type=Path,
        metavar="F",
        help="also its table and plot; default: of the bundled records the README, of others none",
    )
    parser.add_argument(
        "--carry",
        type=Path,
        metavar="BEFORE",
        help="first take over what was measured with this folder, the bundled checkpoint before modules of it were "
        "replaced, of what these do not touch; records of checkpoints long replaced are dropped",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="F", help="default: RESULTS.md beside the records")


def run(args: argparse.Namespace) -> None:
    from ..measure.carry import carry
    from ..measure.records import RECORDS, Records, check
    from ..report import results

    records = args.records or RECORDS
    if not records.is_file():
        raise UserError(f"There is no {records}: measure with 'python -m tts_demo evaluate' and 'bench' first.")
    check(records)
    output, readme = args.output or records.with_name("RESULTS.md"), args.readme
    if readme is None and records.resolve() == RECORDS.resolve():
        readme = results.README
    check_writable(output)
    if readme is not None and not readme.is_file():
        raise UserError(f"There is no {readme}: give the page that holds the marks of the table with --readme.")
    if args.carry is not None:
        taken = carry(Records(records), args.carry, RECORDS.parent)
        print(f"{taken} records that the replaced modules do not touch are taken over.")
    print(results.write(records, output, readme))
