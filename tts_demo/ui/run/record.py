"""``python -m tts_demo record``: what the page ships with.

    record voices A.wav B.wav     # the stack re-speaks a sentence in each voice -> assets/prompts
    record runs                   # every method against the baseline -> assets/runs
    record screenshots URL        # the page at URL, light and dark -> assets (needs Chromium)

Example voices are this project's own synthesis, never somebody's recording.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from ... import engine
from ...config import Request, Sampling, UserError
from ...measure.turns import turns
from ...methods import METHODS
from ...stacks import load_stack
from ..page import voices
from ..service import Limits
from . import session

SENTENCE = "The river was calm that evening, and the light on the water turned slowly from gold to grey."


def listen(stack: Any, *requests: Request) -> tuple[list[session.Side], engine.Started]:
    """Syntheses side by side, each as a Side with the curve that the live charts would have drawn; and how one of them
    began."""
    curves, sides = [[] for _ in requests], {}
    for which, event in turns(stack, requests):
        if isinstance(event, engine.Started):
            started = event
        elif isinstance(event, engine.Stats) and event.snapshot.audio_seconds > 0:
            s = event.snapshot
            curves[which].append((s.audio_seconds, s.rtf, s.kv_bytes_total))
        elif isinstance(event, engine.Done):
            request = requests[which]
            sides[which] = session.side_from(
                event, METHODS[request.method].title, request, stack.sample_rate, curves[which]
            )
    return [sides[which] for which in range(len(requests))], started


def pair(stack: Any, prompt: Any, text: str, method: str, seed: int, max_seconds: float) -> session.Run:
    """Baseline and method on one text, in turns; each speaks once before, so that nothing recorded is cold."""
    sampling = Sampling()
    base = Request(text, prompt, "baseline", METHODS["baseline"].Options(), sampling, seed, max_seconds)
    wanted = dataclasses.replace(base, method=method, options=METHODS[method].Options())
    for request in (base, wanted):
        engine.run(stack, dataclasses.replace(request, text="Ready.", max_seconds=1.0))
    (left, right), started = listen(
        stack, *(dataclasses.replace(request, capture_attention=True) for request in (base, wanted))
    )
    facts = {
        "device": started.device,
        "processor": started.processor,
        "dtype": started.dtype,
        "stack": started.stack,
        "cold": False,
        "checkpoint_hash": started.checkpoint_hash,
        "prompt_seconds": round(float(prompt.seconds), 2),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__.split('+')[0]}",
    }
    return session.Run(0, text, seed, dataclasses.asdict(sampling), facts, left, right)


def record_runs(
    stack: Any, out: Path, voice: voices.Example, text: str, seed: int, max_seconds: float, methods: list[str]
) -> None:
    prompt = stack.encode_prompt(*_samples(voice.path), voice.text or None)
    for number, method in enumerate(methods, 1):
        try:
            run = pair(stack, prompt, text, method, seed, max_seconds)
        except UserError as error:
            print(f"{method} left out: {error}", file=sys.stderr)
            continue
        stem = out / f"{number}-{method}"
        session.save(run, METHODS[method].title, stem)
        size = sum(stem.with_suffix(s).stat().st_size for s in (".json", ".npz")) / 1e6
        print(f"{stem.name}: {run.baseline.seconds:.1f} s and {run.method.seconds:.1f} s, {size:.2f} MB")


def record_voices(stack: Any, out: Path, sources: list[str], text: str, seed: int) -> None:
    """The sentence spoken by the baseline in each source voice, listed in ``prompts.json``."""
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, source in enumerate(sources, 1):
        path, _, words = source.partition("=")
        prompt = stack.encode_prompt(*_samples(Path(path)), words or None)
        (side,), _ = listen(stack, Request(text, prompt, seed=seed, max_seconds=12.0))
        name = f"Voice {chr(64 + number)}"
        target = out / f"voice-{chr(96 + number)}.wav"
        facts = {"method": "baseline", "seed": seed, "stack": stack.name, "checkpoint_hash": stack.checkpoint_hash}
        target.write_bytes(session.wav_bytes(side.audio, side.sample_rate, facts))
        # No transcript: what a small model says is not word for word what it was given, and as context it would
        # mislead.
        rows.append({"name": name, "file": target.name, "text": "", "licence": "Synthetic: made by this project."})
        print(f"{target.name}: {side.seconds:.1f} s")
    (out / "prompts.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def screenshots(url: str, out: Path) -> None:
    """The page as a visitor first sees it, with a recorded run opened."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise UserError("There is no Chromium here: install it to take screenshots.")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
            page.goto(url)
            page.wait_for_selector("#status .status.done")
            page.wait_for_timeout(1500)
            page.screenshot(path=out / f"page-{scheme}.png", full_page=True)
        browser.close()


def _samples(path: Path) -> tuple[Any, int]:
    recording = voices.read(path, Limits())
    return recording.samples, recording.rate


def record(args: argparse.Namespace) -> None:
    """What the command line asked for."""
    if args.what == "screenshots":
        screenshots(args.sources[0] if args.sources else "http://127.0.0.1:7860", args.out or voices.ASSETS)
        return
    stack = load_stack(args.stack, device=args.device)
    if args.what == "voices":
        if not args.sources:
            raise UserError("Give at least one recording to take a voice from.")
        record_voices(stack, args.out or voices.ASSETS / "prompts", args.sources, args.text or SENTENCE, args.seed)
        return
    known = voices.examples()
    if args.sources:
        path, _, words = args.sources[0].partition("=")
        known = [voices.Example("given", Path(path), words)]
    if not known:
        raise UserError("There is no example voice yet: give a recording, or run 'record voices' first.")
    record_runs(
        stack,
        args.out or voices.ASSETS / "runs",
        known[0],
        args.text or voices.texts()[0],
        args.seed,
        args.max_seconds,
        args.methods.split(",") if args.methods else [name for name in METHODS if name != "baseline"],
    )
