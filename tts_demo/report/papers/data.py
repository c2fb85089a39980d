"""What papers report of the methods, what is measured beside it, and our goals: one TOML file a paper, read here alone.

A file is named after its method; a method without one is measured at its defaults and presets. In a file:

- ``setting``: the paper's model and data; ``baseline``: the row that its others are compared with.
- ``[[rows]]``: a setting that is measured. ``method``: a comparison model instead of the file's method; ``options``:
  what differs from the defaults; ``paper``: the name and the figures that the paper has of it: wer (%), sim, rtf, gain
  (speed-up), step (tokens a step), kv (share of the baseline's at 12 s), first (ms until the first frame), frame (ms a
  frame); ``long = "minute"`` or ``"endless"``: also measured on speech of a minute, or of any length, in one run.
- ``[[goals]]``: a figure (``measure/summary.py``) that is to be ``at_least`` or ``at_most`` something. ``against``:
  options of another row; errors are set against its errors and a speed-up against its speed-up.
- ``[[sentences]]``: ``text``, or what is said where a row is ``better`` or ``worse`` than another one or ``equal``: not
  told apart by the 95 % interval of the difference. ``figure``: wer (default) or lm_gain; ``against``: options of the
  other row, default the baseline; ``readme = true``: also said in the README.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...measure.rows import BASELINE, Row
from ...methods import METHODS, REGISTRY, find
from ...methods.base import Method

FOLDER = Path(__file__).parent
CODEC = "codec"  # the file that belongs to no method


@dataclass(frozen=True)
class Line:
    """A row of a paper's table: its name there and its figures, beside the row that we measured."""

    name: str
    figures: Mapping[str, float]
    row: Row


@dataclass(frozen=True)
class Goal:
    """``label``: whose figure it is, a row's or the codec's; ``row`` None: the codec's."""

    label: str
    row: Row | None
    what: str
    figure: str
    bound: float
    higher: bool  # whether at least the bound is wanted, or at most
    scale: float = 1.0  # of the figure in the table: 100 for per cent and points
    against: Row | None = None


@dataclass(frozen=True)
class Sentence:
    """``text``, or a verdict on ``row`` beside ``against``: one of the other three."""

    row: Row
    against: Row
    figure: str = "wer"
    text: str = ""
    better: str = ""
    worse: str = ""
    equal: str = ""
    readme: bool = False

    @property
    def is_verdict(self) -> bool:
        return not self.text


@dataclass(frozen=True)
class Paper:
    """One file. ``method`` None: the codec's."""

    method: type[Method] | None
    setting: str = ""
    baseline: Line | None = None
    lines: tuple[Line, ...] = ()
    rows: tuple[Row, ...] = ()
    long: tuple[tuple[str, Row], ...] = ()  # "minute" or "endless", and the row
    goals: tuple[Goal, ...] = ()
    sentences: tuple[Sentence, ...] = ()


@lru_cache
def _tables(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def paper(name: str) -> Paper:
    """That of a method, or of the codec."""
    path = FOLDER / f"{name}.toml"
    method = None if name == CODEC else find(name)
    if not path.is_file():
        return Paper(method, rows=tuple(Row.of(method, **options) for options in method.presets))
    tables = _tables(path)
    rows = [(_row(name, entry), entry) for entry in tables.get("rows", ())]
    baseline = tables.get("baseline")
    return Paper(
        method,
        tables.get("setting", ""),
        _line(baseline, Row.of(BASELINE)) if baseline else None,
        tuple(_line(entry["paper"], row) for row, entry in rows if "paper" in entry),
        tuple(row for row, _ in rows),
        tuple((entry["long"], row) for row, entry in rows if "long" in entry),
        tuple(_goal(name, entry) for entry in tables.get("goals", ())),
        tuple(_sentence(name, entry) for entry in tables.get("sentences", ())),
    )


def papers() -> list[Paper]:
    """Of every method that people choose from, in their order, and of the codec."""
    return [paper(name) for name in (*METHODS, CODEC)]


def measured_rows() -> list[Row]:
    """The baseline and every method of a paper at its defaults, then the other methods', then all other settings, then
    comparison models."""
    listed = [row for each in papers() for row in each.rows]
    choices, variants = ([row for row in listed if bool(row.method.variant_of) == other] for other in (False, True))
    usual = sorted(map(Row.of, METHODS.values()), key=lambda row: not row.main)
    rest = [Row.of(kind) for kind in REGISTRY.values() if kind.variant_of and kind not in {r.method for r in variants}]
    return list(dict.fromkeys([*usual, *choices, *variants, *rest]))


def long_rows(which: str = "") -> list[Row]:
    """The settings for long speech; '': the baseline and all of them."""
    found = [row for each in papers() for kind, row in each.long if which in ("", kind)]
    return found if which else [Row.of(BASELINE), *found]


def judged_rows() -> set[Row]:
    """Rows that a verdict or a goal on word errors is about, and the rows that they are compared with."""
    verdicts = [s for each in papers() for s in each.sentences if s.is_verdict and s.figure == "wer"]
    goals = [g for each in papers() for g in each.goals if g.row and g.figure == "over"]
    return {row for entry in (*verdicts, *goals) for row in (entry.row, entry.against) if row}


def _row(name: str, entry: Mapping[str, Any]) -> Row:
    return Row.of(find(entry.get("method", name)), **entry.get("options", {}))


def _line(entry: Mapping[str, Any], row: Row) -> Line:
    figures = dict(entry)
    return Line(figures.pop("name"), figures, row)


def _goal(name: str, entry: Mapping[str, Any]) -> Goal:
    row = None if name == CODEC else _row(name, entry)
    other = Row.of(row.method, **entry["against"]) if "against" in entry else None
    higher = "at_least" in entry
    label = f"codec, {entry['codec']}" if row is None else row.label
    bound = entry["at_least" if higher else "at_most"]
    return Goal(label, row, entry["what"], entry["figure"], bound, higher, entry.get("scale", 1.0), other)


def _sentence(name: str, entry: Mapping[str, Any]) -> Sentence:
    fields = {key: value for key, value in entry.items() if key in Sentence.__dataclass_fields__ and key != "against"}
    other = Row.of(BASELINE)
    if "against" in entry or "against_method" in entry:
        other = _row(entry.get("against_method", name), {"options": entry.get("against", {})})
    return Sentence(row=_row(name, entry), against=other, **fields)
