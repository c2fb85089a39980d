"""Fractions, scores, ratios, powers, comparisons, sums, ranges, ordinals, years and every number that is left."""

import re

from . import numbers
from .rules import filled, letters, table, writer
from .units import describes

_TABLE = table("maths")
_NO_PLURALS = frozenset(_TABLE["no_plurals"].split())
_MATHS = re.compile(
    r"[=≤≥≠≈×÷√∑∫∞±∈∀∃^]|(?<![A-Za-z])[a-z]\s[-+<>]\s|[-+<>]\s[a-z](?![A-Za-z'])|\d\s?[+*]\s?\d|\s[<>]\s\d"
    r"|\([a-z]\s?[-+]\s?[a-z\d]\)"
)
_SCORED = re.compile(rf"\b(?:{filled(_TABLE['SCORED'], {})})\b", re.I)
_DENOMINATED = {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 24, 25, 32, 50, 60, 64, 100, 1000}


def power(match: re.Match[str]) -> str:
    exponent = match["e"].strip("()")
    if exponent in ("2", "3", "+2", "+3"):
        return " squared" if exponent[-1] == "2" else " cubed"
    minus, exponent = "minus " * (exponent[0] in "-–"), exponent.lstrip("+-–")
    return f" to the power of {minus}{numbers.cardinal(exponent) if exponent.isdigit() else exponent}"


def scientific(match: re.Match[str]) -> str:
    sign = "minus " if match["sign"] == "-" else ""
    exponent = numbers.cardinal(match["e"].lstrip("0") or "0")
    return f"{numbers.cardinal(match['n'])} times ten to the power of {sign}{exponent}"


def _spoken_fraction(match: re.Match[str]) -> str:
    top, bottom, whole = match["top"], match["bottom"], match["whole"]
    after = match.string[match.end() :]
    if whole:
        part = re.sub(r"^one (?!over)", "a ", numbers.fraction(top, bottom))
        return f"{numbers.cardinal(whole)} and {part}"
    rated = int(bottom) > 3 and not match["suffix"] and _rated(match)
    if int(bottom) not in _DENOMINATED or rated:
        middle = "out of" if rated or int(top) < int(bottom) else "over"
        return f"{numbers.cardinal(top)} {middle} {numbers.cardinal(bottom)}"
    if (top, bottom) == ("1", "2") and re.match(r"\s(?:a|an|of|the)\b|\s[a-z]+\s(?:a|an)\s", after):
        return "half"
    return numbers.fraction(top, bottom)


def fraction(match: re.Match[str]) -> str:
    return _spoken_fraction(match) + " " * bool(match["joint"])


def shares(match: re.Match[str]) -> str:
    """'1/3 + 1/6' before an '=' is a sum of fractions; '5 - 8/2' holds a division."""
    fraction = lambda m: numbers.fraction(*m.groups()) if int(m[1]) < int(m[2]) else m[0]
    spoken = re.sub(r"(\d+)/(\d+)", fraction, match[0])
    return spoken.replace("-", " minus ") if "/" not in spoken else spoken


def part_of(match: re.Match[str]) -> str:
    """'3/4 mile' -> 'three quarters of a mile', not 'a 3/4 mile run'"""
    if describes(match):
        return match.group()
    part = "half" if match["bottom"] == "2" else f"{numbers.fraction(match['top'], match['bottom'])} of"
    return f"{part} {'a' if match['unit'] == 'mile' else 'an'} {match['unit']}"


def _rated(match: re.Match[str]) -> bool:
    """'4/5 stars', 'a 9/10', '10/10 would go again' are marks, '4/5 of it' and '15/16 in.' are shares."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    if re.match(r"\s?(?:of|cups?|tsp|tbsp|(?:tea|table)spoons?|inch|inches|in\.|miles?|pounds?|lbs?|the)\b|-", after):
        return False
    if re.match(rf"\s(?:{_TABLE['MARKS']})\b", after) or _MARKED.search(before):
        return True
    usual = match["bottom"] in ("5", "10", "20", "100") and match["top"] != "1" or match["top"] == match["bottom"]
    return usual and bool(re.match(r"[.!?,;)]|\s*$|\s(?:would|on|for)\b", after) and _NAMED.search(before))


_MARKED = re.compile(r"\b(?:score[ds]?|rat(?:e[ds]?|ing)|got|gave|grade)\b[^.!?]{0,12}$")
_NAMED = re.compile(r"(?:\b(?:a|an|it|solid|test|quiz|exam|perfect|is|of)\s*:?\s?|^|[.!?(:]\s?)$")


def score(match: re.Match[str]) -> str:
    """'won 3-2' -> 'three to two'; '(12-4-1)' behind a team is its record: 'twelve, four and one'."""
    parts = [numbers.cardinal(n) for n in re.findall(r"\d+", match.group())]
    if len(parts) == 3:
        return numbers.record(match.group()) if _SCORED.search(match.string) else ", ".join(parts)
    return " to ".join(parts)


def _counts(match: re.Match[str]) -> bool:
    """Whether a number that could be a year counts what follows: '1885 days', not 'the 2004 games', '2024 was'."""
    after = re.match(r"\s(?:more\s)?([a-z]{2,})\b", match.string[match.end() :])
    many = ("people", "men", "women", "children", "percent", "feet", "of")
    if after is None or not (after[1].endswith("s") or after[1] in many):
        return False
    dated = r"(?:the|in|of|since|by|from|until|till|for|during|before|after|late|early|mid|around|year|season)\s$"
    return after[1] not in _NO_PLURALS and not re.search(dated, match.string[: match.start()].lower())


def times(match: re.Match[str]) -> str:
    """'4x4' and '8 x 10' are measures, '2 x 3 = 6' is a product, '3x' three times."""
    return " times " if "equals" in match.string else " by "


def formula(match: re.Match[str]) -> str:
    """'H2SO4' -> 'H two S O four'"""
    parts = re.findall(r"[A-Z]|[a-z]|\d+", match.group())
    return " ".join(numbers.cardinal(p) if p.isdigit() else letters(p) for p in parts)


def count_or_year(match: re.Match[str]) -> str:
    return numbers.cardinal(match[1]) if _counts(match) else numbers.year(match[1])


def signs(text: str) -> str:
    """Signs between and before operands, while these are still figures; what is no mathematics keeps its dashes."""
    return _compared(_sums(text) if _MATHS.search(text) else text)


_sums, _compared, write_out = (writer(_TABLE, globals(), name) for name in ("sums", "compared", "rules"))
