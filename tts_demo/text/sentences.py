"""Text to phoneme ids: sentences written out in words, their phonemes with stress, punctuation and word boundaries.

Knows nothing of models. Writing numbers and signs out is in ``spelling.py``, phonemes are in ``g2p.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..config import UserError
from . import espeak_table, g2p
from .spelling import is_speakable, normalise
from .symbols import BOUNDARY, CONSONANTS, IDS, SYMBOLS, VOWELS

MAX_CHARACTERS = 5_000  # of one request, about six minutes of speech

_CLAUSE_END = re.compile(r"(?<=[;:—])\s+|(?<=,)\s+|\s+(?=\()")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9])|\n\s*\n")
_NO_END = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Gen|Col|Capt|Lt|Sgt|Maj|Rev|Hon|Gov|Sen|Rep|Pres|Messrs|Mt|No|Nos|vs|etc|"
    r"e\.g|i\.e|Fig|Vol|pp|p|approx|Inc|Ltd|Co|Corp|Ave|Blvd|Rd|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
    r"|(?:^|[\s(\"“])[A-Z](?:\.[A-Z])*)\.$"
)


class Label(str):
    """One text token as people read it. ``word``: the written word it belongs to, '' for boundaries and punctuation."""

    word: str = ""

    @classmethod
    def of(cls, symbol: str, word: str = "") -> Label:
        label = cls("␣" if symbol == BOUNDARY else symbol)
        label.word = word
        return label


@dataclass(frozen=True)
class Spoken:
    """One sentence: its words, numbers and signs written out, and tokens, each a word (or a mark) with its phonemes."""

    words: str
    tokens: tuple[g2p.Token, ...]

    @property
    def phonemes(self) -> str:
        """As the model gets them, one character a symbol: 'ðə kˈæt, ɹˈiᵊli?'"""
        return "".join(token.phonemes + BOUNDARY * token.blank for token in self.tokens).strip()


def preview(text: str) -> list[Spoken]:
    """What will be said, sentence by sentence. Raises UserError where nothing can be spoken."""
    return [_spoken(sentence) for sentence in split_sentences(text)]


def _spoken(sentence: str) -> Spoken:
    words = normalise(sentence)
    return Spoken(words, tuple(g2p.tokens(words)))


def _labelled(text: str, vocab: int) -> list[tuple[str, str]]:
    """(symbol, written word) pairs."""
    older = vocab == len(espeak_table.SYMBOLS)
    pairs: list[tuple[str, str]] = []
    for token in _spoken(text).tokens:
        symbols = espeak_table.respell(token.phonemes) if older else token.phonemes
        pairs.extend((symbol, "" if symbol == BOUNDARY else token.word) for symbol in symbols)
        if token.blank:
            pairs.append((BOUNDARY, ""))
    while pairs and pairs[-1][0] == BOUNDARY:
        pairs.pop()
    return pairs


def encode(text: str, vocab: int = len(SYMBOLS)) -> tuple[list[int], tuple[Label, ...]]:
    """ids [T] into the table of a model that knows ``vocab`` symbols, and a readable label for each."""
    pairs = _labelled(text, vocab)
    if not pairs:
        raise UserError("Nothing in this text can be spoken: type some English words or numbers.")
    ids = espeak_table.IDS if vocab == len(espeak_table.SYMBOLS) else IDS
    return [ids[symbol] for symbol, _ in pairs], tuple(Label.of(symbol, word) for symbol, word in pairs)


def encode_batch(texts: Iterable[str]) -> list[list[int]]:
    """ids of each text, for training data."""
    return [encode(text)[0] for text in texts]


def sounds(vocab: int = len(SYMBOLS)) -> frozenset[int]:
    """ids of the phonemes of that table: what a recogniser can hear, without stress, punctuation and boundaries."""
    if vocab == len(espeak_table.SYMBOLS):
        return espeak_table.SOUNDS
    return frozenset(IDS[symbol] for symbol in VOWELS + CONSONANTS)


def split_sentences(text: str, max_chars: int = 220) -> list[str]:
    """Pieces to speak in turn, each at most ``max_chars`` once written out. Cuts at sentence ends, then at clause
    borders, then at words. Abbreviations and initials do not end a sentence. Raises UserError where a piece cannot
    be spoken, so that a long text fails before its first word is heard."""
    if not text.strip():
        raise UserError("There is no text to say: type at least one word.")
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"The text has {len(text):,} characters: cut it to at most {MAX_CHARACTERS:,}.")
    normalise(text)
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if "\n" not in match.group() and _NO_END.search(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end()])
        start = match.end()
    sentences.append(text[start:])
    flat = [" ".join(s.split()) for s in sentences]
    return [piece for s in flat for piece in _shorten(s, max_chars) if is_speakable(piece)]


def _shorten(sentence: str, max_chars: int) -> list[str]:
    """Cut an overlong sentence at the clause border, else the space, that leaves the most even pieces."""
    if not is_speakable(sentence) or len(normalise(sentence)) <= max_chars:
        return [sentence]
    for borders in (_CLAUSE_END.finditer(sentence), re.finditer(r"\s+", sentence)):
        inner = [m.end() for m in borders if 0.15 * len(sentence) < m.end() < 0.85 * len(sentence)]
        if inner:
            cut = min(inner, key=lambda border: abs(border - len(sentence) / 2))
            return _shorten(sentence[:cut].strip(), max_chars) + _shorten(sentence[cut:].strip(), max_chars)
    raise UserError(f"A word in this text is too long to speak: put spaces into {sentence[:24]!r}...")
