"""Dates, years, decades, eras, times of day and durations, and ranges of them."""

import re

from . import numbers
from .rules import ends_sentence, stop, table, writer

MONTHS = "January February March April May June July August September October November December".split()
_SHORT = {m[:3]: m for m in MONTHS} | {"Sept": "September"}
_TABLE = table("dates")


def month(name: str) -> str:
    """'Jan.' -> 'January'"""
    return _SHORT.get(name.rstrip(".")[:3], name)


def full_year(text: str) -> str:
    """'24' -> '2024', '87' -> '1987'"""
    return text if len(text) == 4 else ("20" if int(text) < 36 else "19") + text


def _date(month: str, day: str, year: str | None = None) -> str | None:
    m, d = int(month), int(day)
    if m > 12 >= d:
        m, d = d, m
    if not (1 <= m <= 12 and 1 <= d <= 31):
        return None
    spoken = f"{MONTHS[m - 1]} {numbers.ordinal(str(d))}"
    return f"{spoken}, {numbers.year(full_year(year))}" if year else spoken


def numeric(match: re.Match[str]) -> str:
    """Years of two digits only behind slashes; with full stops the day comes first."""
    month, day, sign = match["m"], match["d"], match[2]
    if len(match["y"]) == 2 and sign != "/":
        return match.group()
    if sign == "." and len(match[1]) < 4 and int(day) <= 12:
        month, day = day, month
    spoken = _date(month, day, match["y"])
    return spoken + ", " * match.group().endswith("T") if spoken else match.group()


def short_date(match: re.Match[str]) -> str:
    return _date(match["m"], match["d"]) or match.group()


def short_dates(match: re.Match[str]) -> str:
    """'6/1-8/31' -> 'June first to August thirty first'; '1/2-3/4' are parts of something."""
    first, last = _date(match["m"], match["d"]), _date(match["n"], match["e"])
    parts = all(int(match[a]) < int(match[b]) <= 8 or match[b] == "16" for a, b in ("md", "ne"))
    return match.group() if parts or not (first and last) else f"{first} to {last}"


def nth(day: str) -> str:
    """'05' -> 'fifth'"""
    return numbers.ordinal(day.lstrip("0"))


def _half(text: str | None) -> str:
    """'pm' -> 'P.M.'"""
    return f" {text[0].upper()}.M." if text else ""


def _clock(hour: str, minute: str | None, half: str | None) -> str | None:
    h, m = int(hour), int(minute or 0)
    if h > 24 or m > 59:
        return None
    spoken = numbers.cardinal(str(h))
    if minute is None:
        return spoken + _half(half)
    if m == 0:
        return spoken + (_half(half) if half else " hundred" if h > 12 or h == 0 else " o'clock")
    return f"{spoken} {'oh ' if m < 10 else ''}{numbers.cardinal(str(m))}{_half(half)}"


def time(match: re.Match[str]) -> str:
    """One time, or two: '9:30-11 a.m.' A full stop that also ends the sentence is kept."""
    parts = [_clock(match["h"], match["m"], match["half"])]
    if match["h2"]:
        parts.append(_clock(match["h2"], match["m2"], match["half2"]))
    if None in parts:
        return match.group()
    spoken = " to ".join(parts)
    dotted = (match["half2"] or match["half"] or "").endswith(".")
    return spoken + ("." if dotted and re.match(r"\s*$|[\"')\]]*$", match.string[match.end() :]) else "")


def offset(text: str) -> str:
    """'-7' -> 'minus seven', '+05:30' -> 'plus five thirty', 'Z' -> 'Zulu'"""
    if text == "Z":
        return "Zulu"
    hour, minute = re.fullmatch(r"[+–-]\s?(\d{1,2}):?(\d\d)?", text).groups()
    late = f" {numbers.oh(minute)}" if minute and int(minute) else ""
    return f"{'plus' if text[0] == '+' else 'minus'} {numbers.cardinal(str(int(hour)))}{late}"


def zoned(match: re.Match[str]) -> str:
    """'17:30Z' -> 'seventeen thirty Zulu', '0600Z' -> 'oh six hundred Zulu'"""
    hour, minute, second = match["h"], match["min"], match["s"]
    early = "oh " if hour[0] == "0" and match["zone"] == "Z" else ""
    spoken = early + numbers.cardinal(str(int(hour)))
    spoken += f" {'hundred' if minute == '00' else numbers.oh(minute)}"
    spoken += f" and {numbers.cardinal(str(int(second)))} seconds" if second and int(second) else ""
    return f"{spoken} {offset(match['zone'])}" if match["zone"] else spoken


def stamp(match: re.Match[str]) -> str:
    """'2024-03-05T17:30:00Z' -> 'March fifth, twenty twenty four, seventeen thirty Zulu'"""
    date = _date(match["m"], match["d"], match["y"])
    clock = zoned(match) if match["zone"] else _clock(match["h"], match["min"], None)
    second = match["s"] if not match["zone"] else None
    clock += f" and {numbers.cardinal(str(int(second)))} seconds" if second and int(second) else ""
    return f"{date}, {clock}"


def seconds(match: re.Match[str]) -> str:
    """A time of day behind 'at' and the like, else a duration."""
    h, m, s = (match[k].lstrip("0") or "0" for k in "hms")
    if int(m) > 59 or int(s) > 59:
        return match.group()
    clock = match["half"] or re.search(r"\b(?:at|by|until|since|from|to)\s$", match.string[: match.start()])
    clock = clock or re.match(r"\s?(?:UTC|GMT|[ECMP][SD]?T)\b", match.string[match.end() :])
    units = zip((h, m, s), ("hour", "minute", "second"))
    named = [f"{numbers.cardinal(n)} {unit}{'s' * (n != '1')}" for n, unit in units]
    if int(h) <= 24 and clock:
        tail = f" and {named[2]}" if s != "0" else ""
        return f"{_clock(h, m, None)}{tail}{_half(match['half'])}"
    return f"{named[0]}, {named[1]} and {named[2]}"


def weekday(match: re.Match[str]) -> str:
    """'Sat.' and 'Sun.' that end a sentence are a verb and a star, unless the context names a day."""
    names_day = re.search(
        r"(?:on|&|and|,|every|next|last|to|until|till|through|(?i:closed|open|opens|closes)) $",
        match.string[: match.start()],
    )
    if match[1] in ("Sat", "Sun") and ends_sentence(match) and not names_day:
        return match.group()
    return _TABLE["weekdays"][match[1]] + stop(match)


def military(match: re.Match[str]) -> str:
    """'0700' -> 'oh seven hundred'"""
    hour, minute = match[1] or match[3], match[2] or match[4]
    return f"{numbers.oh(hour)} {'hundred' if minute == '00' else numbers.cardinal(minute)}"


def quarter(text: str) -> str:
    return "fiscal year" if text == "FY" else f"{text[0]} {numbers.cardinal(text[1])}"


write_out = writer(_TABLE, globals())
