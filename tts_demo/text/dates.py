"""Dates, years, decades, eras, times of day and durations, and ranges of them."""

from __future__ import annotations

import re

from . import numbers
from .rules import Rules, apply, compiled

MONTHS = "January February March April May June July August September October November December".split()
_SHORT = {m[:3]: m for m in MONTHS} | {"Sept": "September"}
_MONTH = "|".join(MONTHS) + "|" + "|".join(f"{s}\\b\\.?" for s in _SHORT if s != "May")
_WEEKDAYS = {
    **dict.fromkeys(("Mon",), "Monday"),
    **dict.fromkeys(("Tue", "Tues"), "Tuesday"),
    **dict.fromkeys(("Wed", "Weds"), "Wednesday"),
    **dict.fromkeys(("Thu", "Thur", "Thurs"), "Thursday"),
    **dict.fromkeys(("Fri",), "Friday"),
    **dict.fromkeys(("Sat",), "Saturday"),
    **dict.fromkeys(("Sun",), "Sunday"),
}
_DAY_NAMES = "Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun"
_BIBLE = (
    "Genesis|Exodus|Leviticus|Numbers|Deuteronomy|Joshua|Judges|Ruth|Samuel|Kings|Chronicles|Ezra|Nehemiah|Esther|Job|"
    "Psalms?|Proverbs|Ecclesiastes|Isaiah|Jeremiah|Ezekiel|Daniel|Hosea|Joel|Amos|Micah|Matthew|Mark|Luke|John|Acts|"
    "Romans|Corinthians|Galatians|Ephesians|Philippians|Colossians|Thessalonians|Timothy|Titus|Hebrews|James|Peter|"
    "Jude|"
    "Revelation"
)
_TO = r"\s?[-–—]\s?"
_ERA = r"(?:A\.?D\b|B\.?C\.?E\b|C\.?E\b|B\.?C\b)\.?"
_HALF = r"(?:[AaPp]\.\s?[Mm]\b\.?|[AaPp][Mm]\b)"
_DAY = r"(0?[1-9]|[12]\d|3[01])"
# 'on 3/4' is a date, '3/4 of it' is none
_CUES = (
    "on|by|since|until|till|from|before|after|due|dated|born|starting|ending|through|thru|effective|expires|Monday|"
    "Tuesday|"
    "Wednesday|Thursday|Friday|Saturday|Sunday|deadline|date|[ECMP][SD]?T|[AP]\\.?M\\.?|On|By|Since|Until|From|Before|After|Due|Dated|Born"
)


def _name(month: str) -> str:
    return _SHORT.get(month.rstrip(".")[:3], month)


def _full_year(text: str) -> str:
    """'24' -> '2024', '87' -> '1987'"""
    return text if len(text) == 4 else ("20" if int(text) < 36 else "19") + text


def _date(month: str, day: str, year: str | None = None) -> str | None:
    m, d = int(month), int(day)
    if m > 12 >= d:
        m, d = d, m
    if not (1 <= m <= 12 and 1 <= d <= 31):
        return None
    said = f"{MONTHS[m - 1]} {numbers.ordinal(str(d))}"
    return f"{said}, {numbers.year(_full_year(year))}" if year else said


def _numeric(match: re.Match[str]) -> str:
    """Years of two digits only behind slashes; with full stops the day comes first."""
    month, day, sign = match["m"], match["d"], match[2]
    if len(match["y"]) == 2 and sign != "/":
        return match.group()
    if sign == "." and len(match[1]) < 4 and int(day) <= 12:
        month, day = day, month
    said = _date(month, day, match["y"])
    return said + ", " * match.group().endswith("T") if said else match.group()


def _month_day(match: re.Match[str]) -> str:
    days = [numbers.ordinal(d) for d in (match["d"], match["e"]) if d]
    year = match["y"]
    return f"{_name(match['m'])} {' to '.join(days)}" + (f", {numbers.year(year)}" if year else "")


def _day_month(match: re.Match[str]) -> str:
    days = [numbers.ordinal(d) for d in (match["d"], match["e"]) if d]
    year = match["y"]
    return f"the {' to the '.join(days)} of {_name(match['m'])}" + (f", {numbers.year(year)}" if year else "")


def _decade(match: re.Match[str]) -> str:
    """ "1990s" -> 'nineteen nineties', "'90s" -> 'nineties'"""
    return numbers.plural(numbers.year(match[1])) if len(match[1]) == 4 else numbers.plural(numbers.cardinal(match[1]))


def _years(match: re.Match[str]) -> str:
    first, second = match["a"], match["b"]
    low = numbers.year(second) if len(second) == 4 else numbers.cardinal(second)
    if len(second) == 2 and second[0] == "0":
        low = f"oh {numbers.digits(second[1])}"
    return f"{numbers.year(first)} to {low}"


def _half(text: str | None) -> str:
    """'pm' -> 'P.M.'"""
    return f" {text[0].upper()}.M." if text else ""


def _clock(hour: str, minute: str | None, half: str | None) -> str | None:
    h, m = int(hour), int(minute or 0)
    if h > 24 or m > 59:
        return None
    said = numbers.cardinal(str(h))
    if minute is None:
        return said + _half(half)
    if m == 0:
        return said + (_half(half) if half else " hundred" if h > 12 or h == 0 else " o'clock")
    return f"{said} {'oh ' if m < 10 else ''}{numbers.cardinal(str(m))}{_half(half)}"


def _time(match: re.Match[str]) -> str:
    """One time, or two: '9:30-11 a.m.' A full stop that also ends the sentence is kept."""
    parts = [_clock(match["h"], match["m"], match["half"])]
    if match["h2"]:
        parts.append(_clock(match["h2"], match["m2"], match["half2"]))
    if None in parts:
        return match.group()
    said = " to ".join(parts)
    dotted = (match["half2"] or match["half"] or "").endswith(".")
    return said + ("." if dotted and re.match(r"\s*$|[\"')\]]*$", match.string[match.end() :]) else "")


def _seconds(match: re.Match[str]) -> str:
    h, m, s = (match[k].lstrip("0") or "0" for k in "hms")
    if int(m) > 59 or int(s) > 59:
        return match.group()
    clock = int(h) <= 24 and (
        match["half"] or re.search(r"\b(?:at|by|until|since|from|to)\s$", match.string[: match.start()])
    )
    if clock:
        tail = f" and {numbers.cardinal(s)} second{'s' * (s != '1')}" if s != "0" else ""
        return f"{_clock(h, m, None)}{tail}{_half(match['half'])}"
    named = [
        f"{numbers.cardinal(n)} {unit}{'s' * (n != '1')}" for n, unit in ((h, "hour"), (m, "minute"), (s, "second"))
    ]
    return f"{named[0]}, {named[1]} and {named[2]}"


def _weekday(match: re.Match[str]) -> str:
    """'Sat.' and 'Sun.' that end a sentence are a verb and a star, unless a day is spoken of."""
    ends = not match.string[match.end() :].strip("\"')] ")
    if (
        match[1] in ("Sat", "Sun")
        and ends
        and not re.search(r"(?:on|&|and|,|every|next|last|to) $", match.string[: match.start()])
    ):
        return match.group()
    return _WEEKDAYS[match[1]] + _stop(match)


def _military(hour: str, minute: str) -> str:
    """'07', '00' -> 'oh seven hundred'"""
    head = f"oh {numbers.digits(hour[1])}" if hour[0] == "0" else numbers.cardinal(hour)
    return f"{head} {'hundred' if minute == '00' else numbers.cardinal(minute)}"


_Y4 = r"(?:1[0-9]|20)\d\d"
_RULES: Rules = compiled(
    # whole dates in figures
    (rf"(?<=\d){_TO}(?=(?:{_MONTH})\s\d)", " to "),
    (
        rf"(?<![\w/.-])(?P<y>\d{{4}})([-/.])(?P<m>0?[1-9]|1[0-2])\2(?P<d>{_DAY[1:-1]})(?:T(?=\d\d:)|(?![\w/-]|\.\d))",
        _numeric,
    ),
    (r"(?<![\w/.-])(?P<m>\d{1,2})([-/.])(?P<d>\d{1,2})\2(?P<y>\d{4}|\d{2})(?![\w/-]|\.\d)", _numeric),
    (r"\b9/11\b", "nine eleven"),
    (
        rf"\b(?P<cue>(?:{_CUES}),?\s(?:the\s)?)(?P<m>0?[1-9]|1[0-2])/(?P<d>{_DAY[1:-1]})(?![\w/%]|"
        rf"[.,]\d)(?!\s(?:of|cup|inch|mile|pound)\b)",
        lambda m: m["cue"] + (_date(m["m"], m["d"]) or ""),
    ),
    (
        r"(?<![\w.,/$-])(?P<m>[1-9]|1[0-2])/(?P<d>1[3-57-9]|2[1-36-9]|3[01])(?![\w/%-]|[.,]\d)(?!\s(?:of|inch|in)\b|\")",
        lambda m: _date(m["m"], m["d"]) or m.group(),
    ),
    # months in letters
    (
        rf"\b(?P<m>{_MONTH})\s(?P<d>{_DAY[1:-1]})(?:st|nd|rd|th)?(?:{_TO}(?P<e>{_DAY[1:-1]})(?:st|nd|rd|th)?)?"
        r"(?!\d|[:/]\d|,\d|\.\d|%|\s?[ap]\.?m\b)(?:,?\s(?P<y>\d{4})\b(?!,\d))?",
        _month_day,
    ),
    (
        rf"(?:\b[Tt]he\s)?(?<![\d.,:/$-])\b(?P<d>{_DAY[1:-1]})(?:st|nd|rd|th)?(?:{_TO}(?P<e>{_DAY[1:-1]})(?:st|nd|rd|"
        rf"th)?)?"
        rf"(?:\sof)?[\s-](?P<m>{_MONTH})(?![a-z])(?:,?[\s-](?P<y>\d{{4}})\b)?",
        _day_month,
    ),
    (
        rf"\b(?P<m>{_MONTH})(?:\s?[-–—/]\s?(?P<n>{_MONTH}))?,?\s(?P<y>{_Y4})\b(?!,\d|\.\d)",
        lambda m: " to ".join(_name(x) for x in (m["m"], m["n"]) if x) + " " + numbers.year(m["y"]),
    ),
    (rf"\b({_MONTH})\s?[-–—]\s?({_MONTH})(?![a-z])", lambda m: f"{_name(m[1])} to {_name(m[2])}"),
    (
        r"\b(Jan|Feb|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?(?![\w'-])(?=[\s,;)]|$)|\b(Mar)\.(?=[\s,;)]|$)",
        lambda m: _SHORT[m[1] or m[2]] + _stop(m),
    ),
    (
        rf"\b({_DAY_NAMES})\b\.?{_TO}({_DAY_NAMES})\b\.?(?![\w'])",
        lambda m: f"{_WEEKDAYS[m[1]]} to {_WEEKDAYS[m[2]]}" + _stop(m),
    ),
    (
        rf"\b({_DAY_NAMES})(?:\.|(?=,\s(?:{_MONTH}|the|\d)|\s(?:at\s)?\d|\s(?:the\s\w+\sof\s)?(?:{_MONTH}|morning|"
        rf"night|afternoon|"
        rf"evening)))(?![\w'])",
        _weekday,
    ),
    (r"(?<![\w.,$])(\d{1,3})\s?m\s?(\d{1,2})\s?s\b", r"\1 min \2 sec"),
    (r"\b(Mon|Tues?|Weds?|Thu(?:rs?)?|Fri)\b\.?(?![\w'-])(?=[\s,;)&]|$)", lambda m: _WEEKDAYS[m[1]] + _stop(m)),
    (r"(?<=\bon\s)(Sat|Sun)\b\.?(?![\w'-])", lambda m: _WEEKDAYS[m[1]] + _stop(m)),
    (r"(?<![\w.,$])((?:1[1-9]|20)\d\d)'s\b", lambda m: f"{numbers.year(m[1])}'s"),
    (r"(?<![\w:.,$])(\d{1,2})\.([0-5]\d)(?=\s?(?:[ap]\.m\.|[AaPp][Mm]\b))", r"\1:\2"),
    (r"(?<=\d0s)\s?[-–]\s?(?='?\d{2,4}0?s)", " to "),
    # decades, spans of years, eras
    (r"(?<![\w.,])((?:1[1-9]|20)\d0)['’]?s\b", _decade),
    (r"(?<=\bthe\s)'?00['’]?s\b", "two thousands"),
    (r"(?<![\w.,$])'(\d0)s\b|(?<=\bthe\s)'?(\d0)['’]?s\b", lambda m: numbers.plural(numbers.cardinal(m[1] or m[2]))),
    (
        r"(?<![\w.,$])([2-9]0)s\b(?!\s(?:timeout|delay|timer|interval|window))",
        lambda m: numbers.plural(numbers.cardinal(m[1])),
    ),
    (
        r"(?<![\w.,])'(\d)(\d)\b(?!')(?!\s(?:tall|high|long|wide))",
        lambda m: ("oh " if m[1] == "0" else "") + numbers.cardinal((m[1] + m[2]).lstrip("0") or "0"),
    ),
    (rf"(?<![\w.,$/-])(?P<a>{_Y4}){_TO}(?P<b>{_Y4})(?![\w/%-]|[.,]\d)", _years),
    (rf"(?<![\w.,$/-])(?P<a>{_Y4})(?:{_TO}|/)(?P<b>\d\d)(?![\w/%-]|[.,]\d)", _years),
    (rf"(?<![\w.,])(\d{{1,4}}){_TO}(?=\d{{1,4}}\s?{_ERA})", lambda m: f"{numbers.year(m[1])} to "),
    (r"\b(\w+day)\s?[-–—]\s?(\w+day)\b", r"\1 to \2"),
    (
        rf"(?<![\w.,])(\d{{1,4}})\s?({_ERA})(?![\w])",
        lambda m: f"{numbers.year(m[1])} {_era(m[2])}" + (_stop(m) if m.group().endswith(".") else ""),
    ),
    (r"\b(A\.?D\.?|CE)\s(\d{1,4})\b", lambda m: f"{_era(m[1])} {numbers.year(m[2])}"),
    (r"\b(?:c|ca|circa)\.\s?(?=\d{3,4}\b)", "circa "),
    (
        rf"\b(FY|Q[1-4]|H[12](?=[\s']))\s?'?({_Y4}|\d\d)\b",
        lambda m: f"{_quarter(m[1])} {numbers.year(_full_year(m[2]))}",
    ),
    (r"\b(Q[1-4])\b", lambda m: _quarter(m[1])),
    # times
    (
        rf"\b({_BIBLE})\s(\d+):(\d+)(?:\s?[-–]\s?(\d+))?\b",
        lambda m: (
            f"{m[1]} {' '.join(map(numbers.cardinal, m.group(2, 3)))}"
            + (f" to {numbers.cardinal(m[4])}" if m[4] else "")
        ),
    ),
    (r"(\b(?:ratio|odds|scale|mix|mixed|diluted?|proportions?)\b[^.:]{0,20}?\s)(\d+):(\d+)\b", r"\1\2 to \3"),
    (
        r"(?<![\w:.])(?P<h>\d{1,3}):(?P<m>\d\d):(?P<s>\d\d)(?:\.\d+|Z)?(?![\w:])(?:\s?(?P<half>" + _HALF + r"))?",
        _seconds,
    ),
    (
        rf"(?<![\w:.,$])(?P<h>\d{{1,2}})(?::(?P<m>[0-5]\d))?(?:\s?(?P<half>{_HALF}))?{_TO}(?P<h2>\d{{1,2}})(?::(?P<m2>[0-5]\d))?"
        rf"\s?(?P<half2>{_HALF})(?!\w)",
        _time,
    ),
    (
        rf"(?<![\w:.,$])(?P<h>\d{{1,2}}):(?P<m>[0-5]\d)(?:\s?(?P<half>{_HALF}))?(?:{_TO}(?P<h2>\d{{1,2}}):(?P<m2>[0-5]\d)(?:\s?(?P<half2>{_HALF}))?)?(?![\w:])",
        _time,
    ),
    (
        rf"(?<![\w:.,$])(?P<h>\d{{1,2}})(?P<m>(?!))?\s?(?P<half>{_HALF})(?P<h2>(?!))?(?P<m2>(?!))?(?P<half2>(?!))?(?!\w)",
        _time,
    ),
    (
        r"(?<![\w:.,$])(\d{1,2})([ap])\s?[-–—]\s?(\d{1,2})([ap])(?![\w'])",
        lambda m: f"{numbers.cardinal(m[1])} {m[2].upper()}.M. to {numbers.cardinal(m[3])} {m[4].upper()}.M.",
    ),
    (
        r"(?<![\w:.,$])([01]\d|2[0-4])([0-5]\d)(?=\s(?:hours|hrs)\b)|(?<=\bat\s)(0\d)([0-5]\d)(?!\w|[,.]\d)",
        lambda m: _military(m[1] or m[3], m[2] or m[4]),
    ),
    (r"(?<=\bat\s)(\d{1,2})ish\b", lambda m: f"{numbers.cardinal(m[1])}ish"),
)


def _stop(match: re.Match[str]) -> str:
    """The full stop of an abbreviation that also ends the sentence."""
    return "." if match.group().endswith(".") and not match.string[match.end() :].strip("\"')] ") else ""


def _era(text: str) -> str:
    return "".join(f"{c}." for c in text if c.isalpha())


def _quarter(text: str) -> str:
    return "fiscal year" if text == "FY" else f"{text[0]} {numbers.cardinal(text[1])}"


def write_out(text: str) -> str:
    return apply(_RULES, text)
