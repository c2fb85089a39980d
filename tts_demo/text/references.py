"""References and notations with a reading of their own: Scripture, moves of chess, identifiers, sports and calibers."""

import re

from . import numbers
from .rules import spelt, table, writer

_TABLE = table("references")
_ORDINALS = {"1": "First", "2": "Second", "3": "Third"}
_PIECES = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}
_ENDS = {"+": ", check", "#": ", checkmate"}
NAMES = _TABLE["books"].replace("\n", "")
SHORT = "|".join(sorted(_TABLE["short"], key=len, reverse=True))
_BEFORE = re.compile(rf"\b(?:{SHORT})\.$")
_NUMBERED = re.compile(r"\b(?:[1-3]|I{1,3})\s\w+\.$")


def is_book(before: str, after: str) -> bool:
    """Whether the full stop at the end of ``before`` belongs to a book of the Bible: 'Gen. 1:1', '1 Cor. 13'"""
    verse = re.match(r"\d{1,3}:\d", after) or (_NUMBERED.search(before) and after[:1].isdigit())
    return bool(verse and _BEFORE.search(before))


def verse(match: re.Match[str]) -> str:
    """'1 Cor. 13:4-7' -> 'First Corinthians thirteen four to seven'"""
    nth, book = match["nth"], match["book"].rstrip(".")
    number = {"I": "1", "II": "2", "III": "3"}.get(nth or "", (nth or "")[:1])
    spoken = f"{_ORDINALS.get(number, nth)} " if nth else ""
    spoken += f"{_TABLE['short'].get(book, book)} {numbers.cardinal(match['chapter'])}"
    if match["verse"]:
        spoken += f" {numbers.cardinal(match['verse'])}"
    if match["to"]:
        verse = f" {numbers.cardinal(match['to2'])}" if match["to2"] else ""
        spoken += f" to {numbers.cardinal(match['to'])}{verse}"
    return spoken + "".join(f", {numbers.cardinal(n)}" for n in re.findall(r"\d+", match["more"] or ""))


def move(match: re.Match[str]) -> str:
    """'Qxf7#' -> 'queen takes F seven, checkmate', 'exd5' -> 'E takes D five'"""
    found = match.groupdict()
    parts = [_PIECES.get(found.get("piece") or "", ""), spelt(found.get("origin") or "")]
    parts += ["takes" if found.get("takes") else "", spelt(match["square"])]
    parts += [f"promotes to {_PIECES[match['promoted']]}" if match["promoted"] else ""]
    return " ".join(filter(None, parts)) + _ENDS.get(match["end"] or "", "")


def colons(text: str) -> str:
    """'fe80::1' -> 'F E eight zero colon colon one'"""
    address, _, mask = text.partition("/")
    spoken = " colon ".join(spelt(group) for group in address.split(":"))
    return " ".join(spoken.split()) + (f" slash {numbers.cardinal(mask)}" if mask else "")


def form(match: re.Match[str]) -> str:
    """'dd/mm/yyyy' -> 'D D slash M M slash Y Y Y Y'"""
    if match.group().isalpha():
        return match.group()
    signs = {"/": "slash", "-": "dash", ":": "colon", ".": "dot"}
    return " ".join(signs.get(c, c.upper()) for c in match.group())


write_out = writer(_TABLE, globals())
