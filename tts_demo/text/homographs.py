"""Homographs that the G2P's part-of-speech tags do not resolve: rules on the neighbouring words choose the phonemes."""

import re
from collections.abc import Sequence

from .rules import filled, table

_TABLE = table("homographs")


def _before(pattern: str) -> re.Pattern[str]:
    return re.compile({"": "", "^": "^$"}.get(pattern, rf"(?:^|\s)(?:{filled(pattern, _TABLE)})$"))


_RULES = {
    word: [
        (_before(before), re.compile(rf"\s*(?:{filled(after, _TABLE)})"), phonemes) for before, after, phonemes in cases
    ]
    for word, cases in _TABLE["cases"].items()
}


def decide(words: Sequence[str]) -> dict[int, str]:
    """Index of a word -> its phonemes, for those that their neighbours decide."""
    low = [word.lower() for word in words]
    found = {}
    for i, word in enumerate(low):
        for before, after, phonemes in (*_RULES.get(words[i], ()), *_RULES.get(word, ())):
            if before.search(" ".join(low[max(0, i - 4) : i])) and after.match(" ".join(low[i + 1 : i + 5])):
                found[i] = phonemes
                break
    return found
