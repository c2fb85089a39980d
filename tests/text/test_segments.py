"""Where sentences end."""

import pytest

from tts_demo.text.segments import sentences
from tts_demo.text.sentences import preview


@pytest.mark.parametrize(
    "text",
    [
        "He moved to the U.S.| Now he works.",
        "The U.S. Army is big.",
        "He met Dr. Who at 5 p.m. on Monday.",
        "It starts at 5 p.m.| Dinner is at 7.",
        "It starts at 5 p.m. Monday.",
        "Mr. J. F. Smith came.| He left.",
        "Buy pens, paper, etc.| Then leave.",
        "See fig. 3 and p. 12.",
        "It cost $5.| 3 people paid.",
        "He works at Acme Inc.| The pay is good.",
        "Acme Inc. Chairman Bob left.",
        "Was it, e.g. Bob?| Yes.",
        '"Yes," he said.| Then he left.',
        '"Stop!"| He ran.',
        "Well... I do not know.",
        "Wait...| Then go.",
        "It was No. 5.",
        "She said no.| Then she left.",
        "He has a Ph.D. from Yale.",
        "Martin Luther King Jr. Day",
        "in Jan. 2020 it was",
        "It was on Main St.| The shop closed.",
        "Vitamin C.| Then more.",
        "What?!| No.",
        "(He left.)| She stayed.",
        "Version 2.0 is out.| Get it.",
        "Team A beat Team B.| Type A blood.",
        "Plan B.| Nobody knew.",
        "John B. Smith came.",
        "Order no. A-1023-B is late.",
        "She said no.| A man came.",
        "John Smith, Esq. Partner",
    ],
)
def test_ends(text: str) -> None:
    assert sentences(text.replace("|", "")) == [part.strip() for part in text.split("|")]


def test_a_full_stop_of_an_abbreviation_is_heard() -> None:
    first, second = preview("He moved to the U.S. Now he works.")
    assert first.phonemes.endswith("jˌuˈɛs.") and second.phonemes.startswith("nˈW")
