"""What will be said, before it is said: each sentence as words and as phonemes."""

from __future__ import annotations

from dataclasses import dataclass

from . import g2p
from .sentences import split_sentences
from .spelling import normalise


@dataclass(frozen=True)
class Spoken:
    """One sentence: its words, numbers and signs written out, and tokens, each a word (or a mark) with its phonemes."""

    words: str
    tokens: tuple[g2p.Token, ...]

    @property
    def phonemes(self) -> str:
        """As the model gets them, one character a symbol: 'ðə kˈæt, ɹˈiᵊli?'"""
        return "".join(token.phonemes + " " * token.blank for token in self.tokens).strip()


def preview(text: str) -> list[Spoken]:
    """Sentence by sentence. Raises UserError where nothing can be spoken."""
    sentences = [normalise(sentence) for sentence in split_sentences(text)]
    return [Spoken(words, tuple(g2p.tokens(words))) for words in sentences]
