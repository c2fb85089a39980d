"""Abbreviations, titles, Roman numerals, letters, interjections and the short words of chats."""

import re

from . import g2p, numbers
from .rules import ends_sentence, filled, letters, stop, table, writer
from .units import ONE_OF, UNITS, per

_TABLE = table("abbreviations")
_LONG, _INFORMAL = _TABLE["dotted"], _TABLE["informal"]
_CAPITAL, _BEFORE_FIGURE, _BEFORE_NAME, _ALSO_WORDS, _ALSO_NAMES, _PEOPLE, _STRETCHED = (
    frozenset(_TABLE[name].split())
    for name in ("capital", "before_figure", "before_name", "also_words", "also_names", "people", "stretched")
)
_FIGURE = re.compile(
    r"\s?(?:[\d#]|[A-Z]{1,4}-\d|[A-Z]{1,4}\d{2}|[IVXLC]+\b|(?:one|two|three|four|five|six|seven|eight|nine|ten|\w+teen|\w+ty|minus)\b)"
)
# 'Boston, Mass.' and 'the Rev.', not 'Sunday Mass.' and 'call him Rev.'
_FULL_FORM = re.compile(r"(?:,|\b(?:in|from|of|near|across|throughout|the|our|his|her|\w+ern)(?:\s[A-Z][a-z]+)?)\s$")
SLASHED = "|".join(re.escape(word) for word in _INFORMAL if "/" in word)
CHAT = "|".join(sorted((word for word in _INFORMAL if "/" not in word), key=len, reverse=True))
BARE = "kWh|MWh|GWh|kW|MHz|GHz|kHz|Mbps|Gbps|kbps|dB|hPa|kPa|mmHg|mAh"  # units that nobody takes for a word
PER = "|".join(unit for unit in ONE_OF if len(unit) > 1)


def long(word: str) -> str:
    """'Capt' -> 'Captain', 'max' -> 'maximum'"""
    spoken = _LONG.get(word.lower(), word)
    return spoken.capitalize() if word[0].isupper() else spoken


def abbreviation(match: re.Match[str]) -> str:
    """An abbreviation with its full stop; the stop stays where it also ends the sentence."""
    word, text = match["word"], match.string
    low, after = word.lower(), text[match.end() :]
    full = _LONG.get(low)
    ends = not after.strip("\"')]*_ ")
    figure = _FIGURE.match(after)
    if full is None or (low in _BEFORE_FIGURE and not figure) or (low in _CAPITAL and word.islower() and not figure):
        return match.group()
    if low in _BEFORE_NAME and not (word[0].isupper() and re.match(r"\s+[A-Z]", after)):
        return match.group()
    if low in _ALSO_NAMES and ends and word[0].isupper() and not _FULL_FORM.search(text[: match.start()]):
        return match.group()
    if low in _ALSO_WORDS and ends and (word.islower() or word == "CO"):
        return match.group()
    if word[0].isupper() and full.islower():
        full = full[0].upper() + full[1:]
    if low in ("jr", "sr", "ph.d", "a.k.a") and full.endswith(("D", "A")):
        full += "."
    return full + ("." if ends and not full.endswith(".") else "")


def saint_or_street(match: re.Match[str]) -> str:
    """'St. Paul' is a saint, '5th St.', 'Main St. is' and 'St. Mary's St.' are streets."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    named = re.search(r"\b(?:[A-Z][a-z]+(?:'s|s')?|[a-z]+(?:st|nd|rd|th))\s$", before)
    street = named and not re.match(r"\s+[A-Z]", after)
    street = street or re.search(r"\b[a-z]*(?:first|second|third|th)\s$|\d(?:st|nd|rd|th)\s$", before)
    if match[1] == "St":
        return f"Street{stop(match)}" if street or ends_sentence(match) else "Saint"
    return f"Drive{stop(match)}" if street else "Doctor"


def roman_number(match: re.Match[str]) -> str:
    """'Henry VIII' -> 'Henry the eighth', 'Chapter IV' -> 'Chapter four', 'Louis XIV's' keeps its ending."""
    before, numeral = match["before"], match["roman"].upper()
    number = numbers.roman(numeral)
    if number is None:
        return match.group()
    text = match.string
    if before[0].islower() and numeral == "I" and _PRONOUN.search(text[: match.start()]):
        return match.group()
    person = before in _PEOPLE or re.search(rf"\b(?:{_TABLE['TITLED']})\s$", text[: match.start()])
    if numeral in ("I", "V", "X") and before in _PEOPLE:
        # 'Charles I think' is no king
        titled = re.search(rf"\b(?:{_TABLE['TITLED']})\s(?:[A-Z][a-z]+\s)?$", text[: match.start()])
        follows = re.match(r"\s(?:of|was|became|died|ruled|reigned)\b|'s\b|\s?[,.;:)]|$", text[match.end() :])
        if numeral != "V" and not (titled or follows) or (before == "Malcolm" and numeral == "X"):
            return match.group()
    if person:
        return f"{before} the {numbers.ordinal(str(number))}"
    return f"{before} {numbers.cardinal(str(number))}"


# 'the part I like', 'every page I read'
_PRONOUN = re.compile(
    r"\b(?:the|this|that|every|each|an?|my|your|his|her|our|their|which|what|no|any|one)\s(?:\w+\s)?$"
)
_LABELLED = re.compile(filled(rf"\b(?i:{_TABLE['PARTS']})s\.?\s$", {}))


def roman_list(match: re.Match[str]) -> str:
    """'I, II, and III', 'Parts I and V', 'II–IV': rising, one long or labelled; not 'X, Y, Z', 'sizes L-XL'."""
    numerals, before = re.findall(r"[IVXL]+", match.group()), match.string[: match.start()]
    values = [numbers.roman(numeral) or 0 for numeral in numerals]
    rising = values[0] and all(low < high for low, high in zip(values, values[1:]))
    certain = max(map(len, numerals)) > 1 or _LABELLED.search(before)
    person = re.search(r"(\w+)\s$", before)
    if not (rising and certain) or (person and person[1] in _PEOPLE):
        return match.group()
    spoken = re.sub(r"[IVXL]+", lambda m: numbers.cardinal(str(numbers.roman(m.group()))), match.group())
    return re.sub(r"\s?[-–]\s?", " to ", spoken)


def small_roman(match: re.Match[str]) -> str:
    """'page xii' -> 'page twelve', 'pages iv-x' -> 'pages four to ten'"""
    values = [numbers.roman(n.upper()) for n in match.group("low", "high") if n]
    if None in values:
        return match.group()
    return f"{match['before']} {' to '.join(numbers.cardinal(str(value)) for value in values)}"


def unstretched(match: re.Match[str]) -> str:
    """'Noooo' -> 'No', 'sooo' -> 'so', 'yesss' -> 'yes': the form with one or two letters that is a word."""
    word = match.group()
    if word.isupper() and numbers.roman(word) is not None or word.lower() == "www":
        return word
    if g2p.is_interjection(word):
        return word
    twice, once = (re.sub(r"([A-Za-z])\1{2,}", form, word) for form in (r"\1\1", r"\1"))
    low = once.lower()
    if g2p.knows(low) and (low in _STRETCHED or not g2p.knows(twice.lower())):
        return once
    return twice if g2p.knows(twice.lower()) else word if word.isupper() and len(word) < 6 else once  # 'IEEE'


def short(match: re.Match[str]) -> str:
    word = match.group()
    spoken = _INFORMAL[word.lower()]
    if word.isupper() and ("'" not in spoken or len(word) < 4):
        return word  # the G2P knows its letters
    return spoken[0].upper() + spoken[1:] if word[0].isupper() else spoken


def unspeakable(match: re.Match[str]) -> str:
    """Letters of what has no vowel and is no word: 'btw', 'xkcd'"""
    word = match.group()
    if word[1:] != word[1:].lower() or g2p.knows(word) or g2p.knows(word.lower()) or g2p.is_interjection(word):
        return word
    return letters(word)


def roman_of_person(match: re.Match[str]) -> str:
    return roman_number(match) if match["before"] in _PEOPLE else match.group()


def roman_cardinal(numeral: str) -> str:
    """'IV' -> 'four'; what is no numeral stays."""
    number = numbers.roman(numeral)
    return numbers.cardinal(str(number)) if number else numeral


def roman_ordinal(numeral: str) -> str:
    return numbers.ordinal(str(numbers.roman(numeral) or 0))


def roman_year(match: re.Match[str]) -> str:
    year = numbers.roman(match.group())
    return numbers.year(str(year)) if year else match.group()


def bare_unit(match: re.Match[str]) -> str:
    """'in kWh' -> 'in kilowatt hours', 'per kWh' -> 'per kilowatt hour'"""
    return (match["before"] or "") + UNITS[match["unit"]][not match["before"]]


def slashed(match: re.Match[str]) -> str:
    """'w/o' -> 'without', 'w/milk' -> 'with milk'"""
    word = match.group()
    return _INFORMAL.get(word.lower(), word) + " " * word.endswith("/")


_NAMES = globals() | {"per": per}
write_out = writer(_TABLE, _NAMES)
words_only = writer(_TABLE, _NAMES, "words")  # no figure is left: stretched words, letters of what is no word
