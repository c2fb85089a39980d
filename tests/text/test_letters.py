"""The letter A and the article."""

import pytest

from tts_demo.text import preview

LETTERS = """
Gate A5 is open.|the A100 GPU|an A380|Audi A4|A17 Pro|an A+ student|He got an A-.|Plan A failed.|Team A|Type A blood|
The letter A|Press A to jump.|Is it A or B?|Option A or option B|Figure 4a|Apartment 4A|Room 101A|A/B test|A to Z|
a² + b² = c²|If a = 5, stop.|a < b|(a + b)|(a+b)(c-b)|A + B = C|Pick A, B or C.|Exhibit A shows it.|a 5A fuse|
size A4 paper|He plays in A minor.|Let x be a.|AA batteries|AAA batteries"""
ARTICLES = """
A five dollar bill|A plan|What a day|Such a B movie|Type a message.|Press a key.|Plan a trip.|A team of five|
He said: A man came.|a 5 km run|I saw a... cat.|That is a plus for us.|What A Day|I ate a 4 lb steak."""


def sounds(text: str) -> list[str]:
    return [t.phonemes for s in preview(text) for t in s.tokens if t.word.strip(".") in ("A", "a")]


@pytest.mark.parametrize("text", LETTERS.replace("\n", "").split("|"))
def test_letters(text: str) -> None:
    article = 1 if text.startswith("a 5A") else 0
    assert "ˈA" in sounds(text) and sounds(text).count("ɐ") == article


@pytest.mark.parametrize("text", ARTICLES.replace("\n", "").split("|"))
def test_articles(text: str) -> None:
    assert set(sounds(text)) == {"ɐ"}
