r"""Rewrite rules of one semiotic class, applied in order: a pattern and the template of its spoken form. They stand in
``tables/``, with their word lists.

In a pattern ``{NAME}`` stands for a text of the same table. In a template ``\1`` is a group, ``{1|cardinal|plural}`` a
group passed through functions or mappings, ``{1 or 2|year}`` the first of two groups that matched, ``{name}`` a
function of the match, and ``[, {3|year}]`` is left out where a group in it is empty."""

import functools
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import numbers

Replacement = str | Callable[[re.Match[str]], str]

NUMBER = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
MINUS = r"(?P<minus>(?<![\w)\]])[-–](?=[\d.$€£¥]))?"
_NAME = re.compile(r"\{([A-Z]\w+)\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_CALL = re.compile(r"\{(\w+(?: or \w+)*)((?:\|\w+)*)\}")


def table(name: str) -> dict[str, Any]:
    """``tables/NAME.toml``: lists of rules, lists of words, and under names in capitals texts that patterns share."""
    return tomllib.loads((Path(__file__).parent / "tables" / f"{name}.toml").read_text(encoding="utf-8"))


def filled(pattern: str, texts: Mapping[str, str]) -> str:
    """The pattern with the texts it names; line ends, which only break long lists of words, are left out."""
    while _NAME.search(pattern):
        pattern = _NAME.sub(lambda m: texts[m[1]], pattern)
    return pattern.replace("\n", "")


def writer(table: Mapping[str, Any], names: Mapping[str, Any], which: str = "rules") -> Callable[[str], str]:
    """What applies a list of rules of a table to a text. names: what they may name beside what stands in the table and
    in ``numbers``."""
    cases = {"upper": str.upper, "lower": str.lower, "capitalize": str.capitalize}
    shared = {"letters": letters, "spelt": spelt, "stop": stop, "NUMBER": NUMBER, "MINUS": MINUS}
    known = {**vars(numbers), **cases, **shared, **table, **names}
    rules = [(re.compile(filled(row[0], known)), _replacement(row[1], known)) for row in table[which]]

    def written_out(text: str) -> str:
        for pattern, replacement in rules:
            text = pattern.sub(replacement, text)
        return text

    return written_out


def ends_sentence(match: re.Match[str]) -> bool:
    """Whether nothing but closing marks follows."""
    return not match.string[match.end() :].strip("\"')] ")


def stop(match: re.Match[str]) -> str:
    """The full stop of an abbreviation that also ends the sentence."""
    return "." if match.group().endswith(".") and ends_sentence(match) else ""


def letters(word: str) -> str:
    """'html' -> 'H.T.M.L.': full stops make the G2P spell. One letter stays bare except A, else the article."""
    found = [c.upper() for c in word if c.isalpha()]
    return found[0] if len(found) == 1 and found != ["A"] else "".join(f"{c}." for c in found)


def spelt(text: str) -> str:
    """'00:1A' -> 'zero zero, one A.': figures and letters one by one, groups apart."""
    spoken = lambda group: " ".join(numbers.digits(c) if c.isdigit() else letters(c) for c in group)
    return ", ".join(map(spoken, re.findall(r"[^\W_]+", text)))


def _replacement(template: str, names: Mapping[str, Any]) -> Replacement:
    if not _CALL.search(template):
        return template
    parts = enumerate(_OPTIONAL.split(template))
    pieces = [_optional(part, names) if number % 2 else _spoken(part, names) for number, part in parts]
    return lambda match: "".join(piece(match) for piece in pieces)


def _optional(template: str, names: Mapping[str, Any]) -> Callable[[re.Match[str]], str]:
    groups, spoken = [_group(call[1]) for call in _CALL.finditer(template)], _spoken(template, names)
    return lambda match: spoken(match) if all(match[group] for group in groups) else ""


def _group(name: str) -> int | str:
    return int(name) if name.isdigit() else name


def _spoken(template: str, names: Mapping[str, Any]) -> Callable[[re.Match[str]], str]:
    pieces, end = [], 0
    for call in _CALL.finditer(template):
        pieces += [functools.partial(re.Match.expand, template=template[end : call.start()]), _called(call, names)]
        end = call.end()
    pieces.append(functools.partial(re.Match.expand, template=template[end:]))
    return lambda match: "".join(piece(match) for piece in pieces)


def _called(call: re.Match[str], names: Mapping[str, Any]) -> Callable[[re.Match[str]], str]:
    groups, steps = call[1].split(" or "), [names[step] for step in call[2].split("|")[1:]]
    if not steps and not groups[0].isdigit():
        return names[call[1]]
    groups = list(map(_group, groups))

    def spoken(match: re.Match[str]) -> str:
        text = next(filter(None, map(match.__getitem__, groups)), "")
        for step in steps:
            text = step(text) if callable(step) else step[text]
        return text

    return spoken
