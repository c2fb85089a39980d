"""Weights trained before hibari's phonemes came read espeak-ng's symbols: this says the same words in them.

Such a checkpoint is known by the size of its table. The file goes when no bundled weights need it.
"""

from __future__ import annotations

import re

from .symbols import BOUNDARY, PADDING, STRESS, UNKNOWN

_MARKS = (",", ".", "?", "!", ";", ":", "—")
_VOWELS = tuple("ə ɐ ɚ ɪ ᵻ i iː ʊ u uː ɛ e eɪ æ a aɪ aʊ ʌ ɑ ɑː ɔ ɔː ɔɪ o oː oʊ ɒ ɜ ɜː ɑ̃ ɔ̃".split())
_CONSONANTS = tuple("p b t d k ɡ tʃ dʒ f v θ ð s z ʃ ʒ h m n n̩ ŋ l ɹ r j w ɾ ʔ x ɬ ç ɲ ʲ".split())
SYMBOLS: tuple[str, ...] = (PADDING, UNKNOWN, BOUNDARY, *_MARKS, *STRESS, *_VOWELS, *_CONSONANTS)
IDS: dict[str, int] = {symbol: i for i, symbol in enumerate(SYMBOLS)}
SOUNDS = frozenset(IDS[symbol] for symbol in _VOWELS + _CONSONANTS)

_SOUND = "[əᵊɪᵻɛæɑʌɔʊiuɜɐAIOWY]"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), symbols)
    for pattern, symbols in (
        ('[()"“”]', ""),
        ("^ði$", "ð ɪ"),
        ("^ˌ(?=..?$)", ""),
        ("^ə(?=..)", "ɐ"),
        (rf"tᵊn(?!{_SOUND})", "ʔ n̩"),
        (rf"[əᵊ]ɹ(?![ˈˌ]?{_SOUND})", "ɚ"),
        (rf"ɜɹ(?![ˈˌ]?{_SOUND})", "ɜː"),
        ("A", "eɪ"),
        ("I", "aɪ"),
        ("O", "oʊ"),
        ("W", "aʊ"),
        ("Y", "ɔɪ"),
        ("ʧ", "tʃ"),
        ("ʤ", "dʒ"),
        ("T", "ɾ"),
        ("ᵊ", "ə"),
        ("ɑ", "ɑː"),
        ("ɔ", "ɔː"),
        ("ɜ", "ɜː"),
        ("u", "uː"),
        (r"(?<=[ˈˌ])i|(?<=^[^ˈˌ])i(?=$)|(?<=^[^ˈˌ]{2})i(?=$)", "iː"),
    )
)
_RULE = re.compile("|".join(f"({pattern.pattern})" for pattern, _ in _RULES) + "|.")


def respell(phonemes: str) -> list[str]:
    """hibari's phonemes of one word or mark -> symbols of the older table: 'klˈOz' -> ['k', 'l', 'ˈ', 'oʊ', 'z']"""
    found = []
    for match in _RULE.finditer(phonemes):
        found += _RULES[match.lastindex - 1][1].split() if match.lastindex else [match.group()]
    return found
