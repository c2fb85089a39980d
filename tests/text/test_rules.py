"""Rules out of tables: what a pattern and what is said for it may name."""

from pathlib import Path

import pytest

from tts_demo.text import rules


def said(text: str, pattern: str, template: str, **names: object) -> str:
    return rules.writer({"rules": [(pattern, template)], "sides": {"N": "north"}}, names)(text)


@pytest.mark.parametrize(
    "text, pattern, template, expected",
    [
        ("2 by 4", r"(\d) by (\d)", r"\2 x \1", "4 x 2"),
        ("room 12", r"(\d+)", "{1|cardinal}", "room twelve"),
        ("the 90s", r"(?P<n>\d+)s", "{n|cardinal|plural}", "the nineties"),
        ("b7", r"a(\d)|b(\d)", "<{1 or 2|digits}>", "<seven>"),
        ("go N", r"([NSEW])$", "{1|sides}", "go north"),
        ("May 5", r"([A-Z]\w+) (\d)(?:, (\d+))?", "{1|upper} {2|digits}[, {3|digits}]", "MAY five"),
        ("May 5, 12", r"([A-Z]\w+) (\d)(?:, (\d+))?", "{1|upper} {2|digits}[, {3|digits}]", "MAY five, one two"),
        ("x{2,3}", r"x\{(\d),(\d)\}", r"{1|cardinal}\\{0}", "two\\x{2,3}"),
    ],
)
def test_what_is_said_for_a_match(text: str, pattern: str, template: str, expected: str) -> None:
    assert said(text, pattern, template) == expected


def test_functions_and_texts_of_the_module() -> None:
    found = said("from 3/4 on", "{DAY}/{DAY}", "{date}!", DAY=r"\d{1,2}", date=lambda match: match.group()[::-1])
    assert found == "from 4/3! on"
    assert said("a\nb", "a\n|b", "-") == "-\n-", "line ends of a long list are none of its pattern's"


@pytest.mark.parametrize("pattern, template", [("{NOBODY}", ""), ("a", "{0|nobody}"), ("a", "{nobody}"), ("(", "")])
def test_a_slip_in_a_table_shows_when_it_is_read(pattern: str, template: str) -> None:
    with pytest.raises((KeyError, ValueError, rules.re.error)):
        said("a", pattern, template)


def test_every_table_is_read_by_a_module() -> None:
    folder = Path(rules.__file__).parent
    names = {path.stem for path in (folder / "tables").glob("*.toml")}
    read = {name for name in names for path in folder.glob("*.py") if f'table("{name}")' in path.read_text("utf-8")}
    assert read == names
