"""``teach``: let a teacher speak sentences to train on."""

import argparse
from pathlib import Path

HELP = "let a teacher (Kokoro-82M) speak sentences to train on, with exact times"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sentences", type=Path, help="a text file, a sentence a line")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder; speaking goes on where it stopped")
    parser.add_argument("--model", help="a folder or a Hugging Face repository; default: an export that tells times")
    parser.add_argument("--voices", type=int, default=100, help="its own 28 and mixtures of them (%(default)s)")
    parser.add_argument("--shard", type=int, default=0, help="which of several processes this is, from 0 (%(default)s)")
    parser.add_argument("--of", type=int, default=1, help="how many there are (%(default)s)")
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this long; 0: no limit (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")


def run(args: argparse.Namespace) -> None:
    from tqdm import tqdm

    from ..config import UserError
    from ..train.data import teacher
    from .settings import check_least

    check_least(args, minutes=0)
    if not 0 <= args.shard < args.of or args.voices < 1:
        raise UserError("--shard must lie between 0 and --of less one, and --voices must be 1 or more.")
    if not args.sentences.is_file():
        raise UserError(f"There is no file {args.sentences}: give a text file, a sentence a line.")
    speaker = teacher.Teacher.load(args.model or teacher.MODEL)
    text = args.sentences.read_text(encoding="utf-8")
    if not teacher.has_plan(args.out, text, args.voices, args.seed):
        voices = teacher.mixtures(sorted(speaker.styles), args.voices, args.seed)
        teacher.write_plan(args.out, text.splitlines(), voices, args.seed)
    seconds = 0.0
    for made in tqdm(teacher.synthesise_plan(speaker, args.out, args.shard, args.of, args.minutes), unit=" utterances"):
        seconds += made
    print(f"{seconds / 3600:.2f} h of speech in {args.out}")
