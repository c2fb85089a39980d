"""Addresses of the net, files, paths, handles, hashtags, names of programs: '@', '.', '/' and '_' by their names."""

import re

from . import g2p, numbers
from .rules import letters, table, writer

_TABLE = table("electronic")
_SPELLED = frozenset(_TABLE["spelled"].split())
_PIECE = re.compile(r"\d+|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[^\w\s]|_")


def named(text: str) -> str:
    """An address in spoken form: words, letters of unknown words, single digits, signs by name."""
    spoken = []
    for piece in _PIECE.findall(text):
        if piece.isdigit():
            spoken.append(numbers.digits(piece) if len(piece) != 2 or piece[0] == "0" else numbers.cardinal(piece))
        elif piece[0].isalpha():
            spoken.append(_word(piece))
        else:
            spoken.append(_TABLE["signs"].get(piece, " "))
    return " " + re.sub(r"\s+", " ", " ".join(spoken)).strip() + " "


def _word(piece: str) -> str:
    low = piece.lower()
    if low in _TABLE["parts"]:
        return _TABLE["parts"][low]
    vowelless = len(low) > 1 and not re.search(r"[aeiouy]", low)
    acronym = piece.isupper() and 1 < len(piece) < 5 and not g2p.knows(low)
    return letters(piece) if low in _SPELLED or vowelless or acronym else piece


def url(match: re.Match[str]) -> str:
    text = match["url"]
    trailing = re.search(r"[.,;:!?)\]'\"]*$", text).group()
    return named(text[: len(text) - len(trailing)].rstrip("/")).rstrip() + (trailing or " ")


def mail(match: re.Match[str]) -> str:
    """'jane@example.com' -> 'jane, at example dot com': with time to write the name down."""
    name, host = match["url"].split("@")
    return f"{named(name).rstrip()}, at{named(host)}"


def domain(match: re.Match[str]) -> str:
    """'example.com', 'foo.co.uk/x'; not 'end.In' (a blank was forgotten), 'e.g.in', 'U.S'."""
    host = re.split(r"[/:]", match["url"], maxsplit=1)[0]
    name, last = host.rsplit(".", 1)
    if not last.islower() and not host.isupper() or re.fullmatch(r"[A-Za-z](?:\.[A-Za-z])+", name):
        return match.group()
    alone = last in ("com", "org", "net", "ai", "io", "dev", "app")  # 'x.ai'
    certain = re.fullmatch(r"com|org|net|edu|gov|io|ai|app|dev|info|uk|tv|biz|gg|ly|xyz|mil", last)
    long, unknown = alone or len(name.replace(".", "")) > 1, len(name) > 2 and not g2p.knows(name)
    return url(match) if long and (certain or "/" in match["url"] or unknown) else match.group()


def file(match: re.Match[str]) -> str:
    """'notes.txt'; not '3.5c', 'U.S.c'."""
    return match.group() if re.fullmatch(r"[\d.]+[a-z]?|(?:[A-Za-z]\.)+[a-z]", match["url"]) else url(match)


def camel(name: str) -> str:
    """'ThrowbackThursday' -> 'Throwback Thursday', 'B2B' stays for later rules"""
    borders = r"(?<=[a-z])(?=[A-Z])|(?<=\d\d)(?=[a-z]{3})|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d{2})"
    return re.sub(borders, " ", name).replace("_", " ")


def flag(match: re.Match[str]) -> str:
    """'--dry-run' -> 'dash dash dry run'"""
    return f" {'dash ' * len(match[1])}{match[2].replace('-', ' ')}"


def key(name: str) -> str:
    return _TABLE["keys"].get(name.lower(), name)


write_out = writer(_TABLE, globals())
