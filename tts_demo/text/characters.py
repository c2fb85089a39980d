"""Unicode folded to what the rules know: plain quotes and dashes, no invisible characters, compatibility forms as their
plain ones, accents only where they change how a word sounds. Other scripts are refused."""

import re
import unicodedata

from ..config import UserError
from . import g2p
from .numbers import roman
from .rules import table

_TABLE = table("characters")
_FOLD = str.maketrans({c: plain for plain, many in _TABLE["alike"].items() for c in many} | _TABLE["one_by_one"])
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUPERSCRIPT = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_POWER_BEFORE = re.compile(r"(?:\d|\)|(?<![A-Za-z])[A-Za-z]{1,2}|[Α-ω]|(?<![A-Za-z])(?:[cdkm]?m|ft|in|mi|yd))$")
_GREEK = dict(zip("αβγδεζηθικλμνξοπρσςτυφχψω", _TABLE["greek"].split()))
_GREEK_LETTER = re.compile(r"(?<![Ͱ-Ͽ])[Α-Ωα-ω](?![Ͱ-Ͽ])")  # in a word it is another script
_SMILEY = re.compile(r"(?<![\w)\]])(?:[:;=][-']?[)(DPpOo|3*/\\]+|<3+|\^_+\^|-_+-|[xX]D|T_T|¯.{1,12}¯)(?![\w/])")
_HEART = re.compile(r"\b(I|[Ww]e|[Tt]hey)\s?[❤♥💙💚💛💜]\s?(?=\w)")  # 'I ♥ NY'
_ROMAN = re.compile(r"[Ⅰ-ⅿ]+")
_MICRO = re.compile(r"(?<=\d)(\s?)μ(?=(?:g|m|s|l|L|A|V|F|W|Sv)(?![A-Za-z]))")
_OHM = re.compile(r"(?<=\d)(\s?[kM]?)Ω")
_DIAERESIS = str.maketrans("ëïËÏ", "eiEI")
_ACCENTED = re.compile(r"[^\W\d_]*[À-ɏ][^\W\d_]*")


def fold(text: str) -> str:
    """ASCII, signs the rules read and Latin letters whose accents matter. Raises UserError for other scripts."""
    text = "".join(c for c in unicodedata.normalize("NFC", text) if not _is_invisible(c))
    text = _HEART.sub(r"\1 love ", text)
    text = re.sub(r"\b[Nn][°º]\.?\s?(?=\d)", "No. ", text)
    text = _ROMAN.sub(_roman, text.replace("³√", "∛"))
    text = re.sub(r"\blog([₀-₉]+)\s?", lambda m: f"log base {unicodedata.normalize('NFKC', m[1])} of ", text)
    text = re.sub(r"(?<=\d)(?:\.{2,}|…)(?=\d)", ", ", text)
    text = _SUPERSCRIPT.sub(_power, text.translate(_FOLD))
    text = re.sub(r"(?<=\d)['\u00a0\u2009\u202f](?=\d{3}(?!\d))", ",", text)
    text = re.sub(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?![\d.])", lambda m: m.group().replace(".", ","), text)
    text = re.sub(r"(?<=\d)\s?--\s?(?=\d)", "–", text)
    text = re.sub(r"(?<=\d)(?=[¼½¾⅓⅔⅕-⅞])", " ", text)
    text = unicodedata.normalize("NFKC", text).translate(_FOLD)
    text = _OHM.sub(r"\1ohm", _MICRO.sub(r"\1µ", text))
    text = _GREEK_LETTER.sub(_named, text)
    text = _ACCENTED.sub(lambda m: _accents(m.group()), text)
    text = "".join(" " if _is_picture(c) else c for c in text if not unicodedata.combining(c))
    foreign = sorted({c for c in text if unicodedata.category(c)[0] == "L" and not _is_latin(c)})
    if foreign:
        raise UserError(
            f"These voices speak English only: rewrite the words with {' '.join(foreign[:8])} in English letters."
        )
    return text


def without_smileys(text: str) -> str:
    """':-)', '<3' and the like are no signs to read out."""
    return _SMILEY.sub(" ", text)


def _is_invisible(c: str) -> bool:
    if c in "\n\t":
        return False
    kind = unicodedata.category(c)
    return kind in ("Cc", "Cf", "Co", "Cs", "Cn") or "\ufe00" <= c <= "\ufe0f"


def _is_latin(c: str) -> bool:
    return c.isascii() or (c <= "ɏ" and (g2p.reads(c) or c == "µ"))


def _is_picture(c: str) -> bool:
    """An emoji or another sign that nobody reads out."""
    kind = unicodedata.category(c)
    return (kind == "So" and c not in "°©¶♭") or (kind == "Sk" and c > "\u2000")


def _power(match: re.Match[str]) -> str:
    """'x²' -> 'x^2', 'km²' -> 'km^2'; a raised number behind a word is a footnote."""
    before = match.string[max(0, match.start() - 4) : match.start()]
    return "^" + match.group().translate(_SUPERSCRIPTS) if _POWER_BEFORE.search(before) else ""


def _roman(match: re.Match[str]) -> str:
    """'Henry Ⅷ' -> 'Henry VIII', '(Ⅳ)' -> '(4)': behind a name the rules of numerals decide."""
    numeral = unicodedata.normalize("NFKC", match.group())
    named = re.search(r"[A-Z][a-z]+\s$", match.string[: match.start()])
    return numeral if named or roman(numeral.upper()) is None else str(roman(numeral.upper()))


def _named(match: re.Match[str]) -> str:
    """'2π' -> '2 pi'"""
    text, start, end = match.string, match.start(), match.end()
    left, right = (" " * side.isalnum() for side in (text[max(0, start - 1) : start], text[end : end + 1]))
    return f"{left}{_GREEK[match.group().lower()]}{right}"


def _accents(word: str) -> str:
    """'naïve' -> 'naive', but 'résumé' stays: without its accents it would be another word."""
    plain = _plain(word)
    if not plain.isascii() or not all(c <= "ɏ" for c in word):
        return word
    loud = word[-1] in "éè" or word.endswith(("és", "ée", "ées"))
    if g2p.knows(plain) and not (loud and not g2p.ends_in_a(plain)):
        return plain
    word = word if loud else word.translate(_DIAERESIS)
    return "".join(c if c.isascii() or g2p.reads(c) else _plain(c) for c in word)


def _plain(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
