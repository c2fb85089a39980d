"""Markdown, HTML, SSML-like tags, LaTeX: taken off; lists and lines: a sentence each."""

import pytest
from reading import reads

from tts_demo.text.spelling import sentences

MARKDOWN = {
    "# Getting started": "getting started",
    "## To do ##": "to do",
    "### 3 steps": "three steps",
    "This is **very** important.": "this is very important",
    "an *italic* word and a _second_ one": "an italic word and a second one",
    "***both*** of them": "both of them",
    "__bold__ as well": "bold as well",
    "~~old~~ new": "old new",
    "==marked== text": "marked text",
    "> A quoted line": "a quoted line",
    ">> twice quoted": "twice quoted",
    "See [the guide](https://example.com/guide) first.": "see the guide first",
    'Read [this](http://a.b/c "A title") now': "read this now",
    "![A red house](house.png) stands here": "a red house stands here",
    "Use `print` here": "use print here",
    "```python\nprint\n```": "print",
    "\\*not emphasis\\*": "not emphasis",
    "Title\n=====": "title",
    "===== Results =====": "results",
    "one\n\n---\n\ntwo": "one two",
    "* * *\nafter": "after",
    "- [x] Done\n- [ ] Open": "done open",
    "| Name | Age |\n|------|-----|\n| Ann | 5 |": "name age ann five",
    "snake**case**": "snakecase",
}
HTML = {
    "<b>Bold</b> and <i>italic</i>": "bold and italic",
    "<p>One.</p><p>Two.</p>": "one two",
    "Tom &amp; Jerry": "tom and jerry",
    "5 &lt; 6": "five is less than six",
    "caf&eacute; &quot;Rose&quot;": "cafe rose",
    "a&nbsp;b &#8212; c": "a b c",
    "&frac12; cup": "one half cup",
    'Click <a href="x.html">here</a>.': "click here",
    "line<br>break": "line break",
    "<!-- hidden -->shown": "shown",
    "<h1>Title</h1>Text": "title text",
    "x<sup>2</sup>": "x squared",
    "git clone <url>": "git clone url",
}
SSML = {
    '<speak>Hello <break time="500ms"/> there</speak>': "hello there",
    '<prosody rate="slow">Slow down</prosody>': "slow down",
    '<say-as interpret-as="date">today</say-as>': "today",
    "<emphasis>now</emphasis>": "now",
    '<voice name="a">Hi</voice> you': "hi you",
}
LATEX = {
    "$x^2$ is even": "x squared is even",
    r"$\frac{a}{b}$": "a over b",
    r"\(a \leq b\)": "a is less than or equal to b",
    r"$\sqrt{2}$ is irrational": "the square root of two is irrational",
    "It costs $5 and $6.": "it costs five dollars and six dollars",
}

test_markup_is_not_said = reads(MARKDOWN, HTML, SSML, LATEX)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("1. Milk\n2. Eggs", ["One, Milk.", "two, Eggs."]),
        ("1. Milk 2. Eggs 3. Bread", ["One, Milk.", "two, Eggs.", "three, Bread."]),
        ("1. Milk / 2. Eggs", ["One, Milk.", "two, Eggs."]),
        ("He left on 3/4. 1. Milk 2. Eggs", ["He left on March fourth.", "one, Milk.", "two, Eggs."]),
        ("Buy: 1. Milk 2. Eggs", ["Buy.", "one, Milk.", "two, Eggs."]),
        ("I have 1. You have 2.", ["I have one.", "You have two."]),
        ("1) Wash\n2) Dry", ["One, Wash.", "two, Dry."]),
        ("- Milk\n- Eggs", ["Milk.", "Eggs."]),
        ("* Milk\n* Eggs", ["Milk.", "Eggs."]),
        ("• Milk\n• Eggs", ["Milk.", "Eggs."]),
        ("Milk\nEggs\nBread", ["Milk.", "Eggs.", "Bread."]),
        ("milk\neggs\nbread", ["milk.", "eggs.", "bread."]),
        ("a) first\nb) second", ["A, first.", "B, second."]),
        ("Buy:\n- Milk\n- Eggs", ["Buy.", "Milk.", "Eggs."]),
        ("# To do\nWash the car", ["To do.", "Wash the car."]),
        ("Two cups of flour,\nsifted", ["Two cups of flour, sifted"]),
        (
            "The quick brown fox jumped over the lazy dog and then\nran away into the woods without a sound.",
            ["The quick brown fox jumped over the lazy dog and then ran away into the woods without a sound."],
        ),
        ("First paragraph\n\nSecond paragraph", ["First paragraph.", "Second paragraph."]),
    ],
)
def test_a_line_is_a_sentence(text: str, lines: list[str]) -> None:
    assert [s.lower() for s in sentences(text)] == [s.lower() for s in lines]
