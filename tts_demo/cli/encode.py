"""``encode``: a recording to codec codes."""

import argparse
import sys

from .settings import check_writable

HELP = "a recording to codec codes"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", metavar="WAV")
    parser.add_argument("-o", "--output", required=True, metavar="CODES.npz")
    parser.add_argument(
        "--stack", default="nano", metavar="S", help="whose codec: nano, a folder or a repository (%(default)s)"
    )


def run(args: argparse.Namespace) -> None:
    import numpy as np
    import torch

    from .. import audio, checkpoints

    check_writable(args.output)
    recording = audio.read(args.recording)
    root = checkpoints.resolve(args.stack)
    codec = checkpoints.load_module(root, "codec")
    levelled = audio.level(recording.samples)
    codes = codec.encode(torch.from_numpy(levelled.samples)[None])[0].numpy()
    with open(args.output, "wb") as file:  # savez would append .npz to other names
        np.savez_compressed(
            file,
            codes=codes.astype(np.uint16),
            samples=len(recording.samples),
            gain=levelled.gain,
            sample_rate=audio.SAMPLE_RATE,
            checkpoint_hash=checkpoints.checkpoint_hash(root),
        )
    for note in recording.notes:
        print(note, file=sys.stderr)
    print(f"{args.output}: {codes.shape[0]} frames of {codes.shape[1]} codebooks, {recording.seconds:.2f} s")
