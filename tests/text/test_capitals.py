"""Shouted sentences are said as words; acronyms, lists of them and a word of emphasis stay as they are."""

import pytest

from tts_demo.text import preview
from tts_demo.text.spelling import normalise

WRITTEN = {
    "THANK YOU FOR SHOPPING WITH US.": "Thank you for shopping with us.",
    "I CAN'T BELIEVE IT!": "I can't believe it!",
    "OH MY GOD, SHE SAID YES!": "Oh my God, she said yes!",
    "COME ON, LET'S GO!": "Come on, let's go!",
    "I'M NOT YELLING, BUT PLEASE READ THIS": "I'm not yelling, but please read this",
    "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG": "The quick brown fox jumps over the lazy dog",
    "A MAN AND A PLAN": "A man and a plan",
    "IT IS.": "It is.",
    "WHO SAYS WE CAN'T?": "Who says we can't?",
    "NASA AND THE FBI SAID SO.": "NASA and the FBI said so.",
    "MADE IN THE USA.": "Made in the USA.",
    "THE US ARMY HAS ARRIVED": "The US army has arrived",
    "HENRY VIII AND WORLD WAR II": "Henry the eighth and world War two",
    "LANDED AT 8 PM ON MONDAY, MARCH 5.": "Landed at eight P.M. on Monday, March fifth.",
    "SALE: 50% OFF ALL SHOES": "Sale: fifty percent off all shoes",
    "Please DO NOT ENTER the room.": "Please do not enter the room.",
    "ZUCKERBERG MEETS THE PRESS TODAY": "Zuckerberg meets the press today",
    "STOP!": "STOP!",
    "He is SO good.": "He is SO good.",
    "The WHO said so.": "The WHO said so.",
    "NASA, FBI, CIA": "NASA, FBI, CIA",
    "HTML AND CSS": "HTML AND CSS",
    "PA, CO.": "PA, CO.",
    "The SAT, ACT, PSAT exams": "The SAT, ACT, PSAT exams",
}


@pytest.mark.parametrize(("text", "written"), WRITTEN.items())
def test_shouting(text: str, written: str) -> None:
    assert normalise(text) == written


@pytest.mark.parametrize(
    ("text", "word", "phonemes"),
    [
        ("THANK YOU FOR SHOPPING WITH US.", "us", "ˌʌs"),
        ("I CAN'T BELIEVE IT!", "it", "ɪt"),
        ("DON'T TOUCH THAT, IT'S HOT!", "it's", "ɪts"),
        ("NASA AND THE FBI SAID SO.", "FBI", "ˌɛfbˌiˈI"),
        ("THE US ARMY", "US", "jˌuˈɛs"),
    ],
)
def test_sounds(text: str, word: str, phonemes: str) -> None:
    assert phonemes in [t.phonemes for s in preview(text) for t in s.tokens if t.word == word]
