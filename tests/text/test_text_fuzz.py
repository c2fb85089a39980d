"""Any string is said or refused in a sentence, in bounded time, and nothing is said that was not typed."""

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reading import words

from tts_demo.config import UserError
from tts_demo.text import preview
from tts_demo.text.spelling import normalise, sentences
from tts_demo.text.symbols import IDS, PUNCTUATION

PIECES = st.sampled_from(
    "the cat 5 1,000 $20 $ % 3/4 1/2/24 10:30 p.m. a.m. U.S. Dr. St. No. fig. etc. km 5km 6' 12\" ° @ # #1 & * ** "
    "_ ` ``` [ ] ( ) "
    "< > <b> </b> &amp; | - -- – — ... … . , ; : ! ? = + ^ ~ / // \\ http://a.com a@b.c IV VIII Charles '90s 90s MP3 "
    "x^2 √ ≤ "
    "½ ² é 😀 \u200b \u00ad \n \n\n \t - 1. 1) > ===== $x$ <3 :) 007 555-1234 192.168.0.1 v1.2 x y Shh Noooo btw".split(
        " "
    )
)
INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff\u200e\u202a\x00\x07\x1b"


def said_or_refused(text: str) -> None:
    try:
        spoken = preview(text)
    except UserError as error:
        assert str(error).endswith((".", "..."))
        return
    assert spoken
    for sentence in spoken:
        assert all(c in " ',.?!;:—-" or (c.isalpha() and c < "ɐ") for c in sentence.words)
        assert sentence.words[0].isalpha() or sentence.words[0] == "'"
        assert set(sentence.phonemes) <= set(IDS) and set(sentence.phonemes) - set(PUNCTUATION)


@given(st.text(max_size=60))
@example("xàÀ")
@settings(max_examples=500, deadline=None)
def test_any_unicode(text: str) -> None:
    said_or_refused(text)


@given(st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=12), st.sampled_from(["", " "]))
@settings(max_examples=500, deadline=None)
def test_any_mixture_of_what_the_rules_know(pieces: list[str], joint: str) -> None:
    said_or_refused(joint.join(pieces))


@given(st.text(st.characters(categories=("Cc", "Cf", "Co", "Cn", "Zs", "Mn"), exclude_characters="\n"), max_size=30))
@settings(max_examples=100, deadline=None)
def test_what_is_invisible_is_silent(text: str) -> None:
    assert sentences(text) == []


@given(
    st.lists(st.sampled_from("the quick brown fox jumps over lazy dogs while we sleep".split()), min_size=1), st.data()
)
@settings(max_examples=100, deadline=None)
def test_invisible_characters_change_no_word(typed: list[str], data: st.DataObject) -> None:
    text = " ".join(typed)
    at = data.draw(st.integers(0, len(text)))
    assert words(text[:at] + data.draw(st.sampled_from(INVISIBLE)) + text[at:]) == text


@given(
    st.lists(st.from_regex(r"[b-hj-z][aeiou][b-df-hj-np-tv-z][aeiou][lnr]", fullmatch=True), min_size=1, max_size=12)
)
@settings(max_examples=200, deadline=None)
def test_words_are_said_as_they_are_typed(typed: list[str]) -> None:
    assert words(" ".join(typed)) == " ".join(typed)


@pytest.mark.parametrize(
    "text", ["5 km in 30 min. at $3.50 on 3/4/24 (p. 7)", "**The** U.S. has 50 states & 1/2 of x^2."]
)
def test_what_is_written_out_stays(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1 ",
        "1-",
        "1/",
        "$1",
        "<a ",
        "[a](",
        "*a ",
        "_a",
        "a.",
        "/",
        "a@a.",
        "1'",
        "|a",
        "a\n",
        "x^2 ",
        "zq",
        " ",
        "~~a",
        "a-",
    ],
)
def test_time_is_bounded(piece: str) -> None:
    text = (piece * 5000)[:4999] + "a"
    start = time.process_time()
    try:
        sentences(text)
    except UserError:
        pass
    assert time.process_time() - start < 2.0


def test_combining_marks_and_scripts_are_refused_not_guessed() -> None:
    for c in "אبअ한あ中яλλ":
        if unicodedata.category(c)[0] == "L":
            with pytest.raises(UserError):
                normalise(f"{c}{c} word")
