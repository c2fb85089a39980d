"""Whether a quantity describes the noun behind it, which puts its unit in the singular."""

import re

from .rules import NUMBER, filled, table

_WORDS = table("quantities")
_NO_NOUNS = frozenset(_WORDS["no_nouns"].split())
_POSSESSIVE = r"(?!(?:it|that|he|she|there|what|here|let|who|how|where)'s)[a-z]+'s"
_ENUMERATED = rf"(?:(?:(?:{NUMBER}|[a-z]+)['\"]?\s){{1,3}}(?:to|or|and|by)\s)?"
_DETERMINERS = "|".join(_WORDS["determiners"].split())
_BEFORE = re.compile(rf"(?:^|[^A-Za-z])(?:{_DETERMINERS}|{_POSSESSIVE})\s+{_ENUMERATED}$", re.I)
_COUNTED = re.compile(r"\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|several|few|many)\s+$", re.I)
_AFTER = re.compile(r"(?:/\w+)?\s+([A-Za-z][A-Za-z']+)")
_ACROSS = re.compile(r"\s+by\s+\d+\S*\s+(?:(?:feet|foot|ft|inch|inches|in|cm|mm|m)\s+)?([a-z]{3,})")
_JOINED = re.compile(r"-(?=[A-Za-z])")
_EXTENT = re.compile(
    r"\s(?:wide|long|tall|high|deep|thick|across)(?:\s*(?:$|[,.;:!?)])|\s(?:and|by|x|at)\b)"
)  # '12" wide.'
_PLURAL_NOUN = re.compile(rf"\s(?:{filled(_WORDS['nouns'], {})})\b")


def describes(match: re.Match[str]) -> bool:
    """'a $20 bill', 'a 5 km run', '6-ft fence'; not 'it cost $20', 'the 5 km to town'."""
    text, end = match.string, match.end()
    if _EXTENT.match(text, end):
        return False
    if _JOINED.match(text, end) or text[end - 1 : end] == "-":
        return True
    after = _ACROSS.match(text, end) or _AFTER.match(text, end)
    if after is None or after[1].lower() in _NO_NOUNS:
        return False
    before = text[max(0, match.start() - 40) : match.start()]
    return bool(_BEFORE.search(before) or _COUNTED.search(before) or _PLURAL_NOUN.match(text, end))
