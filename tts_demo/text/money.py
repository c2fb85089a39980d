"""Money: signs and codes of currencies before and behind the amount, coins, scales, ranges, before a noun."""

import re

from . import numbers
from .rules import table, writer
from .units import describes, per, tens

_TABLE = table("money")
_CURRENCIES = _TABLE["currencies"]
SIGNS = "|".join(sorted(map(re.escape, (c for c in _CURRENCIES if not c.isalpha())), key=len, reverse=True))
CODES = "|".join(c for c in _CURRENCIES if c.isalpha())


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


def money(match: re.Match[str]) -> str:
    sign = match["sign"].rstrip(".")
    amount, low = match["n"].replace(",", ""), (match["low"] or "").replace(",", "")
    minus = "minus " if match["minus"] or match["dash"] else ""
    joint = " " if match["joint"] else ""
    scale = (match["scale"] or "").strip()
    scale = _TABLE["scales"].get(scale.lower(), scale)
    single = describes(match)
    unit = _CURRENCIES[sign][0 if single else 1]
    if scale:
        spoken = f"{numbers.cardinal(amount)} {scale} {unit}"
    elif low and "." not in low + amount:
        spoken = f"{numbers.cardinal(amount)} {unit}"
    else:
        spoken = _coins(amount, sign, single)
        low = low and _coins(low, sign, single)
    if low:
        spoken = f"{low if low[0].isalpha() else numbers.cardinal(low)} to {spoken}"
    return f"{minus}{spoken}{joint}"


write_out = writer(_TABLE, globals() | {"per": per, "tens": tens})
