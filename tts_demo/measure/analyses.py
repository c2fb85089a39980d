"""What a table of short texts cannot say: where each model looks in the text, and what a minute in one run sounds
like. Records like any other; each is made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rapidfuzz.distance import Levenshtein
from tqdm import tqdm

from .. import engine
from ..methods import METHODS
from . import judges
from .quality import Evaluation
from .records import key
from .rows import BASELINE, Row, runnable
from .texts import ASSETS, Case, Voice

ALIGNMENT, LONG = "alignment", "long"
SCORES = ("diagonality", "monotonicity", "coverage")
ALIGNED_TEXTS = 6
LONG_SECONDS = 400.0  # of one run at most


def seconds(rows: list[Row], cases: list[Case]) -> float:
    """What both analyses take one core, about."""
    return 5 * len(rows) * min(len(cases), ALIGNED_TEXTS) + 40 * len(lasting()) * len(paragraphs([cases[0].voice]))


def lasting() -> list[Row]:
    """The baseline, and the dials that their classes say are for long speech."""
    return [Row.of(BASELINE), *(Row.of(kind, **options) for kind in METHODS.values() for options in kind.lasting)]


def alignment(evaluation: Evaluation, rows: list[Row], cases: list[Case]) -> None:
    """Attention of the finished runs, replayed and scored (lm/attention.py)."""

    def measure(row: Row, case: Case) -> dict[str, Any] | None:
        found = engine.run(evaluation.stack, evaluation.request(row, case, capture_attention=True)).attention
        return {name: float(getattr(found, name)) for name in SCORES} if found else None

    _each(evaluation, ALIGNMENT, rows, cases[:ALIGNED_TEXTS], measure)


def paragraphs(voices: list[Voice]) -> list[Case]:
    """The bundled paragraphs, a minute and more each."""
    lines = (ASSETS / "texts" / "paragraphs.txt").read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip() and not line.startswith("#")]
    return [Case(f"paragraph-{i + 1}", text, voices[i % len(voices)], LONG) for i, text in enumerate(texts)]


def long_form(evaluation: Evaluation, rows: list[Row], cases: list[Case]) -> None:
    """Paragraphs in one run, without splitting: does the last third hold what the first promised?"""
    whole = Unsplit(evaluation.stack)

    def measure(row: Row, case: Case) -> dict[str, Any]:
        done = engine.run(whole, evaluation.request(row, case, max_seconds=LONG_SECONDS))
        judged = evaluation.judged(done.audio, case, evaluation.stack.sample_rate)
        parts = thirds(case.text, judged["heard"]) if judged["heard"] is not None else None
        s = done.snapshot
        return judged | {"thirds": parts, "seconds": s.audio_seconds, "cut": done.truncated, "kv_peak": s.kv_bytes_peak}

    _each(evaluation, LONG, rows, cases, measure)


class Unsplit:
    """A stack that speaks any text in one go."""

    def __init__(self, stack: engine.Stack) -> None:
        self._stack = stack

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stack, name)

    def split(self, text: str) -> list[str]:
        return [text]


def thirds(text: str, heard: str) -> list[list[int]]:
    """[errors, words] of the first, middle and last third of the text's words, aligned as a whole."""
    truth = judges.plain(text).split()
    edits = Levenshtein.editops(truth, judges.plain(heard).split())
    errors = Counter(min(2, 3 * edit.src_pos // len(truth)) for edit in edits)
    edges = [-(-len(truth) * i // 3) for i in range(4)]
    return [[errors[i], edges[i + 1] - edges[i]] for i in range(3)]


def _each(
    evaluation: Evaluation,
    kind: str,
    rows: list[Row],
    cases: list[Case],
    measure: Callable[[Row, Case], dict[str, Any] | None],
) -> None:
    """Append what is missing of rows x cases, text by text."""
    known = evaluation.records.keys()
    work = [(row, case) for case in cases for row in runnable(evaluation.stack, rows)[0]]
    work = [(r, c) for r, c in work if key(kind, r.label, c.id, 0, evaluation.where) not in known]
    for row, case in tqdm(work, desc=kind, unit="run", disable=not work):
        if (figures := measure(row, case)) is not None:
            evaluation.records.append(kind, row.label, case.id, 0, evaluation.where, figures)
