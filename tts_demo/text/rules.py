r"""Rules of one kind, applied in their order: a pattern, and what is said for what it finds. They stand in ``tables/``,
with the words they are about.

In a pattern ``{NAME}`` stands for a text of the same table. In what is said ``\1`` is a group, ``{1|cardinal|plural}``
a group through functions or lists of words, ``{1 or 2|year}`` the first of two that is there, ``{name}`` a function of
the match.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import numbers

Replacement = str | Callable[[re.Match[str]], str]
Rules = tuple[tuple[re.Pattern[str], Replacement], ...]

NUMBER = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
MINUS = r"(?P<minus>(?<![\w)\]])[-–](?=[\d.$€£¥]))?"
_NAME = re.compile(r"\{([A-Z]\w+)\}")
_CALL = re.compile(r"\{(\w+(?: or \w+)*)((?:\|\w+)*)\}")


def table(name: str) -> dict[str, Any]:
    """``tables/NAME.toml``: lists of rules, lists of words, and under names in capitals texts that patterns share."""
    return tomllib.loads((Path(__file__).parent / "tables" / f"{name}.toml").read_text(encoding="utf-8"))


def compiled(table: Mapping[str, Any], names: Mapping[str, Any], which: str = "rules") -> Rules:
    """A list of rules of a table. names: what they may name beside what stands in the table and in ``numbers``."""
    known = {
        **vars(numbers),
        "letters": letters,
        "upper": str.upper,
        "NUMBER": NUMBER,
        "MINUS": MINUS,
        **table,
        **names,
    }
    return tuple((re.compile(filled(pattern, known)), _replacement(said, known)) for pattern, said in table[which])


def filled(pattern: str, texts: Mapping[str, str]) -> str:
    """The pattern with the texts it names; line ends, which only break long lists of words, are left out."""
    while _NAME.search(pattern):
        pattern = _NAME.sub(lambda m: texts[m[1]], pattern)
    return pattern.replace("\n", "")


def apply(rules: Rules, text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def letters(word: str) -> str:
    """'html' -> 'H.T.M.L.': dots make the G2P say the letters. A single letter stays bare, but the A would be
    the article."""
    found = [c.upper() for c in word if c.isalpha()]
    return found[0] if len(found) == 1 and found != ["A"] else "".join(f"{c}." for c in found)


def _replacement(said: str, names: Mapping[str, Any]) -> Replacement:
    if not _CALL.search(said):
        return said
    pieces, end = [], 0
    for call in _CALL.finditer(said):
        pieces += [functools.partial(re.Match.expand, template=said[end : call.start()]), _called(call, names)]
        end = call.end()
    pieces.append(functools.partial(re.Match.expand, template=said[end:]))
    return lambda match: "".join(piece(match) for piece in pieces)


def _called(call: re.Match[str], names: Mapping[str, Any]) -> Callable[[re.Match[str]], str]:
    groups, steps = call[1].split(" or "), [names[step] for step in call[2].split("|")[1:]]
    if not steps and not groups[0].isdigit():
        return names[call[1]]
    groups = [int(group) if group.isdigit() else group for group in groups]

    def said(match: re.Match[str]) -> str:
        text = next(filter(None, map(match.__getitem__, groups)), "")
        for step in steps:
            text = step(text) if callable(step) else step[text]
        return text

    return said
