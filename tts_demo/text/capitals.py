"""Text in capitals: sentences, or rows of three and more words, are lower-cased so that the G2P tags and reads them as
words. Unknown words and known acronyms keep their capitals."""

import re

from . import g2p, numbers
from .dates import MONTHS
from .rules import table

_TABLE = table("capitals")
_ACRONYMS, _EITHER = (frozenset(_TABLE[name].split()) for name in ("acronyms", "either"))
_ANY, _WORD = (re.compile(rf"(?<![\w./@-])[{kind}]['{kind}]*(?![\w@]|[./]\w)") for kind in ("A-Za-z", "A-Z"))
_ROW = re.compile(rf"{_WORD.pattern}(?:\s{_WORD.pattern}){{2,}}")
_MOSTLY = 0.7  # of the words of a sentence
_LONG = 5  # letters of an unknown name that is read as a word


def lowered(text: str) -> str:
    """'PLEASE CALL THE FBI!' -> 'Please call the FBI!', 'DO NOT ENTER this' -> 'Do not enter this'"""
    loud = _WORD.findall(text)
    if len(loud) >= _MOSTLY * len(_ANY.findall(text)):
        return _WORD.sub(_small, text) if _shouted(loud, text) else text
    lower = lambda row: _WORD.sub(lambda m: _small(m, row.start()), row[0])
    loud_words = lambda row: all(map(_known, row.split())) and _shouted(row.split(), row)
    return _ROW.sub(lambda row: lower(row) if loud_words(row[0]) else row[0], text)


def _shouted(loud: list[str], text: str) -> bool:
    """Whether most are words and certainly none of the acronyms that are words too; 'PA, CO' is a list."""
    known = [word for word in loud if _known(word)]
    certain = [word for word in known if word.lower() not in _EITHER and len(word) > 1]
    all_of_them = len(known) == len(loud) > 1 and certain and re.search(r"[A-Z']\s[A-Z]", text)
    return bool(all_of_them) or (len(certain) > 1 and 2 * len(known) > len(loud))


def _known(word: str) -> bool:
    low = word.lower()
    stems = (low, low.split("'")[0], *(low.removesuffix(end) for end in ("s", "d", "ed", "ing") if len(low) > 5))
    return low not in _ACRONYMS and (len(word) == 1 or any(map(g2p.knows, stems)))


def _small(match: re.Match[str], offset: int = 0) -> str:
    word, low, text = match[0], match[0].lower(), match.string
    before, after = text[: match.start()], text[match.end() :]
    first = not offset and not re.search(r"[\w]", before)
    if low in _ACRONYMS or (low in _EITHER and (re.search(r"\bTHE\s$", before) or (first and low == "us"))):
        return word
    if not _known(word):
        named = len(word) >= _LONG and re.search("[AEIOUY]", word) and numbers.roman(word) is None
        return word.capitalize() if named else word
    month = word.capitalize() in MONTHS and re.match(r"\s\d", after)
    numbered = re.match(r"\s(?=[IVX]{2})([IVX]+)\b", after)
    if first or low.split("'")[0] == "i" or month or numbered or g2p.is_name(low):
        return word.capitalize()
    return low
