"""Markdown, HTML, SSML-like tags and LaTeX removed: lines of plain text remain, each read as a sentence.

A list item, a heading, a row of a table is a line. Lines of a paragraph that was wrapped are joined."""

import html
import re

from . import g2p
from .numbers import roman
from .rules import filled, table, writer
from .segments import COUNTING

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
_HYPHEN = re.compile(r"([^\W_]+)([-‐\u00ad])[ \t]*$")
NARROW, WIDE = 45, 60  # characters of the longest line of a paragraph that may have been wrapped


def bare(match: re.Match[str]) -> str:
    """Emphasis without its stars; '2*3*4' is no emphasis."""
    before = match.string[match.start() - 1 : match.start()]
    return match.group() if before.isdigit() or (before.isalnum() and len(match[1]) == 1) else match[2]


def unquoted(match: re.Match[str]) -> str:
    """Several lines that begin with '>' are a quotation; a single '> 5' is a comparison."""
    return re.sub(r"(?m)^[ \t]*(?:>[ \t]?)+", "", match.group())


def note(match: re.Match[str]) -> str:
    """'died.12 His' -> 'died. His': the number of a note; not 'No.12', 'fig.3'."""
    return match.group() if match[1].lower() in COUNTING else f"{match[1]}."


def direction(match: re.Match[str]) -> str:
    """'*sighs* Well' -> 'Well': stage directions are not read unless there is nothing else."""
    others = _DIRECTION.sub("", match.string)
    return " " if any(c.isalnum() for c in others) else match.group()[1:-1]


def unmasked(match: re.Match[str]) -> str:
    """'h*ll' -> 'hell', 'f***ing' -> 'bleeping': one hidden letter is read, more are meant to be hidden."""
    hidden = re.compile(re.sub(r"[^A-Za-z]", ".", match.group()), re.I)
    word = next((w for w in _MASKED if hidden.fullmatch(w)), None)
    if word is None:
        return match.group()
    if len(match["mask"] or match["all"]) > 1:
        return "bleep" + next((end for end in ("ing", "ed", "s") if word.endswith(end)), "")
    return word.capitalize() if match.group()[0].isupper() else word


_DIRECTION = re.compile(filled(_TABLE["DIRECTION"], _TABLE))
_MASKED = [word + end for word in _TABLE["masked"].split() for end in ("", "s", "ed", "ing", "er", "y")]
NAMES = "|".join(sorted(_TABLE["tags"].split(), key=len, reverse=True))
LATEX = "|".join(_TABLE["latex"])
_unmarked = writer(_TABLE, globals() | {"unescape": html.unescape})


def lines(text: str) -> list[str]:
    """Plain lines of a marked-up text, without blank ones. '# To do\\n1. Milk' -> ['To do', '1, Milk']"""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", _unmarked(text)):
        found += _unwrapped([line for line in paragraph.split("\n") if line.strip()])
    return [part for line in found for part in _items(line)]


def _unwrapped(raw: list[str]) -> list[str]:
    """Joins lines that end because the next word did not fit, within a word or in a comma."""
    width = max(map(len, raw), default=0)
    joined: list[str] = []
    previous = ""
    for line in raw:
        item = bool(_BULLET.match(line) or _NUMBERED.match(line))
        text = line.strip()
        full = len(previous) + 1 + len(text.split()[0]) > width and not _OPEN.search(previous)
        wrapped = full and width >= (NARROW if text[0].islower() else WIDE)
        if joined and not item and text[0].isalnum() and _HYPHEN.search(previous):
            joined[-1] = _rejoined(joined[-1], text)
        elif joined and not item and (wrapped or previous.rstrip().endswith(",")):
            joined[-1] += " " + text
        else:
            joined.append(text)
        previous = line
    return joined


def _rejoined(line: str, rest: str) -> str:
    """Two lines, the first of which ends in a hyphen: 'under-', 'stand' -> 'understand'. The hyphen stays in compounds
    ('well-', 'known'), before figures and behind another part of a compound."""
    cut = _HYPHEN.search(line)
    first, second = cut[1], re.match(r"[^\W_]+", rest)[0]
    known = lambda word: g2p.knows(word) or g2p.knows(word.lower())
    one = cut[2] == "\u00ad" or (
        not (first[-1].isdigit() or second[0].isdigit())
        and not line[: cut.start()].endswith("-")
        and (known(first + second) or not (second[0].isupper() or (known(first) and known(second))))
    )
    return f"{line[: cut.end(1)]}{'' if one else '-'}{rest}"


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
