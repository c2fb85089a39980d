"""``python -m tts_demo record``: what the page ships with.

    record voices A.wav B.wav     # the stack says a sentence in each voice -> assets/prompts
    record runs                   # takes of several methods beside the baseline -> assets/runs
    record screenshots URL        # the page at URL, in three sizes -> assets (needs Chromium)

Example voices are this project's own synthesis, never somebody's recording.
"""

import argparse
import dataclasses
import http.client
import json
import platform
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import torch

from ... import audio, engine
from ... import voices as bundle
from ...config import SAMPLE_RATE, Request, Sampling, UserError, nearest
from ...lm.attention import clearest
from ...measure.judges import Judges
from ...methods import METHODS
from ...metrics import word_errors
from ...prompts import voices_differ
from ...stacks import load_stack
from ...text import preview
from ...voices import Voice
from .. import voices
from ..limits import Limits
from . import session
from .collect import Collector
from .rounds import MOST, rounds
from .transcriber import Transcriber

BESIDE = 3  # lanes beside the baseline
TRIES = 4  # of an example voice
SENTENCE = "The river was calm that evening, and the light on the water turned slowly from gold to grey."


def machine() -> str:
    threads = f"{torch.get_num_threads()} thread{'s' * (torch.get_num_threads() != 1)}"
    return f"{platform.machine()}, {threads}, torch {torch.__version__.split('+')[0]}"


def generate(
    stack: Any, requests: list[Request], voice: str, most: int = MOST, voice_hash: str = ""
) -> tuple[session.Lane, ...]:
    """The requests in rounds of turns, each as the lane that the page would have made. All run once before, so that
    nothing recorded is cold."""
    for request in requests:
        engine.warm_up(stack, request)
    first = requests[0]
    facts = {"prompt_seconds": round(float(first.prompt.seconds), 2), "machine": machine()}
    sampling = dataclasses.asdict(first.sampling)
    made = session.Made(first.text, voice, first.seed, sampling, first.max_seconds, {}, voice_hash)
    found = Collector(requests, made, stack.sample_rate, facts)
    for which, event in rounds(stack, requests, most=most):
        found.add(which, event)
    return found.lanes


def takes(methods: str | None) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Title and methods of each take: one of the methods asked for ("tldr,ssd"), or every method of a paper but the
    baseline, as many to a take as there are lanes beside it."""
    names = methods.split(",") if methods else [n for n, m in METHODS.items() if n != "baseline" and not m.combines]
    if unknown := [name for name in names if name not in METHODS]:
        near = nearest(unknown[0], METHODS)
        raise UserError(f"Unknown method {unknown[0]!r}.{near} The methods are: {', '.join(METHODS)}.")
    groups = [tuple(names[i : i + BESIDE]) for i in range(0, len(names), BESIDE)]
    return tuple((", ".join(METHODS[name].title for name in group), group) for group in groups)


def record_runs(stack: Any, out: Path, voice: Voice, text: str, seed: int, max_seconds: float, listed: Any) -> None:
    """``listed``: title and methods of each take, which come beside a baseline."""
    prompt, transcriber = stack.encode_prompt(*_samples(voice.path), voice.transcript or None), Transcriber()
    for number, (title, methods) in enumerate(listed, 1):
        base = Request(text, prompt, "baseline", METHODS["baseline"].Options(), Sampling(), seed, max_seconds, True)
        asked = [base, *(dataclasses.replace(base, method=m, options=METHODS[m].Options()) for m in methods)]
        lanes = generate(stack, asked, voice.name, voice_hash=voices.fingerprint(voice.path))
        stem = out / f"{number}-{'-'.join(methods)}"
        lanes = tuple(slim(checked(lane, transcriber)) for lane in lanes)
        session.save(session.Take(stem.name, lanes, title), stem)
        size = sum(stem.with_suffix(s).stat().st_size for s in (".json", ".npz")) / 1e6
        print(f"{stem.name}: {', '.join(f'{lane.seconds:.1f} s' for lane in lanes)}, {size:.2f} MB")


def checked(lane: session.Lane, transcriber: Transcriber) -> session.Lane:
    """The lane with its words checked, as the page does after a run; as it is where there is no recogniser."""
    if not transcriber.available:
        return lane
    return dataclasses.replace(lane, metrics=lane.metrics | transcriber.score(lane, None))


def slim(lane: session.Lane) -> session.Lane:
    """The lane with its attention reduced to the clearest heads: what ships stays small."""
    if not lane.attention:
        return lane
    clear = clearest(lane.attention.weights.astype("float32"))[None, None].astype("float16")
    return dataclasses.replace(lane, attention=dataclasses.replace(lane.attention, weights=clear))


def record_voices(stack: Any, out: Path, sources: list[str], names: list[str], text: str, seed: int) -> None:
    """The sentence, generated by the baseline in each source voice, listed in ``prompts.json``. names: "Maya, warm",
    one a source. A voice comes with its text where the judges' recogniser transcribes it word for word: as context, any
    other text misleads. So several takes are made, and the one that sounds best is kept of those with the same
    transcript and a voice that does not wander. Raises UserError where no take of a source is speech."""
    out.mkdir(parents=True, exist_ok=True)
    judge, embed, rows = Judges(), voices.embedding(stack, SAMPLE_RATE), []
    for number, source in enumerate(sources):
        path, _, words = source.partition("=")
        prompt = stack.encode_prompt(*_samples(Path(path)), words or None)
        name, _, about = names[number].partition(", ") if names else (f"Voice {chr(65 + number)}", "", "")
        target = out / f"{name.lower().replace(' ', '-')}.wav"
        kept: tuple[tuple[bool, int, float], session.Lane, str | None] | None = None
        for again in range(TRIES):
            (lane,) = generate(stack, [Request(text, prompt, seed=seed + again, max_seconds=12.0)], path, most=1)
            take = audio.read((stack.sample_rate, lane.audio), target=SAMPLE_RATE)
            try:
                wanders = voices_differ(audio.prompt(take), embed)
            except UserError:  # no second of speech in it
                continue
            transcript = judge.transcribe(take.samples)
            errors = word_errors(text, transcript).errors if transcript is not None else 0
            flaw = wanders, errors, -(judge.distilmos(take.samples) or 0.0)
            if kept is None or flaw < kept[0]:
                kept = flaw, lane, transcript
        if kept is None:
            raise UserError(f"None of {TRIES} takes of {path} holds a second of speech: give another source.")
        (wanders, errors, _), lane, transcript = kept
        target.write_bytes(session.wav(lane))
        same = transcript is not None and not errors
        row = {"name": name, "about": about, "file": target.name, "text": text if same else ""}
        rows.append(row | {"licence": "Synthetic: made by this project."})
        unsteady = ", the voice wanders" if wanders else ""
        print(f"{target.name}: {lane.seconds:.1f} s, transcript {transcript!r}{unsteady}")
    (out / "prompts.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


SHOTS = (("page-light", 1440, 1000, "light"), ("page-dark", 1440, 1000, "dark"), ("page-phone", 390, 844, "light"))


def screenshots(url: str, out: Path) -> None:
    """The page as a visitor first sees it, with a recorded take opened: wide in both themes, and on a phone."""
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except (OSError, ValueError, http.client.HTTPException):
        raise UserError(f"There is no page at {url}: start it with 'python app.py' and give its address.") from None
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError("Screenshots need Playwright: install it with 'pip install playwright'.") from None

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise UserError("There is no Chromium here: install it to take screenshots.")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, width, height, scheme in SHOTS:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.add_init_script("localStorage.setItem('tts-demo-toured', 'true')")
            page.goto(url)
            page.wait_for_selector("#status .status.done")
            page.wait_for_selector(".lane .map")
            page.wait_for_timeout(1500)
            if width < 760:  # the lanes stand under the form there
                page.evaluate("document.getElementById('board').scrollIntoView()")
                page.wait_for_timeout(500)
            page.screenshot(path=out / f"{name}.png")
        browser.close()


def _samples(path: Path) -> tuple[Any, int]:
    if not path.is_file():
        raise UserError(f"There is no file {path}: check the path of the recording.")
    recording = voices.Recordings(Limits()).read(path)
    return recording.samples, recording.rate


def record(args: argparse.Namespace) -> None:
    """What the command line asked for, looked through before a model is loaded."""
    if args.what == "screenshots":
        screenshots(args.sources[0] if args.sources else "http://127.0.0.1:7860", args.out or bundle.ASSETS)
        return
    if args.text is not None:
        preview(args.text)  # raises where something cannot be spoken
    if not 0 < args.max_seconds <= 600:
        raise UserError(f"--max-seconds must lie above 0 and at most at 600, not {args.max_seconds:g}.")
    for source in args.sources:
        _samples(Path(source.partition("=")[0]))
    if args.what == "voices":
        if not args.sources:
            raise UserError("Give at least one recording to take a voice from.")
        names = [name.strip() for name in (args.names or "").split(";") if name.strip()]
        if names and len(names) != len(args.sources):
            raise UserError(f"--names has {len(names)} names for {len(args.sources)} voices.")
        stack, out = load_stack(args.stack, device=args.device), args.out or bundle.ASSETS / "prompts"
        record_voices(stack, out, args.sources, names, args.text or SENTENCE, args.seed)
        return
    known, listed, out = voices.examples(), takes(args.methods), args.out or bundle.ASSETS / "runs"
    if args.sources:
        path, _, words = args.sources[0].partition("=")
        known = [Voice("given", Path(path), words)]
    if not known:
        raise UserError("There is no example voice yet: give a recording, or run 'record voices' first.")
    stack, text = load_stack(args.stack, device=args.device), args.text or voices.texts()[1]
    record_runs(stack, out, known[0], text, args.seed, args.max_seconds, listed)
