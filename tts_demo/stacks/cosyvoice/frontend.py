"""Written text -> text the released models read well, and pieces short enough to be spoken one at a time.

English goes through the bundled normaliser. Chinese gets the released punctuation rules; its digits, and those of
texts with other letters, are left to the model (the released code reads them in English, whatever the language).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from ...config import UserError
from ...text import spelling
from ...text.sentences import MAX_CHARACTERS

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_MARKUP = re.compile(r"(<\|[^|<>]*\|>|</?[a-z]+>|\[[^\[\]\s]{1,16}\])")
_ENDS = {True: "。？！；：、.?!;", False: ".?!;:"}
_CHINESE_REPLACED = (("²", "平方"), ("³", "立方"), (" - ", "，"), ("——", " "))
LONGEST, LONG_ENOUGH, TOO_SHORT = 80, 60, 20  # characters of Chinese, tokens of anything else


def normalise(text: str) -> str:
    """Ready to be tokenised. ``[breath]``, ``<strong>`` and the like stay as they are; text with ``<|...|>`` is taken
    as it stands."""
    text = unicodedata.normalize("NFC", text).strip()
    if "<|" in text and "|>" in text:
        return text
    if _CHINESE.search(text):
        return _chinese(text)
    return "".join(part if i % 2 else _written_out(part) for i, part in enumerate(_MARKUP.split(text)))


def split(text: str, tokens: Callable[[str], int]) -> list[str]:
    """Normalised text in pieces. tokens: how many tokens a piece has."""
    if not text.strip():
        raise UserError("There is no text to say: type at least one word.")
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"The text has {len(text):,} characters: cut it to at most {MAX_CHARACTERS:,}.")
    whole = normalise(text)
    if "<|" in whole and "|>" in whole:
        return [whole]
    chinese = bool(_CHINESE.search(whole))
    size = len if chinese else tokens
    pieces = [piece for piece in _merge(_sentences(whole, chinese), size) if any(map(str.isalnum, piece))]
    if not pieces:
        raise UserError("Nothing in this text can be spoken: type some words.")
    return pieces


def _sentences(text: str, chinese: bool) -> list[str]:
    """Cut behind every sentence mark (and the quotation marks that follow it). The last one gets its mark."""
    marks = _ENDS[chinese]
    if text[-1] not in marks:
        text += "。" if chinese else "."
    pattern = rf"[^{re.escape(marks)}]*[{re.escape(marks)}]+[\"”’」』]*\s*"
    return [match.group().strip() for match in re.finditer(pattern, text)]


def _merge(sentences: list[str], size: Callable[[str], int]) -> list[str]:
    """Neighbours joined until they are long enough to sound like one breath; a short last piece joins the one
    before."""
    pieces: list[str] = []
    current = ""
    for sentence in sentences:
        if current and size(current + sentence) > LONGEST and size(current) > LONG_ENOUGH:
            pieces.append(current)
            current = ""
        current = _join(current, sentence)
    if pieces and size(current) < TOO_SHORT:
        pieces[-1] = _join(pieces[-1], current)
    elif current:
        pieces.append(current)
    return pieces


def _join(left: str, right: str) -> str:
    gap = "" if not left or _CHINESE.search(left[-2:] + right[:1]) else " "
    return left + gap + right


def _written_out(text: str) -> str:
    """Numbers and abbreviations as words where all letters are English ones; other text only loses its line breaks.
    A blank at either end stays."""
    flat = " ".join(text.split())
    if not flat:
        return text[:1]
    if flat.isascii() and any(map(str.isalnum, flat)):
        flat = spelling.normalise(flat)
    return " " * text[0].isspace() + flat + " " * text[-1].isspace()


def _chinese(text: str) -> str:
    text = re.sub(r"\s*\n\s*", "", text)
    text = re.sub(r"(?<![\x21-\x7e])\s+|\s+(?![\x21-\x7e])", "", text)  # a blank stays between two Latin words only
    for old, new in _CHINESE_REPLACED:
        text = text.replace(old, new)
    text = re.sub(r"(?<!\d)\.|\.(?!\d)", "。", text)
    text = re.sub(r"[（）【】`]", "", text)
    return re.sub(r"[，,、]+$", "。", text)
