"""The analyses that the papers make, on our stack: kept as data in results.json, section ``analyses``.

Each function takes the ``Evaluation`` whose texts, voices, judges and store it shares, and returns its figures, or None
when this stack or list cannot give them. What it measures goes through ``Evaluation.once``, so that it goes on where it
stopped and ends when the time is up.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from tqdm import tqdm

from .. import audio, engine
from ..config import UserError
from ..methods import find
from ..methods.dcar.analysis import guidance_profile, head_losses, head_preference
from ..methods.dcar.ranges import LONGEST
from . import judges
from .cases import ASSETS, Case, Row, runnable
from .quality import Evaluation

FEW = 6  # runs an analysis makes where it needs runs of its own
LONG_SECONDS = 120.0  # a paragraph may take this long
COMPRESSED = (("compressed", {"window": 50, "group": 10}), ("compressed", {"window": 50, "group": 10, "text": 30}))
ALIGNED = (("baseline", {}), ("tldr", {"patch_size": 4}), *COMPRESSED)
LONG_FORM = (ALIGNED[0], *COMPRESSED)
SEVERAL = tuple(("qtts", {"strategy": strategy}) for strategy in ("hierarchical", "delay"))
MANY = 20  # runs where the figure to look at is words


@dataclass(frozen=True)
class Analysis:
    """What makes the figures, and the rows whose weights they come from."""

    make: Callable[[Evaluation], dict[str, Any] | None]
    rows: tuple[str, ...] = ("baseline",)


def row(name: str, options: dict[str, Any]) -> Row:
    kind = find(name)
    return Row(kind, kind.Options(**options))


def extra_rows() -> list[Row]:
    """Dials that only analyses need: every fixed chunk size (DCAR, appendix B.1), longer delays (QTTS)."""
    return [row("dcar", {"chunk_range": str(size)}) for size in range(1, LONGEST + 1) if str(size) not in "234"] + [
        row("qtts", {"strategy": "delay", "delay": delay}) for delay in (3, 4)
    ]


def guidance(evaluation: Evaluation) -> dict[str, Any] | None:
    """Error rate of every fixed chunk size, and the sizes that score best: DCAR's guidance range."""
    table = evaluation.figures()
    rows = {size: table.get(f"dcar chunk_range={size}", {}) for size in range(1, LONGEST + 1)}
    figure = next((f for f in ("wer", "per") if all(f in r for r in rows.values())), None)
    if figure is None:
        return None
    profile = guidance_profile(lambda size: rows[size][figure])
    return {
        "figure": figure,
        "error_rates": {str(size): rate for size, rate in profile.error_rates.items()},
        "best": list(profile.best),
    }


def chunks(evaluation: Evaluation) -> dict[str, Any] | None:
    """Of every DCAR setting: how often each chunk size was chosen, their mean, and the policy's share of the time."""
    found = {}
    for label, row in evaluation.figures().items():
        if sizes := row.get("chunk_sizes"):
            mean = sum(int(size) * times for size, times in sizes.items()) / sum(sizes.values())
            found[label] = {"sizes": sizes, "mean": mean, "policy_share_of_time": row.get("policy_share_of_time")}
    return found or None


def heads(evaluation: Evaluation) -> dict[str, Any] | None:
    """DCAR's figure 4: how often each head is the best and the worst predictor, under teacher forcing on the recordings
    of the list (which should be held-out speech)."""
    method, stack, pieces = evaluation.stack.method("dcar"), evaluation.stack, []
    for case in [c for c in evaluation.cases if c.recording]:

        def measure(case: Case = case) -> dict[str, Any]:
            recording = audio.read(case.recording, target=stack.sample_rate)
            codes = stack.encode_prompt(recording.samples, recording.rate, None).codes[:, 0]
            return dataclasses.asdict(
                head_preference([head_losses(method, stack.prefix(evaluation.prompt(case), case.text), codes)])
            )

        pieces.append(evaluation.once(f"heads | {case.recording.split('/')[-1]}", measure, "dcar"))
    pieces = [p for p in pieces if p]
    if not pieces:
        return None
    weights = [p["positions"] for p in pieces]
    return {
        key: np.average([p[key] for p in pieces], axis=0, weights=weights).tolist() for key in ("best", "worst", "loss")
    } | {"positions": sum(weights), "recordings": len(pieces)}


def alignment(evaluation: Evaluation) -> dict[str, Any] | None:
    """Where each model looks in the text: a replay of a few runs, scored (lm/attention.py)."""
    found: dict[str, Any] = {}
    names = ("diagonality", "monotonicity", "coverage")
    for case in tqdm(evaluation.cases[:FEW], desc="alignment", unit="text"):
        for each in _rows(evaluation, ALIGNED):

            def measure(each: Row = each) -> dict[str, Any]:
                done = engine.run(evaluation.stack, evaluation.request(each, case, capture_attention=True))
                return {name: float(getattr(done.attention, name)) for name in names} if done.attention else {}

            found.setdefault(each.label, []).append(
                evaluation.once(f"alignment | {each.label} | {case.text}", measure, each.label)
            )
    return {
        label: {n: float(np.mean([p[n] for p in pieces if p])) for n in names} | {"runs": sum(map(bool, pieces))}
        for label, pieces in found.items()
        if any(pieces)
    } or None


def long_form(evaluation: Evaluation) -> dict[str, Any] | None:
    """Paragraphs of a minute and more in one run, without splitting: does the last third hold what the first
    promised?"""
    texts = [t.strip() for t in (ASSETS / "texts" / "paragraphs.txt").read_text(encoding="utf-8").splitlines()]
    texts = [t for t in texts if t and not t.startswith("#")][: len(evaluation.cases)]
    voices = list(dict.fromkeys((c.prompt, c.prompt_text) for c in evaluation.cases))
    found: dict[str, Any] = {}
    for number, text in enumerate(tqdm(texts, desc="long form", unit="paragraph")):
        case = Case(text, *voices[number % len(voices)])
        for each in _rows(evaluation, LONG_FORM):
            piece = evaluation.once(
                f"long form | {each.label} | {text[:40]}", lambda: _paragraph(evaluation, each, case), each.label
            )
            found.setdefault(each.label, []).append(piece)
    return {label: _sum_thirds([p for p in pieces if p]) for label, pieces in found.items() if any(pieces)} or None


class Unsplit:
    """A stack that speaks any text in one go."""

    def __init__(self, stack: Any) -> None:
        self._stack = stack

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stack, name)

    def split(self, text: str) -> list[str]:
        return [text]


def _paragraph(evaluation: Evaluation, each: Row, case: Case) -> dict[str, Any]:
    done = engine.run(Unsplit(evaluation.stack), evaluation.request(each, case, max_seconds=LONG_SECONDS))
    judged = evaluation.judged(done.audio, evaluation.stack.sample_rate, case)
    return {
        "seconds": done.snapshot.audio_seconds,
        "truncated": done.truncated,
        "kv_peak": done.snapshot.kv_bytes_peak,
        "thirds": thirds(case.text, judged["heard"]) if judged["heard"] is not None else None,
        "sim": judged["sim"],
    }


def thirds(reference: str, heard: str) -> list[list[int]]:
    """[errors, words] of the first, middle and last third of the reference's words, aligned as a whole."""
    truth = judges.plain(reference).split()
    edits = Levenshtein.editops(truth, judges.plain(heard).split())
    errors = Counter(min(2, 3 * edit.src_pos // len(truth)) for edit in edits)
    edges = [-(-len(truth) * i // 3) for i in range(4)]
    return [[errors[i], edges[i + 1] - edges[i]] for i in range(3)]


def _sum_thirds(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "runs": len(pieces),
        "truncated": sum(p["truncated"] for p in pieces),
        "seconds": [p["seconds"] for p in pieces],
        "kv_peak": max(p["kv_peak"] for p in pieces),
    }
    counts = np.asarray([p["thirds"] for p in pieces if p["thirds"]], dtype=float)
    if len(counts):
        pooled = counts.sum(0)
        out["wer_of_thirds"] = (pooled[:, 0] / pooled[:, 1]).tolist()
        out["wer"] = float(pooled[:, 0].sum() / pooled[:, 1].sum())
        out["last_over_first"] = out["wer_of_thirds"][2] / max(out["wer_of_thirds"][0], 1e-9)
    return out


def refiner_window(evaluation: Evaluation) -> dict[str, Any] | None:
    """The refiner with and without its attention window (compressed-to-fine, section 3.3): the same spoken codes
    refined by each, and its time per second of audio."""
    stack = evaluation.stack
    if not (hasattr(stack, "refiner") and hasattr(stack, "codec")):
        return None
    trained = stack.refiner.config
    endless = copy.copy(stack.refiner)  # the same weights: only the mask differs
    endless.config = dataclasses.replace(trained, left=10**6, right=10**6)
    variants = {
        "no window": (endless, 0),
        f"{trained.left + trained.right + 1} frames, as trained": (stack.refiner, 0),
        "30 frames": (stack.refiner, 30),
    }
    found: dict[str, Any] = {}
    for case in tqdm(evaluation.cases[:FEW], desc="refiner window", unit="text"):
        pieces = evaluation.once(
            f"refiner | {', '.join(variants)} | {case.prompt.split('/')[-1]} | {case.text}",
            lambda: _refined(evaluation, case, variants),
        )
        for label, piece in (pieces or {}).items():
            found.setdefault(label, []).append(piece)
    return {label: _mean_refined(pieces) for label, pieces in found.items()} or None


@torch.no_grad()
def _refined(evaluation: Evaluation, case: Case, variants: dict[str, tuple[Any, int]]) -> dict[str, Any]:
    stack, prompt = evaluation.stack, evaluation.prompt(case)
    spoken = engine.run(stack, evaluation.request(row("baseline", {}), case))
    if not len(spoken.codes):
        return {}
    codes, out = torch.from_numpy(spoken.codes[None, :, 0]).to(stack.device), {}
    for label, (refiner, window) in variants.items():
        arguments = codes, prompt.speaker[None].float(), prompt.extra["latent"], window
        refiner(*arguments)  # not timed: the first call is slower
        started = time.perf_counter()
        latent = refiner(*arguments)
        seconds = time.perf_counter() - started
        kept = _judged(evaluation, stack.codec.decode_latent(latent)[0].cpu().numpy(), case)
        out[label] = kept | {"ms_per_second": 1000 * seconds / (codes.shape[1] / stack.frame_rate)}
    return out


def finer_books(evaluation: Evaluation) -> dict[str, Any] | None:
    """What the finer books of QTTS are worth: the same spoken codes decoded as they are, through the refiner that hears
    them all, and their first book alone through the refiner of one book."""
    stack = evaluation.stack
    if getattr(stack, "books", None) is None:
        return None
    plain = copy.copy(stack)
    plain.books = None
    ways = {
        "all books as they are": (plain, None),
        "all books, refined": (stack, None),
        "first book alone, refined": (stack, 1),
    }
    found: dict[str, Any] = {}
    cases = evaluation.cases[:: max(1, len(evaluation.cases) // MANY)][:MANY]
    for each, case in tqdm(
        [(each, case) for case in cases for each in _rows(evaluation, SEVERAL)], desc="finer books", unit="run"
    ):
        pieces = evaluation.once(
            f"finer books | {each.label} | {case.prompt.split('/')[-1]} | {case.text}",
            lambda: _decoded(evaluation, each, case, ways),
            each.label,
        )
        for way, piece in (pieces or {}).items():
            found.setdefault(f"{each.label}: {way}", []).append(piece)
    return {label: _mean_refined(pieces) for label, pieces in found.items()} or None


def _decoded(
    evaluation: Evaluation, spoken: Row, case: Case, ways: dict[str, tuple[Any, int | None]]
) -> dict[str, Any]:
    codes = torch.from_numpy(engine.run(evaluation.stack, evaluation.request(spoken, case)).codes)
    return {
        way: _judged(evaluation, _vocoded(stack, evaluation.prompt(case), codes[:, :books]), case)
        for way, (stack, books) in ways.items()
        if len(codes)
    }


@torch.no_grad()
def _vocoded(stack: Any, prompt: Any, codes: torch.Tensor) -> np.ndarray:
    vocoder = stack.vocoder(prompt, codes.shape[1])
    return np.concatenate([vocoder.push(codes), vocoder.finish()])


def _judged(evaluation: Evaluation, samples: np.ndarray, case: Case) -> dict[str, Any]:
    judged = evaluation.judged(samples, evaluation.stack.sample_rate, case)
    return {k: judged[k] for k in ("words", "phonemes", "sim", "mos") if judged.get(k) is not None}


def _mean_refined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {"runs": len(pieces)}
    for name, key in (("wer", "words"), ("per", "phonemes")):
        counts = np.asarray([p[key] for p in pieces if key in p], dtype=float)
        if len(counts):
            out[name] = float(counts[:, 0].sum() / counts[:, 1].sum())
    for key in ("sim", "mos", "ms_per_second"):
        values = [p[key] for p in pieces if key in p]
        if values:
            out[key] = float(np.mean(values))
    return out


def _rows(evaluation: Evaluation, wanted: tuple[tuple[str, dict[str, Any]], ...]) -> list[Row]:
    return runnable(evaluation.stack, [row(*each) for each in wanted], False)[0]


def _labels(rows: tuple[tuple[str, dict[str, Any]], ...]) -> tuple[str, ...]:
    return tuple(row(*each).label for each in rows)


ANALYSES = {
    "guidance": Analysis(guidance, ("dcar chunk_range=1",)),
    "chunks": Analysis(chunks, ("dcar",)),
    "heads": Analysis(heads, ("dcar chunk_range=1",)),
    "alignment": Analysis(alignment, _labels(ALIGNED)),
    "refiner window": Analysis(refiner_window),
    "finer books": Analysis(finer_books, _labels(SEVERAL)),
    "long form": Analysis(long_form, _labels(LONG_FORM)),
}  # the slowest last


def run(evaluation: Evaluation, holds: Container[str] = ()) -> dict[str, dict[str, Any]]:
    """Name -> figures of every analysis that can be made here, those that hold already left out; says why of each that
    cannot."""
    found = {}
    for name, analysis in ANALYSES.items():
        if name in holds:
            continue
        try:
            figures = analysis.make(evaluation)
        except UserError as error:  # a method without weights
            print(f"analysis '{name}' left out: {error}")
            continue
        if figures is None:
            print(f"analysis '{name}' left out: this stack, list or time does not give its figures.")
        else:
            found[name] = figures
    return found


def format_all(analyses: dict[str, dict[str, Any]]) -> str:
    """For people: one line a row."""
    short = lambda value: json.loads(json.dumps(value), parse_float=lambda x: float(f"{float(x):.3g}"))
    return "\n".join(
        line
        for name, figures in analyses.items()
        for line in (f"{name}:", *(f"  {key}: {json.dumps(short(value))}" for key, value in figures.items()))
    )
