"""Words written alike and said differently: the G2P's tags, and the words around where they do not tell."""

from __future__ import annotations

import pytest

from tts_demo.text import preview

SAID = [
    ("I read it yesterday.", "read", "ɹˈɛd"),
    ("Did you read it?", "read", "ɹˈid"),
    ("The pipe is made of lead.", "lead", "lˈɛd"),
    ("a lead pipe", "lead", "lˈɛd"),
    ("He took the lead.", "lead", "lˈid"),
    ("Follow my lead and go.", "lead", "lˈid"),
    ("Lead the way.", "Lead", "lˈid"),
    ("He took a bow.", "bow", "bˈW"),
    ("She tied a bow in her hair.", "bow", "bˈO"),
    ("a bow and arrow", "bow", "bˈO"),
    ("The bass guitar is loud.", "bass", "bˈAs"),
    ("He sings bass.", "bass", "bˈAs"),
    ("He caught a bass in the lake.", "bass", "bˈæs"),
    ("a minute detail", "minute", "mInˈut"),
    ("a minute ago", "minute", "mˈɪnət"),
    ("I object to that.", "object", "əbʤˈɛkt"),
    ("The object fell.", "object", "ˈɑbʤəkt"),
    ("I am content.", "content", "kəntˈɛnt"),
    ("More content and less noise.", "content", "kˈɑntɛnt"),
    ("Send your resume.", "resume", "ɹˈɛzəmˌA"),
    ("They will resume.", "resume", "ɹəzˈum"),
    ("They protest.", "protest", "pɹətˈɛst"),
    ("a protest", "protest", "pɹˈOtˌɛst"),
    ("Insert the key.", "Insert", "ɪnsˈɜɹt"),
    ("The insert is new.", "insert", "ˈɪnsˌɜɹt"),
    ("He is used to it.", "used", "jˈust"),
    ("It is used to cut bread.", "used", "jˈuzd"),
    ("a used car", "used", "jˈuzd"),
    ("We are live from Ohio.", "live", "lˈIv"),
    ("They live here.", "live", "lˈɪv"),
    ("They close the shop.", "close", "klˈOz"),
    ("So close the door.", "close", "klˈOz"),
    ("We were so close.", "close", "klˈOs"),
    ("He wound up the clock.", "wound", "wˈWnd"),
    ("The wound healed.", "wound", "wˈund"),
    ("a learned man", "learned", "lˈɜɹnᵻd"),
    ("He learned it.", "learned", "lˈɜɹnd"),
    ("to project managers", "project", "pɹˈɑʤˌɛkt"),
    ("to project it", "project", "pɹəʤˈɛkt"),
    ("I use it daily.", "use", "jˈuz"),
    ("What's the use?", "use", "jˈus"),
]


@pytest.mark.parametrize(("text", "word", "phonemes"), SAID, ids=lambda value: value[:24])
def test_homographs(text: str, word: str, phonemes: str) -> None:
    assert [token.phonemes for sentence in preview(text) for token in sentence.tokens if token.word == word] == [
        phonemes
    ]


def test_possessives_of_letters() -> None:
    said = {token.word: token.phonemes for s in preview("the U.K.'s plan and the U.S.'s army") for token in s.tokens}
    assert said["U.K.'s"] == "jˌukˈAz"
