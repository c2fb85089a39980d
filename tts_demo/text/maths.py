"""Fractions, scores, ratios, powers, comparisons, sums, ranges, ordinals, years and every number that is left."""

from __future__ import annotations

import re

from . import numbers
from .rules import NUMBER, Rules, apply, compiled

_WORD_NUMBER = (
    r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|"
    r"seventy|eighty|ninety|hundred|thousand|million|billion)"
)
_OPERAND = rf"(?:{NUMBER}|[A-Za-z]\b|\)|π)"
_MATHS = re.compile(
    r"[=≤≥≠≈×÷√∑∫∞±∈∀∃^]|(?<![A-Za-z])[a-z]\s[-+<>]\s|[-+<>]\s[a-z](?![A-Za-z'])|\d\s?[+*]\s?\d|\s[<>]\s\d"
)
_SCORED = re.compile(
    r"\b(?:w[io]n|win|wins|winning|beat|beats|beating|beaten|lost|loss|lose|loses|lead|leads|leading|led|trail|"
    r"trails|trailed|trailing|"
    r"score|scored|scores|tied|tie|draw|drew|victory|defeat|defeated|final|record|games?|match|halftime|sets?|series|"
    r"ahead|up|down|"
    r"vote|voted|ruled|ruling|decision)\b",
    re.I,
)
_DENOMINATED = {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 24, 25, 32, 50, 60, 64, 100, 1000}


def _power(match: re.Match[str]) -> str:
    exponent = match["e"].strip("()")
    minus = exponent[0] in "-–"
    exponent = exponent.lstrip("+-–")
    if exponent in ("2", "3") and not minus:
        said = "squared" if exponent == "2" else "cubed"
    elif exponent.isdigit():
        said = f"to the power of {'minus ' if minus else ''}{numbers.cardinal(exponent)}"
    else:
        said = f"to the power of {'minus ' if minus else ''}{exponent}"
    return f" {said}"


def _scientific(match: re.Match[str]) -> str:
    sign = "minus " if match["sign"] == "-" else ""
    exponent = numbers.cardinal(match["e"].lstrip("0") or "0")
    return f"{numbers.cardinal(match['n'])} times ten to the power of {sign}{exponent}"


def _said_fraction(match: re.Match[str]) -> str:
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


def _fraction(match: re.Match[str]) -> str:
    return _said_fraction(match) + " " * bool(match["joint"])


def _rated(match: re.Match[str]) -> bool:
    """'4/5 stars', 'a 9/10', '10/10 would go again' are marks, '4/5 of it' and '15/16 in.' are shares."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    if re.match(
        r"\s?(?:of|cups?|tsp|tbsp|teaspoons?|tablespoons?|inch|inches|in\.|miles?|pounds?|lbs?|the)\b|-", after
    ):
        return False
    if re.match(rf"\s(?:{_MARKS})\b", after) or _MARKED.search(before):
        return True
    usual = match["bottom"] in ("5", "10", "20", "100") and match["top"] != "1" or match["top"] == match["bottom"]
    return usual and bool(re.match(r"[.!?,;)]|\s*$|\s(?:would|on|for)\b", after) and _SHOWN.search(before))


_MARKS = "stars?|points?|marks?|would|recommend|correct|right|rating|people|users|doctors|dentists|students|experts"
_MARKED = re.compile(r"\b(?:score[ds]?|rat(?:e[ds]?|ing)|got|gave|grade)\b[^.!?]{0,12}$")
_SHOWN = re.compile(r"(?:\b(?:a|an|it|solid|test|quiz|exam|perfect|is|of)\s*:?\s?|^|[.!?(:]\s?)$")


def _score(match: re.Match[str]) -> str:
    """'won 3-2' -> 'three to two'; '(12-4-1)' behind a team is its record: 'twelve, four and one'."""
    parts = [numbers.cardinal(n) for n in re.findall(r"\d+", match.group())]
    if len(parts) == 3:
        return ", ".join(parts) if not _SCORED.search(match.string) else f"{parts[0]}, {parts[1]} and {parts[2]}"
    return " to ".join(parts)


def _counts(match: re.Match[str]) -> bool:
    """Whether a number that could be a year counts what follows: '1885 days', not 'the 2004 games', '2024 was'."""
    after = re.match(r"\s(?:more\s)?([a-z]{2,})\b", match.string[match.end() :])
    if after is None or not (
        after[1].endswith("s") or after[1] in ("people", "men", "women", "children", "percent", "feet", "of")
    ):
        return False
    dated = r"(?:the|in|of|since|by|from|until|till|for|during|before|after|late|early|mid|around|year|season)\s$"
    return after[1] not in _NO_PLURALS and not re.search(dated, match.string[: match.start()].lower())


_NO_PLURALS = frozenset(
    "was has is as its this his was sees marks brings saw does says shows us always perhaps".split()
)


def _record(match: re.Match[str]) -> str:
    parts = [numbers.cardinal(n) for n in match["record"].split("-")]
    return f"{match['team']}{', '.join(parts[:-1])} and {parts[-1]}"


def _times(match: re.Match[str]) -> str:
    """'4x4' and '8 x 10' are measures, '2 x 3 = 6' is a product, '3x' three times."""
    return " times " if "equals" in match.string else " by "


def _formula(match: re.Match[str]) -> str:
    """'H2SO4' -> 'H two S O four'"""
    parts = re.findall(r"[A-Z]|[a-z]|\d+", match.group())
    return " ".join(numbers.cardinal(p) if p.isdigit() else p.upper() for p in parts)


_FUNCTIONS = {"sin": "sine", "cos": "cosine", "tan": "tangent", "log": "log", "ln": "natural log", "exp": "exp"}


def signs(text: str) -> str:
    """Signs between and before operands, while these are still figures; what is no mathematics keeps its dashes."""
    if _MATHS.search(text):
        text = apply(_SUMS, text)
    return apply(_COMPARED, text)


def _compare(sign: str, said: str) -> tuple[str, str]:
    return rf"\s*{sign}\s*", f" {said} "


_SUMS: Rules = compiled(
    (r"(?<=[\w)])\s[-–]\s(?=-\d)", " minus "),
    (r"(?<=[\w)])!(?=\s*[=+*/×-])", " factorial"),
    (r"\bd([a-z])/d([a-z])\b", r"d \1 over d \2"),
    (r"(?<=\b[a-z])/(?=\d)", " over "),
    (r"(?<=[\w)π])\s[-–]\s(?=[\w(√])(?!(?:[A-Za-z]{2,}))", " minus "),
    (r"(?<=\d)-(?=[A-Za-z]\b(?!-))|(?<=\b[a-z])-(?=\d)|(?<=\))-(?=[\w(])", " minus "),
    (r"(?<=\d)-(?=\d[\d.]*\s?=)", " minus "),
    (r"(?<![\w)])[-–]\s?(?=[A-Za-z]\b)(?=\w\s?[-+=*/^)<>]|\w$)", " minus "),
    (r"(?<=[\w)])\s?\*\s?(?=[\w(])", " times "),
    (r"(?<=[\w)])\s?·\s?(?=[\w(√])", " times "),
    (r"(?<=\d)\s?/\s?(?=\d[\d.]*\s?=)|(?<=[\d)])\s/\s(?=[\d(])", " divided by "),
    (r"(?<!\d[a-z])(?<!\d\s[a-z])(?<=\b[a-z])/(?=[a-z]\b)|(?<=\))/(?=[\w(])|(?<=\d[a-z])/(?=\w)", " over "),
    (r"(?<![\w])([f-hF-H])\((\w+)\)", r"\1 of \2 "),
    (r"\|([a-z])\|", r"the absolute value of \1"),
)
_COMPARED: Rules = compiled(
    (r"(?<=\w)\*\*(?=[\w(-])", "^"),
    (r"~\s?(?=[$€£]?\d)", "about "),
    (r"^\s*≈\s*", "approximately "),
    (r"(?<=\d)\s?×\s?(?=\d[\d.]*\s?(?:×|(?:km|cm|mm|m|ft|in|px|pixels|inch|inches|feet)\b))", " x "),
    (
        r"\b(sin|cos|tan|log|ln|exp)(?:\s?\(|(?=\s(?:[a-z]|alpha|beta|theta|phi|pi|\d+)\b))",
        lambda m: f"{_FUNCTIONS[m[1]]} of ("[: None if "(" in m.group() else -5],
    ),
    (r"∠\s?", "angle "),
    (r"\bd([a-z])/d([a-z])\b", r"d \1 over d \2"),
    (r"\s*(?:<=>|<->|↔|⇔)\s*", " if and only if "),
    (r"\s*&&\s*", " and "),
    (r"\s*(?:->|=>|-->|→)\s*(?=\S)", " to "),
    (r"\s*(?:<-|←)\s*(?=[A-Za-z])", " from "),
    (r"(?<=[a-z]{3})\s+(?:<=|≤)\s*(?=\d)", " less than or equal to "),
    (r"(?<=[a-z]{3})\s+(?:>=|≥)\s*(?=\d)", " greater than or equal to "),
    (r"(?<=\S)\s*(?:<=|≤|⩽|≦)\s*(?=\S)", " is less than or equal to "),
    (r"(?<=\S)\s*(?:>=|≥|⩾|≧)\s*(?=\S)", " is greater than or equal to "),
    (r"(?:<=|≤)\s*(?=\d)", " less than or equal to "),
    (r"(?:>=|≥)\s*(?=\d)", " greater than or equal to "),
    _compare("(?:!=|≠|=/=)", "is not equal to"),
    _compare("(?:≈|≃|≅)", "is approximately equal to"),
    _compare("≡", "is equivalent to"),
    (r"\s*(?<!=)={1,2}(?!=)\s*", " equals "),
    (r"(?<=[\d)%a-z])\s*≪\s*(?=\S)", " is much less than "),
    (r"(?<=[\d)%a-z])\s*≫\s*(?=\S)", " is much greater than "),
    (r"(?<=\b[A-Za-z])\s*<\s*(?=\S)|(?<=[\d)%])\s*<\s*(?=[\d(a-z-])", " is less than "),
    (r"(?<=\b[A-Za-z])\s*>\s*(?=[\d(a-z-])|(?<=[\d)%])\s*>\s*(?=[\d(a-z-])", " is greater than "),
    (r"<\s*(?=[\d$€£.-])", " less than "),
    (r">\s*(?=[\d$€£.-])", " greater than "),
    _compare("±|\\+/-|\\+-", "plus or minus"),
    _compare("÷", "divided by"),
    _compare("×", "times"),
    (r"∛", " the cube root of "),
    (r"√\s*", " the square root of "),
    (r"∞", " infinity "),
    (r"∑", " the sum of "),
    (r"∏", " the product of "),
    (r"∫", " the integral of "),
    (r"[∂]", " partial "),
    (r"[∆]", " delta "),
    (r"\s*∈\s*", " is in "),
    (r"\s*∉\s*", " is not in "),
    (r"\s*⊂\s*|\s*⊆\s*", " is a subset of "),
    (r"\s*∪\s*", " union "),
    (r"\s*∩\s*", " intersection "),
    (r"∀\s*", " for all "),
    (r"∃\s*", " there exists "),
    (r"∅", " the empty set "),
    (r"∝", " is proportional to "),
)
_RULES: Rules = compiled(
    (
        rf"(?<![\w.])(?P<n>{NUMBER})\s?[×x*·]\s?10\^(?=[-+–]?\(?-?\d)(?P<e>\(?[-–+]?\d{{1,3}}\)?)(?![\w.])",
        lambda m: f"{m['n']} times 10^{m['e']}",
    ),
    (rf"(?<![\w.])(?P<n>{NUMBER})[eE](?P<sign>[-+]?)(?P<e>\d{{1,3}})(?![\w.])", _scientific),
    (r"\^(?P<e>\([^()]{1,12}\)|[-–+]?\d+|[A-Za-z]+)", _power),
    # fractions, marks, ratios
    (r"(?<![\w.,/])(\d+\.\d+)/(\d{1,3})(?![\w/]|[.,]\d)", r"\1 out of \2"),
    (
        r"(?<![\w.,/])(?:(?P<whole>\d+)(?:\s|-))?(?P<top>\d{1,4})/(?P<bottom>\d{1,4})(?P<suffix>ths?|rds?|"
        r"nds?)?(?![\w/]|\.\d|,\d|\s?=)(?P<joint>-(?=[A-Za-z]))?",
        _fraction,
    ),
    (r"(?<![\w.,])(\d+)\s?/\s?(\d+)(?=\s?=)", r"\1 divided by \2"),
    (rf"(?<![\w:.,])({NUMBER}):({NUMBER})(?![\w:]|\.\d)", r"\1 to \2"),
    (r"(?<![\w.,])(\d+)/([a-z])\b", r"\1 over \2"),
    # scores, records, ranges
    (r"(?<=\d)\s?[-–]\s?(?=#\d)", " to "),
    (r"(?<![\w-])1-2-3(?![\w-])", "one two three"),
    (r"\b(?P<team>[A-Z][\w.]*\s\()(?P<record>\d{1,3}-\d{1,3}(?:-\d{1,3})?)(?=[),; ])", _record),
    (r"(?<= and )(?P<team>\w+, )(?P<record>\d{1,3}-\d{1,3})(?=\s[A-Z][\w-]*\))", _record),
    (r"(?<![\w.,$/-])\d{1,3}(?:[-–]\d{1,3}){1,2}(?![\w%/]|[-–]\d|[.,]\d)", _score),
    (r"\b9-to-5\b", "nine to five"),
    (rf"(?<![\w.,])-({NUMBER})\s?[–—]\s?({NUMBER})(?![\w-])", r"minus \1 to \2"),
    (rf"(?<![\w.,-])({NUMBER})\s?[-–—]\s?({NUMBER})(?![\w-])(?!\s?=)", r"\1 to \2"),
    # times, signs before numbers
    (r"(?<=\d)\s?[x×]\s?(?=\d)", _times),
    (r"\bby\s(\d+)x(?=\d)", r"by \1 by "),
    (
        r"(?<![\w.,])(\d+(?:\.\d+)?)[x×](?!\w|\s?[-+=*/^)]|\s(?:plus|minus|times|equals|is|squared|cubed|to the)\b)",
        lambda m: f"{numbers.cardinal(m[1])} times" if m[1] != "1" else "one time",
    ),
)
_LAST: Rules = compiled(
    (r"(?<=[A-Za-z]\d)-(?=\d)", " "),
    (r"(?<=[\w)\]])\s*[+]\s*(?=[\w(√$.])", " plus "),
    (r"(?<![\w)])\+\s?(?=[\w.$])", "plus "),
    (r"(?<=\d)\+(?!\w)|(?<=\b[A-Z])\+(?!\w)", " plus "),
    (r"(?<=\b[A-F])[-–](?=[\s.,;:!?)]|$)", " minus"),
    (r"(?<![\w)\].])[-–−]\s?(?=\.?\d)", "minus "),
    (r"(?<=[a-z])-(?=\d)", " "),
    (r"§§?\s?(?=\d)", "section "),
    (r"¶\s?(?=\d)", "paragraph "),
    (r"(?<!\w)#\s?(?=\d)", "number "),
    (r"(?<=\d)'?s\b(?=')", "s"),
    # ordinals, plurals, letters with numbers
    (r"(?<![\w.,])((?:\d{1,3}(?:,\d{3})+|\d{1,15}))\s?(?:st|nd|rd|th)\b", lambda m: numbers.ordinal(m[1])),
    (r"\b(?=\w*\d)(?:(?:[HCNOSPFKIUB]|Na|Cl|Ca|Fe|Mg|Al|Cu|Zn|Ag|Si|Mn|Br|Li|Pb|Ti)\d{0,3}){2,8}\b", _formula),
    (r"(?<![.,])-?(\d{1,15})'s\b", lambda m: f" {numbers.cardinal(m[1])}'s"),
    (
        r"(?<![\w.,])(\d{3})'?s\b",
        lambda m: numbers.plural(numbers.pairs(m[1]) if m[1][1:] != "00" else numbers.cardinal(m[1])),
    ),
    (r"(?<![\w.,])(\d{1,15})'?s\b", lambda m: numbers.plural(numbers.cardinal(m[1]))),
    (
        r"(?<![\w.,])(\d+(?:\.\d+)?)(?:k\b|K\b(?=\s(?:people|[a-z]{3,}s)\b))",
        lambda m: f"{numbers.cardinal(m[1])} thousand",
    ),
    (r"(?<![\w.,])(\d+(?:\.\d+)?)M\b(?=\s[a-z])", lambda m: f"{numbers.cardinal(m[1])} million"),
    (
        r"(?<![\w.,])(\d+\.\d+)([MBT])\b",
        lambda m: f"{numbers.cardinal(m[1])} " + {"M": "million", "B": "billion", "T": "trillion"}[m[2]],
    ),
    (r"\b([A-Z])2([A-Z])\b", r"\1 two \2"),
    (r"(?<=[A-Za-z])-?(\d{3,4})(?![\d.,]?\d)(?=[A-Za-z]?\b)", lambda m: f" {numbers.pairs(m[1])} "),
    (r"(?<=[A-Za-z])-?(\d+(?:\.\d+)?)", lambda m: f" {numbers.cardinal(m[1])} "),
    (r"(?<![\w.,])(\d{1,4})(?=-?[A-Za-z])", lambda m: f"{numbers.cardinal(m[1])} "),
    # years and all that is left
    (
        r"(?<![\w.,])((?:1[1-9]|20)\d\d)(?![\w%]|[.,]\d|-\d)",
        lambda m: numbers.cardinal(m[1]) if _counts(m) else numbers.year(m[1]),
    ),
    (r"(?<=\b[Ii]n\s)(10\d\d)(?![\w%]|[.,]\d|-\d|\s[a-z]+s\b)", lambda m: numbers.year(m[1])),
    (rf"{NUMBER}", lambda m: f" {numbers.cardinal(m.group())} "),
)


def write_out(text: str) -> str:
    """Fractions, scores and powers, then the numbers themselves."""
    return apply(_LAST, apply(_RULES, text))
