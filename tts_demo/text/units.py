"""Measures: units in singular and plural, with powers and 'per', before a noun, in ranges; primes, degrees, spoons."""

from __future__ import annotations

import re

from . import numbers
from .rules import MINUS, NUMBER, Rules, apply, compiled, describes

PER = {
    "hr": "hour",
    "h": "hour",
    "yr": "year",
    "y": "year",
    "mo": "month",
    "wk": "week",
    "d": "day",
    "lb": "pound",
    "kg": "kilogram",
}
PER |= {
    "min": "minute",
    "sec": "second",
    "s": "second",
    "gal": "gallon",
    "oz": "ounce",
    "L": "liter",
    "l": "liter",
    "m": "meter",
}
PER |= {
    "mi": "mile",
    "km": "kilometer",
    "ea": "each",
    "pp": "person",
    "g": "gram",
    "sq ft": "square foot",
    "mL": "milliliter",
}
PER |= {
    "dL": "deciliter",
    "ml": "milliliter",
    "GB": "gigabyte",
    "kWh": "kilowatt hour",
    "ft": "foot",
    "cm": "centimeter",
}

# unit -> one, many
_PLAIN = {
    "km": "kilometer", "cm": "centimeter", "mm": "millimeter", "m": "meter", "nm": "nanometer", "µm": "micrometer",
    "mi": "mile", "yd": "yard", "yds": "yard", "kg": "kilogram", "kgs": "kilogram", "g": "gram", "mg": "milligram",
    "µg": "microgram", "mcg": "microgram", "lb": "pound", "lbs": "pound", "oz": "ounce", "t": "ton", "l": "liter",
    "L": "liter", "ml": "milliliter", "mL": "milliliter", "cl": "centiliter", "dl": "deciliter",
    "dL": "deciliter", "ng": "nanogram", "mmol": "millimole", "gal": "gallon",
    "qt": "quart", "qts": "quart", "pt": "pint", "pts": "point", "tsp": "teaspoon", "tsps": "teaspoon",
    "tbsp": "tablespoon",
    "tbsps": "tablespoon", "tbs": "tablespoon", "Tbsp": "tablespoon", "sec": "second", "secs": "second", "s": "second",
    "ms": "millisecond", "µs": "microsecond", "ns": "nanosecond", "min": "minute", "mins": "minute", "h": "hour",
    "hr": "hour", "hrs": "hour", "wk": "week", "wks": "week", "mo": "month", "mos": "month", "yr": "year",
    "yrs": "year",
    "W": "watt", "kW": "kilowatt", "MW": "megawatt", "GW": "gigawatt", "mW": "milliwatt", "kWh": "kilowatt hour",
    "Wh": "watt hour", "mAh": "milliamp hour", "Ah": "amp hour", "V": "volt", "kV": "kilovolt", "mV": "millivolt",
    "mA": "milliamp", "µA": "microamp", "µF": "microfarad", "KB": "kilobyte", "kB": "kilobyte", "MB": "megabyte",
    "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte", "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte",
    "TiB": "tebibyte", "Mb": "megabit", "Gb": "gigabit", "kb": "kilobit", "MP": "megapixel", "px": "pixel",
    "dB": "decibel",
    "cal": "calorie", "kcal": "kilocalorie", "kJ": "kilojoule", "J": "joule", "N": "newton", "Pa": "pascal",
    "kPa": "kilopascal", "hPa": "hectopascal", "MPa": "megapascal", "atm": "atmosphere", "mol": "mole", "lm": "lumen",
    "ha": "hectare", "ac": "acre", "AU": "astronomical unit", "ly": "light year", "ohm": "ohm", "kohm": "kilohm",
    "Mohm": "megohm", "eV": "electron volt",
    "keV": "kilo electron volt", "MeV": "mega electron volt", "GeV": "giga electron volt", "ct": "carat",
     "deg": "degree",
    "pg": "page", "pgs": "page", "µL": "microliter", "µl": "microliter", "hectare": "hectare",
}  # fmt: skip
_FIXED = {
    "doz": ("dozen", "dozen"),
    "ft": ("foot", "feet"),
    "in": ("inch", "inches"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "%": ("percent", "percent"),
    "‰": ("per mille", "per mille"),
    "pct": ("percent", "percent"),
    "mph": ("mile per hour", "miles per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "mpg": ("mile per gallon", "miles per gallon"),
    "rpm": ("R.P.M.", "R.P.M."),
    "fps": ("frame per second", "frames per second"),
    "bpm": ("beat per minute", "beats per minute"),
    "dpi": ("dot per inch", "dots per inch"),
    "ppm": ("part per million", "parts per million"),
    "psi": ("P.S.I.", "P.S.I."),
    "bps": ("bit per second", "bits per second"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "fl oz": ("fluid ounce", "fluid ounces"),
    "sq ft": ("square foot", "square feet"),
    "sq mi": ("square mile", "square miles"),
    "sq m": ("square meter", "square meters"),
    "sq km": ("square kilometer", "square kilometers"),
    "sq in": ("square inch", "square inches"),
    "sqft": ("square foot", "square feet"),
    "cu ft": ("cubic foot", "cubic feet"),
    "cc": ("C.C.", "C.C.s"),
    "IU": ("I.U.", "I.U."),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°K": ("degree Kelvin", "degrees Kelvin"),
    "°": ("degree", "degrees"),
    "¢": ("cent", "cents"),
    "bar": ("bar", "bars"),
}
UNITS = {unit: (one, one + "s") for unit, one in _PLAIN.items()} | _FIXED
_POWERS = {"2": "square", "3": "cubic"}
# Letters that are other things too stand for a unit only behind a number and, unless they touch it, before no letter.
_TOUCHING = ("t", "N", "J", "h", "s", "pt", "pts", "ct", "ac", "ha", "mo", "bar", "AU", "MP", "pg", "ly", "ns")


def _alternatives(units: list[str]) -> str:
    spelled = [re.escape(u).replace(r"\ ", r"\.?\s") for u in sorted(units, key=len, reverse=True)]
    return "|".join(spelled)


_UNIT = _alternatives([u for u in UNITS if u not in ("in", "%", "‰", "¢", "°") and not u.startswith("°")])
_LENGTHS = "km|cm|mm|m|ft|in|mi|yd"
_AMOUNT = rf"(?P<n>(?:\d+[\s-])?\d+/\d+|{NUMBER})"
_RANGE = rf"(?:(?P<low>{NUMBER})\s?(?:[-–—]|to)\s?)?"


def unit_name(unit: str, many: bool, power: str | None = None) -> str:
    """'km', True, '2' -> 'square kilometers'"""
    plain = re.sub(r"\.", "", unit).replace("  ", " ")
    name = UNITS[plain][many]
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


def _measure(match: re.Match[str]) -> str:
    words, many = amount_words(match["n"])
    low = f"{numbers.cardinal(match['low'])} to " if match["low"] else ""
    dotted = match["dot"] or ""
    joined = match.string[match.start("unit") - 1] == "-"  # 'a 10-yr note'
    many = (many or bool(low)) and not joined and not describes(match)
    name = unit_name(match["unit"], many, match["power"])
    if match["per"]:
        per = match["per"]
        under = PER.get(per) or (UNITS[per][0] if per in UNITS else per)
        power = match["perpower"]
        if power and under == "second":
            name += f" per second {'squared' if power == '2' else 'cubed'}"
        else:
            name += f" per {_POWERS[power] + ' ' if power else ''}{under}"
    ends = dotted and not match.string[match.end() :].strip("\"')] ")
    return f"{_minus(match)}{low}{words} {name}" + ("." if ends else "")


def _stop(match: re.Match[str]) -> str:
    return "." * (match.end() == len(match.string) and match.group().endswith("."))


def _minus(match: re.Match[str]) -> str:
    return "minus " if match["minus"] else ""


def _feet(match: re.Match[str]) -> str:
    """5'10" -> 'five foot ten', 6' -> 'six feet', 12" -> 'twelve inches'"""
    if match["inches"]:
        words, _ = amount_words(match["inches"])
        return f"{numbers.cardinal(match['feet'])} foot {words}"
    return f"{numbers.cardinal(match['feet'])} {'foot' if match['feet'] == '1' or describes(match) else 'feet'}"


def _inches(match: re.Match[str]) -> str:
    words, many = amount_words(match["n"])
    return f"{words} {'inches' if many and not describes(match) else 'inch'}"


def _angle(match: re.Match[str]) -> str:
    parts = [f"{numbers.cardinal(match['d'])} degrees", f"{numbers.cardinal(match['m'])} minutes"]
    if match["s"]:
        parts.append(f"{numbers.cardinal(match['s'])} seconds")
    side = {"N": "north", "S": "south", "E": "east", "W": "west"}.get(match["side"] or "", "")
    return f"{' '.join(parts)} {side}".strip()


_AFTER = r"(?![A-Za-z0-9]|'[a-z]|/[a-z])"
_RULES: Rules = compiled(
    # minutes of a match, angles, feet and inches
    (r"(?<=[a-z] )\(\d{1,3}'(?:, \d{1,3}')*\)", lambda m: re.sub(r"(\d+)'", r"minute \1", m.group())),
    (r"(?<=[\d)]['\"])\s?[x×]\s?(?=\d)", " by "),
    (r"(?P<d>\d{1,3})°\s?(?P<m>\d{1,2})'(?:\s?(?P<s>\d{1,2}(?:\.\d+)?)(?:\"|''))?(?:\s?(?P<side>[NSEW])\b)?", _angle),
    (
        r"(?P<n>\d+(?:\.\d+)?)°\s?(?P<side>[NSEW])\b",
        lambda m: f"{numbers.cardinal(m['n'])} degrees {_SIDES[m['side']]}",
    ),
    (r"(?<![\w.,/])(?P<feet>\d{1,2})'[\s-]?(?P<inches>\d{1,2}(?:\s\d/\d|\.\d)?)(?:\"|'')", _feet),
    (r"(?<![\w.,/'])(?P<feet>[3-7])'(?P<inches>\d|1[01])(?![\w\"'])", _feet),
    (
        r"(?<![\w.,/'\"])(?P<feet>\d{1,3})'(?P<inches>(?!))?(?![\w'\"])(?=\s+(?:x\b|by\b|×|tall|high|long|wide|deep|[a-z]+)|\s*[,.;)]|-|$)",
        _feet,
    ),
    (
        r"(?<![\w.,/'])(?P<n>(?:\d+[\s-])?\d+/\d+|\d+(?:\.\d+)?)(?:\"|'')(?=\s+(?:x\b|by\b|×|[A-Za-z]+)|\s*[,.;)]|-|$)(?<!\"\d\")",
        lambda m: _inches(m) if _is_inch(m) else m.group(),
    ),
    # units
    (r"(?i)(\b(?:rates?|yields?|fed|spreads?|basis)\b.{0,40}?\d)\s?bps\b", r"\1 basis points"),
    (r"\b(at|to|of|around|about|below|above|hit|reached|is|was)\s(-?\d{1,3})\s?([CF])\b(?!['.]\w)", r"\1 \2°\3"),
    (r"(?<=\d)\s?deg\.?\s?([CF])\b", r"°\1"),
    (r"\b(10+)s of\b", lambda m: numbers.plural(numbers.cardinal(m[1]).removeprefix("one ")) + " of"),
    (r"(?<![\w.,])(?P<n>(?:\d+\s)?\d+/\d+)\s?in(?:\.(?=\s|$)|$|(?=[,;)]))", lambda m: _inches(m) + _stop(m)),
    (rf"(?<![\d,.])(\d+),(\d{{1,2}})(?=\s?(?:{_UNIT})\b)", r"\1.\2"),
    (rf"(?<![\w.,/])\d+(?:/\d+){{2,}}(?=\s?(?:{_UNIT})\b)", lambda m: ", ".join(m.group().split("/"))),
    (
        r"(?<![=\d])(?<!= )\b(\d{3,4})\s?[x×]\s?(\d{3,4})\b(?!\s?=)",
        lambda m: f"{numbers.pairs(m[1])} by {numbers.pairs(m[2])}",
    ),
    (rf"(?<=\d)\s?[x×]\s?(?=\d[\d.]*\s?(?:[x×]|(?:{_LENGTHS}|px|pixels|inch|inches|feet)\b))", " by "),
    (r"(?<=\d)\s?in(?=\sof\s)|(?<=\d)\s?in(?=\s?\()|(?<=\d)(?<=\.\d|\d\d)\s?in(?=[;:)]|$)", " inches"),
    (r"\b[Ss]q\.\s?(?=miles?\b|feet\b|foot\b|yards?\b|inch)", "square "),
    (r"\b[Cc]u\.\s?(?=feet\b|foot\b|yards?\b|inch)", "cubic "),
    (r"(?<![\w.,$])(\d{1,2})\s?h\s?(\d{1,2})\s?m(?:in)?\b", r"\1 hr \2 min"),
    (r"(?<=\d)\s?ft\.?\s(\d{1,2})\s?in\b\.?(?=\s[a-z]|[.,;)]|$)", r" feet \1 inches"),
    (rf"(?<=\d)(\s?(?:{_LENGTHS})\.?)\s?[x×]\s?(?=\d)", r"\1 by "),
    (r"(?<=\bby\s)(\d+(?:\.\d+)?)\s?in\b\.?(?=\s|[,;)]|$)", lambda m: f"{numbers.cardinal(m[1])} inches{_stop(m)}"),
    (rf"(?<![\w.,$/]){_AMOUNT}\s(?P<unit>[cCtT])\.?(?=\s[a-z]{{3,}})", lambda m: _spoonful(m)),
    (rf"(?<=\d)\s?({_UNIT}|%|°\s?[CF]?)\s?[-–—]\s?(?=\d[\d.,]*\s?\1(?![A-Za-z]))", r" \1 to "),
    (rf"(?<=\d)\s?x\s?(?=\d+(?:\.\d+)?\s?(?:{_LENGTHS}|px)\b)", " by "),
    (
        rf"{MINUS}(?<![\w.,]){_RANGE}{_AMOUNT}\s?(?P<unit>°\s?[CFK](?![A-Za-z])|"
        rf"°(?![\s]?[CF]\b))(?P<dot>(?!))?(?P<power>(?!))?(?P<per>(?!))?(?P<perpower>(?!))?",
        lambda m: _measure(_Spaceless(m)),
    ),
    (
        rf"{MINUS}(?<![\w.,]){_RANGE}{_AMOUNT}\s?(?P<unit>[%‰¢])(?P<dot>(?!))?(?P<power>(?!))?(?P<per>(?!))?(?P<perpower>(?!))?(?![A-Za-z0-9])",
        _measure,
    ),
    (
        rf"{MINUS}(?<![\w.,$]){_RANGE}{_AMOUNT}(?:\s|"
        rf"-)?(?P<unit>{_UNIT})(?:\^?(?P<power>[23]))?(?:/(?P<per>(?:{_UNIT}|[a-z]{{3,}}|d|y|"
        rf"ea)(?![A-Za-z]))(?:\^?(?P<perpower>[23]))?)?"
        rf"(?P<dot>\.(?=\s|[,;:)\"-]|$))?{_AFTER}",
        lambda m: _measure(m) if _is_unit(m) else m.group(),
    ),
    (
        rf"{MINUS}(?<![\w.,$]){_RANGE}{_AMOUNT}(?:\s|"
        rf"-)?(?P<unit>in)(?:\^?(?P<power>[23]))?(?P<per>(?!))?(?P<perpower>(?!))?"
        r"(?:(?P<dot>\.)(?=\s+[a-z(x]|\s*[,;:)])|(?=\s(?:wide|long|tall|deep|high|thick|x|by|diameter|in diameter)\b|"
        r"\s?\^|\s×|-[a-z])|(?<=\^[23])|(?<=\din)(?=\s|[,.;)]|$))",
        _measure,
    ),
    (
        r"\b(\w+)/(sec|min|hr|hour|day|wk|week|mo|month|yr|year|minute|second)\b",
        lambda m: f"{m[1]} per {PER.get(m[2], m[2])}",
    ),
)
_SIDES = {"N": "north", "S": "south", "E": "east", "W": "west"}


def _spoonful(match: re.Match[str]) -> str:
    """Recipes: '1 c milk', '2 t vanilla', '3 T butter'"""
    words, many = amount_words(match["n"])
    return f"{words} {_SPOONS[match['unit']]}{'s' * many}"


_SPOONS = {"c": "cup", "C": "cup", "t": "teaspoon", "T": "tablespoon"}


class _Spaceless:
    """A match whose unit is read without its blank ('° C')."""

    def __init__(self, match: re.Match[str]) -> None:
        self._match = match

    def __getitem__(self, group: str) -> str | None:
        return self._match["unit"].replace(" ", "") if group == "unit" else self._match[group]

    def __getattr__(self, name: str):
        return getattr(self._match, name)


_PLURAL = re.compile(r"(?:\b(?:the|of|all|those|these|my|his|her|two|three|\d+s and|\w+es and)\s)$")


def _is_unit(match: re.Match[str]) -> bool:
    """'5 t', '3 N' are units only where they touch the number; '5 m' is, 'a 5 K' is not; '30s' was a decade before."""
    unit, touching = match["unit"], not re.search(r"[\s-]", match.group()[: match.start("unit") - match.start()][-1:])
    if unit == "s" and touching and _PLURAL.search(match.string[: match.start()]):
        return False
    ends = unit in ("s", "h") and re.match(r"\s*(?:[,.;)]|$)", match.string[match.end() :])
    ends = ends or (unit == "s" and "." in match["n"])
    return touching or unit not in _TOUCHING or bool(ends or match["dot"])


def _is_inch(match: re.Match[str]) -> bool:
    """A quotation mark behind a number ends a quotation where one is open."""
    before = re.sub(r'(?<=\d)"', "", match.string[: match.start()])
    return before.count('"') % 2 == 0 or match.group().endswith("''")


def write_out(text: str) -> str:
    return apply(_RULES, text)
