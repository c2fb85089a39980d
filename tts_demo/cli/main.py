"""The command line: say, methods, encode, decode, evaluate, bench, train.

Every mistake a person can mend ends with exit code 2 and one sentence. Heavy modules are imported by the command that
needs them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..config import UserError
from .settings import SAMPLING_KEYS, exit_code, pairs, parse_settings

PROMPTS = Path(__file__).parents[2] / "assets" / "prompts"
LONGEST_SECONDS = 600.0


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one sentence, like every other."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:].rstrip('.')}; '{self.prog} --help' lists what is accepted.")


def build_parser() -> Parser:
    parser = Parser(
        prog="python -m tts_demo", description="Accelerated speech language models, measured against the baseline."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    say = commands.add_parser("say", help="speak a text in the voice of a prompt")
    say.add_argument("text")
    say.add_argument("--prompt", metavar="WAV", help="a recording of the voice; default: the first example voice")
    say.add_argument("--prompt-text", metavar="T", help="what the recording says")
    say.add_argument("--method", default="baseline", metavar="NAME")
    _add_set(say, "an option of the method, or of sampling (" + ", ".join(SAMPLING_KEYS) + ")")
    say.add_argument("--seed", type=int, default=0)
    _add_stack(say)
    say.add_argument("--max-seconds", type=float, metavar="S", help="cut the speech here; default: ample for the text")
    say.add_argument("-o", "--output", default="speech.wav", metavar="OUT.wav")
    say.add_argument("--json", metavar="OUT.json", help="write everything that was measured")
    say.add_argument("--attention", metavar="OUT.npz", help="write the text-speech attention map")

    methods = commands.add_parser("methods", help="list the methods and their options")
    methods.add_argument("--json", action="store_true")

    encode = commands.add_parser("encode", help="a recording to codec codes")
    encode.add_argument("recording", metavar="WAV")
    encode.add_argument("-o", "--output", required=True, metavar="CODES.npz")
    decode = commands.add_parser("decode", help="codec codes back to a recording")
    decode.add_argument("codes", metavar="CODES.npz")
    decode.add_argument("-o", "--output", required=True, metavar="WAV")
    for command in (encode, decode):
        command.add_argument("--stack", default="nano", metavar="S")

    evaluate = commands.add_parser("evaluate", help="error rates, voice similarity, quality and speed per method")
    evaluate.add_argument("--list", metavar="FILE", help="texts and voices to use; default: the bundled ones")
    evaluate.add_argument("--limit", type=int, metavar="N", help="use the first N texts")
    evaluate.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="deal the texts to N processes; speeds are then those of a busy machine",
    )
    evaluate.add_argument(
        "--takes", type=int, default=1, metavar="N", help="speak each text N times, with N seeds one after the other"
    )
    bench = commands.add_parser("bench", help="speed and memory per method")
    bench.add_argument("--shape", default="nano", choices=("nano", "qwen2-0.5b", "cosyvoice2", "cosyvoice3"))
    bench.add_argument("--batch", type=int, default=1, metavar="N")
    bench.add_argument("--seconds", type=float, default=10.0, metavar="S", help="audio to generate per run")
    bench.add_argument("--runtime", default="eager", choices=("eager", "graph"))
    bench.add_argument(
        "--peer", action="store_true", help="also measure transformers' own generate on the same weights"
    )
    bench.add_argument("--rounds", "--limit", type=int, metavar="N", help="rounds of measuring; default: 5")
    for command in (evaluate, bench):
        command.add_argument(
            "--changed",
            action="store_true",
            help="only rows and analyses whose weights differ from those that the "
            "published results were measured with, and the baseline",
        )
        command.add_argument(
            "--all",
            action="store_true",
            help="everything in the results file: all methods and dials, then the "
            "analyses; kept as with --keep, and goes on where it stopped",
        )
        command.add_argument(
            "--minutes",
            type=float,
            default=0.0,
            metavar="M",
            help="start nothing new after this long; what was measured by then counts",
        )
        command.add_argument("--methods", metavar="a,b", help="default: all")
        _add_set(command, "an option for the methods that have it")
        command.add_argument("--json", metavar="F", help="also write the figures to a file")
        command.add_argument(
            "--keep",
            action="store_true",
            help="store the figures in the bundled checkpoint's results.json and in the README",
        )
        command.add_argument("--seed", type=int, default=0)
        _add_stack(command)

    train = commands.add_parser("train", help="train a part of the bundled stack, or a method for a released model")
    train.add_argument("recipe", metavar="RECIPE")
    train.add_argument(
        "--data",
        default="data",
        metavar="DIR",
        help="a corpus or a folder of them (metadata.csv and audio), or LibriTTS",
    )
    train.add_argument(
        "--stack",
        default="nano",
        metavar="S",
        help="nano, or a released model to train a method for: a folder or a Hugging Face repository",
    )
    train.add_argument(
        "--out",
        metavar="DIR",
        help="where the trained modules go; default: checkpoints/nano, or the "
        "folder 'adapters' in the released model's",
    )
    train.add_argument("--checkpoint", metavar="DIR", help="where modules it builds on are read; default: --out")
    train.add_argument("--work", default=".train", metavar="DIR", help="resumable state and caches")
    train.add_argument("--preset", default="full", choices=("full", "smoke"), help="smoke: a handful of steps")
    train.add_argument("--steps", type=int, default=0)
    train.add_argument("--batch", type=int, default=0)
    train.add_argument("--lr", type=float, default=0.0)
    train.add_argument("--minutes", type=float, default=0.0, help="stop and publish after this long")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--device", metavar="D")
    train.add_argument("--resume", action="store_true")
    _add_set(train, "a setting of the recipe")
    return parser


def _add_set(parser: argparse.ArgumentParser, words: str) -> None:
    parser.add_argument("--set", action="append", nargs="+", default=[], metavar="key=value", help=words)


def _add_stack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stack", default="nano", metavar="S", help="nano, a folder, or a Hugging Face repository")
    parser.add_argument(
        "--adapters", metavar="A", help="methods trained for a released model: a folder or a repository"
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda; default: what is there")
    parser.add_argument("--dtype", metavar="T", help="float32, bfloat16; default: what suits the device")


def command_say(args: argparse.Namespace) -> None:
    from .. import audio, engine
    from ..config import Request
    from ..methods import find
    from ..stacks import load_stack

    found = pairs(args.set)
    options, _ = parse_settings(find(args.method), found)
    seconds = min(LONGEST_SECONDS, 10 + 0.2 * len(args.text)) if args.max_seconds is None else args.max_seconds
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UserError(f"--max-seconds must lie above 0 and at most at {LONGEST_SECONDS:g}, not {seconds:g}.")
    if not 0 <= args.seed < 2**63:
        raise UserError(f"--seed must be 0 or more and below 2^63, not {args.seed}.")
    for path in filter(None, (args.output, args.json, args.attention)):
        _check_writable(path)
    path, prompt_text = (args.prompt, args.prompt_text) if args.prompt else example_prompt(args.prompt_text)
    audio.prompt(audio.read(path))  # complain about the recording before the models are loaded
    stack = load_stack(args.stack, args.device, args.dtype, args.adapters)
    stack.split(args.text)
    sampling = parse_settings(find(args.method), found, stack.sampling)[1]  # where nothing was set, the stack's own
    recording = audio.read(path, target=None)
    prompt = stack.encode_prompt(recording.samples, recording.rate, prompt_text)
    request = Request(
        args.text, prompt, args.method, options, sampling, args.seed, seconds, bool(args.attention), live=False
    )
    started, done = _drain(engine.generate(stack, request))
    report = describe_run(request, started, done, tuple(dict.fromkeys(recording.notes + prompt.notes)))
    kept = {k: report[k] for k in ("method", "options", "seed", "stack", "checkpoint_hash")}
    audio.write_wav(args.output, done.audio, stack.sample_rate, kept)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if args.attention:
        _write_attention(args.attention, done.attention)
    for note in report["notes"]:
        print(note, file=sys.stderr)
    ttfa = f", first audio after {report['ttfa_seconds']:.2f} s" if report["ttfa_seconds"] is not None else ""
    print(
        f"{args.output}: {report['audio_seconds']:.2f} s of speech by {args.method}, RTF {report['rtf']:.3f}{ttfa}, "
        f"{report['frames_per_step']:.2f} frames a step, KV cache up to {report['kv_bytes_peak'] / 1024:.0f} KiB"
    )


def _drain(events: Any) -> tuple[Any, Any]:
    """The first and the last event of a run."""
    first = last = next(events)
    for last in events:
        pass
    return first, last


def describe_run(request: Any, started: Any, done: Any, notes: Sequence[str] = ()) -> dict[str, Any]:
    """What ``say --json`` writes."""
    measured = dataclasses.asdict(done.snapshot)
    measured["kv_bytes_final"] = measured.pop("kv_bytes_total")
    return {
        "text": request.text,
        "method": request.method,
        "options": dataclasses.asdict(request.options),
        "sampling": dataclasses.asdict(request.sampling),
        "seed": started.seed,
        "device": started.device,
        "processor": started.processor,
        "dtype": started.dtype,
        "stack": started.stack,
        "checkpoint_hash": started.checkpoint_hash,
        "cold": started.cold,
        "segments": list(started.segments),
        "prompt_seconds": request.prompt.seconds,
        "prompt_text": request.prompt.text,
        "max_seconds": request.max_seconds,
        "truncated": done.truncated,
        "notes": [*notes, *done.notes],
        **measured,
    }


def _write_attention(path: str, attention: Any) -> None:
    import numpy as np

    if attention is None:
        raise UserError("There is no attention map of this run: nothing was spoken; try another text or seed.")
    np.savez_compressed(
        path,
        weights=attention.weights,
        text_tokens=np.array([str(label) for label in attention.labels]),
        text_words=np.array([getattr(label, "word", "") for label in attention.labels]),
        step_start_seconds=attention.step_start_seconds,
        step_end_seconds=attention.step_end_seconds,
    )


def example_prompt(text: str | None = None) -> tuple[Path, str | None]:
    """The first example voice and its transcript."""
    listing = PROMPTS / "prompts.json"
    if listing.exists():
        row = json.loads(listing.read_text(encoding="utf-8"))[0]
        return PROMPTS / row["file"], text or row["text"]
    recordings = sorted(PROMPTS.glob("*.wav"))
    if not recordings:
        raise UserError("No example voice is bundled: give one with --prompt RECORDING.wav.")
    return recordings[0], text


def _check_writable(path: str) -> None:
    target = Path(path).absolute()
    if target.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file to write.")
    if not target.parent.is_dir():
        raise UserError(f"There is no folder {target.parent}: make it first, or write elsewhere.")


def command_methods(args: argparse.Namespace) -> None:
    from ..methods import METHODS

    rows = [describe_method(method) for method in METHODS.values()]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:<12}{row['title']}  [{row['paper']}]")
        for option in row["options"]:
            limits = (
                ", ".join(map(str, option["choices"]))
                if option["choices"]
                else f"{option['min']} to {option['max']}"
                if option["min"] is not None
                else "text"
            )
            print(f"{'':<12}  {option['name']}={option['default']}  ({limits})  {option['help']}")


def describe_method(method: type) -> dict[str, Any]:
    options = [
        {
            "name": f.name,
            "type": type(f.default).__name__,
            "default": f.default,
            **{k: f.metadata.get(k) for k in ("label", "help", "min", "max", "step", "choices", "unit")},
        }
        for f in dataclasses.fields(method.Options)
    ]
    return {"name": method.name, "title": method.title, "paper": method.paper, "options": options}


def command_encode(args: argparse.Namespace) -> None:
    import numpy as np
    import torch

    from .. import audio, checkpoints

    _check_writable(args.output)
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


def command_decode(args: argparse.Namespace) -> None:
    import torch

    from .. import audio, checkpoints

    _check_writable(args.output)
    codes, count, gain = _read_codes(args.codes)
    codec = checkpoints.load_module(checkpoints.resolve(args.stack), "codec")
    if (
        codes.ndim != 2
        or not 1 <= codes.shape[1] <= codec.config.codebooks
        or not len(codes)
        or codes.min() < 0
        or codes.max() >= codec.config.entries
    ):
        raise UserError(f"{args.codes} holds no codes of this codec: make it with 'python -m tts_demo encode'.")
    samples = codec.decode_codes(torch.from_numpy(codes)[None])[0].numpy()[:count] / gain
    audio.write_wav(args.output, samples, audio.SAMPLE_RATE, {"codec": "decoded from codes", "frames": len(codes)})
    print(f"{args.output}: {len(samples) / audio.SAMPLE_RATE:.2f} s")


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


def command_evaluate(args: argparse.Namespace) -> None:
    from ..measure import quality as evaluate

    evaluate.command(args)


def command_bench(args: argparse.Namespace) -> None:
    from ..measure import speed_command as bench_command

    bench_command.command(args)


def command_train(args: argparse.Namespace) -> None:
    import torch

    from ..runtime import pick_device
    from ..train import CPU_ONLY, check, load_task
    from ..train.loop import TrainOptions, fit
    from ..train.ranks import Ranks

    where = pick_device("cpu" if args.recipe in CPU_ONLY and not args.device else args.device)
    steps = args.steps or (5 if args.preset == "smoke" else 0)
    out, work, stack = _training_folders(args)
    options = TrainOptions(
        data=Path(args.data),
        out=out,
        work=work,
        checkpoint=Path(args.checkpoint or out),
        steps=steps,
        batch=args.batch,
        lr=args.lr,
        seed=args.seed,
        minutes=args.minutes,
        resume=args.resume,
        device=where.type,
        settings=pairs(args.set),
        stack=stack,
    )
    check(args.recipe, options)
    ranks = Ranks.join(where)
    options = dataclasses.replace(options, device=str(ranks.device))
    torch.manual_seed(args.seed)  # the task draws the weights it begins with
    with ranks.first_alone():
        task = load_task(args.recipe, options)
    scores = fit(task, options, ranks)
    ranks.leave()
    if ranks.first:
        for name, value in scores.items():
            print(f"{name}: {value:.4g}")


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


COMMANDS = {
    "say": command_say,
    "methods": command_methods,
    "encode": command_encode,
    "decode": command_decode,
    "evaluate": command_evaluate,
    "bench": command_bench,
    "train": command_train,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 2 for a mistake in the request, 130 when interrupted."""

    def run() -> None:
        args = build_parser().parse_args(argv)
        COMMANDS[args.command](args)

    return exit_code(run)
