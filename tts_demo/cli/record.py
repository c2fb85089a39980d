"""``record``: what the page ships with. Recorded runs open before any model is loaded."""

import argparse
from pathlib import Path

from ..config import UserError
from .settings import refuse_unused

HELP = "make what the page ships with: recorded runs, example voices, screenshots"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("runs", "voices", "screenshots"))
    parser.add_argument(
        "sources", nargs="*", help="FILE or FILE=transcript: voices to copy; for screenshots, the page's address"
    )
    parser.add_argument("--stack", default="nano", help="(%(default)s)")
    parser.add_argument("--device")
    parser.add_argument("--text", help="what is said")
    parser.add_argument("--names", metavar="'Maya, warm; ...'", help="of voices: names and characters, in their order")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--max-seconds", type=float, default=12.0, help="of a run (%(default)s)")
    parser.add_argument("--methods", metavar="a,b", help="default: all")
    parser.add_argument("--out", type=Path, help="folder; default: assets/runs or assets/prompts")


UNUSED = {
    "runs": ("names",),
    "voices": ("methods", "max_seconds"),
    "screenshots": ("stack", "device", "text", "names", "seed", "max_seconds", "methods"),
}


def run(args: argparse.Namespace) -> None:
    refuse_unused(args, f"with 'record {args.what}'", *UNUSED[args.what])
    if args.what != "voices" and len(args.sources) > 1:
        raise UserError(f"'record {args.what}' takes one source, not {len(args.sources)}.")
    from ..ui.run import record

    record.record(args)
