"""Settings that are measured: a method with its options. ``evaluate`` and ``bench`` share them; which there are beside
the defaults stands with the papers (``report/papers``)."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..config import UserError
from ..engine import Stack
from ..methods import METHODS, find
from ..methods.base import Method, Options

BASELINE = next(iter(METHODS.values()))  # what the others are compared with stands first in the registry
OTHER_PAIRS = 48  # of a text and a seed, in ``evaluate --all``: of rows that nothing is concluded from


@dataclass(frozen=True)
class Row:
    """A method with its options."""

    method: type[Method]
    options: Options

    @property
    def label(self) -> str:
        """'tldr patch_size=4'. A dial that is off by default and off here is left out."""
        values = {f.name: (getattr(self.options, f.name), f.default) for f in dataclasses.fields(self.options)}
        dials = [f"{name}={value}" for name, (value, usual) in values.items() if value or value != usual]
        return " ".join([self.method.name, *dials])

    @classmethod
    def parse(cls, label: str) -> "Row":
        """The row of a label. Raises UserError where there is no such method or no such option."""
        name, *dials = label.split()
        kind = find(name)
        return cls(kind, kind.Options.parse(dict(dial.split("=", 1) for dial in dials)))

    @property
    def main(self) -> bool:
        """Whether this is a method at its defaults: a row of the small table."""
        return not (self.method.variant_of or self.method.combines) and self.options == self.method.Options()

    @classmethod
    def of(cls, method: type[Method], **options: Any) -> "Row":
        return cls(method, method.Options(**options))


def defaults() -> list[Row]:
    """The baseline and every method of a paper at its defaults."""
    return [row for row in map(Row.of, METHODS.values()) if row.main]


def chosen(names: Iterable[str], settings: dict[str, str]) -> list[Row]:
    """The methods of these names at their defaults, changed by the ``settings`` that each of them knows."""
    rows = []
    for name in names:
        kind = find(name)
        known = {f.name for f in dataclasses.fields(kind.Options)}
        rows.append(Row(kind, kind.Options.parse({k: v for k, v in settings.items() if k in known})))
    return list(dict.fromkeys(rows))


def runnable(stack: Stack, rows: Iterable[Row], strict: bool = False) -> tuple[list[Row], list[str]]:
    """Rows whose trained weights are here, and why the others are not run. ``strict``: a person named the methods, so
    the first that cannot run is a UserError."""
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
