"""``phonemes``: what will be spoken."""

import argparse

HELP = "what will be spoken: one line a sentence, phonemes as the model gets them"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text")


def run(args: argparse.Namespace) -> None:
    from ..text import preview

    for sentence in preview(args.text):
        print(sentence.phonemes)
