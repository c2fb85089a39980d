"""``say``: speak a text in the voice of a prompt. The method runs once before it is measured (``engine.warm_up``), as
on the page and in ``bench``."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import UserError
from .settings import SAMPLING_KEYS, add_set, add_stack, check_wav, check_writable, split

HELP = "speak a text in the voice of a prompt"
LONGEST_SECONDS = 600.0


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text")
    parser.add_argument("--prompt", metavar="WAV", help="a recording of the voice; default: the first example voice")
    parser.add_argument("--prompt-text", metavar="T", help="what the recording says")
    parser.add_argument("--method", default="baseline", metavar="NAME", help="see the command methods (%(default)s)")
    add_set(parser, "an option of the method, or of sampling (" + ", ".join(SAMPLING_KEYS) + ")")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same sound (%(default)s)")
    add_stack(parser)
    parser.add_argument("--max-seconds", type=float, metavar="S", help="cut it here; default: ample for the text")
    parser.add_argument(
        "-o", "--output", default="speech.wav", metavar="OUT.wav", help="replaced where it is there (%(default)s)"
    )
    parser.add_argument("--json", metavar="OUT.json", help="write everything that was measured")
    parser.add_argument("--attention", metavar="OUT.npz", help="write the text-speech attention map")


def run(args: argparse.Namespace) -> None:
    from .. import audio, engine, prompts, voices
    from ..config import Request
    from ..methods import find
    from ..stacks import load_stack

    chosen, sampled = split(args.set)
    seconds = LONGEST_SECONDS if args.max_seconds is None else args.max_seconds
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UserError(f"--max-seconds must lie above 0 and at most at {LONGEST_SECONDS:g}, not {seconds:g}.")
    if not 0 <= args.seed < 2**63:
        raise UserError(f"--seed must be 0 or more and below 2^63, not {args.seed}.")
    check_wav(args.output)
    for path in filter(None, (args.json, args.attention)):
        check_writable(path)
    options = find(args.method).Options.parse(chosen, SAMPLING_KEYS)
    source, prompt_text = args.prompt, args.prompt_text
    if not source:
        if prompt_text and prompt_text.strip():
            raise UserError("--prompt-text is the transcript of the recording of --prompt: give both, or neither.")
        example = voices.at_least_one()[0]
        source, prompt_text = str(example.path), example.transcript
    recording = audio.read(source, target=None)
    checked = prompts.prepare(recording)  # complains about the recording before the models are loaded
    notes = list(checked.notes)
    if checked.cut:  # of a long one, where most is spoken: the words of all of it no longer fit
        notes += [prompts.UNUSED_TRANSCRIPT] if prompt_text else []
        recording, prompt_text = checked, None
    stack = load_stack(args.stack, args.device, args.dtype, args.adapters, allow_stale=args.allow_stale)
    segments = stack.split(args.text)
    sampling = dataclasses.replace(stack.sampling, **sampled)  # where nothing was set, the stack's own
    prompt = stack.encode_prompt(recording.samples, recording.rate, prompt_text)
    if args.max_seconds is None:
        seconds = ample(stack, prompt, segments)
    request = Request(
        args.text, prompt, args.method, options, sampling, args.seed, seconds, bool(args.attention), live=False
    )
    for note in getattr(stack, "notes", ()):
        print(note, file=sys.stderr)
    engine.warm_up(stack, request)
    started, *_, done = engine.generate(stack, request)
    report = describe_run(request, started, done, tuple(dict.fromkeys((*notes, *prompt.notes))))
    report["computing"] = engine.computing(stack)
    replaced = " (replaced)" if Path(args.output).exists() else ""
    kept = {k: report[k] for k in ("method", "options", "seed", "stack", "checkpoint_hash")}
    audio.write_wav(args.output, done.audio, stack.sample_rate, kept)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if args.attention:
        _write_attention(args.attention, done.attention)
    for note in (*report["notes"], *_delay(done.snapshot)):
        print(note, file=sys.stderr)
    ttfa = f", first audio after {report['ttfa_seconds']:.2f} s" if report["ttfa_seconds"] is not None else ""
    print(
        f"{args.output}{replaced}: {report['audio_seconds']:.2f} s of speech by {args.method}, "
        f"RTF {report['work_rtf']:.3f} (LM-RTF {report['lm_rtf']:.3f}){ttfa}, "
        f"{report['frames_per_step']:.2f} frames a step, "
        f"KV cache up to {report['kv_bytes_peak'] / 1024:.0f} KiB{_on_gpu(report['computing'])}"
    )


def _delay(snapshot: Any) -> list[str]:
    """Where the clock and the work differ much: what the printed RTF leaves out."""
    if not snapshot.delayed or not snapshot.audio_seconds:
        return []
    return [f"Other programs kept this machine busy: with their time RTF is {snapshot.rtf:.3f}, and audio came late."]


def _on_gpu(facts: dict[str, Any]) -> str:
    """What the figures were made with, of a GPU."""
    if "graphs" not in facts:
        return ""
    graphs = "with CUDA graphs" if facts["graphs"] else "without CUDA graphs"
    return f"; {facts['processor']}, {facts['dtype']}, {graphs}, TF32 {'on' if facts['tf32'] else 'off'}"


def ample(stack: Any, prompt: Any, segments: Sequence[str]) -> float:
    """Seconds that hold the caps of all segments."""
    caps = [stack.prefix(prompt, segment).longest for segment in segments]
    return LONGEST_SECONDS if None in caps else min(LONGEST_SECONDS, 1 + sum(caps) / stack.frame_rate)


def describe_run(request: Any, started: Any, done: Any, notes: Sequence[str] = ()) -> dict[str, Any]:
    """What ``say --json`` writes."""
    measured = dataclasses.asdict(done.snapshot)
    measured["work_rtf"] = done.snapshot.work_rtf
    measured["kv_bytes_final"] = measured.pop("kv_bytes_total")
    where = ("seed", "device", "processor", "dtype", "stack", "checkpoint_hash", "cold")
    return {
        "text": request.text,
        "method": request.method,
        "options": dataclasses.asdict(request.options),
        "sampling": dataclasses.asdict(request.sampling),
        **{name: getattr(started, name) for name in where},
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
