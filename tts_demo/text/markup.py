"""Markdown, HTML, SSML-like tags and LaTeX removed: lines of plain text remain, each read as a sentence.

A list item, a heading, a row of a table is a line. Lines of a paragraph that was wrapped are joined."""

from __future__ import annotations

import html
import re

from .numbers import roman
from .rules import apply, compiled, table

_TABLE = table("markup")
_BULLET = re.compile(
    r"^\s*(?:[-*+•‣◦▪●○■–—·→➤✓✔☐☑]\s+)*(?:\[[ xX]\]\s+)|^\s*(?:[-*+•‣◦▪●○■–—·→➤✓✔☐☑]\s+)+|^\s*[•‣◦▪●■]"
)
_NUMBERED = re.compile(
    r"^\s*\(?(\d{1,3})[.)]{1,2}(?=\s+\S)\s+(?!\d{3}[-. ]\d{4})|^\s*\(?([A-Za-z])\)\s+|^\s*([a-z])\.\s+(?=[A-Z])|"
    r"^\s*([IVX]{2,5}|I|[ivx]{1,5}(?=\.\s+[a-z]))\.\s+(?![A-Z]\.)(?=[A-Za-z])"
)
_INLINE = re.compile(r"(?:^|(?<=[.:;!?])\s+|\s+(?:/\s*)?)\(?(\d{1,2})[.)]\s+(?=\S)")
_OPEN = re.compile(r"[.!?:;…\"”')\]]\s*$")
NARROW, WIDE = 45, 60  # characters of the longest line of a paragraph that may have been wrapped


def bare(match: re.Match[str]) -> str:
    """Emphasis without its stars; '2*3*4' is no emphasis."""
    before = match.string[match.start() - 1 : match.start()]
    return match.group() if before.isdigit() or (before.isalnum() and len(match[1]) == 1) else match[2]


_NAMES = {
    "NAMES": "|".join(sorted(_TABLE["tags"].split(), key=len, reverse=True)),
    "LATEX": "|".join(_TABLE["latex"]),
    "unescape": html.unescape,
    "bare": bare,
}
_RULES = compiled(_TABLE, _NAMES)


def lines(text: str) -> list[str]:
    """Plain lines of a marked-up text, without blank ones. '# To do\\n1. Milk' -> ['To do', '1, Milk']"""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", apply(_RULES, text)):
        found += _unwrapped([line for line in paragraph.split("\n") if line.strip()])
    return [part for line in found for part in _items(line)]


def _unwrapped(raw: list[str]) -> list[str]:
    """Joins lines that end because the next word did not fit, and lines that end in a comma."""
    width = max(map(len, raw), default=0)
    joined: list[str] = []
    previous = ""
    for line in raw:
        item = bool(_BULLET.match(line) or _NUMBERED.match(line))
        text = line.strip()
        full = len(previous) + 1 + len(text.split()[0]) > width and not _OPEN.search(previous)
        wrapped = full and width >= (NARROW if text[0].islower() else WIDE)
        if joined and not item and (wrapped or previous.rstrip().endswith(",")):
            joined[-1] += " " + text
        else:
            joined.append(text)
        previous = line
    return joined


def _items(line: str) -> list[str]:
    """A line without its bullet, its number followed by a comma; '1. Milk 2. Eggs' are two lines."""
    line = _BULLET.sub("", line)
    markers = _counted(line)
    if len(markers) > 1:
        starts = [m.start() for m in markers]
        pieces = [line[: starts[0]], *(line[a:b] for a, b in zip(starts, [*starts[1:], None]))]
        return [_numbered(p.strip(" /")) for p in pieces if p.strip(" /")]
    return [_numbered(line)] if line.strip() else []


def _counted(line: str) -> list[re.Match[str]]:
    """The numbers 1, 2, 3... of a list in one line, from one that begins the line or follows a mark."""
    found: list[re.Match[str]] = []
    for marker in _INLINE.finditer(line):
        first = int(marker[1]) == 1 and not line[: marker.start()].rstrip()[-1:].isalnum()
        if int(marker[1]) == len(found) + 1 and (found or first):
            found.append(marker)
    return found


def _numbered(line: str) -> str:
    return _NUMBERED.sub(lambda m: f"{m[1] or (m[4] and roman(m[4].upper())) or (m[2] or m[3]).upper()}, ", line)
