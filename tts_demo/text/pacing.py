"""Commas where a reader breathes and nobody wrote one: in long clauses, between letters in a row and between repeated
cries. Without them the language model loses its place in the text. Works on the spoken form."""

import re

from .rules import filled, table

LONGEST = 80  # characters of a clause without punctuation
SHORTEST = 24  # of a part of it
MINOR, LONG = 10, 110  # penalties above MINOR only in clauses longer than LONG
_TABLE = table("pacing")
_CLAUSE = re.compile(r"[^,.?!;:—]+")
_border = lambda words: re.compile(filled(rf"(?<=\w)\s(?=(?:{words})\b)", _TABLE), re.I)
_BORDERS = [(penalty, _border(words)) for penalty, words in _TABLE["borders"]]
_HELD = re.compile(filled(r"\b(?:{HELD})$", _TABLE), re.I)
_COUNTED = re.compile(filled(r"\b(?:{NUMBERS})$|\s(?:and|or)\s(?:{NUMBERS})\b", _TABLE), re.I)
_PAIRED = re.compile(r"\w+ly$|\s(?:and|or|but)\s\w+ly\b")
_LETTER = r"(?:[Aa]\.?|[B-Zb-z](?!\.\s?\w))(?![\w'-])"
_LETTERS = re.compile(rf"(?<![\w'.-]){_LETTER}(?:\s{_LETTER}){{2,}}")
_ROW = re.compile(r"([a-z]{2,3})((?:,?\s\1){3,})([.!?]*)", re.I)
_INNER = re.compile(r"!(?=\s[a-z])")
_CRIES = re.compile(r"(?<![\w'-])([a-z]{2,3})(?:\s\1){2,}(?![\w'-])", re.I)


def paced(sentence: str) -> str:
    """'A. B C' -> 'A., B, C', 'ha ha ha' -> 'ha, ha, ha', 'Stop! he said' -> 'Stop, he said' (at an exclamation mark
    the language model may end the sentence), and clauses of more than LONGEST characters in parts."""
    sentence = _LETTERS.sub(_spelt, _INNER.sub(",", sentence))
    sentence = _CRIES.sub(lambda m: m.group().replace(" ", ", "), sentence)
    return _CLAUSE.sub(lambda m: _parted(m.group()), sentence)


def breaths(sentence: str) -> list[str]:
    """'ha ha ha ha ha!' -> 'ha ha!', 'ha ha!', 'ha!': in more than a pair the language model loses count."""
    row = _ROW.fullmatch(sentence)
    if not row:
        return [sentence]
    cries, mark = re.findall(r"\w+", sentence), row[3][:1] or "."
    return [" ".join(cries[i : i + 2]) + mark for i in range(0, len(cries), 2)]


def closed(piece: str) -> str:
    """With a full stop where no mark ends it: without one the language model repeats the end of the text."""
    return piece + "." * (piece[-1:].isalnum() or piece[-1:] == "'")


def _spelt(match: re.Match[str]) -> str:
    """With the full stop that tells the letter A from the article."""
    return ", ".join("A." if letter.lower() == "a" else letter for letter in match.group().split())


def _parted(clause: str) -> str:
    """A clause with commas before conjunctions and relative words, the best first, until its parts are short."""
    if len(clause) <= LONGEST:
        return clause
    found = [
        (abs(border.start() - len(clause) / 2) + penalty, border.start())
        for penalty, pattern in _BORDERS
        for border in pattern.finditer(clause, SHORTEST, len(clause) - SHORTEST)
        if (penalty <= MINOR or len(clause) > LONG) and not _held(clause, border.start())
    ]
    if not found:
        return clause
    _, cut = min(found)
    return f"{_parted(clause[:cut])},{_parted(clause[cut:])}"


def _held(clause: str, cut: int) -> bool:
    """Whether the words on both sides belong together: 'just before', 'fifteen or twenty', 'slowly and surely'"""
    before, after = clause[:cut], clause[cut:]
    paired = _PAIRED.search(before) and _PAIRED.match(after)
    return bool(_HELD.search(before) or _COUNTED.search(before) or _COUNTED.match(after) or paired)
