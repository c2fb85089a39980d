"""Measures: units in singular and plural, with powers and 'per', before a noun, in ranges; primes, degrees, spoons.
Whether a quantity describes the noun behind it, which puts its unit in the singular."""

import re

from . import numbers
from .rules import NUMBER, ends_sentence, filled, table, writer

_TABLE = table("units")
ONE_OF = _TABLE["one_of"]  # unit -> what it is called behind 'per'
UNITS = {unit: [one, one + "s"] for unit, one in _TABLE["plain"].items()} | _TABLE["irregular"]
_TOUCHING = frozenset(_TABLE["touching"].split())
_POWERS = {"2": "square", "3": "cubic"}

_LETTERS = sorted((u for u in UNITS if u not in ("in", "%", "‰", "¢") and u[0] != "°"), key=len, reverse=True)
UNIT = "|".join(re.escape(unit).replace(r"\ ", r"\.?\s") for unit in _LETTERS)


_NOUNS = table("quantities")
_NO_NOUNS = frozenset(_NOUNS["no_nouns"].split())
_POSSESSIVE = r"(?!(?:it|that|he|she|there|what|here|let|who|how|where)'s)[a-z]+'s"
_ENUMERATED = rf"(?:(?:(?:{NUMBER}|[a-z]+)['\"]?\s){{1,3}}(?:to|or|and|by)\s)?"
_DETERMINERS = "|".join(_NOUNS["determiners"].split())
_BEFORE = re.compile(rf"(?:^|[^A-Za-z])(?:{_DETERMINERS}|{_POSSESSIVE})\s+{_ENUMERATED}$", re.I)
_COUNTED = re.compile(r"\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|several|few|many)\s+$", re.I)
_AFTER = re.compile(r"(?:/\w+)?\s+([A-Za-z][A-Za-z']+)")
_ACROSS = re.compile(r"\s+by\s+\d+\S*\s+(?:(?:feet|foot|ft|inch|inches|in|cm|mm|m)\s+)?([a-z]{3,})")
_JOINED = re.compile(r"-(?=[A-Za-z])")
# '12" wide.'
_EXTENT = re.compile(r"\s(?:wide|long|tall|high|deep|thick|across)(?:\s*(?:$|[,.;:!?)])|\s(?:and|by|x|at)\b)")
_PLURAL_NOUN = re.compile(rf"\s(?:{filled(_NOUNS['nouns'], {})})\b")


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


def per(unit: str) -> str:
    """'hr' -> 'hour'"""
    return ONE_OF.get(unit, unit)


def _per_unit(unit: str, power: str | None) -> str:
    """'s', '2' -> ' per second squared'; 'm', '2' -> ' per square meter'"""
    under = UNITS.get(per(unit), [per(unit)])[0]  # 'hr' -> 'hour', 'm' -> 'meter'
    if power and under == "second":
        return f" per second {'squared' if power == '2' else 'cubed'}"
    return f" per {_POWERS[power] + ' ' if power else ''}{under}"


def tens(words: str) -> str:
    """'one hundreds' -> 'hundreds'"""
    return words.removeprefix("one ")


def unit_name(unit: str, many: bool, power: str | None = None) -> str:
    """'km', True, '2' -> 'square kilometers'"""
    name = UNITS[unit.replace(".", "").replace("  ", " ").replace("° ", "°")][many]
    if power:
        name = f"{_POWERS.get(power, 'to the ' + numbers.ordinal(power) + ' power')} {name}"
    return name


def amount_words(text: str) -> tuple[str, bool]:
    """'1 1/2' -> ('one and a half', many), '3/4' -> ('three quarters', one), '5' -> ('five', many)"""
    mixed = re.fullmatch(r"(?:(\d+)[\s-])?(\d+)/(\d+)", text)
    if not mixed:
        return numbers.cardinal(text), text.replace(",", "") != "1"
    part = numbers.fraction(mixed[2], mixed[3])
    if not mixed[1]:
        return part, int(mixed[2]) > int(mixed[3])
    return f"{numbers.cardinal(mixed[1])} and {re.sub('^one (?!over)', 'a ', part)}", True


def measure(match: re.Match[str]) -> str:
    words, many = amount_words(match["n"])
    low = f"{numbers.cardinal(match['low'])} to " if match["low"] else ""
    joined = match.string[match.start("unit") - 1] == "-"  # 'a 10-yr note'
    many = (many or bool(low)) and not joined and not describes(match)
    name = unit_name(match["unit"], many, match["power"])
    if match["per"]:
        name += _per_unit(match["per"], match["perpower"])
    ends = match["dot"] and ends_sentence(match)
    return f"{'minus ' * bool(match['minus'])}{low}{words} {name}" + ("." if ends else "")


def degrees(match: re.Match[str]) -> str:
    """'72F' -> '72°F'; 'seat 12F' stays."""
    return match.group() if match["placed"] else f"{match['n']}°{match['kind']}"


def feet(match: re.Match[str]) -> str:
    """5'10" -> 'five foot ten', 6' -> 'six feet', 12" -> 'twelve inches'"""
    if match["inches"]:
        words, _ = amount_words(match["inches"])
        return f"{numbers.cardinal(match['feet'])} foot {words}"
    return f"{numbers.cardinal(match['feet'])} {'foot' if match['feet'] == '1' or describes(match) else 'feet'}"


def inches(match: re.Match[str]) -> str:
    words, many = amount_words(match["n"])
    return f"{words} {'inches' if many and not describes(match) else 'inch'}"


def spoonful(match: re.Match[str]) -> str:
    """Recipes: '1 c milk', '2 t vanilla', '3 T butter'"""
    words, many = amount_words(match["n"])
    return f"{words} {_TABLE['spoons'][match['unit']]}{'s' * many}"


def bare_rate(match: re.Match[str]) -> str:
    """Without a number: 'W/m^2' -> 'watts per square meter', 'm3/s' -> 'cubic meters per second'"""
    if not (match["power"] or match["perpower"]):
        return match.group()
    return unit_name(match["unit"], True, match["power"]) + _per_unit(match["per"], match["perpower"])


_PLURAL = re.compile(r"(?:\b(?:the|of|all|those|these|my|his|her|two|three|\d+s and|\w+es and)\s)$")


def measure_or_letter(match: re.Match[str]) -> str:
    """'5 t', '3 N' are units only where they touch the number; '5 m' is, 'a 5 K' is not; '30s' was a decade before."""
    unit, before = match["unit"], match.string[match.start("unit") - 1]
    touching = not (before.isspace() or before == "-")
    if unit == "s" and touching and _PLURAL.search(match.string[: match.start()]):
        return match.group()
    ends = unit in ("s", "h") and re.match(r"\s*(?:[,.;()]|$)", match.string[match.end() :])
    ends = ends or (unit == "s" and "." in match["n"])
    follows = re.match(r"\s(?:of|and|or|to|in|at|after|before|from|later)\b", match.string[match.end() :])
    ends = ends or (unit == "h" and follows)
    return measure(match) if touching or unit not in _TOUCHING or ends or match["dot"] else match.group()


def inches_or_quote(match: re.Match[str]) -> str:
    """A quotation mark behind a number ends a quotation where one is open."""
    before = re.sub(r'(?<=\d)"', "", match.string[: match.start()])
    return inches(match) if before.count('"') % 2 == 0 or match.group().endswith("''") else match.group()


def minutes(match: re.Match[str]) -> str:
    """Of a match: "(12', 80')" -> "(minute 12, minute 80)" """
    return re.sub(r"(\d+)'", r"minute \1", match.group())


def listed(match: re.Match[str]) -> str:
    """'4/8/16 GB' -> '4, 8, 16 GB'"""
    return match.group().replace("/", ", ")


write_out = writer(_TABLE, globals())
