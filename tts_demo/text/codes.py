"""Digits that are no number: telephone, emergency, zip and card numbers, codes, addresses of machines, versions,
numbered sections, houses, rooms, roads, models."""

import re

from . import g2p, numbers
from .rules import filled, table, writer

_TABLE = table("codes")
STATE = "|".join(_TABLE["states"])
_WORDS, _DEGREES = (frozenset(_TABLE[name].split()) for name in ("words", "degrees"))
_TITLED = frozenset(_TABLE["titled"].split())
ROAD_NAMES = table("abbreviations")["roads"]
ROADS = "|".join(ROAD_NAMES)
_GIVEN = re.compile(filled(rf"\b(?:{_TABLE['NAMES']})\.?\s(?:[A-Z]\w*\.?\s)?$", {}))
_POINT = re.compile(r"[NS][EW]|[NSEW]|[NS](?:NE|NW|SE|SW)|[EW](?:NE|NW|SE|SW)").fullmatch
STATE_NAMES = "|".join(name for name in _TABLE["states"].values() if name != "D.C.")


def grouped(text: str) -> str:
    """'555-0142' -> 'five five five, zero one four two'; '800' is 'eight hundred', words stay."""
    spoken = []
    for group in re.findall(r"\d+|[A-Za-z]+", text):
        if group.isalpha():
            word = len(group) > 3 or group == "GO"
            spoken.append(group.capitalize() if word else "".join(f"{c.upper()}." for c in group))
        else:
            spoken.append(numbers.cardinal(group) if group in ("800", "900") else numbers.digits(group))
    return ", ".join(spoken)


def telephone(match: re.Match[str]) -> str:
    text = match.group()
    spoken = grouped(re.sub(r"(?i)^\+1(?=\D)|^1(?=[-. ])", "", text))
    head = "plus one, " if text.startswith("+1") and not text[2].isdigit() else "plus " if text[0] == "+" else ""
    head = "one, " if re.match(r"1[-. ]", text) else head
    if re.match(r"1[-. ]800", text):
        head = "one "
    return head + spoken


def extension(match: re.Match[str]) -> str:
    """Only behind a telephone number that is written out by now."""
    if not re.search(r"(?:zero|one|two|three|four|five|six|seven|eight|nine),?\s$", match.string[: match.start()]):
        return match.group()
    return f"extension {numbers.digits(match[1])}"


def address(match: re.Match[str]) -> str:
    """'192.168.1.1' -> 'one nine two dot one six eight dot one dot one'"""
    parts = match["ip"].split(".")
    if any(int(p) > 255 for p in parts):
        return match.group()
    spoken = " dot ".join(numbers.digits(p) for p in parts)
    if match["mask"]:
        spoken += f" slash {numbers.cardinal(match['mask'])}"
    return spoken + (f" colon {port(match['port'])}" if match["port"] else "")


def port(text: str) -> str:
    return numbers.pairs(text) if len(text) == 4 and not text.endswith("000") else numbers.cardinal(text)


def version(match: re.Match[str]) -> str:
    before = match["before"].rstrip()
    name = "version" if before in ("v", "V", "ver.", "Ver.") else before
    tail = match["tail"] or ""
    spoken = (f"{numbers.sections(match['low'])} to " if match["low"] else "") + numbers.sections(match["n"])
    if tail.startswith(("-", "rc", "a", "b")) and tail.strip("-."):
        word = re.match(r"-?([a-z]+)\.?(\d*)", tail)
        names = {"rc": "release candidate", "a": "alpha", "b": "beta"}
        if word:
            spoken += f" {names.get(word[1], word[1])}" + (f" {numbers.cardinal(word[2])}" if word[2] else "")
    return f"{name.rstrip('-')} {spoken}".strip()


def _named(before: str, surname: str) -> bool:
    """Whether a person's name ends there: 'Ann Lee', not 'Ann Arbor', 'Silver Spring'"""
    return bool(_GIVEN.search(before)) and surname not in _TABLE["TOWNS"].split()


def state(match: re.Match[str]) -> str:
    """'Tulsa, OK' is a place; 'Sure, OK', 'NYC, LA' and 'John Smith, MD' are none."""
    place, code, text = match["place"], match["state"], match.string
    if re.match(r"\s(?:zero|one|two|three|four|five|six|seven|eight|nine)\s", text[match.end() :]):  # a zip code
        return f"{place}, {_TABLE['states'][code]}"
    before = text[: match.start()]
    titled = code in _DEGREES and (place in _TITLED or _named(before, place))
    common = code in _WORDS and not g2p.is_name(place) and not re.search(r"\b(?:in|from|to|near|of)\s$", before)
    return match.group() if place.isupper() or titled or common else f"{place}, {_TABLE['states'][code]}"


def state_list(match: re.Match[str]) -> str:
    """'MO, VA, and OK' -> 'Missouri, Virginia, and Oklahoma'; 'OH, OK, HI' are words, 'Lee, MD, MA, MS' degrees."""
    codes = re.findall("[A-Z]{2}", match.group())
    words = set(codes) <= _WORDS or len(set(codes)) < len(codes)
    degrees = set(codes) <= _DEGREES and re.search(r"[A-Z][a-z]+,\s$", match.string[: match.start()])
    if words or degrees:
        return match.group()
    return re.sub("[A-Z]{2}", lambda code: _TABLE["states"][code[0]], match.group())


def compass(point: str) -> str:
    """'NNW' -> 'north northwest', 'E' -> 'east'; what is no point of the compass stays."""
    halves = [point[:-2], point[-2:]] if len(point) == 3 else [point]
    return " ".join(_TABLE["sides"].get(half, half) for half in halves if half).lower() if _POINT(point) else point


def commas(match: re.Match[str]) -> str:
    """'10 000' -> '10,000'"""
    return match.group().replace(" ", ",")


def unmarked(text: str) -> str:
    return text.rstrip("#")


write_out = writer(_TABLE, globals())
