"""What was measured of a setting over many texts with the bundled weights, to stand beside the figures of one run."""

import functools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...config import UserError
from ...measure import heads, summary
from ...measure.records import RECORDS, Records
from ...measure.rows import BASELINE, Row
from ...methods import METHODS


@dataclass(frozen=True)
class Gain:
    """Times faster than the baseline, with the 95 % interval over the rounds (``summary.of_rounds``)."""

    times: float
    low: float
    high: float

    @property
    def kind(self) -> str:
        return "good" if self.low > 1 else "bad" if self.high < 1 else "same"


@dataclass(frozen=True)
class Published:
    """One setting. machine: where it was timed; memory: growth of the cache over the baseline's; more: words misheard
    in 100 beyond the baseline's, with the 95 % interval."""

    label: str
    texts: int
    machine: str
    lm: Gain
    whole: Gain
    memory: float
    more: float
    more_low: float
    more_high: float

    @property
    def more_kind(self) -> str:
        if self.more_low <= 0 <= self.more_high:
            return "same"
        return "bad" if self.more > 0 else "good"


def of(method: str, options: Any, path: Path = RECORDS) -> Published | None:
    """Of these options of a method; None where they were not both spoken and timed."""
    if method not in METHODS or method == BASELINE.name:
        return None
    try:
        options = METHODS[method].Options(**options) if isinstance(options, dict) else options
    except (TypeError, UserError):  # an earlier version's
        return None
    return table(path).get(Row(METHODS[method], options).label)


def table(path: Path = RECORDS) -> dict[str, Published]:
    """Row label -> what was measured; {} where no set of records is complete."""
    return _table(path, path.stat().st_mtime_ns if path.is_file() else 0)


def preference(path: Path = RECORDS) -> tuple[str, dict[str, dict[str, Any]]] | None:
    """The method whose heads were compared, and ``heads.table``; None where that was not measured."""
    results = _results(path, path.stat().st_mtime_ns if path.is_file() else 0)
    found = heads.table(results.runs) if results else {}
    return (results.runs.loc[results.runs["kind"] == heads.KIND, "row"].iloc[-1].split()[0], found) if found else None


@functools.lru_cache(2)
def _results(path: Path, modified: int) -> summary.Results | None:
    try:
        return summary.newest(Records(path).read())
    except UserError:
        return None


@functools.lru_cache(2)
def _table(path: Path, modified: int) -> dict[str, Published]:
    results = _results(path, modified)
    if results is None:
        return {}
    found, here = {}, results.where["machine"]
    elsewhere = {label: machine for machine, labels in results.elsewhere.items() for label in labels}
    for label, row in results.quality.join(results.speed, how="inner", suffixes=("", "_speed")).iterrows():
        timed = [summary.of_rounds(results, str(label), figure) for figure in ("lm_gain", "rtf_gain")]
        if pd.isna(row.get("over")) or pd.isna(row.get("kv_growth")) or not all(timed):
            continue
        gains = [Gain(each.value, each.low, each.high) for each in timed]
        more = [100 * float(row[k]) for k in ("over", "over_low", "over_high")]
        where = int(row["texts"]), elsewhere.get(label, here)
        found[str(label)] = Published(str(label), *where, *gains, float(row["kv_growth"]), *more)
    return found


def payload(found: Published | None) -> dict[str, Any] | None:
    """For the browser: the figures, and the sentence in parts, each good, bad or (within its interval) the same."""
    if found is None:
        return None
    parts = [{"words": words, "kind": kind} for words, kind in sentence(found)]
    gains = {"lm": found.lm, "whole": found.whole}
    said = {name: {"words": times(gain), "kind": gain.kind} for name, gain in gains.items()}
    return asdict(found) | {"sentence": parts, "said": said}


def sentence(p: Published) -> list[tuple[str, str]]:
    """'language model 2.0 times faster', 'everything 1.6', 'a quarter of the memory growth', '1.0 more words ...'"""
    whole = times(p.whole)
    if p.lm.kind == p.whole.kind != "same":
        whole = whole.split()[0]  # the same word follows
    return [
        (f"language model {times(p.lm)}", p.lm.kind),
        (f"everything {whole}", p.whole.kind),
        (growth(p.memory), "same" if abs(p.memory - 1) < 0.05 else "good" if p.memory < 1 else "bad"),
        (misheard(p), p.more_kind),
    ]


def times(gain: Gain) -> str:
    """'1.9 times faster'; where the interval holds 1, what was measured without a verdict: '1.2 times as fast'."""
    if gain.kind == "same":
        return "as fast" if abs(gain.times - 1) < 0.05 else f"{gain.times:.1f} times as fast"
    ratio = max(gain.times, 1 / gain.times)
    words = next((word for n in (1, 2, 3) if float(word := f"{ratio:.{n}f}") != 1), f"{ratio:.3f}")
    return f"{words} times {'faster' if gain.kind == 'good' else 'slower'}"


def growth(share: float) -> str:
    """'a quarter of the memory growth'"""
    if share < 0.01:
        return "no memory growth"
    for value, words in ((0.25, "a quarter"), (1 / 3, "a third"), (0.5, "half")):
        if abs(share - value) < 0.02:
            return f"{words} of the memory growth"
    return "the same memory growth" if abs(share - 1) < 0.05 else f"{100 * share:.0f} % of the memory growth"


def misheard(p: Published) -> str:
    """'1.0 more words in 100 misheard (-1.5 to 3.5)', with the 95 % interval."""
    less = "more" if p.more >= 0 else "fewer"
    low, high = (p.more_low, p.more_high) if p.more >= 0 else (-p.more_high, -p.more_low)
    return f"{abs(p.more):.1f} {less} words in 100 misheard ({low:.1f} to {high:.1f})".replace("-", "\N{MINUS SIGN}")
