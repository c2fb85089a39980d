"""What a table of short texts cannot say: where each model looks in the text, and what a minute in one run sounds
like. Records like any other; each is made once."""

import copy
from collections import Counter
from typing import Any

import pandas as pd
from rapidfuzz.distance import Levenshtein

from .. import engine, metrics
from ..voices import ASSETS, Voice
from .quality import Evaluation, Measurement
from .rows import Row
from .texts import Case

ALIGNMENT, LONG = "alignment", "long"
SCORES = ("diagonality", "monotonicity", "coverage")
ALIGNED_TEXTS = 6
LONG_SECONDS = 600.0  # of one run at most
LONG_TEXT, MINUTES, VOICES = 500, 3, 2  # words; paragraphs that are said alone, voices that say all of them


def measurements(rows: list[Row], cases: list[Case], long: list[Row], endless: list[Row]) -> list[Measurement]:
    """Attention of ``rows`` on the first texts, then in one run each the first bundled paragraphs by the rows ``long``,
    and all paragraphs by those that are for speech of any length (``endless``)."""
    short, whole = paragraphs([case.voice for case in cases])
    aligned = [Aligned(case, row) for case in cases[:ALIGNED_TEXTS] for row in rows]
    minutes = [Long(case, row) for case in short[:MINUTES] for row in long]
    return [*aligned, *minutes, *(Long(case, row) for case in whole for row in endless)]


def paragraphs(voices: list[Voice]) -> tuple[list[Case], list[Case]]:
    """The bundled paragraphs, a minute and more each, and all of them as one text in the first voices."""
    lines = (ASSETS / "texts" / "paragraphs.txt").read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip() and not line.startswith("#")]
    whole = [Case(f"all-{i + 1}", " ".join(texts), voice, LONG) for i, voice in enumerate(voices[:VOICES])]
    return [Case(f"paragraph-{i + 1}", text, voices[i % len(voices)], LONG) for i, text in enumerate(texts)], whole


def alignment(runs: pd.DataFrame) -> pd.DataFrame:
    """Row -> the means of SCORES."""
    found = runs[runs["kind"] == ALIGNMENT]
    return found.groupby("row", sort=False)[list(SCORES)].mean() if len(found) else pd.DataFrame(columns=SCORES)


class Aligned(Measurement):
    """Attention of the finished run, replayed and scored (lm/attention.py)."""

    kind, usual = ALIGNMENT, 5.0

    def figures(self, evaluation: Evaluation) -> dict[str, dict[str, Any]]:
        request = evaluation.request(self.row, self.case, self.seed, capture_attention=True)
        found = engine.run(evaluation.stack, request).attention
        return {self.label: {name: float(getattr(found, name)) for name in SCORES}} if found else {}


class Long(Measurement):
    """A paragraph in one run, without splitting: does the last third hold what the first promised?"""

    kind, usual = LONG, 40.0

    def figures(self, evaluation: Evaluation) -> dict[str, dict[str, Any]]:
        request = evaluation.request(self.row, self.case, self.seed, max_seconds=LONG_SECONDS)
        stack = copy.copy(evaluation.stack)
        stack.split = lambda text: [text]
        done = engine.run(stack, request)
        judged = evaluation.judged(done.audio, self.case, evaluation.stack.sample_rate)
        parts = thirds(self.case.text, judged["heard"]) if judged["heard"] is not None else None
        figures = {"seconds": done.snapshot.audio_seconds, "kv_peak": done.snapshot.kv_bytes_peak}
        return {self.label: judged | figures | {"thirds": parts, "cut": done.truncated}}


def thirds(text: str, transcript: str) -> list[list[int]]:
    """[errors, words] of each third of the text's words, of a long text of each fifth, aligned as a whole."""
    truth, recognised = metrics.nearest_words(text, transcript)
    count = 5 if len(truth) > LONG_TEXT else 3
    edits = Levenshtein.editops(truth, recognised)
    errors = Counter(min(count - 1, count * edit.src_pos // len(truth)) for edit in edits)
    edges = [-(-len(truth) * i // count) for i in range(count + 1)]
    return [[errors[i], edges[i + 1] - edges[i]] for i in range(count)]
