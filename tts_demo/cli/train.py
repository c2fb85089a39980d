"""``train``: train a part of the bundled stack, or a method for a released model."""

import argparse
import dataclasses
import sys
import textwrap
from pathlib import Path
from typing import Any

from ..config import UserError
from ..train import RECIPES
from .settings import add_set, check_least, check_writable, pairs, refuse_unused

HELP = "train a part of the bundled stack, or a method for a released model"


class Help(argparse.Action):
    """``train --help``, and ``train RECIPE --help`` with the recipe's settings."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> None:
        text = settings_help(namespace.recipe) if namespace.recipe else ""
        print(parser.format_help() + text, end="")
        parser.exit()


def settings_help(recipe: str) -> str:
    """What ``--set`` takes in this recipe, a paragraph each. Raises UserError for an unknown recipe."""
    from ..train import recipe as task_of

    task = task_of(recipe)
    lines = ["", f"{recipe}: --steps {task.steps} --lr {task.lr:g} unless you say otherwise, and --set key=value:"]
    for name, default, text in task.Settings.described():
        lines.append(f"  {name}={default}")
        lines += textwrap.wrap(text, 96, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines) + "\n"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-h", "--help", nargs=0, action=Help, help="show this, and after RECIPE its settings, and exit")
    parser.add_argument("recipe", metavar="RECIPE", help=", ".join(RECIPES))
    parser.add_argument(
        "--data",
        default="data",
        metavar="DIR",
        help="a corpus or a folder of them (metadata.csv and audio), or LibriTTS (%(default)s)",
    )
    parser.add_argument(
        "--stack",
        default="nano",
        metavar="S",
        help="nano, or a released model to train a method for: a folder or a repository (%(default)s)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="where the trained modules go; default: checkpoints/nano, or the "
        "folder 'adapters' in the released model's",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="where modules it builds on are read; default: --out, and the bundled checkpoint for what is not there",
    )
    parser.add_argument("--work", default=".train", metavar="DIR", help="resumable state and caches (%(default)s)")
    parser.add_argument("--packed", type=Path, metavar="FILE", help="train from one file instead of --data")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write that file for these settings, and end")
    parser.add_argument("--mib", type=float, default=55.0, help="size of the file that --pack writes, at most")
    parser.add_argument("--sound", choices=("opus", "flac"), default="opus", help="how --pack stores speech")
    parser.add_argument("--preset", default="full", choices=("full", "smoke"), help="smoke: a handful of steps")
    parser.add_argument("--steps", type=int, default=0, help="default: the recipe's own")
    parser.add_argument("--batch", type=int, default=0, help="frames, crops or seconds; default: the recipe's own")
    parser.add_argument("--lr", type=float, default=0.0, help="peak learning rate; default: the recipe's own")
    parser.add_argument(
        "--minutes",
        type=float,
        default=0.0,
        help="stop and publish after this long, runs that it resumes included; schedules end with it",
    )
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and noise")
    parser.add_argument("--device", metavar="D", help="cpu, cuda; default: what is there")
    parser.add_argument("--resume", action="store_true", help="go on from the state under --work")
    add_set(parser, "settings of the recipe; train RECIPE --help lists them")


def run(args: argparse.Namespace) -> None:
    import torch

    from .. import overlay
    from ..runtime import pick_device
    from ..train import CPU_ONLY, check, load_task
    from ..train.loop import fit
    from ..train.processes import accelerator_for
    from ..train.task import TrainOptions

    check_least(args, steps=0, batch=0, lr=0, minutes=0, mib=1)
    if not args.pack:
        refuse_unused(args, "without --pack", "mib", "sound")
    if args.packed:
        refuse_unused(args, "with --packed", "data")
    if args.steps:
        refuse_unused(args, "with --steps", "preset")
    where = pick_device("cpu" if args.recipe in CPU_ONLY and not args.device else args.device)
    steps = args.steps or (5 if args.preset == "smoke" else 0)
    out, work, stack = _training_folders(args)
    checkpoint = Path(args.checkpoint) if args.checkpoint else out
    if not stack and not args.checkpoint:
        checkpoint, notes = overlay.completed(out)
        for note in notes:
            print(note, file=sys.stderr)
    paths = {"data": Path(args.data), "out": out, "work": work, "checkpoint": checkpoint}
    same = {name: getattr(args, name) for name in ("batch", "lr", "seed", "minutes", "resume", "packed")}
    options = TrainOptions(**paths, **same, steps=steps, device=where.type, settings=pairs(args.set), stack=stack)
    check(args.recipe, options)
    if args.pack:
        return _pack(args, options)
    accelerator = accelerator_for(where)
    options = dataclasses.replace(options, device=str(accelerator.device))
    torch.manual_seed(args.seed)  # the task samples the weights it begins with
    with accelerator.main_process_first():  # the others find the caches that it made
        task = load_task(args.recipe, options)
    scores = fit(task, options, accelerator)
    accelerator.end_training()
    if accelerator.is_main_process:
        for name, value in scores.items():
            print(f"{name}: {value:.4g}")


def _pack(args: argparse.Namespace, options: Any) -> None:
    from ..train import load_task, recipe

    if not recipe(args.recipe).packable:
        packable = ", ".join(name for name in RECIPES if recipe(name).packable)
        raise UserError(f"The recipe {args.recipe!r} cannot be packed; these can: {packable}.")
    check_writable(args.pack)
    count = load_task(args.recipe, options).pack(args.pack, int(args.mib * 2**20), args.sound)
    print(f"{args.pack}: {count} utterances, {args.pack.stat().st_size / 2**20:.1f} MiB")


def _training_folders(args: argparse.Namespace) -> tuple[Path, Path, str]:
    """Where modules go, where state is kept, and the released model, "" for the bundled checkpoint."""
    from ..stacks import is_cosyvoice

    if not is_cosyvoice(args.stack):
        if args.stack != "nano":
            raise UserError(
                f"{args.stack} is no released CosyVoice model: to build on another checkpoint of the bundled "
                "kind give --checkpoint DIR."
            )
        return Path(args.out or "checkpoints/nano"), Path(args.work), ""
    from ..stacks.cosyvoice import download
    from ..stacks.cosyvoice.stack import ADAPTERS

    out = Path(args.out) if args.out else download.resolve(args.stack)[0] / ADAPTERS
    return out, Path(args.work) / Path(args.stack).resolve().name, args.stack
