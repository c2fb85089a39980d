"""Money: signs and codes of currencies before and behind the amount, coins, scales, ranges, before a noun."""

from __future__ import annotations

import re

from . import numbers
from .rules import MINUS, NUMBER, Rules, apply, compiled, describes
from .units import PER

# sign or code -> one, many, the small coin (one, many)
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₺": ("lira", "lira", "", ""),
    "₪": ("shekel", "shekels", "", ""),
    "₫": ("dong", "dong", "", ""),
    "₱": ("peso", "pesos", "", ""),
    "฿": ("baht", "baht", "", ""),
    "₿": ("bitcoin", "bitcoins", "", ""),
    "₦": ("naira", "naira", "", ""),
    "₴": ("hryvnia", "hryvnias", "", ""),
    "US$": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "US $": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "$US": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "NT$": ("New Taiwan dollar", "New Taiwan dollars", "", ""),
    "C$": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "CA$": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "A$": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "AU$": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "NZ$": ("New Zealand dollar", "New Zealand dollars", "cent", "cents"),
    "HK$": ("Hong Kong dollar", "Hong Kong dollars", "cent", "cents"),
    "S$": ("Singapore dollar", "Singapore dollars", "cent", "cents"),
    "R$": ("real", "reais", "", ""),
    "kr": ("krona", "kronor", "", ""),
    "zł": ("zloty", "zlotys", "", ""),
    "zl": ("zloty", "zlotys", "", ""),
    "Rs": ("rupee", "rupees", "", ""),
    "USD": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "CAD": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "AUD": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "penny", "pence"),
    "JPY": ("yen", "yen", "", ""),
    "CNY": ("yuan", "yuan", "", ""),
    "RMB": ("yuan", "yuan", "", ""),
    "INR": ("rupee", "rupees", "", ""),
    "KRW": ("won", "won", "", ""),
    "CHF": ("Swiss franc", "Swiss francs", "", ""),
    "SEK": ("Swedish krona", "Swedish kronor", "", ""),
    "NOK": ("Norwegian krone", "Norwegian kroner", "", ""),
    "DKK": ("Danish krone", "Danish kroner", "", ""),
    "MXN": ("Mexican peso", "Mexican pesos", "", ""),
    "BRL": ("Brazilian real", "Brazilian reais", "", ""),
    "BTC": ("bitcoin", "bitcoins", "", ""),
}
_SCALES = {
    "k": "thousand",
    "m": "million",
    "mm": "million",
    "mn": "million",
    "b": "billion",
    "bn": "billion",
    "t": "trillion",
}
_SCALES |= {"tn": "trillion", "mil": "million"}
_SCALE = (
    r"(?P<scale>\s?(?:hundred|thousand|million|billion|trillion|lakhs?|crores?)\b|\s?(?:bn|mn|tn|mil)\b|"
    r"(?:[kKmMbBtT]|MM)\b)?"
)
_SIGNS = "|".join(sorted(map(re.escape, (c for c in _CURRENCIES if not c.isalpha())), key=len, reverse=True))
_NAMES = "|".join(c for c in _CURRENCIES if c.isalpha())
_SIGN = rf"(?P<sign>{_SIGNS}|\b(?:{_NAMES})(?=\.?\s?\d)\.?)"


def _coins(amount: str, sign: str, single: bool) -> str:
    """'1.50' -> 'one dollar and fifty cents', '0.99' -> 'ninety nine cents'"""
    one, many, coin, coins = _CURRENCIES[sign]
    whole, _, cents = amount.partition(".")
    if len(cents) not in (0, 2) or (cents and not coin):
        return f"{numbers.cardinal(amount)} {one if single else many}"
    words = []
    if int(whole or 0) or not int(cents or 0):
        words.append(f"{numbers.cardinal(whole or '0')} {one if whole == '1' or single else many}")
    if int(cents or 0):
        words.append(f"{numbers.cardinal(str(int(cents)))} {coin if int(cents) == 1 or single else coins}")
    return " and ".join(words)


def _money(match: re.Match[str]) -> str:
    sign = match["sign"].rstrip(".")
    amount, low = match["n"].replace(",", ""), (match["low"] or "").replace(",", "")
    minus = "minus " if match["minus"] or match["dash"] else ""
    joint = " " if match["joint"] else ""
    scale = (match["scale"] or "").strip()
    scale = _SCALES.get(scale.lower(), scale)
    single = describes(match)
    unit = _CURRENCIES[sign][0 if single else 1]
    if scale:
        said = f"{numbers.cardinal(amount)} {scale} {unit}"
    elif low and "." not in low + amount:
        said = f"{numbers.cardinal(amount)} {unit}"
    else:
        said = _coins(amount, sign, single)
        low = low and _coins(low, sign, single)
    if low:
        said = f"{low if low[0].isalpha() else numbers.cardinal(low)} to {said}"
    return f"{minus}{said}{joint}"


_NONE = "(?P<{}>(?!))?"
_JOINT = r"(?P<joint>-(?=[A-Za-z]))?"
_RULES: Rules = compiled(
    (rf"((?:{_SIGNS}){NUMBER})([kKmMbB]|bn)\s?[-–]\s?(?:{_SIGNS})?(?={NUMBER}\2\b)", r"\1-"),
    (
        r"(?<![\w.,$])(\d{1,2})p\b(?!\.m|\s?m)",
        lambda m: f"{numbers.cardinal(m[1])} {'penny' if m[1] == '1' else 'pence'}",
    ),
    (r"(?<=€)(\d+),(\d\d)\b(?![,\d])", r"\1.\2"),
    (r"\$(\d0*)s\b", lambda m: f"{numbers.plural(numbers.cardinal(m[1]).removeprefix('one '))} of dollars"),
    (
        rf"(?P<sign>{_SIGNS})\s?(?P<low>{NUMBER})\s?(?:[-–—]|to)\s?(?:{_SIGNS})?(?P<n>{NUMBER}){_SCALE}"
        rf"{_NONE.format('minus')}{_NONE.format('dash')}(?!\w){_JOINT}",
        _money,
    ),
    (
        rf"(?P<minus>(?<![\w)\]])[-–]\s?)?{_SIGN}\s?{_NONE.format('low')}(?P<dash>-)?(?P<n>{NUMBER}){_SCALE}(?:\sUSD\b)?"
        rf"(?!\w|\.\d){_JOINT}",
        _money,
    ),
    (
        rf"{MINUS}{_NONE.format('low')}{_NONE.format('dash')}(?<![\w.,])(?P<n>{NUMBER}){_SCALE}\s?"
        rf"(?P<sign>{_SIGNS}|(?:{_NAMES})\b)(?!\w){_JOINT}",
        _money,
    ),
    (r"\b(dollars?|cents?|euros?|pounds?|pence|yen)\s?/\s?(\w+)\b", lambda m: f"{m[1]} per {PER.get(m[2], m[2])}"),
)


def write_out(text: str) -> str:
    return apply(_RULES, text)
