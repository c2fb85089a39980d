"""Text to phoneme ids: sentences written out in words, their phonemes with stress, punctuation and word boundaries.

Knows nothing of models. Writing numbers and signs out is in ``spelling.py``, phonemes are in ``g2p.py``."""

from dataclasses import dataclass

from ..config import UserError
from . import g2p
from .pacing import breaths, paced
from .segments import shorten
from .spelling import normalise, sentences
from .symbols import BOUNDARY, CONSONANTS, IDS, VOWELS

MAX_CHARACTERS = 5_000  # of one request, about six minutes of speech


class Label(str):
    """One text token as people read it. ``word``: the written word it belongs to, '' for boundaries and punctuation."""

    word: str = ""

    @classmethod
    def of(cls, symbol: str, word: str = "") -> "Label":
        label = cls("␣" if symbol == BOUNDARY else symbol)
        label.word = word
        return label


@dataclass(frozen=True)
class Sentence:
    """words: the spoken form, numbers and signs written out. tokens: words and punctuation marks with phonemes."""

    words: str
    tokens: tuple[g2p.Token, ...]

    @property
    def phonemes(self) -> str:
        """As the model gets them, one character a symbol: 'ðə kˈæt, ɹˈiᵊli?'"""
        return "".join(token.phonemes + BOUNDARY * token.blank for token in self.tokens).strip()


def preview(text: str, pace: bool = True) -> list[Sentence]:
    """The sentences that a text becomes. pace: with the commas of ``pacing.py``, which a transcript must not get.
    Raises UserError where nothing of it can be read."""
    return [_sentence(words) for words in split_sentences(text, pace=pace)]


def _sentence(words: str) -> Sentence:
    """A full stop that is also an abbreviation's ('in the U.S.') is a mark of its own behind it."""
    tokens = g2p.tokens(words)
    if tokens and words[-1] in ".?!" and tokens[-1].word:
        tokens.append(g2p.Token("", words[-1], False))
    return Sentence(words, tuple(tokens))


def encode(text: str) -> tuple[list[int], tuple[Label, ...]]:
    """ids [T] into SYMBOLS, and a readable label for each."""
    pairs: list[tuple[str, str]] = []  # symbol, written word
    for words in sentences(text):
        for token in _sentence(words).tokens:
            pairs.extend((symbol, "" if symbol == BOUNDARY else token.word) for symbol in token.phonemes)
            if token.blank:
                pairs.append((BOUNDARY, ""))
        pairs.append((BOUNDARY, ""))
    while pairs and pairs[-1][0] == BOUNDARY:
        pairs.pop()
    if not pairs:
        raise UserError("Nothing in this text can be spoken: type some English words or numbers.")
    return [IDS[symbol] for symbol, _ in pairs], tuple(Label.of(symbol, word) for symbol, word in pairs)


def sounds() -> frozenset[int]:
    """ids of the phonemes proper, without stress, punctuation and boundaries: what a phoneme recogniser emits."""
    return frozenset(IDS[symbol] for symbol in VOWELS + CONSONANTS)


def split_sentences(text: str, max_chars: int = 220, pace: bool = True) -> list[str]:
    """Sentences to synthesise one after another, in spoken form, each at most ``max_chars``: cut at clause borders,
    then at words. Raises UserError where nothing can be read, so that a long text fails before its first word plays."""
    if not text.strip():
        raise UserError("There is no text to say: type at least one word.")
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"The text has {len(text):,} characters: cut it to at most {MAX_CHARACTERS:,}.")
    normalise(text)
    parts = [part for words in sentences(text) for part in (map(paced, breaths(words)) if pace else [words])]
    return [piece for part in parts for piece in shorten(part, max_chars)]
