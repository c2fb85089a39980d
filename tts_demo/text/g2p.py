"""English words to phonemes: the G2P of ``hibari-tts`` (a port of misaki), American lexicon.

The only file that knows the package. It reads words, apostrophes, hyphens and punctuation; digits and signs are to be
written out before. Deterministic, offline; one instance serves all threads: nothing of it changes while it reads.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass

from .symbols import BOUNDARY, IDS, PUNCTUATION

# What its network for unknown words may say outside the lexicon's alphabet.
_FOLD = str.maketrans({"…": ".", "a": "ɑ", "y": "j", "ʀ": "ɹ", "ɾ": "T", "ʔ": "t", "(": "", ")": "", "-": "", "1": ""})
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
    found = []
    for token in g2p.phonemize_tokens(g2p.tokenize(text)):
        phonemes = token.phonemes or ""
        if phonemes and all(c in PUNCTUATION or c == "…" for c in phonemes):
            found.append(Token("", phonemes.replace("…", "."), bool(token.whitespace)))
            continue
        phonemes = "".join(c for c in phonemes.translate(_FOLD) if c in IDS).strip(BOUNDARY)
        if phonemes:
            found.append(Token(token.text, phonemes, bool(token.whitespace)))
    return found
