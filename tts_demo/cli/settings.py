"""What commands share: arguments, ``key=value`` words to a method's Options and the Sampling, how a mistake ends."""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..config import Sampling, UserError, nearest

SAMPLING_KEYS = tuple(f.name for f in dataclasses.fields(Sampling))


def exit_code(command: Callable[[], object]) -> int:
    """Run it: 0, 2 for a mistake in the request (said in one line on stderr), 130 when interrupted."""
    try:
        command()
    except UserError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def pairs(given: Sequence[Sequence[str]]) -> dict[str, str]:
    """[['a=1', 'b=2'], ['c=3']] -> {'a': '1', ...}"""
    found = {}
    for word in (w for group in given for w in group):
        key, equals, value = word.partition("=")
        if not (equals and key and value):
            raise UserError(f"--set takes key=value, not {word!r}.")
        name = key.strip().replace("-", "_")
        if found.setdefault(name, value.strip()) != value.strip():
            raise UserError(f"--set gives {name} twice, as {found[name]!r} and {value.strip()!r}.")
    return found


def split(given: Sequence[Sequence[str]]) -> tuple[dict[str, str], dict[str, float]]:
    """``pairs`` of the method's options, and those that name a field of Sampling, as numbers that it allows."""
    found, sampling = pairs(given), {}
    for key in filter(found.__contains__, SAMPLING_KEYS):
        kind = type(getattr(Sampling(), key))
        try:
            sampling[key] = kind(found[key])
        except ValueError:
            whole = "whole " if kind is int else ""
            raise UserError(f"{key} must be a {whole}number, not {found[key]!r}.") from None
    Sampling(**sampling)  # raises
    return {k: v for k, v in found.items() if k not in sampling}, sampling


def add_set(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="key=value", help=text)


def add_stack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stack",
        default="nano",
        metavar="S",
        help="nano, a folder or a Hugging Face repository; what a folder lacks comes from nano (%(default)s)",
    )
    parser.add_argument(
        "--adapters", metavar="A", help="trained methods beside or instead of the stack's: a folder or a repository"
    )
    parser.add_argument(
        "--allow-stale", action="store_true", help="also use modules trained through others than are there now"
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda; default: what is there")
    parser.add_argument("--dtype", metavar="T", help="float32, bfloat16; default: what suits the device")


def add_measure(parser: argparse.ArgumentParser, everything: str) -> None:
    """What ``evaluate`` and ``bench`` have alike."""
    parser.add_argument("--all", action="store_true", help=everything)
    parser.add_argument("--plan", action="store_true", help="say what is to do and how long it takes")
    parser.add_argument("--json", action="store_true", help="instead of a table: one JSON object, the last line")
    parser.add_argument("--methods", metavar="a,b", help="default: all, at their defaults")
    parser.add_argument(
        "--minutes", type=float, default=0.0, metavar="M", help="start nothing new after M; 0: no limit (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument(
        "--records",
        type=Path,
        metavar="F",
        help="append to this file, and measure nothing again that stands there; default: .measured/records.jsonl, "
        "of other stacks than the bundled one none",
    )
    add_set(parser, "an option for the methods that have it, or of sampling")


def records_of(args: argparse.Namespace, usual: bool = True) -> Path | None:
    """The file that a command measures into: --records, or the usual file for the bundled stack at default sampling.
    None = nowhere: runs of another stack or at another sampling are no rows of the usual table. ``usual``: whether
    this run may go into the usual file at all. UserError where the file holds runs at another sampling."""
    from ..measure.records import OWN, check, sampling_label

    label = sampling_label(split(args.set)[1])
    if args.records:
        check_writable(args.records)
        check(args.records, label)
    return args.records or (OWN if usual and args.stack == "nano" and not label else None)


def methods_of(args: argparse.Namespace, settings: Mapping[str, str]) -> list[str]:
    """The methods asked for, or all. UserError for what there is none of, and for a setting that none of them has."""
    from ..methods import METHODS, find

    if args.methods is not None and not args.methods.strip():
        raise UserError(f"--methods is empty: name some of {', '.join(METHODS)}, or leave it out.")
    names = list(METHODS) if args.methods is None else args.methods.split(",")
    known = {field.name for name in names for field in dataclasses.fields(find(name).Options)}
    known = [*sorted(known), *SAMPLING_KEYS]
    for key in settings:
        if key not in known:
            raise UserError(
                f"--set {key}: neither a method asked for nor sampling has this.{nearest(key, known)} "
                f"They have {', '.join(known)}."
            )
    return names


def refuse_unused(args: argparse.Namespace, where: str, *names: str) -> None:
    """UserError where one of these options differs from its default although it has no effect ``where`` it stands:
    'with --gpu'."""
    given = [name for name in names if getattr(args, name) != args.default_of(name)]
    if given:
        options = ", ".join("--" + name.replace("_", "-") for name in given)
        raise UserError(f"{options} {'has' if len(given) == 1 else 'have'} no effect {where}: leave it out.")


def check_least(args: argparse.Namespace, **least: float) -> None:
    """UserError where an option is smaller than that. None: it was left out."""
    for name, number in least.items():
        value = getattr(args, name)
        if value is not None and not value >= number:  # not a number too
            raise UserError(f"--{name} must be {number} or more, not {value:g}.")


def check_wav(path: str) -> None:
    """UserError where sound cannot be written to this file, or would not be what its name says."""
    if Path(path).suffix.lower() not in ("", ".wav"):
        raise UserError(f"Only WAV is written here: end the name in .wav, not {Path(path).suffix}.")
    check_writable(path)


def check_writable(path: str | Path) -> None:
    target = Path(path).absolute()
    if target.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file to write.")
    if not target.parent.is_dir():
        raise UserError(f"There is no folder {target.parent}: make it first, or write elsewhere.")
