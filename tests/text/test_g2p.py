"""Words to phonemes: the symbol table, and what the library must go on deciding rightly."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tts_demo.text import g2p
from tts_demo.text.symbols import (
    BOUNDARY,
    CONSONANTS,
    IDS,
    PADDING,
    PUNCTUATION,
    STRESS,
    SYMBOLS,
    UNKNOWN,
    VOWELS,
    encode,
)


def said(text: str) -> str:
    return "".join(t.phonemes + " " * t.blank for t in g2p.tokens(text))


def test_the_symbol_table_is_frozen() -> None:
    """Trained weights index it: this test must only ever grow at the end."""
    assert SYMBOLS[:3] == (PADDING, UNKNOWN, BOUNDARY) and IDS[PADDING] == 0
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 61
    assert "".join(SYMBOLS[3:]) == ',.?!;:—()"“”ˈˌəᵊɪᵻɛæɑʌɔʊiuɜɐAIOWYpbtdkɡTʧʤfvθðszʃʒhmnŋlɹjw'


def test_one_id_a_character() -> None:
    ids = encode("kˈæt, x")
    assert len(ids) == 7 and [SYMBOLS[i] for i in ids] == ["k", "ˈ", "æ", "t", ",", " ", UNKNOWN]


def test_everything_said_is_in_the_table() -> None:
    text = (
        "bottle button measure church judge thing this bird father boy how water uncle idea cure fire fair "
        "seven yes whistle rhythm thorough naive bouquet genre little women wholly zebra quiz Blorvik Xiuhtezcatl Ng"
    )
    seen = set(said(text))
    assert seen <= set(VOWELS + CONSONANTS + STRESS + (BOUNDARY,)) and len(seen) >= 40


def test_tokens_carry_word_and_punctuation() -> None:
    tokens = g2p.tokens("The cat, really?")
    assert [(t.word, t.phonemes) for t in tokens] == [
        ("The", "ðə"),
        ("cat", "kˈæt"),
        ("", ","),
        ("really", "ɹˈiᵊli"),
        ("", "?"),
    ]
    assert [t.blank for t in tokens] == [True, False, True, False, False]
    assert all(set(t.phonemes) <= set(PUNCTUATION) for t in tokens if not t.word)


@pytest.mark.parametrize(
    ("text", "word", "phonemes"),
    [
        ("I will read it tomorrow.", "read", "ɹˈid"),
        ("Close the door.", "Close", "klˈOz"),
        ("The present is here.", "present", "pɹˈɛzᵊnt"),
        ("They present it.", "present", "pɹizˈɛnt"),
        ("NASA said so.", "NASA", "nˈæsə"),
        ("The FBI said so.", "FBI", "ˌɛfbˌiˈI"),
        ("The U.S. army.", "U.S.", "jˌuˈɛs"),
    ],
)
def test_homographs_and_letters(text: str, word: str, phonemes: str) -> None:
    assert dict((t.word, t.phonemes) for t in g2p.tokens(text))[word] == phonemes


def test_threads_read_alike() -> None:
    texts = [f"The quick brown {word} reads what Blorvik and {word} said." for word in ("fox", "dog", "Zorblax", "Qiz")]
    alone = [said(t) for t in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(said, texts * 8)) == alone * 8
