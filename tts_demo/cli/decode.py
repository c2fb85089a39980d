"""``decode``: codec codes back to a recording."""

import argparse
from pathlib import Path
from typing import Any

from ..config import UserError
from .settings import check_wav

HELP = "codec codes back to a recording"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("codes", metavar="CODES.npz")
    parser.add_argument("-o", "--output", required=True, metavar="WAV")
    parser.add_argument(
        "--books",
        dest="codebooks",
        type=int,
        metavar="N",
        help="the first N codebooks alone; 1: through the refiner, in the recording's own voice; default: all, as they "
        "are",
    )
    parser.add_argument(
        "--stack", default="nano", metavar="S", help="whose codec: nano, a folder or a repository (%(default)s)"
    )


def run(args: argparse.Namespace) -> None:
    import torch

    from .. import audio, checkpoints

    check_wav(args.output)
    codes, length, gain = _read_codes(args.codes)
    root = checkpoints.resolve(args.stack)
    codec, decoder = (checkpoints.load_module(root, name) for name in ("codec", "decoder"))
    shaped = codes.ndim == 2 and len(codes) and 1 <= codes.shape[1] <= codec.config.codebooks
    if not shaped or codes.min() < 0 or codes.max() >= codec.config.entries:
        raise UserError(f"{args.codes} holds no codes of this codec: make it with 'python -m tts_demo encode'.")
    count, most = args.codebooks, codes.shape[1]
    if count is not None and not 1 <= count <= most:
        raise UserError(f"--books must lie between 1 and {most}, which {args.codes} holds, not {count}.")
    codes = torch.from_numpy(codes)[None]
    with torch.no_grad():
        latent = codec.quantizer.decode(codes[..., :count])
        if count == 1:
            latent = _refined(root, codec, decoder, codes)
        decoded = decoder.whole(latent)
    samples = decoded[0].numpy()[:length] / gain
    facts = {"codec": "decoded from codes", "frames": codes.shape[1], "codebooks": count or most}
    audio.write_wav(args.output, samples, audio.SAMPLE_RATE, facts)
    print(f"{args.output}: {len(samples) / audio.SAMPLE_RATE:.2f} s")


def _refined(root: Path, codec: Any, decoder: Any, codes: Any) -> Any:
    """codes [1, F, K] -> latent [1, F, latent] of the first codebook, completed by the refiner in the voice of all
    K."""
    from .. import checkpoints

    refiner, speaker = (checkpoints.load_module(root, name) for name in ("refiner", "speaker"))
    latent = codec.quantizer.decode(codes)
    return refiner(codes[..., 0], speaker(decoder.whole(latent)), latent)


def _read_codes(path: str) -> tuple[Any, int | None, float]:
    """-> codes int64 [F, K], sample count, gain."""
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as stored:
            gain = float(stored["gain"]) if "gain" in stored else 1.0
            if not gain > 0 or not np.isfinite(gain):
                raise ValueError(gain)
            return stored["codes"].astype(np.int64), int(stored["samples"]) if "samples" in stored else None, gain
    except FileNotFoundError:
        raise UserError(f"There is no file {path}: check the path of the codes.") from None
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, EOFError, AttributeError, TypeError):
        raise UserError(f"{path} is not a file of codes: make it with 'python -m tts_demo encode'.") from None
