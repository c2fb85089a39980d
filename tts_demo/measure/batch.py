"""Several requests in one step of one decoder: what a step of them takes, a record for each row and number of them."""

from typing import Any

from ..methods import METHODS
from ..methods.batched import MEASURED
from .rows import BASELINE, Row
from .speed import Bench

KIND = "batch"
BATCHED = {  # row -> its tokens a step
    Row.of(BASELINE): 1,
    Row.of(METHODS["dcar"], chunk_range=str(MEASURED["dcar"])): MEASURED["dcar"],
    Row.of(METHODS["tldr"], patch_size=MEASURED["tldr"]): MEASURED["tldr"],
}


def measure(bench: Bench, size: int, methods: set[str]) -> list[dict[str, Any]]:
    """The records of one and of ``size`` requests at once, of the baseline and of those ``methods`` that can; each is
    measured unless it is there already."""
    found = []
    for row, tokens in BATCHED.items():
        if row.method is BASELINE or row.method.name in methods:
            found += [_record(bench, row, tokens, count) for count in sorted({1, size})]
    return found


def _record(bench: Bench, row: Row, tokens: int, count: int) -> dict[str, Any]:
    where, text = bench.where_of(row), f"{count} requests, {bench.setting}"
    if known := bench.records.find(KIND, row.label, text, bench.seed, where):
        return known
    figures = bench.batch(count, row.method.name, tokens)
    figures["speech_a_second"] = 1 / figures["lm_rtf_each"]
    return bench.records.append(KIND, row.label, text, bench.seed, where, figures)
