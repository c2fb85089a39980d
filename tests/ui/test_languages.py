"""Hints on a text before it is spoken."""

from __future__ import annotations

import pytest

from tts_demo.ui.run import words
from tts_demo.ui.run.languages import foreign


@pytest.mark.parametrize(
    "text, language",
    [
        ("Guten Morgen, heute ist das Wetter nicht schön.", "German"),
        ("Je ne sais pas pourquoi elle est dans la maison.", "French"),
        ("No sé por qué los niños no están con nosotros hoy.", "Spanish"),
        ("The river was calm that evening.", ""),
        ("He said the die is cast, and that was the end of it.", ""),
        ("She sells sea shells by the sea shore, and he keeps the books.", ""),
        ("", ""),
    ],
)
def test_a_text_that_is_not_english_is_noticed(text, language):
    assert foreign(text) == language


def test_sounds_are_in_the_phonetic_alphabet():
    assert words.ipa("tˈAbᵊl") == "tˈeɪbəl" and words.ipa("ʧˈIld") == "tʃˈaɪld"
    assert words.ipa("A QUIET TOWN") == "A QUIET TOWN"  # no sounds: a text as it is written


def test_dials_are_in_plain_words():
    assert words.dials("dcar", {"chunk_range": "random:2,3,4"}).endswith("random: 2, 3, 4")
