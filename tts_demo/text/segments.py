"""Where sentences end, and where overlong ones are cut."""

import re

from ..config import UserError
from .references import is_book
from .rules import filled, table

_END = re.compile(r"[.!?…]+[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9$€£#@+-])")
_FORGOTTEN = re.compile(r"(?<=[a-z]{2})([.!?])(?=[A-Z][a-z]+\s)")
_WORD = re.compile(r"(?:^|[\s(\"'\[—])([A-Za-z]+(?:\.[A-Za-z]+)*)\.$")
_NEXT = re.compile(r"[\"'(\[]*([A-Za-z']+|[\d#$+-])")
_TABLE = table("segments")
_NEVER, COUNTING, _SOMETIMES, _AFTER_HALF_DAY, _STARTERS, _ALSO_NAMES, _CLEAR = (
    frozenset(_TABLE[name].split())
    for name in ("never", "counting", "sometimes", "after_half_day", "starters", "also_names", "clear")
)
_LOOK = 40  # characters around a full stop that tell what it is
_LABELLED = re.compile(filled(r"\b(?:{LABELS})\s[A-Z]\.$", table("letters")))  # 'Team B.'
_OPENING = re.compile(
    r"[\"'(]*(?:At|By|Around|About|Until|Before|After|Since|From)\s[\d:.\s]+[ap]\.m\.$", re.I
)  # 'At 5 a.m.'
_DAY = r"\d{1,2}(?:st|nd|rd|th)?\s(?:of\s)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# what stands before and behind a full stop that ends nothing
_INSIDE = [
    (re.compile(rf"{left}\.$"), re.compile(right))
    for left, right in (
        (r"\b(?:Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun)", _DAY),  # 'Wed. 5 June'
        (r"\b[bdmr]", r"1\d{3}\b|20\d\d\b"),  # 'b. 1920'
        (r"\d\s[A-Z][\w.]{0,5}", r"[\"'(\[]*\d"),  # '410 U.S. 113', '1 Stat. 81'
        (r"\d\s?(?:ft|lbs?|hrs?|min|yds?|mi|gal|qts?)", r"[\"'(\[]*\d"),  # '5 ft. 6 in.'
    )
]
_CODE = re.compile(r"[A-Z]{1,4}-?\d")  # behind 'no.'
_CLAUSE_END = re.compile(r"(?<=[;:—])\s+|(?<=,)\s+")


def sentences(line: str) -> list[str]:
    """Cuts behind . ! ? where a capital or a figure follows, unless the full stop is an abbreviation's."""
    line = _FORGOTTEN.sub(r"\1 ", line)
    found, start = [], 0
    for match in _END.finditer(line):
        near = slice(max(start, match.start() - _LOOK), match.end())
        if _is_end(line[near].rstrip(), line[match.end() : match.end() + _LOOK]):
            found.append(line[start : match.end()].strip())
            start = match.end()
    found.append(line[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_end(before: str, after: str) -> bool:
    before = before.rstrip("\"')]")
    following = _NEXT.match(after)
    following = following[1] if following else ""
    low = following.lower()
    if before.endswith("..") or before[-1] == "…":
        return following != "I"
    word = _WORD.search(before)
    if before[-1] != "." or word is None:
        return True
    short = word[1].lower()
    if is_book(before, after):
        return False
    if any(left.search(before) and right.match(after) for left, right in _INSIDE):
        return False
    if not following[:1].isalpha() or (re.fullmatch("[IVXLC]+", following) and short in COUNTING):
        return short not in COUNTING and short not in _NEVER
    if _LABELLED.search(before):
        return True
    if short in COUNTING and _CODE.match(after):
        return False  # 'no. A-1023'
    if len(short) == 1 and re.match(r"[A-Z]\.", after):
        return False  # initials
    if short in ("a.m", "p.m"):
        return low not in _AFTER_HALF_DAY and not _OPENING.match(before)
    if short in _NEVER:
        return short in _ALSO_NAMES and low in _CLEAR
    if before.strip("\"'(") == "No.":
        return True  # an answer
    if short in _SOMETIMES or re.fullmatch(r"(?:[a-z]\.)+[a-z]|[a-hj-z]", short) or (short == "i" and len(before) > 2):
        return low in _STARTERS
    return True


def shorten(sentence: str, longest: int) -> list[str]:
    """Cut an overlong sentence at the clause border, else the space, that leaves the most even pieces."""
    if len(sentence) <= longest:
        return [sentence]
    for borders in (_CLAUSE_END.finditer(sentence), re.finditer(r"\s+", sentence)):
        inner = [m.end() for m in borders if 0.15 * len(sentence) < m.end() < 0.85 * len(sentence)]
        if inner:
            cut = min(inner, key=lambda border: abs(border - len(sentence) / 2))
            return shorten(sentence[:cut].strip(), longest) + shorten(sentence[cut:].strip(), longest)
    raise UserError(f"A word in this text is too long to speak: put spaces into {sentence[:24]!r}...")
