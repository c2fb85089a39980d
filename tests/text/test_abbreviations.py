"""Abbreviations, titles, Roman numerals, letters, interjections, stretched and short words; sounds of homographs."""

from __future__ import annotations

import pytest
from reading import words

from tts_demo.text import preview

ABBREVIATIONS = {
    "Op. 27, No. 2": "opus twenty seven number two",
    "Ep. 5": "episode five",
    "Pt. II": "part two",
    "Secs. 5-6": "sections five to six",
    "Hwy 61": "highway sixty one",
    "Roe v. Wade": "roe versus wade",
    "Art. IV, Sec. 2": "article four section two",
    "Vol. III": "volume three",
    "Sec. of State": "secretary of state",
    "max. 5 kg": "maximum five kilograms",
    "P.S. I love you.": "p s i love you",
    "Pop. 27,262": "population twenty seven thousand two hundred sixty two",
    "s/he": "she or he",
    "M&Ms": "m and m's",
    "Dr. Smith vs. Mrs. Jones": "doctor smith versus missus jones",
    "Mr Smith and Ms. Lee": "mister smith and miz lee",
    "Prof. Lee": "professor lee",
    "St. James St.": "saint james street",
    "Main St. is closed": "main street is closed",
    "42nd St., the corner": "forty second street the corner",
    "Ft. Worth": "fort worth",
    "Mt. Everest": "mount everest",
    "apples, e.g. red ones": "apples for example red ones",
    "one, i.e., the first": "one that is the first",
    "pens, paper, etc.": "pens paper et cetera",
    "No. 5": "number five",
    "He said no. Then he left.": "he said no then he left",
    "Nos. 3 and 4": "numbers three and four",
    "see fig. 3": "see figure three",
    "a fig. It": "a fig it",
    "Fig. 2": "figure two",
    "vol. 2, ch. 3, p. 12": "volume two chapter three page twelve",
    "pp. 10-12": "pages ten to twelve",
    "approx. 5": "approximately five",
    "Acme Inc. is here": "acme incorporated is here",
    "Smith & Co.": "smith and company",
    "Martin Luther King Jr.": "martin luther king junior",
    "a Ph.D. in physics": "a p h d in physics",
    "the U.S. army": "the u s army",
    "the U.K.'s plan": "the u k 's plan",
    "a.k.a. Bob": "a k a bob",
    "Boston, MA": "boston massachusetts",
    "Washington, D.C.": "washington d c",
    "et al. (2019)": "et al twenty nineteen",
    "est. 1950": "established nineteen fifty",
    "P.O. Box 12": "p o box twelve",
    "5th Ave.": "fifth avenue",
    "Tues. and Thurs.": "tuesday and thursday",
}
APOSTROPHES = {
    "im here, dont worry": "i'm here don't worry",
    "I DONT KNOW": "i don't know",
    "youre late and theyre not": "you're late and they're not",
    "it wasnt, isnt and wouldnt": "it wasn't isn't and wouldn't",
    "how're you": "how are you",
    "thankyou": "thank you",
    "we wont go": "we won't go",
    "as is his wont": "as is his wont",
    "they are wont to go": "they are wont to go",
    "ill were its id": "ill were its id",
}
ROMAN = {
    "WWII": "world war two",
    "Rocky II and III": "rocky two and three",
    "the XXI century": "the twenty first century",
    "MCMXCIV": "nineteen ninety four",
    "item (iv) and (v)": "item four and five",
    "King Charles III": "king charles the third",
    "Henry VIII had six wives.": "henry the eighth had six wives",
    "Louis XIV's palace": "louis the fourteenth's palace",
    "Pope John Paul II": "pope john paul the second",
    "World War II": "world war two",
    "World War I": "world war one",
    "Chapter IV": "chapter four",
    "Act III, Scene ii": "act three scene two",
    "Super Bowl LVIII": "super bowl fifty eight",
    "Rocky IV": "rocky four",
    "Type II diabetes": "type two diabetes",
    "Part I": "part one",
    "Henry V": "henry the fifth",
    "Queen Elizabeth I was": "queen elizabeth the first was",
    "Malcolm X": "malcolm x",
    "Final Fantasy VII": "final fantasy seven",
    "Charles I think": "charles i think",
    "I am here": "i am here",
    "vitamin C": "vitamin c",
}
SPELT = {
    "Noooo!": "no",
    "sooo good": "so good",
    "Yesss": "yes",
    "pleeease": "please",
    "btw it works": "b t w it works",
    "idk, lol": "i d k lol",
    "thx": "thanks",
    "brb": "b r b",
    "TBH it works": "tbh it works",
    "well-known": "well known",
    "'tis the season": "tis the season",
    "Hello,world.This is it": "hello world this is it",
}


@pytest.mark.parametrize(
    ("text", "said"), [*ABBREVIATIONS.items(), *ROMAN.items(), *APOSTROPHES.items(), *SPELT.items()]
)
def test_read(text: str, said: str) -> None:
    assert words(text) == said


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("Shh!", "ʃʃ"),
        ("Shhhhh, quiet.", "ʃʃ"),
        ("Mm.", "mm"),
        ("Mmmm, good.", "mm"),
        ("Brrr!", "bˈɜɹɹ"),
        ("Hmm.", "hmm"),
        ("Psst.", "psst"),
        ("Ugh!", "ˈʌɡ"),
        ("I read it yesterday.", "ɹˈɛd"),
        ("I will read it.", "ɹˈid"),
        ("Close the door.", "klˈOz"),
        ("We are close to it.", "klˈOs"),
        ("They live here.", "lˈɪv"),
        ("a live show", "lˈIv"),
        ("The wind blows.", "wˈɪnd"),
        ("Wind the clock.", "wˈInd"),
        ("a tear in my eye", "tˈɪɹ"),
        ("the FBI", "ˌɛfbˌiˈI"),
        ("NASA said", "nˈæsə"),
        ("USB and HTML", "jˌuˌɛsbˈi"),
        ("an A in maths", "ˈA"),
        ("Plan A is best.", "ˈA"),
        ("at 5 p.m.", "pˌiˈɛm"),
        ("at 5 a.m. today", "ˌAˈɛm"),
    ],
)
def test_sounds(text: str, phonemes: str) -> None:
    assert phonemes in [token.phonemes for sentence in preview(text) for token in sentence.tokens]
