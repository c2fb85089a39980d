"""Text front end: what is written out, what the phonemes look like, where long text is cut, what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_demo.config import UserError
from tts_demo.text import espeak_table, preview
from tts_demo.text.sentences import MAX_CHARACTERS, Label, encode, encode_batch, split_sentences
from tts_demo.text.spelling import normalise, year
from tts_demo.text.symbols import BOUNDARY, CONSONANTS, PUNCTUATION, STRESS, SYMBOLS, VOWELS

WRITTEN = {
    "I have 21 of 1,234.5": "I have twenty one of one thousand two hundred thirty four point five",
    "the 2nd, 3rd and 100th": "the second, third and one hundredth",
    "In 1907 and 1850 and 2005 and 2024": "In nineteen oh seven and eighteen fifty and two thousand five and twenty twenty four",
    "the 1990s": "the nineteen nineties",
    "on 3/14/2021": "on March fourteenth twenty twenty one",
    "on 2021-03-14": "on March fourteenth twenty twenty one",
    "on the 5th of May": "on the fifth of May",
    "on May 5": "on May fifth",
    "at 5:05 p.m. sharp": "at five oh five P M sharp",
    "She came at 9 a.m.": "She came at nine A M.",
    "at 12:00": "at twelve o'clock",
    "$1,234.50": "one thousand two hundred thirty four dollars and fifty cents",
    "$1": "one dollar",
    "$0.99": "ninety nine cents",
    "£5m": "five million pounds",
    "€3.5 billion": "three point five billion euros",
    "3 kg, 1 kg, 16 kHz, 20°C, 10 km/h": "three kilograms, one kilogram, sixteen kilohertz, twenty degrees celsius, "
    "ten kilometers per hour",
    "50%": "fifty percent",
    "-5°F": "minus five degrees fahrenheit",
    "10-20": "ten to twenty",
    "1/2 a cup, 2½ cups": "one half a cup, two and one half cups",
    "(555) 123-4567": "five five five, one two three, four five six seven",
    "Dr. Smith vs. Mrs. Jones, e.g. on St. James": "Doctor Smith versus Missis Jones, for example on Saint James",
    "the U.S. army": "the U S army",
    "Tom & Jerry @ home": "Tom and Jerry at home",
    "see www.example.com": "see example dot com",
    "Café Zoë, naïve façade": "Cafe Zoe, naive facade",
    "π = 3.14": "pi equals three point one four",
    "“Well…” he said – ‘maybe’": "Well, he said — maybe",
    "Hello 😀 world": "Hello world",
    "well-known": "well known",
    "$1.5-2 million, 10%-20%, 2am-3pm": "one point five to two million dollars, ten percent to twenty percent, two A M to three P M",
    "World War II and Henry VIII": "World War two and Henry the eighth",
    "Jan. 5, 2020": "January fifth, twenty twenty",
    "42nd St., the 747s": "forty second Street, the seven hundred forty sevens",
    "ISBN 978-3-16": "ISBN nine seven eight, three, one six",
    "He is 5'10\"": "He is five foot ten",
    "Mr Smith, the U.K.'s Ph.D.": "Mister Smith, the U K's P H D",
    "Hello,world.This is it": "Hello, world. This is it",
    "the king's (old) horse": "the king's, old, horse",
    "a sentence without anything special": "a sentence without anything special",
}


@pytest.mark.parametrize("text", WRITTEN, ids=lambda t: t[:24])
def test_written_out(text: str) -> None:
    assert normalise(text) == WRITTEN[text]


def test_years_in_words() -> None:
    assert [year(n) for n in (1900, 1776, 2000, 2001, 2010)] == [
        "nineteen hundred",
        "seventeen seventy six",
        "two thousand",
        "two thousand one",
        "twenty ten",
    ]


@given(st.text(max_size=80))
@settings(max_examples=60, deadline=None)
def test_any_text_is_spoken_or_refused_in_a_sentence(text: str) -> None:
    """No input crashes; what is accepted holds nothing but letters, apostrophes, spaces and known punctuation."""
    try:
        written = normalise(text)
    except UserError as error:
        assert str(error).endswith(".")
        return
    assert not set(written) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ' ,.?!;:—")
    assert any(c.isalpha() for c in written) and written[0].isalpha()


@pytest.mark.parametrize("text", ["", "   ", "😀😀", "...!?", "привет", "日本語 and English", "\u200b"])
def test_what_cannot_be_spoken_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="English|no text"):
        split_sentences(text)


def test_phonemes_keep_stress_punctuation_and_boundaries() -> None:
    first, second = preview("The 2 cats, really? Yes.")
    assert first.words == "The two cats, really?" and first.phonemes == "ðə tˈu kˈæts, ɹˈiᵊli?"
    assert [(t.word, t.phonemes) for t in second.tokens] == [("Yes", "jˈɛs"), ("", ".")]


def test_a_batch_is_the_same_as_one_by_one() -> None:
    texts = ["Of the people, by the people.", "Mr. Jones paid $5!", "i saw the 2 of them in the end"]
    assert encode_batch(texts) == [encode(t)[0] for t in texts]


def test_labels_know_their_word() -> None:
    ids, labels = encode("One of the kings, well-known.")
    assert [SYMBOLS[i] for i in ids] == [BOUNDARY if label == "␣" else label for label in labels]
    words = list(dict.fromkeys(label.word for label in labels if label.word))
    assert words == ["One", "of", "the", "kings", "well", "known"]
    assert all(label.word == "" for label in labels if label in ("␣", *PUNCTUATION))


def test_weights_of_the_older_table_get_its_symbols() -> None:
    ids, labels = encode("Closing the five boats, Peter?", len(espeak_table.SYMBOLS))
    assert "".join(labels) == "klˈoʊzɪŋ␣ðə␣fˈaɪv␣bˈoʊts,␣pˈiːɾɚ?"
    assert labels[3:5] == ("oʊ", "z") and [espeak_table.SYMBOLS[i] for i in ids[3:5]] == ["oʊ", "z"]


def test_every_phoneme_has_a_symbol_in_the_older_table() -> None:
    for symbol in (BOUNDARY, *PUNCTUATION, *STRESS, *VOWELS, *CONSONANTS):
        assert set(espeak_table.respell(symbol)) <= set(espeak_table.SYMBOLS), symbol


def test_labels_survive_copies() -> None:
    label = Label.of("k", "cat")
    for copied in (copy.deepcopy(label), pickle.loads(pickle.dumps(label))):
        assert copied == "k" and copied.word == "cat"


def test_sentences_end_where_they_end() -> None:
    text = (
        'Mr. J. F. Smith met Dr. Who at 5 p.m. on Monday! Was it, e.g. late? "Yes," he said. Then he left.\n\n'
        "A new paragraph costs $3.50. Ok"
    )
    assert split_sentences(text, 300) == [
        "Mr. J. F. Smith met Dr. Who at 5 p.m. on Monday!",
        "Was it, e.g. late?",
        '"Yes," he said.',
        "Then he left.",
        "A new paragraph costs $3.50.",
        "Ok",
    ]


def test_pieces_without_words_are_left_out() -> None:
    assert split_sentences("Hello. 😀! Bye.") in (["Hello. 😀!", "Bye."], ["Hello.", "Bye."])


def test_an_overlong_sentence_is_cut_at_clauses_then_words() -> None:
    clause = "when the long winter came over the hills"
    pieces = split_sentences(", ".join([clause] * 6) + ".", 100)
    assert all(len(p) <= 100 for p in pieces) and all(p.endswith((",", ".")) for p in pieces)
    pieces = split_sentences("word " * 100, 60)
    assert max(map(len, pieces)) <= 60 and " ".join(pieces).split() == ["word"] * 100
    digits = split_sentences("1234567 " * 6, 100)  # short to look at, long to say
    assert len(digits) == 6


@pytest.mark.parametrize("text", ["x" * 400, "a " * (MAX_CHARACTERS // 2 + 1)])
def test_too_long_to_speak(text: str) -> None:
    with pytest.raises(UserError, match="too long|cut it"):
        split_sentences(text)


@given(
    st.lists(
        st.sampled_from(
            ["the", "cat", "Dr.", "sat.", "No!", "5", "p.m.", "Then,", "we", "(went)", "home;", "—", "A.", "why?"]
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(40, 200),
)
@settings(max_examples=60, deadline=None)
def test_no_word_is_lost_between_sentences(words: list[str], limit: int) -> None:
    text = "Hello " + " ".join(words)
    pieces = split_sentences(text, limit)
    assert all(len(normalise(p)) <= limit for p in pieces)
    assert " ".join(pieces).replace("—", "").split() == text.replace("—", "").split()
