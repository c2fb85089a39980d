"""Words of the table: names, firms, letters written small, loan words, and what the lexicon has wrong."""

import pytest

from tts_demo.text import preview
from tts_demo.text.rules import table
from tts_demo.text.symbols import CONSONANTS, STRESS, VOWELS

SAID = {
    "Los Angeles": "lˌɔs ˈænʤələs",
    "San Jose and Santa Cruz": "sˈæn hOzˈA ænd sˈæntə kɹˈuz",
    "Yosemite": "jOsˈɛməTi",
    "La Jolla": "lˌɑ hˈYə",
    "Des Moines": "də mˈYn",
    "Santa Fe": "sˈæntə fˈA",
    "St. Louis": "sˈAnt lˈuəs",
    "Notre Dame": "nˌOTəɹ dˈAm",
    "Notre-Dame de Paris": "nˌOtɹədˈɑm də pˈɛɹəs",
    "Niagara": "nIˈæɡəɹə",
    "Sean": "ʃˈɔn",
    "SEAN": "ʃˈɔn",
    "Karen": "kˈɛɹən",
    "Michelle": "məʃˈɛl",
    "Natalie": "nˈæTəli",
    "Nathan": "nˈAθən",
    "Ethan": "ˈiθən",
    "Simon": "sˈImən",
    "Denise": "dənˈis",
    "Maria": "məɹˈiə",
    "Katherine": "kˈæθɹɪn",
    "Garcia": "ɡɑɹsˈiə",
    "Ramirez": "ɹəmˈɪɹɛz",
    "Nguyen": "wˈɪn",
    "O'Neill": "Onˈil",
    "Jorge": "hˈɔɹhA",
    "Siobhan": "ʃəvˈɔn",
    "Beyoncé": "biˈɑnsA",
    "Ariana Grande": "ˌæɹiˈɑnə ɡɹˈɑndA",
    "the Rio Grande": "ðə ɹˈiO ɡɹˈænd",
    "Xi": "ʃˈi",
    "c'est la vie": "sˈA lˌɑ vˈi",
    "they vie": "ðA vˈI",
    "je ne sais quoi": "ʒˌə nə sˈA kwˈɑ",
    "the NE corner": "ði ˌɛnˈi kˈɔɹnəɹ",
    "fajitas": "fəhˈiTəz",
    "PayPal": "pˈApˌæl",
    "Mozart": "mˈOtsˌɑɹt",
    "JSON": "ʤˈAsˌɑn",
    "IKEA": "Ikˈiə",
    "GAAP": "ɡˈæp",
    "a gaap": "ɐ ɡˈɑp",
    "MoMA": "mˈOmə",
    "Airbnb": "ˌɛɹbˌiˌɛnbˈi",
    "ebay": "ˈibˌA",
    "PostgreSQL": "pˌOstɡɹɛskjˌuˈɛl",
    "a mobile phone": "ɐ mˈObᵊl fˈOn",
    "Mobile devices": "mˈObᵊl dəvˈIsᵻz",
    "Mobile, Alabama": "mObˈil, ˌæləbˈæmə",
    "cia": "sˌiˌIˈA",
    "suv": "ˌɛsjˌuvˈi",
    "nyc": "ˌɛnwˌIsˈi",
    "tv": "tˌivˈi",
    "résumé": "ɹˈɛzəmˌA",
    "déjà vu": "dˌAʒˈɑ vˈu",
    "fiancé": "fˌiɑnsˈA",
    "fiance": "fˌiɑnsˈA",
    "jalapeño": "hˌɑləpˈAnjO",
    "jalapeno": "hˌɑləpˈAnjO",
    "hors d'oeuvres": "ɔɹ dˈɜɹvz",
    "carpe diem": "kˈɑɹpA dˈiəm",
    "rosé": "ɹOzˈA",
    "a rose": "ɐ ɹˈOz",
    "entrée": "ˈɑntɹˌA",
    "drawings": "dɹˈɔɪŋz",
    "breathed": "bɹˈiðd",
    "multiplied": "mˈʌltəplˌId",
    "raced": "ɹˈAst",
    "per capita": "pɜɹ kˈæpəTə",
    "NaCl": "ˌɛnˌAsˌiˈɛl",
    "Re: the rent": "ɹˈi: ðə ɹˈɛnt",
}
INFLECTED = {
    "Sean's": "ʃˈɔnz",
    "Beth's": "bˈɛθs",
    "Sanchez's": "sˈænʧɛzᵻz",
    "Sanchezes": "sˈænʧɛzᵻz",
    "Nguyens": "wˈɪnz",
    "suvs": "ˌɛsjˌuvˈiz",
    "tvs": "tˌivˈiz",
    "jalapeños": "hˌɑləpˈAnjOz",
    # other words
    "hives": "hˈIvz",
    "horses": "hˈɔɹsᵻz",
    "loss": "lˈɔs",
    "Max's": "mˈæksᵻz",
}
ONE_R = {"Federer": "fˈɛdəɹəɹ", "Valerie": "vˈæləɹi", "Marjorie": "mˈɑɹʤəɹi"}
TWO_RS = ("overripe", "interracial", "irregular", "underwriter")
LISTED = [(word, said) for part in table("words").values() for word, said in part.items()]
DECIDED = [(word, case[2]) for word, cases in table("homographs")["cases"].items() for case in cases]


def said(text: str) -> str:
    return "".join(sentence.phonemes for sentence in preview(text))


@pytest.mark.parametrize(("text", "phonemes"), (SAID | INFLECTED | ONE_R).items())
def test_words(text: str, phonemes: str) -> None:
    assert said(text) == phonemes


@pytest.mark.parametrize("word", TWO_RS)
def test_compounds_keep_both(word: str) -> None:
    assert "ɹɹ" in said(word)


def test_a_possessive_is_one_word() -> None:
    assert [token.word for token in preview("Sean's Uber")[0].tokens] == ["Sean's", "Uber"]


@pytest.mark.parametrize(("word", "phonemes"), LISTED + DECIDED)
def test_tables_hold_symbols_and_stress(word: str, phonemes: str) -> None:
    """One primary stress a word at most; a word without one is short or, as 'los' and 'notre', half of a name."""
    assert phonemes and set(phonemes) <= set(VOWELS + CONSONANTS + STRESS)
    assert phonemes.count("ˈ") == 1 or (phonemes.count("ˈ") == 0 and sum(c in VOWELS for c in phonemes) <= 2)
    assert all(after in VOWELS for mark, after in zip(phonemes, phonemes[1:] + " ") if mark in STRESS)


def test_names_of_several_syllables_are_stressed() -> None:
    """So that only these lean upon the next word."""
    assert {word for word, phonemes in LISTED if "ˈ" not in phonemes} == {"hors", "los", "notre"}


def test_plain_keys() -> None:
    assert all(word == word.lower() for word in table("words")["words"])
    assert all(word != word.lower() for word in table("words")["cased"])
