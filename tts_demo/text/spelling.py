"""Text normalisation, written form to spoken form: sentences of English words and punctuation, no figures or signs.

The order matters: markup, then characters, then sentences; in each of these the kinds from the most particular (an
address, a date) to the plainest (a number). Knows nothing of phonemes."""

import functools
import re

from ..config import UserError
from . import (
    abbreviations,
    capitals,
    characters,
    codes,
    dates,
    electronic,
    g2p,
    markup,
    maths,
    money,
    references,
    segments,
    units,
)
from .rules import table, writer

# The letter A. With a full stop behind it, which is silent, the G2P gives the letter; without, the article.
_LETTERS = table("letters")
_CHAINED = re.compile(r"(?<=\d-)[A-Za-z]{2,}(?:-[A-Za-z]+)+")
# each kind, and what a sentence must hold for it to look at it
_KINDS = tuple(
    (re.compile(sign), write_out)
    for sign, write_out in (
        (r"[^\w\s]", characters.without_smileys),
        (r"[A-Z]\W.*[A-Z]{2}|[A-Z]{2}.*\W[A-Z]", capitals.lowered),
        (r"\d-[A-Za-z]+-", lambda text: _CHAINED.sub(lambda m: m.group().replace("-", " "), text)),
        (
            r"[a-hO\d][\d-]|\d:|\.\d|:[\da-fA-F]|[DMYHSdmyhs]{2}[/.:-][DMYHSdmyhs]{2}|\b(?:[1-3I]|First|Second|Third)\s[A-Z]",
            references.write_out,
        ),
        (r"[@/\\_#♯♭+~-]|\.\w", electronic.write_out),
        (r"[^\w\s.,;!?'\"]", maths.signs),
        (
            r"\d|\b(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun|MON|TUE|WED|THU|FRI)"
            r"|\b(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?\s?[-–—]|[Nn]oon[\s–—-]|night[\s–—-]",
            dates.write_out,
        ),
        (r"[\d#*]|,\s[A-Z]{2}\b|\b[NSEW]{1,3}\b|Washington", codes.write_out),
        (r"\d", money.write_out),
        (r"\d", units.write_out),
        ("", abbreviations.write_out),
        (r"[Aa][\s\d^+–-]|\d-?[Aa]", writer(_LETTERS, {}, "figures")),
        (r"\d|[+#~^§¶–-]", maths.write_out),
        ("", abbreviations.words_only),
        (r"\b[Aa]\b", writer(_LETTERS, {}, "words")),
    )
)
_TABLE = table("spelling")
_ENDLESS = re.compile(r"(?:[^\W_]|[À-ɏ]|[!-~](?=[^\W_])){400}")
_REPEATS = 12
_REPEATED = re.compile(rf"([^\w\n]|_)\1{{{_REPEATS},}}")
_LEFT_OUT = frozenset("em cause til till bout cuz n".split())


def apostrophe(match: re.Match[str]) -> str:
    """'em keeps its apostrophe, a quotation loses it."""
    word = match[1]
    return match.group() if word and word.lower() in _LEFT_OUT else f" {word or ''}"


def hyphens(word: str) -> str:
    """'well-known' is one word to the G2P; with a part it does not know each part is one."""
    known = all(g2p.knows(part) or g2p.knows(part.lower()) for part in word.split("-"))
    return word if known or word.lower() == "wi-fi" else word.replace("-", " ")


def mark(match: re.Match[str]) -> str:
    """The strongest mark of a run; the full stop of a letter ('F. M.,') stays beside it."""
    marks = match.group().replace(" ", "")
    if marks[0] == "." and re.search(r"(?:^|[^\w])(?:[A-Z]\.)*[A-Z]$", match.string[: match.start()][-12:]):
        return "." + (strongest(marks[1:]) if set(marks) != {"."} else "")
    return strongest(marks)


def strongest(marks: str) -> str:
    """One mark for a run of them: '?!,' -> '?'"""
    return next(mark for mark in "?!.—;:," if mark in marks)


_tidy = writer(_TABLE, globals(), "tidy")


@functools.lru_cache(maxsize=512)
def _written_out(sentence: str) -> str:
    for sign, write_out in _KINDS:
        if sign.search(sentence):
            sentence = write_out(sentence)
    for sign, word in _TABLE["signs"].items():
        sentence = sentence.replace(sign, f" {word} ")
    return _tidy(sentence).lstrip(" ,.?!;:—").rstrip(" ,;:—")


def sentences(text: str) -> list[str]:
    """The spoken form of ``text``, one string a sentence: words, apostrophes, hyphens, punctuation `, . ? ! ; : —`. Of
    several, one without a mark gets a full stop. Empty where nothing can be read; UserError for other scripts."""
    if endless := _ENDLESS.search(text):
        raise UserError(f"A word in this text is too long to speak: put spaces into {endless.group()[:24]!r}...")
    text = _REPEATED.sub(lambda m: m[1] * _REPEATS, text)
    pieces = [s for line in markup.lines(text) for s in segments.sentences(characters.fold(line))]
    words = [w for w in map(_written_out, pieces) if any(map(str.isalpha, w))]
    if len(words) > 1:
        return [w if w[-1] in ".?!" else f"{w}." for w in words]
    return words


def normalise(text: str) -> str:
    """The spoken form in one line. Raises UserError where nothing is left to read, or for another script."""
    words = " ".join(sentences(text))
    if not words:
        raise UserError("Nothing in this text can be spoken: type some English words or numbers.")
    return words
