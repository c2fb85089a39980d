"""The command line: one module a command, each with HELP, ``add`` (its arguments) and ``run``.

Every mistake a person can mend ends with exit code 2 and one sentence. Heavy modules are imported by the command that
needs them.
"""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from ..config import UserError
from . import bench, decode, encode, evaluate, methods, phonemes, record, report, say, teach, train
from .settings import exit_code

COMMANDS = {
    module.__name__.rpartition(".")[2]: module
    for module in (say, phonemes, methods, encode, decode, evaluate, bench, report, teach, train, record)
}


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one sentence, like every other."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:].rstrip('.')}; '{self.prog} --help' lists what is accepted.")


def build_parser() -> Parser:
    parser = Parser(prog="python -m tts_demo", description="Accelerated speech language models beside the baseline.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, conflict_handler="resolve")
        module.add(command)
        command.set_defaults(default_of=command.get_default)  # for ``settings.refuse_unused``
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 2 for a mistake in the request, 130 when interrupted."""

    def run() -> None:
        args = build_parser().parse_args(argv)
        COMMANDS[args.command].run(args)

    return exit_code(run)
