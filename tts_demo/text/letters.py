"""The letter A. With a full stop behind it, which is silent, the G2P gives the letter; without, the article."""

from .rules import apply, compiled, table

_TABLE = table("letters")
LABELS = _TABLE["LABELS"]
_FIGURES, _WORDS = (compiled(_TABLE, {}, which) for which in ("figures", "words"))


def beside_figures(text: str) -> str:
    """While there are figures and signs: 'A5', '4a', 'A+', 'a + b'"""
    return apply(_FIGURES, text)


def alone(text: str) -> str:
    """When there are words only: 'Plan A failed', 'a equals five'"""
    return apply(_WORDS, text)
