"""What a test of the text front end compares: the words alone, lower case, a blank between them."""

from __future__ import annotations

import re

from tts_demo.text.spelling import normalise


def words(text: str) -> str:
    return " ".join(re.sub(r"[^\w']+", " ", normalise(text).lower()).split())
