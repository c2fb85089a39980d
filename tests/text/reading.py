"""What a test of the text front end compares: the words alone, lower case, a blank between them."""

import re
from collections.abc import Callable

import pytest

from tts_demo.text.spelling import normalise


def words(text: str) -> str:
    return " ".join(re.sub(r"[^\w']+", " ", normalise(text).lower()).split())


def reads(*tables: dict[str, str]) -> Callable[[str, str], None]:
    """A test of every text in these tables: text -> its words."""

    @pytest.mark.parametrize(("text", "said"), [case for table in tables for case in table.items()])
    def test(text: str, said: str) -> None:
        found = words(text)
        assert found == said, f"{text!r} is read as {found!r}, not as {said!r}"

    return test
