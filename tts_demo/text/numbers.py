"""Numbers in English words, as Americans read them: no 'and' in cardinals, decimals digit by digit.

Functions take digits as they are written (commas allowed) and give lower-case words without hyphens."""

import re

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = ["", *"thousand million billion trillion quadrillion".split()]
_ORDINALS = dict(one="first", two="second", three="third", five="fifth", eight="eighth", nine="ninth", twelve="twelfth")
_DENOMINATORS = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_LONGEST = 18  # digits of a number that is read as one cardinal
_ROMAN = re.compile(r"M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")
_ROMAN_VALUES = dict(zip("IVXLCDM", (1, 5, 10, 50, 100, 500, 1000)))


def _below_thousand(n: int) -> list[str]:
    words = [_ONES[n // 100], "hundred"] if n >= 100 else []
    n %= 100
    if n >= 20:
        words.append(_TENS[n // 10])
        n %= 10
    return [*words, _ONES[n]] if n else words


def _whole(n: int) -> str:
    words: list[str] = []
    for scale in _SCALES:
        n, low = divmod(n, 1000)
        if low:
            words = [*_below_thousand(low), *scale.split(), *words]
    return " ".join(words) or "zero"


def digits(text: str) -> str:
    """'0-19' -> 'zero one nine': every digit on its own."""
    return " ".join(_ONES[int(c)] for c in text if c in "0123456789")


def cardinal(text: str) -> str:
    """'1,234.50' -> 'one thousand two hundred thirty four point five zero', '.5' -> 'point five', '007' by digits."""
    whole, dot, decimals = text.replace(",", "").partition(".")
    if len(whole) > _LONGEST or (len(whole) > 1 and whole[0] == "0"):
        words = digits(whole)
    else:
        words = _whole(int(whole)) if whole else ""
    if dot and decimals:
        words = f"{words} point {digits(decimals)}"
    return words.strip()


def ordinal(text: str) -> str:
    """'21' -> 'twenty first'"""
    head, _, last = cardinal(text).rpartition(" ")
    regular = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return f"{head} {_ORDINALS.get(last, regular)}".strip()


def plural(words: str) -> str:
    """'nineteen ninety' -> 'nineteen nineties', 'six' -> 'sixes'"""
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


def year(text: str) -> str:
    """'1907' -> 'nineteen oh seven', '2005' -> 'two thousand five', '1800' -> 'eighteen hundred'"""
    n = int(text)
    if not 1000 < n < 10_000 or n % 1000 < 10:
        return cardinal(text)
    return pairs(text)


def pairs(text: str) -> str:
    """Numbers of streets, rooms, flights, models: '221' -> 'two twenty one', '101' -> 'one oh one', '1600' -> 'sixteen
    hundred', '4090' -> 'forty ninety'; others as cardinals."""
    if not 3 <= len(text) <= 4 or text[0] == "0" or text.endswith("000"):
        return cardinal(text)
    high, low = text[:-2], text[-2:]
    return f"{cardinal(high)} {'hundred' if low == '00' else oh(low)}"


def oh(text: str) -> str:
    """'07' -> 'oh seven', '99' -> 'ninety nine'"""
    return f"oh {digits(text[1])}" if text[0] == "0" else cardinal(text)


def record(text: str) -> str:
    """'12-4-1' -> 'twelve, four and one'"""
    *before, last = map(cardinal, re.findall(r"\d+", text))
    return f"{', '.join(before)} and {last}"


def sections(text: str) -> str:
    """Versions and numbered sections: '3.11' -> 'three point eleven', '22.04' -> 'twenty two point oh four'"""
    return " point ".join(oh(part) if len(part) == 2 and part != "00" else cardinal(part) for part in text.split("."))


def fraction(top: str, bottom: str) -> str:
    """'3', '4' -> 'three quarters', '7', '16' -> 'seven sixteenths'; beyond hundredths 'seven over two hundred'"""
    n, d = int(top), int(bottom)
    if d < 2 or (d > 100 and bottom not in ("1000", "1000000")):
        return f"{cardinal(top)} over {cardinal(bottom)}"
    one, many = _DENOMINATORS.get(d, (ordinal(bottom), ordinal(bottom) + "s"))
    return f"{cardinal(top)} {one if n == 1 else many}"


def roman(numeral: str) -> int | None:
    """'XIV' -> 14; None for what is no Roman numeral."""
    if not numeral or not _ROMAN.fullmatch(numeral):
        return None
    values = [_ROMAN_VALUES[c] for c in numeral]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0]))
