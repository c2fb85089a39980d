"""Text front end: what is written out, what the phonemes look like, where long text is cut, what is refused."""

import copy
import pickle
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tts_demo.config import UserError
from tts_demo.text import preview
from tts_demo.text.sentences import MAX_CHARACTERS, Label, encode, split_sentences
from tts_demo.text.spelling import normalise
from tts_demo.text.symbols import BOUNDARY, PUNCTUATION, SYMBOLS


@given(st.text(max_size=80))
@example("`N")
@settings(max_examples=60, deadline=None)
def test_any_text_is_spoken_or_refused_in_a_sentence(text: str) -> None:
    """No input crashes; what is accepted holds nothing but letters, apostrophes, spaces and known punctuation."""
    try:
        written = normalise(text)
    except UserError as error:
        assert str(error).endswith(".")
        return
    assert all(c in " ',.?!;:—-" or (c.isalpha() and c < "ɐ") for c in written)
    assert written.removeprefix("'")[0].isalpha()  # 'em, 'n, 'cause keep theirs


@pytest.mark.parametrize("text", ["", "   ", "😀😀", "...!?", "\u200b"])
def test_what_cannot_be_spoken_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="Nothing|no text"):
        split_sentences(text)


def test_phonemes_keep_stress_punctuation_and_boundaries() -> None:
    first, second = preview("The 2 cats, really? Yes.")
    assert first.words == "The two cats, really?" and first.phonemes == "ðə tˈu kˈæts, ɹˈiᵊli?"
    assert [(t.word, t.phonemes) for t in second.tokens] == [("Yes", "jˈɛs"), ("", ".")]


def test_labels_know_their_word() -> None:
    ids, labels = encode("One of the kings, well-known.")
    assert [SYMBOLS[i] for i in ids] == [BOUNDARY if label == "␣" else label for label in labels]
    words = list(dict.fromkeys(label.word for label in labels if label.word))
    assert words == ["One", "of", "the", "kings", "well-known"]
    assert all(label.word == "" for label in labels if label in ("␣", *PUNCTUATION))


def test_labels_survive_copies() -> None:
    label = Label.of("k", "cat")
    for copied in (copy.deepcopy(label), pickle.loads(pickle.dumps(label))):
        assert copied == "k" and copied.word == "cat"


def test_sentences_come_written_out() -> None:
    text = 'Mr. J. F. Smith came at 5 p.m. on Monday! "Yes," he said.\n\nA new paragraph costs $3.50. 😀 Ok'
    assert split_sentences(text, 300) == [
        "Mister J. F. Smith came at five P.M. on Monday!",
        "Yes, he said.",
        "A new paragraph costs three dollars and fifty cents.",
        "Ok.",
    ]


def test_an_overlong_sentence_is_cut_at_clauses_then_words() -> None:
    clause = "when the long winter came over the hills"
    pieces = split_sentences(", ".join([clause] * 6) + ".", 100)
    assert all(len(p) <= 100 for p in pieces) and all(p.endswith((",", ".")) for p in pieces)
    pieces = split_sentences("word " * 100, 60)
    assert max(map(len, pieces)) <= 60 and " ".join(pieces).split() == ["word"] * 100
    digits = split_sentences("1234567 " * 6, 100)  # short to look at, long to say
    assert all(len(p) <= 100 for p in digits)


@pytest.mark.parametrize("text", ["xy" * 200, "a " * (MAX_CHARACTERS // 2 + 1)])
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
    assert all(len(p) <= limit for p in pieces)
    assert re.findall(r"[\w']+", " ".join(pieces)) == re.findall(r"[\w']+", normalise(text))


@pytest.mark.parametrize("text", ["'Bout time.", "`N", "'n so on", "' Hello there.", 'He said \'bout "nine".'])
def test_no_quotation_mark_is_spoken(text: str) -> None:
    assert not any(set('"“”') & set(sentence.phonemes) for sentence in preview(text))
