"""Addresses of the net, files, paths, handles, hashtags, names of programs: '@', '.', '/' and '_' by their names."""

from __future__ import annotations

import re

from . import g2p, numbers
from .rules import Rules, apply, compiled, letters

_NAMES = {".": " dot ", "/": " slash ", "\\": " backslash ", "_": " underscore ", "-": " dash ", "@": " at "}
_NAMES |= {":": " colon ", "~": " tilde ", "?": " question mark ", "=": " equals ", "&": " and ", "#": " hash "}
_NAMES |= {"+": " plus ", "%": " percent ", "*": " star "}
_DOMAINS = (
    "com|org|net|edu|gov|mil|io|co|ai|app|dev|info|biz|me|tv|uk|us|ca|de|fr|eu|au|jp|cn|in|ly|gg|fm|so|xyz|int|onion|"
    "ch|nl|es|it|se|no|nz|ie|to|sh|page|blog|shop|news|tech|online|site"
)
_SPELLED = frozenset(
    "io ai uk us tv eu jp cn fm md py js ts sh html htm css json xml csv tsv pdf jpg jpeg png svg mp mp3 mp4 wav txt "
    "exe "
    "php sql yml ipynb rb rs cpp hpp cfg ini dll iso apk docx xlsx pptx doc xls ppt www url http https ftp ssh rst "
    "tgz gz "
    "bz db de fr ch nl nz toml yaml conf".split()
) - {"toml", "yaml", "conf", "jpeg"}
_FILE = (
    "py|js|ts|jsx|tsx|sh|html?|css|json|xml|csv|tsv|pdf|jpe?g|png|gif|svg|mp[34]|wav|flac|txt|exe|php|sql|ya?ml|toml|"
    "ipynb|rb|rs|c|h|cpp|hpp|cc|go|java|md|rst|cfg|ini|conf|dll|iso|apk|docx?|xlsx?|pptx?|zip|tar|gz|bz2|log|env|lock|"
    "db|onnx|pt|bin|bat|dmg|deb|rpm|safetensors"
)
_PIECE = re.compile(r"\d+|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[^\w\s]|_")
_PARTS = {
    "env": "env",
    "init": "init",
    "repo": "repo",
    "config": "config",
    "src": "S.R.C.",
    "usr": "user",
    "etc": "E.T.C.",
}


def _named(text: str) -> str:
    """An address as it is read out: words, letters of what is no word, digits one by one, signs by name."""
    said = []
    for piece in _PIECE.findall(text):
        if piece.isdigit():
            said.append(numbers.digits(piece) if len(piece) != 2 or piece[0] == "0" else numbers.cardinal(piece))
        elif piece[0].isalpha():
            said.append(_word(piece))
        else:
            said.append(_NAMES.get(piece, " "))
    return " " + re.sub(r"\s+", " ", " ".join(said)).strip() + " "


def _word(piece: str) -> str:
    low = piece.lower()
    if low in _PARTS:
        return _PARTS[low]
    vowelless = not re.search(r"[aeiouy]", low)
    if (
        low in _SPELLED
        or (len(low) > 1 and vowelless)
        or (piece.isupper() and 1 < len(piece) < 5 and not g2p.knows(low))
    ):
        return letters(piece)
    return piece


def _url(match: re.Match[str]) -> str:
    text = match["url"]
    trailing = re.search(r"[.,;:!?)\]'\"]*$", text).group()
    return _named(text[: len(text) - len(trailing)].rstrip("/")).rstrip() + (trailing or " ")


def _camel(name: str) -> str:
    """'ThrowbackThursday' -> 'Throwback Thursday', 'B2B' stays for later rules"""
    return re.sub(
        r"(?<=[a-z])(?=[A-Z])|(?<=\d\d)(?=[a-z]{3})|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d{2})", " ", name
    ).replace("_", " ")


_END = r"(?=[\s.,;:!?)\]'\"]|$)"
_RULES: Rules = compiled(
    (r"(?i)\b(?:https?|ftp|file)://(?P<url>[^\s<>\"]+)", _url),
    (r"(?i)\bmailto:", ""),
    (r"(?i)(?<![\w@])(?P<url>[\w.+%-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5})", _url),
    (r"(?i)(?<![\w@.])(?P<url>www\.[^\s<>\"]+)", _url),
    (
        rf"(?<![\w@./])(?P<url>(?:[A-Za-z0-9][\w-]{{0,62}}\.){{1,4}}(?:{_DOMAINS})(?::\d{{2,5}})?(?:/[^\s<>\"]*)?)"
        r"(?![\w@-]|\.\w)",
        lambda m: _url(m) if _is_domain(m["url"]) else m.group(),
    ),
    (r"(?<![\w&])@(?P<url>[A-Za-z_][\w.]*\w|[A-Za-z])", lambda m: f" at {_named(m['url'])}"),
    # paths and files
    (r"(?<![\w/])(?P<url>[A-Z]:\\[\w\\ .-]*[\w\\])", _url),
    (r"(?<![\w.<)])(?P<url>(?:~|\.{1,2})?/[\w.~-]*[A-Za-z_][\w.~-]*(?:/[\w.~*-]*)*)(?![\w/])", _url),
    (r"(?<![\w./])(?P<url>[A-Za-z_][\w-]+(?:/[\w-]+)*/)" + _END, _url),
    (
        rf"(?<![\w./])(?P<url>(?:[\w.-]+/)*\.?[\w-]+(?:\.[\w-]+)*\.(?:{_FILE}))(?![\w/-]|\.\w)",
        lambda m: m.group() if re.fullmatch(r"[\d.]+[a-z]?|(?:[A-Za-z]\.)+[a-z]", m["url"]) else _url(m),
    ),
    (
        r"(?<![\w/.])\.(?=(?:env|git|gitignore|bashrc|vimrc|npmrc|net|config|ssh|cache)\b)(?P<url>[a-z]+)",
        lambda m: " dot" + _url(m),
    ),
    (r"(?i)(?<![\w./])(\.NET)\b", "dot net"),
    (rf"(?<![\w.])\.(?=(?:{_FILE})\b)(?P<url>\w+)", lambda m: " dot" + _url(m)),
    (r"(?<![\w/])(?P<url>[a-z]+(?:_[a-z0-9]+)+)(?!\w)", _url),
    (r"(?<![\w/])(?P<url>[A-Z]+(?:_[A-Z0-9]+)+)(?!\w)", lambda m: _url(m)),
    # handles, hashtags, languages
    (
        r"(?<![\w&])#(?![A-Fa-f]*\d[\dA-Fa-f]*\b)(?=[A-Za-z_]|\d+(?!st|nd|rd|th|s\b)[A-Za-z]{3})(\w+)",
        lambda m: f" hashtag {_camel(m[1])} ",
    ),
    (r"\b([CJF])#(?!\w)", r"\1 sharp"),
    (r"\b([A-G])♯", r"\1 sharp"),
    (r"\b([A-G])♭", r"\1 flat"),
    (r"\b([CG])\+\+(?!\w)", r"\1 plus plus"),
    (r"(?<=\s)(--?)([a-z][a-z-]{0,30})(?=[\s,;:!?)=.]|$)", lambda m: f" {'dash ' * len(m[1])}{m[2].replace('-', ' ')}"),
    (
        r"(?i)\b(ctrl|control|cmd|command|alt|shift|option)\s?\+\s?(?=\w)",
        lambda m: f"{_KEYS.get(m[1].lower(), m[1])} plus ",
    ),
)
_KEYS = {"ctrl": "control", "cmd": "command"}


def _is_domain(text: str) -> bool:
    """'example.com', 'foo.co.uk/x'; not 'end.In' (a blank was forgotten), 'e.g.in', 'U.S'."""
    host = re.split(r"[/:]", text, maxsplit=1)[0]
    name, last = host.rsplit(".", 1)
    if not last.islower() and not host.isupper():
        return False
    certain = re.fullmatch(r"com|org|net|edu|gov|io|ai|app|dev|info|uk|tv|biz|gg|ly|xyz|mil", last)
    return (last == "com" or len(name.replace(".", "")) > 1) and bool(
        certain or "/" in text or (len(name) > 2 and g2p.knows(name) is False)
    )


def write_out(text: str) -> str:
    return apply(_RULES, text)
