"""Rules of one kind are pairs of a pattern and what replaces it, applied in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Replacement = str | Callable[[re.Match[str]], str]
Rules = tuple[tuple[re.Pattern[str], Replacement], ...]

MINUS = r"(?P<minus>(?<![\w)\]])[-–](?=[\d.$€£¥]))?"
NUMBER = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"

# Words before a quantity that make it describe what follows ('a 5 km run'), and words after it that follow no such one.
_DETERMINERS = (
    "a an the this that each every one another any some no my your his her its our their per first second third last "
    "next new single extra additional free standard typical whole"
).split()
_NO_NOUNS = (
    "of in on at to for from by with without within and or but nor so yet than then per is are was were be been being "
    "has have had will would can could may might must shall should do does did done i you he she it we they me him "
    "them "
    "us that which who whom whose when where while if as because since until till before after over under above below "
    "around about into onto off out up down back away apart ago later earlier sooner now today tonight tomorrow "
    "yesterday each more less most least fewer only just also too very not all both either neither through during "
    "along "
    "across behind between among against toward towards upon plus minus times equals extra here there again the a an "
    "this these those my your his her its our their every no what how go goes went remain remains left total vs versus "
    "worth north south east west northeast northwest southeast southwest apiece daily weekly monthly yearly annually"
).split()
_BEFORE = re.compile(
    rf"(?:^|[^A-Za-z])(?:{'|'.join(_DETERMINERS)}|(?!(?:it|that|he|she|there|what|here|let|who|how|where)'s)[a-z]+'s)\s+(?:(?:(?:{NUMBER}|[a-z]+)['\"]?\s){{1,3}}(?:to|or|and|by)\s)?$",
    re.I,
)
_COUNTED = re.compile(
    r"(?:\b\d+|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|several|few|many))\s+$", re.I
)
_AFTER = re.compile(r"(?:/\w+)?\s+([A-Za-z][A-Za-z']+)")
_ACROSS = re.compile(r"\s+by\s+\d+\S*\s+(?:(?:feet|foot|ft|inch|inches|in|cm|mm|m)\s+)?([a-z]{3,})")
_NOUN = re.compile(r"-(?=[A-Za-z])")
_PLURAL_NOUN = re.compile(
    r"\s(?:bills?|notes?|coins?|tickets?|bags?|boxes|bottles?|cans?|tanks?|cables?|poles?|boards?|batter(?:y|ies)|"
    r"monitors?|screens?|pipes?|cubes?|squares?|intervals?|increments?|dumbbells?|plates?|sacks?|lens(?:es)?|bulbs?|"
    r"discounts?|coupons?|files?|drives?|blocks?|shots?|packets?|tubes?|jars?|gift|zones?|limits?|races?|runs?|"
    r"walks?|hikes?|fees?|fines?|deposits?|bonus(?:es)?|checks?|prizes?|budgets?|bets?|loans?|fences?|ladders?|rulers?|"
    r"pans?|ropes?|radius|diameter|planks?|nails?|drills?|bolts?|pool|wall|tower|cliff|increments)\b"
)


def apply(rules: Iterable[tuple[re.Pattern[str], Replacement]], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def compiled(*rules: tuple[str, Replacement]) -> Rules:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules)


def describes(match: re.Match[str]) -> bool:
    """Whether the matched quantity describes the noun behind it ('a $20 bill', 'a 5 km run', '6-ft fence') and is thus
    said in the singular; not in 'it cost $20', 'the 5 km to town'."""
    text, end = match.string, match.end()
    if _NOUN.match(text, end) or text[end - 1 : end] == "-":
        return True
    after = _AFTER.match(text, end)
    if across := _ACROSS.match(text, end):
        after = across
    if after is None or after[1].lower() in _NO_NOUNS:
        return False
    before = text[max(0, match.start() - 40) : match.start()]
    return bool(_BEFORE.search(before) or _COUNTED.search(before) or _PLURAL_NOUN.match(text, end))


def letters(word: str) -> str:
    """'html' -> 'H.T.M.L.': dots make the G2P say the letters. A single letter stays bare."""
    found = [c.upper() for c in word if c.isalpha()]
    return found[0] if len(found) == 1 else "".join(f"{c}." for c in found)
