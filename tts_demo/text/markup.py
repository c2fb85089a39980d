"""Markdown, HTML, SSML-like tags and LaTeX taken off: what is left are lines of plain text, each said by itself.

A list item, a heading, a row of a table is a line. Lines of a paragraph that was wrapped are joined."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from .numbers import roman

_TAGS = (
    "a abbr acronym address article aside audio b bdi bdo big blockquote body break br button caption center cite code "
    "col data dd del details dfn div dl dt em emphasis figcaption figure font footer form h1 h2 h3 h4 h5 h6 head "
    "header "
    "hr html i iframe img input ins kbd label laughter li link main mark meta nav ol option p phoneme pre prosody q s "
    "samp say-as section select small span speak strike strong sub summary sup svg table tbody td tfoot th thead time "
    "title tr tt u ul var video voice w wbr"
)
_NAMES = "|".join(sorted(_TAGS.split(), key=len, reverse=True))
_BLOCKS = "address|article|blockquote|br|div|dd|dl|dt|figcaption|h[1-6]|hr|li|ol|p|pre|section|table|td|th|tr|ul"
_LATEX = {
    "times": "×",
    "cdot": "×",
    "div": "÷",
    "pm": "±",
    "leq": "≤",
    "le": "≤",
    "geq": "≥",
    "ge": "≥",
    "neq": "≠",
    "ne": "≠",
    "approx": "≈",
    "infty": "∞",
    "to": "→",
    "rightarrow": "→",
    "implies": " implies ",
    "in": "∈",
    "forall": "∀",
    "exists": "∃",
    "sum": "∑",
    "int": "∫",
    "%": "%",
}
_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, flags), replacement)
    for pattern, flags, replacement in (
        (r"\r\n?|[\u2028\u2029\v\f]", 0, "\n"),
        # HTML and SSML
        (r"<!--.{0,2000}?-->|<(script|style)\b[^<>]*>.{0,5000}?</\1>", re.S | re.I, ""),
        (r"<break\b[^<>]*>", re.I, ", "),
        (r"<sup>(\d+)</sup>", re.I, r"^\1"),
        (rf"</?(?:{_BLOCKS})(?:\s[^<>]*)?/?>", re.I, "\n"),
        (rf"</?(?:{_NAMES})(?:\s[^<>]*)?/?>", re.I, ""),
        (r"<((?:https?://|mailto:)?[^<>\s]+[.@][^<>\s]+)>", 0, r"\1"),
        (r"(?<!\w)<(/?[A-Za-z][\w -]{1,30})>", 0, r" \1 "),
        (r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]\w{1,30});", 0, lambda m: html.unescape(m.group())),
        # code, links, pictures, footnotes
        (r"^[ \t]*(?:```|~~~).*$", re.M, ""),
        (r"(`+)([^`\n]+)\1", 0, r"\2"),
        (r"^[ \t]*\[\^?[^\]\n]{1,80}\]:[ \t]*(?:https?://|www\.|/|#|<)\S*.*$", re.M, ""),
        (r"!?\[([^\[\]\n]*)\]\((?:[^()\s]*)(?:[ \t]+\"[^\"\n]*\")?\)", 0, r"\1"),
        (r"!?\[([^\[\]\n]+)\]\[[^\[\]\n]*\]", 0, r"\1"),
        (r"\[\^\w{1,20}\]|(?<=[\w.,;:!?\"'”)])\[\d{1,3}\]", 0, ""),
        # LaTeX
        (r"\$\$([^$\n]+)\$\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", 0, lambda m: m[1] or m[2] or m[3]),
        (r"\$(?=[^\s$])([^$\n]*[\\^_={}][^$\n]*|[A-Za-z])(?<=\S)\$(?!\d)", 0, r"\1"),
        (r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", 0, r"\1 over \2"),
        (r"\\sqrt\{([^{}]*)\}", 0, r"√\1"),
        (r"\\(?:text|mathrm|mathbf|mathbb|left|right)\b\s?\{?([^{}\\\s]*)\}?", 0, r"\1"),
        (rf"\\({'|'.join(_LATEX)})(?![a-z])", 0, lambda m: f" {_LATEX[m[1]]} "),
        (r"(?<![\w:])\\([a-z]{2,8})\b(?![\\/.:])", 0, r" \1 "),
        (r"([\^_])\{([^{}]*)\}", 0, r"\1\2"),
        (r"\|([a-z]|-?\d+)\|(?![^\n]*\|)", 0, r" the absolute value of \1 "),
        # emphasis
        (r"\\([*_#`~>|\-+.!()\[\]{}])", 0, r"\1"),
        (r"(\*{1,3})(?=[^\s*])([^*\n]*?[^\s*])\1(?![\w*])(?<!\d\*\d)", 0, lambda m: _bare(m)),
        (r"(?<!\w)(_{1,3})(?=[^\s_])([^\n]*?[^\s_])\1(?!\w)", 0, r"\2"),
        (r"~~(?=\S)([^~\n]*\S)~~", 0, r"\1"),
        (r"==(?=[^\s=])([^=\n]*[^\s=])==|\|\|(?=\S)([^|\n]*\S)\|\|", 0, lambda m: m[1] or m[2]),
        # lines
        (r"^[ \t]*\$[ \t]+(?=[a-z])", re.M, ""),
        (r"^[ \t]{0,12}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.M, r"\n\1\n"),
        (r"^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)*\|?[ \t]*$", re.M, "\n"),
        (r"^[ \t]*(?:[-*_=~#+.][ \t]*){3,}$", re.M, "\n"),
        (r"[=*_~#+]{3,}", 0, " "),
        (r"^[ \t]*(?:>[ \t]?)+(?![ \t]*\d)", re.M, ""),
        (r"^[ \t]*\|(.*)\|[ \t]*$", re.M, r"\n\1\n"),
        (r"[ \t]*\|[ \t]*", 0, ", "),
    )
)
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


def _bare(match: re.Match[str]) -> str:
    """Emphasis without its stars; '2*3*4' is no emphasis."""
    before = match.string[match.start() - 1 : match.start()]
    return match.group() if before.isdigit() or (before.isalnum() and len(match[1]) == 1) else match[2]


def lines(text: str) -> list[str]:
    """Plain lines of a marked-up text, without blank ones. '# To do\\n1. Milk' -> ['To do', '1, Milk']"""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
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
