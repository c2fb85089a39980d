"""What is said of the words of a result: which were misheard, in the words that the text has."""

from __future__ import annotations

import pytest

from tts_demo.metrics import word_errors
from tts_demo.ui.run.transcriber import misheard

PERFECT = (  # a text, and what a recogniser writes down when every word is right
    ("She sells seashells by the seashore.", "She sells sea shells by the sea shore."),
    ("It cost $1,249.50 in all.", "It cost one thousand two hundred forty-nine dollars and fifty cents in all."),
    ("The train leaves at 7:45 p.m. sharp.", "The train leaves at seven forty-five PM sharp."),
    ("The colour of the harbour at dawn.", "The color of the harbor at dawn."),
    ("We met on the 3rd of May, 1998.", "We met on the third of May, nineteen ninety-eight."),
    ("Mr. Smith paid 25% more.", "Mister Smith paid twenty-five percent more."),
    ("A grey programme in the theatre.", "A gray program in the theater."),
    ("Turn left after 2.5 miles.", "Turn left after two point five miles."),
    ("The bookkeeper's notebook was online.", "The book keeper's note book was on line."),
    ("Chapter 12 begins on page 340.", "Chapter twelve begins on page three hundred forty."),
    ("He apologised for the neighbour's dog.", "He apologized for the neighbor's dog."),
    ("Doctor Lee paid $24.50 for two tickets.", "Dr. Lee paid $24.50 for 2 tickets."),
)


@pytest.mark.parametrize("text, heard", PERFECT)
def test_a_perfect_result_has_no_word_wrong(text, heard):
    assert word_errors(text, heard).errors == 0 and misheard(text, heard) == []


NAMED = (  # a text, its transcript, what is said of it
    ("We counted twelve boats.", "We counted twelfth boats.", ["twelve as twelfth"]),
    ("We saw twelve of the boats.", "We saw of the boats.", ["twelve missing"]),
    ("It cost $1,249.50 in all.", "It cost $1,200 in all.", ["$1,249.50 as $1,200"]),
    ("The colour of the harbour.", "The color of the harper.", ["harbour as harper"]),
    ("It leaves at 7:45 p.m. sharp.", "It leaves at seven forty six PM sharp.", ["7:45 as seven forty six"]),
    ("Doctor Lee doesn\u2019t pay.", "Dr. Lee don't pay.", ["doesn't as don't"]),
    ("She sells seashells by the shore.", "She sells seashells by the seashore.", ["shore as seashore"]),
    ("\u201cHello,\u201d she said.", "Yellow, she said again.", ["Hello as Yellow", "again added"]),
    ("Alpha, beta.", "", ["Alpha beta missing"]),
)


@pytest.mark.parametrize("text, heard, named", NAMED)
def test_misheard_words_are_named_as_the_text_and_the_transcript_have_them(text, heard, named):
    assert misheard(text, heard) == named
