"""Written text -> the text that the released models were trained to read, in pieces that are spoken one at a time.

What the released front end does without its closed-source engine: numbers and signs written out by WeText, Chinese
punctuation made uniform, pieces of some 60 to 80 units. It differs in three points: a piece never ends within a word or
number (``example.com``), digits of languages in other letters are left to the model, which knows how they are read
there, and what WeText cannot parse is no error.
"""

import functools
import re
import threading
import unicodedata
from collections.abc import Callable

from ...config import UserError
from ...text.sentences import MAX_CHARACTERS

LONGEST, LONG_ENOUGH, TOO_SHORT = 80, 60, 20  # characters of Chinese, tokens of anything else
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_DIGIT = re.compile(r"\d")
_PHONE = re.compile(r"(\[[A-Z]{2}[0-2]\])")  # a phone of version 3 with its stress, which is no number
_ENDS = {True: "。？！；：、.?!;", False: ".?!;:"}
# A piece: up to a mark, and the marks and closing quotation marks that follow it at once.
_PIECE = {
    chinese: re.compile(rf"([^{re.escape(m)}]+[{re.escape(m)}])((?:[{re.escape(m)}]|(?<=[{re.escape(m)}])[\"”])*)")
    for chinese, m in _ENDS.items()
}
_NO_MARKS = str.maketrans("", "", "。？！；：、.?!;:")
_LONELY_BLANK = re.compile(r"(?<![\x00-\x1f\x21-\x7f]) | (?![\x00-\x1f\x21-\x7f])")
_lock = threading.Lock()


def normalise(text: str) -> str:
    """Ready to be tokenised, not yet cut. Sound tags (``[breath]``, ``<strong>``) stay; text with ``<|...|>`` is taken
    as it stands."""
    text = unicodedata.normalize("NFC", text).strip()
    if _verbatim(text):
        return text
    text = "".join(part if i % 2 else _written_out(part) for i, part in enumerate(_PHONE.split(text)))
    return _chinese(text) if _CHINESE.search(text) else text


def transcript(text: str, version: int) -> str:
    """What a recording says, as each version's prompt takes it: written out in version 2; as it stands in version 3,
    whose system prompt in front of it turns the front end off."""
    return normalise(text) if version == 2 else unicodedata.normalize("NFC", text).strip()


def split(text: str, tokens: Callable[[str], int]) -> list[str]:
    """Normalised text in pieces, which keep the blanks in front of them. tokens: how many tokens a piece has."""
    if not text.strip():
        raise UserError("There is no text to say: type at least one word.")
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"The text has {len(text):,} characters: cut it to at most {MAX_CHARACTERS:,}.")
    whole = normalise(text)
    if _verbatim(whole):
        return [whole]
    chinese = bool(_CHINESE.search(whole))
    pieces = [p for p in _merge(_sentences(whole, chinese), len if chinese else tokens) if any(map(str.isalnum, p))]
    if not pieces:
        raise UserError("Nothing in this text can be spoken: type some words.")
    return pieces


def _verbatim(text: str) -> bool:
    return "<|" in text and "|>" in text


def _sentences(text: str, chinese: bool) -> list[str]:
    """Cut behind sentence marks, where neither word nor number goes on. The last one gets its mark; of several marks in
    a row the first stays."""
    if text and text[-1] not in _ENDS[chinese]:
        text += "。" if chinese else "."
    sentences: list[str] = []
    whole = True  # whether the last one has ended
    for piece in _PIECE[chinese].finditer(text):
        sentence = piece[1] + piece[2].translate(_NO_MARKS)
        if whole:
            sentences.append(sentence)
        else:
            sentences[-1] += sentence
        after = text[piece.end() : piece.end() + 1]
        quoted = sentence[-1] in '"”'
        whole = quoted or (not (after.isascii() and after.isalnum()) if chinese else not after or after.isspace())
    return sentences


def _merge(sentences: list[str], size: Callable[[str], int]) -> list[str]:
    """Neighbours joined until they are long enough to sound like one breath; a short last piece joins the one
    before."""
    pieces: list[str] = []
    current = ""
    for sentence in sentences:
        if current and size(current + sentence) > LONGEST and size(current) > LONG_ENOUGH:
            pieces.append(current)
            current = ""
        current += sentence
    if pieces and size(current) < TOO_SHORT:
        pieces[-1] += current
    elif current:
        pieces.append(current)
    return pieces


def _written_out(text: str) -> str:
    """Numbers and signs as words, in Chinese where there is any, else in English; texts without a digit and those in
    other letters stay. A blank at either end stays."""
    if not _DIGIT.search(text) or (_other_letters(text) and not _CHINESE.search(text)):
        return text
    language = "zh" if _CHINESE.search(text) else "en"
    body = text.strip()
    start = text.index(body)
    return text[:start] + _wetext(body, language) + text[start + len(body) :]


def _other_letters(text: str) -> bool:
    """Whether most letters are neither Latin nor Chinese."""
    letters = [c for c in text if c.isalpha()]
    latin = sum(c.isascii() or unicodedata.name(c, "").startswith(("LATIN", "CJK")) for c in letters)
    return 2 * latin < len(letters)


def _wetext(text: str, language: str) -> str:
    """WeText on the whole text; where its grammar has no path, on each half."""
    try:
        written = _once(text, language)
    except Exception:  # its parser asserts, kaldifst raises RuntimeError
        written = ""
    if written:
        return written
    words = text.split()
    if len(words) < 2:
        return text
    plain, middle = " ".join(words), len(words) // 2
    parts = [plain] if plain != text else [" ".join(words[:middle]), " ".join(words[middle:])]
    return " ".join(_wetext(part, language) for part in parts)


def _once(text: str, language: str) -> str:
    with _lock:
        written = _normaliser().normalize(text, lang=language)
    return re.sub(r'\\(["\\])', r"\1", written)  # its parser escapes twice what it reads once


@functools.lru_cache(maxsize=1)
def _normaliser():
    from wetext import Normalizer  # reads its grammars, half a second

    return Normalizer(remove_erhua=False)


def _chinese(text: str) -> str:
    text = _LONELY_BLANK.sub("", text.replace("\n", ""))  # a blank stays between two ASCII characters only
    text = text.replace("²", "平方").replace("³", "立方")
    text = re.sub(r"(?<!\d)\.|\.(?!\d)", "。", text).replace(" - ", "，")
    text = re.sub(r"[（）【】`]", "", text).replace("——", " ")
    return re.sub(r"[，,、]+$", "。", text)
