"""What is measured: texts in voices, and methods with their dials. ``evaluate`` and ``bench`` choose from the same
rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import UserError
from ..methods import METHODS, REGISTRY, find
from ..methods.base import Method
from . import texts

ASSETS = Path(__file__).parents[2] / "assets"
EVERYTHING = tuple(REGISTRY)  # what --all measures, as far as its weights are here
ROWS_SHARE = 0.7  # of the time that --minutes allows --all; the analyses have the rest


@dataclass(frozen=True)
class Case:
    """One text to speak: in the voice of ``prompt`` (a file), with the words of that file and a natural recording of
    the text where they are known."""

    text: str
    prompt: str
    prompt_text: str = ""
    recording: str = ""


@dataclass(frozen=True)
class Row:
    method: type[Method]
    options: Any

    @property
    def label(self) -> str:
        changed = [f"{f.name}={getattr(self.options, f.name)}" for f in dataclasses.fields(self.options)]
        return " ".join([self.method.name, *changed])

    @classmethod
    def of(cls, label: str) -> Row:
        """The row of a label; of a method's name alone, with its default options. Raises UserError where there is
        none."""
        name, *words = label.split()
        kind = find(name)
        return cls(kind, kind.Options.parse(dict(word.split("=", 1) for word in words)))


def read_cases(path: str | None, limit: int | None) -> list[Case]:
    """Lines ``text|prompt file|its words|recording of the text`` (the last two may be empty or absent; paths are
    relative to the list). Without a file: the bundled texts, spoken by the bundled voices in turn."""
    if path is None:
        cases = [Case(c.text, str(c.voice.path), c.voice.words) for c in texts.cases("report")]
    else:
        if not Path(path).is_file():
            raise UserError(
                f"There is no list {path}: it needs lines of text|prompt.wav|words of the prompt|recording.wav."
            )
        base = Path(path).parent
        cases = [
            _read_case(line, base, path) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()
        ]
    if not cases:
        raise UserError(f"{path} holds no texts.")
    return cases[:limit] if limit else cases


def _read_case(line: str, base: Path, path: str) -> Case:
    parts = [p.strip() for p in line.split("|")] + ["", "", ""]
    if not parts[1]:
        raise UserError(f"A line of {path} has no voice: write text|prompt.wav ({line[:40]!r}).")
    text, prompt, words, recording = parts[:4]
    return Case(text, str(base / prompt), words, str(base / recording) if recording else "")


def rows_for(names: Iterable[str], settings: dict[str, str]) -> list[Row]:
    """One row per method and dial: the method's own list, or the one --set asks for."""
    rows = []
    for name in names:
        kind = find(name)
        known = {f.name for f in dataclasses.fields(kind.Options)}
        asked = {k: v for k, v in settings.items() if k in known}
        rows += (
            [Row(kind, kind.Options.parse(asked))]
            if asked
            else [Row(kind, kind.Options(**o)) for o in kind.bench_options]
        )
    return list({row.label: row for row in rows}.values())


def pace_of(stack: Any, *names: str) -> str:
    """Hash of what the speed of these methods, or of all, follows from; that of all its weights where the stack knows
    no better."""
    return stack.pace(*(names or METHODS)) if hasattr(stack, "pace") else stack.checkpoint_hash


def paces_of(stack: Any) -> dict[str, str]:
    """The same for each method."""
    return {name: pace_of(stack, name) for name in EVERYTHING}


def runnable(stack: Any, rows: list[Row], strict: bool) -> tuple[list[Row], list[str]]:
    """Rows whose trained weights are here, and why the others are not run. ``strict``: a person named the methods."""
    fine, skipped = [], {}
    for row in rows:
        try:
            stack.method(row.method.name).check(row.options)
            fine.append(row)
        except UserError as error:
            if strict:
                raise
            skipped[row.method.name] = str(error)
    return fine, list(skipped.values())
