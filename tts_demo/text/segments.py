"""Where sentences end, and where overlong ones are cut."""

from __future__ import annotations

import re

from ..config import UserError

_END = re.compile(r"[.!?…]+[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9$€£#@+-])")
_FORGOTTEN = re.compile(r"(?<=[a-z]{2})([.!?])(?=[A-Z][a-z]+\s)")
_WORD = re.compile(r"(?:^|[\s(\"'\[—])([A-Za-z]+(?:\.[A-Za-z]+)*)\.$")
_NEXT = re.compile(r"[\"'(\[]*([A-Za-z']+|[\d#$+-])")
# A name, a title or a figure follows: never the end.
_NEVER = frozenset(
    "mr mrs ms mx dr prof gen col capt lt sgt cpl maj adm rev hon gov sen rep pres messrs mt supt cmdr atty vs "
    "viz e.g i.e cf approx ca fr p.s n.b a.d sq cu".split()
)
# Before a figure they are no end.
_COUNTING = frozenset(
    "no nos p pp vol vols fig figs eq eqs sec sect ch chap art para ver ext est max min tel al c ca rs mk bk "
    "approx jan feb mar apr jun jul aug sep sept oct nov dec rm apt ste fl hwy rte rt bldg pop n s e w op ep pt bk k "
    "ph secs deg".split()
)
# Ends only where a word follows that begins sentences.
_SOMETIMES = frozenset(
    "st ave blvd rd ln hwy jr sr inc ltd co corp bros dept univ assn govt etc ph.d m.d b.a m.a b.s m.s u.s u.k "
    "u.n e.u d.c u.s.a jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri sat sun ft "
    "calif mass conn fla penn tenn ariz colo ala wash minn wis mich tex ont al ed est intl natl fig no vol p".split()
)
_AFTER_HALF_DAY = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun january "
    "february march april may june july august september october november december jan feb mar apr jun jul aug "
    "sep sept oct nov dec et est edt ct cst cdt mt mst mdt pt pst pdt gmt utc bst cet eastern central pacific "
    "mountain".split()
)
_STARTERS = frozenset(
    "the a an he she it we they i you this that these those there here my your his her its our their who what "
    "when where why how which and but or so yet if as for in on at by to from with without after before since "
    "until while although because during then now today tomorrow yesterday later soon meanwhile however still "
    "also even only just some any most many much few several all both each every no not none nothing nobody "
    "someone everyone anyone one two three another other let please yes well oh ok okay is are was were do does "
    "did has have had can could will would should may might must it's he's she's we're they're i'm i've i'll "
    "that's there's what's let's don't didn't doesn't isn't".split()
)
_LOOK = 40  # characters around a full stop that tell what it is
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
    if following[:1].isdigit() and re.search(r"\d\s[A-Z][\w.]{0,5}$", before[:-1]):
        return False  # '410 U.S. 113', '1 Stat. 81'
    if following[:1].isdigit() and re.search(r"\d\s?(?:ft|lbs?|hrs?|min|yds?|mi|gal|qts?)\.$", before):
        return False  # '5 ft. 6 in.'
    if not following[:1].isalpha() or (re.fullmatch("[IVXLC]+", following) and short in _COUNTING):
        return short not in _COUNTING and short not in _NEVER
    if len(short) == 1 and re.match(r"[A-Z]\.", after):
        return False  # initials
    if short in ("a.m", "p.m"):
        return low not in _AFTER_HALF_DAY
    if short in _NEVER:
        return False
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
