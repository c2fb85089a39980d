"""English words to phonemes: the G2P of ``hibari-tts`` (a port of misaki), American lexicon.

The only file that knows the package. It reads words, apostrophes, hyphens and punctuation; digits and signs are to be
written out before. Deterministic, offline; one instance serves all threads: nothing of it changes while it reads.
"""

from __future__ import annotations

import functools
import re
import threading
import unicodedata
from dataclasses import dataclass

from . import homographs
from .rules import table
from .symbols import BOUNDARY, IDS, PUNCTUATION

# What its network for unknown words may say outside the lexicon's alphabet.
_FOLD = str.maketrans({"…": ".", "a": "ɑ", "y": "j", "ʀ": "ɹ", "ɾ": "T", "ʔ": "t", "(": "", ")": "", "-": "", "1": ""})
_INTERJECTIONS = [(re.compile(spelt, re.I), phonemes) for spelt, phonemes in table("interjections")["sounds"]]
_building = threading.Lock()


@dataclass(frozen=True)
class Token:
    """A word, or a punctuation mark with ``word`` ''. ``phonemes``: one character a symbol. ``blank``: one follows."""

    word: str
    phonemes: str
    blank: bool


@functools.lru_cache(maxsize=1)
def _build():
    from hibari.g2p import G2P

    g2p = G2P()
    g2p.oov("hibari")  # loads the network for unknown words, which is otherwise put off to the first one
    return g2p


def tokens(text: str) -> list[Token]:
    """'The cat, really?' -> The ðə, cat kˈæt, ',', really ɹˈiᵊli, '?'. What makes no sound is left out."""
    with _building:
        g2p = _build()
    tagged = g2p.tokenize(text)
    decided = homographs.decide([token.text for token in tagged])
    for i, token in enumerate(tagged):
        token.phonemes = decided.get(i) or _sound(token.text) or token.phonemes
    found = []
    for token in g2p.phonemize_tokens(tagged):
        phonemes = token.phonemes or ""
        if phonemes and all(c in PUNCTUATION or c == "…" for c in phonemes):
            found.append(Token("", phonemes.replace("…", "."), bool(token.whitespace)))
            continue
        phonemes = "".join(c for c in phonemes.translate(_FOLD) if c in IDS).strip(BOUNDARY)
        if token.text.endswith(".'s") and phonemes.endswith("s") and phonemes[-2:-1] not in "ptkfθ":
            phonemes = phonemes[:-1] + "z"  # 'the U.K.'s', which the package takes for a letter S
        if not phonemes and (bare := _without_accents(token.text)) != token.text:  # 'xàÀ', which nobody can read
            phonemes = "".join(part.phonemes for part in tokens(bare))
        if phonemes:
            found.append(Token(token.text, phonemes, bool(token.whitespace)))
    return found


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


def knows(word: str) -> bool:
    """Whether the lexicon has the word."""
    with _building:
        lexicon = _build().lexicon
    return word in lexicon.golds or word in lexicon.silvers


def reads(letter: str) -> bool:
    """Whether unknown words may hold the letter."""
    with _building:
        return letter in _build().oov.cin


def ends_in_a(word: str) -> bool:
    """Whether the lexicon ends the word in the vowel of 'day': 'cafe', not 'resume'."""
    with _building:
        lexicon = _build().lexicon
    phonemes = lexicon.lookup(word, None, None, None)[0] or ""
    return phonemes.rstrip("zs").endswith("A")


def is_interjection(word: str) -> bool:
    """Whether it has sounds of its own here: 'Shh', 'brrr'."""
    return _sound(word) is not None


def _sound(word: str) -> str | None:
    return next((phonemes for pattern, phonemes in _INTERJECTIONS if pattern.fullmatch(word)), None)
