"""Everything that is not a word written out in English words: numbers, ordinals, dates, times, money, units,
abbreviations, acronyms and symbols. Knows nothing of phonemes."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable

from num2words import num2words

from ..config import UserError

_FOLD = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "ʼ": "'",
        "‛": "'",
        "`": "'",
        "´": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "″": '"',
        "–": "—",
        "―": "—",
        "‒": "-",
        "‐": "-",
        "‑": "-",
        "−": "-",
        "­": "",
        "…": "...",
        "\u00a0": " ",
        "ß": "ss",
        "æ": "ae",
        "Æ": "Ae",
        "œ": "oe",
        "Œ": "Oe",
        "ø": "o",
        "Ø": "O",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "Đ": "D",
        "ð": "th",
        "þ": "th",
        "Þ": "Th",
        "ı": "i",
        "½": " 1/2",
        "¼": " 1/4",
        "¾": " 3/4",
    }
)
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρστυφχψωΔΣΩΠΘΛΦΨΓ",
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi "
            "psi omega delta sigma omega pi theta lambda phi psi gamma"
        ).split(),
    )
)
_ABBREVIATIONS = {
    "mr": "mister",
    "mrs": "missis",
    "ms": "miss",
    "dr": "doctor",
    "prof": "professor",
    "st": "saint",
    "sr": "senior",
    "jr": "junior",
    "gen": "general",
    "col": "colonel",
    "capt": "captain",
    "lt": "lieutenant",
    "sgt": "sergeant",
    "maj": "major",
    "rev": "reverend",
    "hon": "honorable",
    "gov": "governor",
    "sen": "senator",
    "rep": "representative",
    "messrs": "messers",
    "mt": "mount",
    "vs": "versus",
    "etc": "et cetera",
    "e.g": "for example",
    "i.e": "that is",
    "fig": "figure",
    "vol": "volume",
    "approx": "approximately",
    "inc": "incorporated",
    "ltd": "limited",
    "co": "company",
    "corp": "corporation",
    "ave": "avenue",
    "blvd": "boulevard",
    "rd": "road",
    "dept": "department",
    "a.m": "A.M.",
    "p.m": "P.M.",
    "jan": "january",
    "feb": "february",
    "aug": "august",
    "sept": "september",
    "sep": "september",
    "oct": "october",
    "nov": "november",
    "dec": "december",
    "apr": "april",
}
_NEEDS_CAPITAL = {
    "sen",
    "rep",
    "gen",
    "col",
    "co",
    "st",
    "fig",
    "ave",
    "mt",
    "inc",
    "rev",
    "hon",
    "gov",
    "vol",
    "maj",
    "jan",
    "feb",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
    "apr",
    "ms",
    "lt",
    "sr",
    "jr",
}
_MONTHS = "January February March April May June July August September October November December".split()
_SHORT_MONTHS = {m[:3]: m for m in _MONTHS if m != "May"} | {"Sept": "September"}
_ROMAN = {
    r: n
    for n, r in enumerate("II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX".split(), 2)
    if len(r) > 1
}  # a lone V or X is more often a letter
_PARTS = frozenset(
    "Chapter Part War Volume Act Book Section Type Phase Article Scene Figure Table Level Class Title".split()
)
_UNITS = {
    "km/h": "kilometers per hour",
    "mph": "miles per hour",
    "m/s": "meters per second",
    "km": "kilometers",
    "cm": "centimeters",
    "mm": "millimeters",
    "kg": "kilograms",
    "mg": "milligrams",
    "g": "grams",
    "lb": "pounds",
    "lbs": "pounds",
    "oz": "ounces",
    "ft": "feet",
    "mi": "miles",
    "m": "meters",
    "ml": "milliliters",
    "l": "liters",
    "kHz": "kilohertz",
    "MHz": "megahertz",
    "GHz": "gigahertz",
    "Hz": "hertz",
    "kW": "kilowatts",
    "W": "watts",
    "V": "volts",
    "KB": "kilobytes",
    "MB": "megabytes",
    "GB": "gigabytes",
    "TB": "terabytes",
    "KiB": "kibibytes",
    "MiB": "mebibytes",
    "GiB": "gibibytes",
    "ms": "milliseconds",
    "s": "seconds",
    "h": "hours",
    "hrs": "hours",
    "min": "minutes",
    "°C": "degrees celsius",
    "°F": "degrees fahrenheit",
    "°": "degrees",
    "%": "percent",
    "dB": "decibels",
    "sec": "seconds",
}
_IRREGULAR = {
    "feet": "foot",
    "hertz": "hertz",
    "kilohertz": "kilohertz",
    "megahertz": "megahertz",
    "gigahertz": "gigahertz",
    "percent": "percent",
}
_CURRENCIES = {"$": ("dollar", "cent"), "£": ("pound", "pence"), "€": ("euro", "cent"), "¥": ("yen", "sen")}
_SYMBOLS = {
    "&": "and",
    "@": "at",
    "+": "plus",
    "=": "equals",
    "%": "percent",
    "#": "number",
    "×": "times",
    "÷": "divided by",
    "<": "less than",
    ">": "greater than",
    "°": "degrees",
    "£": "pounds",
    "$": "dollars",
    "€": "euros",
    "~": "about",
    "±": "plus or minus",
    "≈": "about",
    "√": "square root of",
    "∞": "infinity",
    "©": "copyright",
    "®": "registered",
    "™": "trademark",
    "§": "section",
    "¥": "yen",
    "¢": "cents",
    "µ": "micro",
    "→": "to",
}
_FRACTIONS = {"1/2": "one half", "1/3": "one third", "2/3": "two thirds", "1/4": "one quarter", "3/4": "three quarters"}
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"


def cardinal(digits: str) -> str:
    """'1,234.50' -> 'one thousand two hundred thirty four point five zero'"""
    whole, _, decimals = digits.replace(",", "").partition(".")
    if len(whole) > 15 or (len(whole) > 1 and whole[0] == "0"):
        words = " ".join(num2words(int(d)) for d in whole)
    else:
        words = num2words(int(whole or 0))
    if decimals:
        words += " point " + " ".join(num2words(int(d)) for d in decimals)
    return _plain(words)


def _plain(words: str) -> str:
    return re.sub(r"\s+", " ", words.replace("-", " ").replace(",", "").replace(" and ", " ")).strip()


def year(n: int) -> str:
    """1907 -> 'nineteen oh seven'"""
    if n % 1000 < 10 or not 1100 <= n <= 2099:
        return cardinal(str(n))
    high, low = divmod(n, 100)
    tail = "hundred" if low == 0 else f"oh {num2words(low)}" if low < 10 else num2words(low)
    return _plain(f"{num2words(high)} {tail}")


def ordinal(n: int) -> str:
    return _plain(num2words(n, to="ordinal"))


def _money(match: re.Match[str]) -> str:
    major, minor = _CURRENCIES[match["sign"]]
    amount, scale = match["amount"].replace(",", ""), (match["scale"] or "").strip()
    scale = {"bn": "billion", "B": "billion", "M": "million", "m": "million", "k": "thousand", "K": "thousand"}.get(
        scale, scale
    )
    plural = major if major == "yen" else major + "s"
    if scale:
        return f" {cardinal(amount)} {scale} {plural} "
    whole, _, cents = amount.partition(".")
    if len(cents) not in (0, 2):
        return f" {cardinal(amount)} {plural} "
    words = [f"{cardinal(whole)} {major if whole == '1' else plural}"] if int(whole) or not int(cents or 0) else []
    if cents and int(cents):
        small = minor if int(cents) == 1 or minor in ("pence", "sen") else minor + "s"
        words.append(f"{cardinal(str(int(cents)))} {'penny' if small == 'pence' and int(cents) == 1 else small}")
    return " " + " and ".join(words) + " "


def _time(match: re.Match[str]) -> str:
    hour, minute = int(match["h"]), int(match.groupdict().get("m") or 0)
    half = _letters(match["half"] or "")
    if hour > 24 or minute > 59:
        return match.group()
    middle = (
        ("" if half else "o'clock") if minute == 0 else f"oh {num2words(minute)}" if minute < 10 else num2words(minute)
    )
    return " ".join(filter(None, [num2words(hour), middle, half])).replace("-", " ")


def _date(match: re.Match[str]) -> str:
    y, m, d = (int(match[k]) for k in "ymd")
    return f"{_MONTHS[m - 1]} {ordinal(d)} {year(y)}" if 1 <= m <= 12 and 1 <= d <= 31 else match.group()


def _unit(match: re.Match[str]) -> str:
    name = _UNITS[match["unit"]]
    if match["n"] == "1":
        first, *rest = name.split()
        name = " ".join([_IRREGULAR.get(first, first[:-1] if first.endswith("s") else first), *rest])
    return f"{cardinal(match['n'])} {name}"


def _abbreviation(match: re.Match[str]) -> str:
    word = match["word"]
    full = _ABBREVIATIONS.get(word.lower())
    if full is None or (word.lower() in _NEEDS_CAPITAL and word.islower()):
        return match.group()
    return full[0].upper() + full[1:] if word[0].isupper() else full


def _letters(word: str) -> str:
    """'U.S.A.' -> 'U S A'"""
    return " ".join(c.upper() for c in word if c.isalpha())


def _digits(match: re.Match[str]) -> str:
    """A telephone number, digit by digit, a short pause between groups."""
    groups = re.findall(r"\d+", match.group())
    return " " + ", ".join(" ".join(num2words(int(d)) for d in group) for group in groups) + " "


def _roman(match: re.Match[str]) -> str:
    """'Henry VIII' -> 'Henry the eighth', 'War II' -> 'War two'"""
    number = _ROMAN[match["roman"]]
    return f"{match['before']} " + (cardinal(str(number)) if match["before"] in _PARTS else f"the {ordinal(number)}")


def _day_first(match: re.Match[str]) -> str:
    return f"the {ordinal(int(match[1]))} of {match[2]}"


_MONTH = "|".join(_MONTHS)
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_HALF = r"(?P<half>[AaPp]\.?[Mm]\b(?:\.(?!\s*$|\s+[A-Z]))?)"  # keeps the full stop that also ends a sentence
_Rule = tuple[re.Pattern[str], "str | Callable[[re.Match[str]], str]"]
_RULES: tuple[_Rule, ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # spaces somebody forgot, net addresses
        (r"(?<=[a-z])([,;:!?])(?=[A-Za-z])|(?<=[a-z])(\.)(?=[A-Z][a-z])", lambda m: f"{m.group()} "),
        (r"https?[:] ?//(?:www\.)?|\bwww\.", ""),
        (r"(?<=\w)@(?=\w+\.\w)", " at "),
        (r"(?<=[A-Za-z]{2})\.(?=(?:[a-z]{2,4})\b)|(?<=[A-Za-z])\.(?=(?:com|org|net)\b)", " dot "),
        (r"#(?=[A-Za-z])", "hashtag "),
        (r"\bw/o\b", "without"),
        # dates, telephone and other grouped numbers
        (
            r"\b("
            + "|".join(_SHORT_MONTHS)
            + r")\b\.?(?=\s\d)|(?<=\d\s)("
            + "|".join(_SHORT_MONTHS)
            + r")\b\.?(?=\s|$)",
            lambda m: _SHORT_MONTHS[m[1] or m[2]],
        ),
        (r"\b(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})\b", _date),
        (r"\b(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})\b", _date),
        (
            r"(?<![\w.,])(?:\+\d{1,3}[ -])?\(?\d{3}\)?[ -]\d{3}[ -]\d{4}(?![\w-])|(?<![\w.,])0\d{2,4}(?:[ -]\d{3,4}){1,3}(?![\w-])"
            r"|(?<![\w.,-])\d+(?:-\d+){2,}(?![\w-])",
            _digits,
        ),
        (r"(?:\bthe\s)?\b(\d{1,2})(?:st|nd|rd|th)?(?:\sof)?\s(" + _MONTH + r")\b", _day_first),
        (r"\b(" + _MONTH + r")\s(\d{1,2})(?:st|nd|rd|th)?(?!\d|[:,.]\d)\b", lambda m: f"{m[1]} {ordinal(int(m[2]))}"),
        (r"\b((?:1[1-9]|20)\d0)'?s\b", lambda m: re.sub(r"y$", "ie", year(int(m[1]))) + "s"),
        # ranges, then money and times
        (r"([$£€¥])(" + _NUMBER + r")\s?[-—]\s?[$£€¥]?(?=\d)", r"\2 to \1"),
        (
            r"(?<=\d)(%?)\s?[-—]\s?(?=[$£€¥]?\d)|(?<=\d)([AaPp]\.?[Mm]\.?)\s?[-—]\s?(?=\d)",
            lambda m: f"{m[1] or m[2] or ''} to ",
        ),
        (
            r"(?P<sign>[$£€¥])\s?(?P<amount>"
            + _NUMBER
            + r")(?P<scale>\s?(?:thousand|million|billion|trillion)\b|(?:bn|k|K|m|M|B)\b)?"
            r"(?![A-Za-z])",
            _money,
        ),
        (r"\b(?P<h>\d{1,2}):(?P<m>\d{2})(?!\d)(?:\s?" + _HALF + ")?", _time),
        (r"\b(?P<h>\d{1,2})\s?" + _HALF, _time),
        (r"(?<=\d):(?=\d)", " to "),
        # numbers with something attached
        (r"\b(1/2|1/3|2/3|1/4|3/4)\b", lambda m: _FRACTIONS[m.group()]),
        (r"(?<=\d(?:st|nd|rd|th)\s)St\b\.?|(?<=[a-z]\s)St\.(?=\s*[,;]|\s*$)", "Street"),
        (r"\b(\d{1,15})(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1]))),
        (r"(\d+)'\s?(\d+)(?:\"|'')", r"\1 foot \2"),
        (r"(?<![\w.])-(?=[\d.])", " minus "),
        (r"(?<![\w.])\.(?=\d)", "0."),
        (r"(?<![\w.,])(\d{3,})'?s\b", lambda m: re.sub(r"y$", "ie", re.sub(r"x$", "xe", cardinal(m[1]))) + "s"),
        (r"(?P<n>" + _NUMBER + r")\s?(?P<unit>" + _UNIT + r")(?![A-Za-z'/])", _unit),
        # abbreviations
        (r"\b[Nn]os?\.\s?(?=\d)", "number "),
        (r"\bPh\.D\b\.?", "P H D"),
        (r"\b(?P<word>[ei]\.[ge]|[ap]\.m|[A-Za-z]{2,6})\.", _abbreviation),
        (r"\b(?P<word>Mr|Mrs|Ms|Dr|Prof)\b(?=\s[A-Z])", _abbreviation),
        (r"\b(?P<before>[A-Z][a-z]+)\s(?P<roman>" + "|".join(_ROMAN) + r")\b", _roman),
        (r"(?<!\w)((?:[A-Za-z]\.){2,})('s)?(?!\s*$)", lambda m: _letters(m[1]) + (m[2] or "") + " "),
        (r"(?<!\w)((?:[A-Za-z]\.)+[A-Za-z])\.\s*$", lambda m: _letters(m[1]) + "."),
        # plain numbers
        (
            r"\b(\d+)\s+(?=one (?:half|quarter|third)|(?:two|three) (?:thirds|quarters))",
            lambda m: f"{cardinal(m[1])} and ",
        ),
        (r"(?<![\w.,])(1[1-9]\d\d|20\d\d)(?![\w%]|[.,]\d|:\d)", lambda m: year(int(m[1]))),
        (_NUMBER, lambda m: f" {cardinal(m.group())} "),
    )
)


def _ascii(text: str) -> str:
    """Typographic marks and accented Latin letters folded; letters of other scripts refused by name."""
    text = unicodedata.normalize("NFC", text).translate(_FOLD)
    text = "".join(
        f" {_GREEK[c]} " if c in _GREEK and not _foreign_neighbour(text, i) else c for i, c in enumerate(text)
    )
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    foreign = sorted({c for c in text if ord(c) > 127 and c not in "µ" and unicodedata.category(c)[0] == "L"})
    if foreign:
        raise UserError(
            f"These voices speak English only: rewrite the words with {' '.join(foreign[:8])} in English letters."
        )
    return text


def _foreign_neighbour(text: str, i: int) -> bool:
    """A Greek letter inside a Greek word is not a symbol."""
    around = text[max(0, i - 1) : i] + text[i + 1 : i + 2]
    return any(ord(c) > 127 and unicodedata.category(c)[0] == "L" for c in around)


def strongest(marks: str) -> str:
    """One mark for a run of them: '?!,' -> '?'"""
    return next(mark for mark in "?!.—;:," if mark in marks)


def is_speakable(text: str) -> bool:
    """Whether anything is left to say once symbols and emoji are gone."""
    return bool(re.search(r"[A-Za-z]", _written_out(text)))


def normalise(text: str) -> str:
    """English words, apostrophes and the punctuation `, . ? ! ; : —`, nothing else. Raises UserError where no word or
    number is left to speak, or where letters of another script stand."""
    text = _written_out(text)
    if not re.search(r"[A-Za-z]", text):
        raise UserError("Nothing in this text can be spoken: type some English words or numbers.")
    return text


@functools.lru_cache(maxsize=512)
def _written_out(text: str) -> str:
    text = _ascii(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = "".join(f" {_SYMBOLS[c]} " if c in _SYMBOLS else c for c in text)
    text = re.sub(r"\s+-+\s+|--+", " — ", text)
    text = re.sub(r"\.{2,}(?=\s*\S)", ", ", text)
    text = re.sub(r"[(\[{]\s*|\s*[)\]}]", ", ", text)
    text = re.sub(r"[^A-Za-z',.?!;:—\s]", " ", text)
    text = re.sub(r"(?<![A-Za-z])'|'(?![A-Za-z])", " ", text)
    text = re.sub(r"\s+", " ", re.sub(r"\s+([,.?!;:])", r"\1", text))
    text = re.sub(r"[,.?!;:—](?:\s*[,.?!;:—])+", lambda m: strongest(m.group()), text)
    text = re.sub(r"([,?!;:—])(?=[A-Za-z])|(?<=[a-z])(\.)(?=[A-Z])", lambda m: f"{m.group()} ", text)
    text = text.lstrip(" ,.?!;:—").rstrip(" ,;:—")
    return text
