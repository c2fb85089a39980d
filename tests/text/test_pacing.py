"""Commas for breath: letters in a row, repeated cries, long clauses; and none in what is short or a transcript."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_demo.text import preview
from tts_demo.text.pacing import LONGEST, closed, paced
from tts_demo.text.sentences import split_sentences
from tts_demo.train.data.speech import phonemes_of

ROWS = {
    "A. B C D": "A., B, C, D",
    "Say X Y Z.": "Say X, Y, Z.",
    "the F B I agent": "the F, B, I agent",
    "I said a b c d.": "I said A., b, c, d.",
    "It is Q R S or T.": "It is Q, R, S or T.",
    "ha ha ha ha ha": "ha, ha, ha, ha, ha",
    "No no no!": "No, no, no!",
    "She said, Stop that! and left.": "She said, Stop that, and left.",
    # as they were
    "Stop! Go.": "Stop! Go.",
    "Are you in? he asked.": "Are you in? he asked.",
    "plan A. B": "plan A. B",
    "J. R. R. Tolkien wrote it.": "J. R. R. Tolkien wrote it.",
    "A. B. C. Smith left.": "A. B. C. Smith left.",
    "the F.B.I. agent": "the F.B.I. agent",
    "ha ha": "ha ha",
    "He had had it.": "He had had it.",
    "I'm a B": "I'm a B",
}
CLAUSES = {
    "The committee asked the chairman to look at the report because nobody had seen the figures that were in it.": (
        "report, because"
    ),
    "He went down to the harbor with his oldest brother every single morning when the boats came in from the sea.": (
        "morning, when"
    ),
    "She had packed the bread and the butter in a basket for the children and they ate it by the side of the road.": (
        "children, and they"
    ),
    "We walked all the way to the top of the old tower from which you can see the mountains on the other side.": (
        "tower, from which"
    ),
    "They would have given every one of us a better seat at the table even though nobody had asked them to do it.": (
        "table, even though"
    ),
    "The woman gave a long speech about the history of the town but the people in the hall had already gone home.": (
        "town, but"
    ),
}
KEPT = (
    "The cat sat on the mat because it was warm.",
    "The river ran through the valley and the village, and the people who lived there called it the old one.",
    "He paid one hundred and twenty three thousand dollars and fifty cents for one hundred and seven old tables.",
    "The manager of the northern division of the company told every one of the workers the very same thing.",
    "It was one of the best meals on the long road from the mountains to the sea; nobody said so.",
    "She is a member of the board of directors of the largest firm of builders in the state of Wyoming.",
)
WORDS = st.lists(
    st.sampled_from("the dog and which I a b c because of, ran. no where that was slowly twenty or so".split()),
    max_size=60,
)


@pytest.mark.parametrize(("text", "commas"), ROWS.items())
def test_rows(text: str, commas: str) -> None:
    assert paced(text) == commas


@pytest.mark.parametrize(("text", "border"), CLAUSES.items())
def test_long_clauses_are_parted_where_a_reader_breathes(text: str, border: str) -> None:
    assert border in paced(text) and paced(text).replace(",", "") == text
    assert max(map(len, re.split("[,.]", paced(text)))) <= LONGEST


@pytest.mark.parametrize("text", KEPT)
def test_what_is_short_or_belongs_together_stays(text: str) -> None:
    assert paced(text) == text


@given(WORDS)
@settings(max_examples=200, deadline=None)
def test_pacing_adds_commas_only_and_once(words: list[str]) -> None:
    text = " ".join(words)
    once = paced(text)
    assert re.sub(r"[,.]", "", once).lower() == re.sub(r"[,.]", "", text).lower()
    assert paced(once) == once


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("ha ha ha ha ha", ["ha ha.", "ha ha.", "ha."]),
        ("No, no, no, no!", ["No no!", "no no!"]),
        ("Ha ha ha ha! That is funny.", ["Ha ha!", "ha ha!", "That is funny."]),
        ("la la la la la la", ["la la."] * 3),
        ("go go go go?", ["go go?", "go go?"]),
        ("Bye bye bye bye bye.", ["Bye bye.", "bye bye.", "bye."]),
        # as they were
        ("No no no!", ["No, no, no!"]),
        ("He said ha ha ha ha and left.", ["He said ha, ha, ha, ha and left."]),
        ("ha ha", ["ha ha"]),
        ("very very very very", ["very very very very"]),
        ("ha ha ho ho ha", ["ha ha ho ho ha"]),
        ("No. No. No. No.", ["No."] * 4),
    ],
)
def test_a_row_of_cries_is_spoken_in_pairs(text: str, pieces: list[str]) -> None:
    assert split_sentences(text) == pieces
    assert split_sentences(text, pace=False)[0].count(" ") >= pieces[0].count(" ")


@pytest.mark.parametrize(
    ("piece", "end"),
    [
        ("A, B, C", "C."),
        ("the dogs'", "'."),
        ("Los Angeles", "s."),
        ("He left.", "t."),
        ("Why?", "?"),
        ("he ran,", "n,"),
    ],
)
def test_what_is_generated_ends_in_a_mark(piece: str, end: str) -> None:
    assert closed(piece).endswith(end) and closed(closed(piece)) == closed(piece)


def test_only_what_is_generated_is_paced() -> None:
    """A transcript keeps the pauses of its speaker."""
    text = next(iter(CLAUSES))
    assert preview(text)[0].phonemes != preview(text, pace=False)[0].phonemes == phonemes_of(text)
    assert "," in split_sentences(text)[0] and "," not in split_sentences(text, pace=False)[0]
