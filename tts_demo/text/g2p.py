"""English words to phonemes: the G2P of ``hibari-tts`` (a port of misaki), American lexicon.

The only file that knows the package. It reads words, apostrophes, hyphens and punctuation; digits and signs are to be
written out before. Deterministic, offline; one instance serves all threads: nothing of it changes while it reads."""

import functools
import re
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from .rules import filled, table
from .symbols import BOUNDARY, IDS, PUNCTUATION

# Symbols of its network for unknown words that the lexicon's alphabet lacks.
_QUOTES = str.maketrans("", "", '"“”')
_FOLD = str.maketrans({"…": ".", "a": "ɑ", "y": "j", "ʀ": "ɹ", "ɾ": "T", "ʔ": "t", "(": "", ")": "", "-": "", "1": ""})
# Compounds that do hold two R; elsewhere that network doubles the R of 'Katherine'.
_TWO_RS = re.compile(r"(?:over|under|inter|super|hyper|ultra|counter|after|water|fore)-?[rw]", re.I)
_NETWORK = 2  # the rating that its readings get
_WORDS, _CASED = table("words")["words"], table("words")["cased"]
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


def _g2p():
    """Built once, whichever thread asks first."""
    with _building:
        return _build()


def tokens(text: str) -> list[Token]:
    """'The cat, really?' -> The ðə, cat kˈæt, ',', really ɹˈiᵊli, '?'. What makes no sound is left out."""
    g2p = _g2p()
    tagged = g2p.tokenize(text)
    decided = _decided([token.text for token in tagged])
    read = []
    for i, token in enumerate(tagged):
        token.phonemes = decided.get(i) or _sound(token.text) or _listed(token.text) or token.phonemes
        if token.text.lower() == "'s" and read and read[-1].phonemes and not read[-1].whitespace:
            read[-1].text += token.text
            read[-1].phonemes += _ending(read[-1].phonemes)
            read[-1].whitespace = token.whitespace
        else:
            read.append(token)
    found = []
    for token in g2p.phonemize_tokens(read):
        # an apostrophe before a clipped word ('bout) comes back as a quotation mark, which no text in training had
        phonemes = (token.phonemes or "").translate(_QUOTES)
        if phonemes and all(c in PUNCTUATION or c == "…" for c in phonemes):
            found.append(Token("", phonemes.replace("…", "."), bool(token.whitespace)))
            continue
        phonemes = "".join(c for c in phonemes.translate(_FOLD) if c in IDS).strip(BOUNDARY)
        if token.rating == _NETWORK and not _TWO_RS.match(token.text):
            phonemes = phonemes.replace("ɹɹ", "ɹ")
        if token.text.endswith(".'s") and phonemes.endswith("s") and phonemes[-2:-1] not in "ptkfθ":
            phonemes = phonemes[:-1] + "z"  # 'the U.K.'s', which the package takes for a letter S
        if not phonemes and (bare := _without_accents(token.text)) != token.text:  # 'xàÀ', which nobody can read
            phonemes = "".join(part.phonemes for part in tokens(bare))
        if phonemes:
            found.append(Token(token.text, phonemes, bool(token.whitespace)))
    return found


def _before(pattern: str) -> re.Pattern[str]:
    return re.compile({"": "", "^": "^$"}.get(pattern, rf"(?:^|\s)(?:{filled(pattern, _HOMOGRAPHS)})$"))


# Homographs that the G2P's part-of-speech tags do not resolve: what stands before and behind the word, its phonemes.
_HOMOGRAPHS = table("homographs")
_CASES = {
    word: [
        (_before(before), re.compile(rf"\s*(?:{filled(after, _HOMOGRAPHS)})"), sound) for before, after, sound in cases
    ]
    for word, cases in _HOMOGRAPHS["cases"].items()
}


def _decided(words: Sequence[str]) -> dict[int, str]:
    """Index of a word -> its phonemes, for those that their neighbours decide."""
    low = [word.lower() for word in words]
    found = {}
    for i, word in enumerate(low):
        for before, after, phonemes in (*_CASES.get(words[i], ()), *_CASES.get(word, ())):
            if before.search(" ".join(low[max(0, i - 4) : i])) and after.match(" ".join(low[i + 1 : i + 5])):
                found[i] = phonemes
                break
    return found


def _listed(word: str) -> str | None:
    """The sounds of a word of the table, or of its plural where that is no other word ('hives')."""
    if word in _CASED:
        return _CASED[word]
    for form in (word.lower(), _without_accents(word.lower())):
        if form in _WORDS:
            return _WORDS[form]
        for plural in ("s", "es"):
            phonemes = _WORDS.get(form.removesuffix(plural)) if form.endswith(plural) and not _is_known(form) else None
            if phonemes and (plural == "s" or _ending(phonemes) == "ᵻz"):
                return phonemes + _ending(phonemes)
    return None


def _ending(phonemes: str) -> str:
    """Of a plural or a possessive."""
    return "s" if phonemes[-1] in "ptkfθ" else "ᵻz" if phonemes[-1] in "szʃʒʧʤ" else "z"


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


def knows(word: str) -> bool:
    """Whether the table of words or the lexicon has the word."""
    return _is_known(word) or _listed(word) is not None


def _is_known(word: str) -> bool:
    lexicon = _g2p().lexicon
    return word in lexicon.golds or word in lexicon.silvers


def reads(letter: str) -> bool:
    """Whether unknown words may hold the letter."""
    return letter in _g2p().oov.cin


def ends_in_a(word: str) -> bool:
    """Whether the lexicon ends the word in the vowel of 'day': 'cafe', not 'resume'."""
    phonemes = _g2p().lexicon.lookup(word, None, None, None)[0] or ""
    return phonemes.rstrip("zs").endswith("A")


def is_interjection(word: str) -> bool:
    """Whether it has sounds of its own here: 'Shh', 'brrr'."""
    return _sound(word) is not None


def _sound(word: str) -> str | None:
    return next((phonemes for pattern, phonemes in _INTERJECTIONS if pattern.fullmatch(word)), None)


def is_name(word: str) -> bool:
    """Whether the lexicon has it with a capital only: 'London', 'Monday'."""
    golds = _g2p().lexicon.golds.d
    return word.capitalize() in golds and word.lower() not in golds
