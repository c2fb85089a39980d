"""Text to phoneme ids: normalised English in, espeak-ng phonemes with stress, punctuation and word boundaries out.

The symbol table is part of every trained checkpoint: append to its end if you must, never reorder it.
Knows nothing of models. Writing numbers and abbreviations out is in ``spelling.py``.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Iterable, Sequence

from ..config import UserError
from .spelling import is_speakable, normalise, strongest

PADDING, UNKNOWN, BOUNDARY = "<pad>", "<unk>", " "
MAX_CHARACTERS = 5_000  # of one request, about six minutes of speech
STRESS = ("ˈ", "ˌ")  # before the vowel they belong to
PUNCTUATION = (",", ".", "?", "!", ";", ":", "—")
VOWELS = tuple("ə ɐ ɚ ɪ ᵻ i iː ʊ u uː ɛ e eɪ æ a aɪ aʊ ʌ ɑ ɑː ɔ ɔː ɔɪ o oː oʊ ɒ ɜ ɜː ɑ̃ ɔ̃".split())
CONSONANTS = tuple("p b t d k ɡ tʃ dʒ f v θ ð s z ʃ ʒ h m n n̩ ŋ l ɹ r j w ɾ ʔ x ɬ ç ɲ ʲ".split())
SYMBOLS: tuple[str, ...] = (PADDING, UNKNOWN, BOUNDARY, *PUNCTUATION, *STRESS, *VOWELS, *CONSONANTS)
IDS: dict[str, int] = {symbol: i for i, symbol in enumerate(SYMBOLS)}

_CHUNK = re.compile(r"([,.?!;:—]+)")
_SYMBOL = re.compile("|".join(sorted(map(re.escape, SYMBOLS[3:]), key=len, reverse=True)) + "|.", re.DOTALL)
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


class _Espeak:
    """The espeak-ng library of ``espeakng-loader``. It keeps process-wide state in C, hence the lock."""

    def __init__(self) -> None:
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper
        from phonemizer.separator import Separator

        EspeakWrapper.set_library(espeakng_loader.get_library_path())
        EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
        logger = logging.getLogger("tts_demo.espeak")
        logger.setLevel(logging.ERROR)  # it warns whenever espeak joins two words, which is what we want it to do
        self._backend = EspeakBackend(
            "en-us", with_stress=True, language_switch="remove-flags", words_mismatch="ignore", logger=logger
        )
        self._separator = Separator(phone="_", word=" ", syllable="")
        self._lock = threading.Lock()

    def __call__(self, chunks: list[str]) -> list[str]:
        with self._lock:
            return self._backend.phonemize(chunks, separator=self._separator, strip=True)


@functools.lru_cache(maxsize=1)
def _espeak() -> _Espeak:
    return _Espeak()


def _units(group: str) -> list[str]:
    """Symbols of one espeak word ('p_ɹ_ˈɪ_n_t'). espeak's compound phones ('ɔːɹ', 'aɪɚ') fall into their parts."""
    return [s if s in IDS else UNKNOWN for phone in group.split("_") for s in _SYMBOL.findall(phone)]


def _align(words: Sequence[str], groups: Sequence[Sequence[str]]) -> list[str]:
    """The written word(s) behind each spoken group, [groups]. espeak joins short words ('of the') and splits others,
    so counts may differ: the monotone assignment whose letter and phone counts agree best wins."""
    if len(words) == len(groups):
        return list(words)
    if not words or not groups:
        return [" ".join(words)] * len(groups)
    best: dict[tuple[int, int], tuple[float, tuple[int, int] | None]] = {(0, 0): (0.0, None)}
    for g in range(len(groups) + 1):
        for w in range(len(words) + 1):
            options = [
                (
                    best[g - a, w - b][0]
                    + abs(sum(len(x) for x in groups[g - a : g]) - sum(len(x) for x in words[w - b : w]))
                    + 2 * (a + b - 2),
                    (g - a, w - b),
                )
                for a, b in ((1, 1), (1, 2), (1, 3), (2, 1), (3, 1))
                if (g - a, w - b) in best
            ]
            if options:
                best[g, w] = min(options)
    if (len(groups), len(words)) not in best:
        return [" ".join(words)] * len(groups)
    spoken: list[str] = [""] * len(groups)
    g, w = len(groups), len(words)
    while (g, w) != (0, 0):
        previous = best[g, w][1]
        for i in range(previous[0], g):
            spoken[i] = " ".join(words[previous[1] : w])
        g, w = previous
    return spoken


def _labelled(texts: Iterable[str]) -> list[list[tuple[str, str]]]:
    """Per text, (symbol, written word) pairs. One espeak call for all of them."""
    pieces = [_CHUNK.split(normalise(text)) for text in texts]
    spoken = iter(_espeak()([c for chunks in pieces for c in chunks[::2] if c.strip()]))
    result = []
    for chunks in pieces:
        pairs: list[tuple[str, str]] = []
        for i, chunk in enumerate(chunks):
            if i % 2:  # punctuation: one symbol, the strongest of a run
                if pairs and pairs[-1][0] not in PUNCTUATION:
                    pairs.append((strongest(chunk), ""))
                continue
            if not chunk.strip():
                continue
            groups = [units for units in map(_units, next(spoken).split()) if units]
            for word, units in zip(_align(chunk.split(), groups), groups):
                if pairs:
                    pairs.append((BOUNDARY, ""))
                pairs.extend((unit, word) for unit in units)
        result.append(pairs)
    return result


def phonemes_batch(texts: Iterable[str]) -> list[list[str]]:
    """Symbols of each text; thousands of sentences a second."""
    return [[symbol for symbol, _ in pairs] for pairs in _labelled(texts)]


def phonemes(text: str) -> list[str]:
    """'the cat.' -> ['ð', 'ə', ' ', 'k', 'ˈ', 'æ', 't', '.']"""
    return phonemes_batch([text])[0]


def encode(text: str) -> tuple[list[int], tuple[Label, ...]]:
    """ids [T] into ``SYMBOLS`` and a readable label for each."""
    pairs = _labelled([text])[0]
    if not pairs:
        raise UserError("Nothing in this text can be spoken: type some English words or numbers.")
    return [IDS[s] for s, _ in pairs], tuple(Label.of(s, word) for s, word in pairs)


def encode_batch(texts: Iterable[str]) -> list[list[int]]:
    """ids of each text, for training data."""
    return [[IDS[s] for s in symbols] for symbols in phonemes_batch(texts)]


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
