"""Words written alike and said differently where the G2P's tags do not tell: the words around them decide."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .rules import filled, table

_TABLE = table("homographs")


def _before(pattern: str) -> re.Pattern[str]:
    return re.compile({"": "", "^": "^$"}.get(pattern, rf"(?:^|\s)(?:{filled(pattern, _TABLE)})$"))


_RULES = {
    word: [(_before(before), re.compile(rf"\s*(?:{filled(after, _TABLE)})"), said) for before, after, said in cases]
    for word, cases in _TABLE["cases"].items()
}


def decide(words: Sequence[str]) -> dict[int, str]:
    """Index of a word -> its phonemes, for those that their neighbours decide."""
    low = [word.lower() for word in words]
    found = {}
    for i, word in enumerate(low):
        for before, after, said in (*_RULES.get(words[i], ()), *_RULES.get(word, ())):
            if before.search(" ".join(low[max(0, i - 4) : i])) and after.match(" ".join(low[i + 1 : i + 5])):
                found[i] = said
                break
    return found
