"""What an attention map says about the words of a text: which were never read, and which were read twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from .session import AttentionPicture

CLEAR = "clear"  # the layer choice that picks the heads which follow the text best
READ = 0.25  # share of one step's attention by which a word counts as read
FOLLOWED = 0.4  # share of the attention by which a word counts as what the model is at
PAUSE = 0.12  # seconds that a visit to a word may be interrupted
LONG = 0.3  # seconds that a repetition takes at least
AGAIN = 0.4  # two readings of a word last alike; a much shorter one, back or ahead, is a glance


@dataclass(frozen=True)
class Word:
    """A written word: its first and last text token."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Visit:
    """A word that the attention stays at from ``start`` to ``end`` seconds."""

    word: int
    start: float
    end: float


def words_of(tokens: Sequence[str]) -> list[Word]:
    """Written words in order; ``tokens``: the word that each text token belongs to, '' for none."""
    words, end = [], 0
    for text, run in groupby(tokens):
        first, end = end, end + len(list(run))
        if text:
            words.append(Word(first, end - 1, text))
    return words


def pick(attention: AttentionPicture, layer: str = CLEAR, head: str = "mean") -> np.ndarray:
    """[layers, heads, steps, text] -> [steps, text]: the heads that follow the text best, or one layer or head, or
    means."""
    if layer == CLEAR:
        return attention.clear
    w = attention.weights.astype(np.float32)
    w = w.mean(0) if layer == "mean" else w[min(int(layer), len(w) - 1)]
    return w.mean(0) if head == "mean" else w[min(int(head), len(w) - 1)]


def shares(attention: AttentionPicture) -> np.ndarray:
    """[steps, words]: the share of each step's attention that each word gets."""
    w, words = pick(attention), words_of(attention.words)
    return np.stack([w[:, k.first : k.last + 1].sum(1) for k in words], 1) if words else np.zeros((len(w), 0))


def unread(attention: AttentionPicture) -> list[int]:
    """Words that attention never came to: what was probably not said. Words that are read get 0.5 to 1 of some step,
    those behind a cut nearly 0."""
    return np.flatnonzero(shares(attention).max(0, initial=0) < READ).tolist()


def visits(attention: AttentionPicture) -> list[Visit]:
    """Where the attention stays, in time: a step belongs to the word with most of its attention, if that is enough."""
    found: list[Visit] = []
    for share, start, end in zip(shares(attention), attention.start.tolist(), attention.end.tolist()):
        if end <= start or share.max(initial=0) < FOLLOWED:
            continue
        word = int(share.argmax())
        if found and found[-1].word == word and start - found[-1].end <= PAUSE:
            found[-1] = Visit(word, found[-1].start, end)
        else:
            found.append(Visit(word, start, end))
    return found


def repeated(attention: AttentionPicture) -> list[int]:
    """Words that are read twice, in order: after a later word the attention goes back and follows two words or more
    once again, for ``LONG`` seconds at least. A glance back is no repetition."""
    found: set[int] = set()
    took: dict[int, float] = {}  # seconds of each word's first reading
    furthest, again = -1, []  # the furthest word so far; visits since the attention went back, in order
    for visit in [*visits(attention), None]:
        if again and (visit is None or visit.word > furthest or visit.word < again[-1].word):
            found |= _twice(again, took)
            again = []
        if visit is None:
            break
        if visit.word < furthest or again:
            again.append(visit)
        else:
            took[visit.word] = took.get(visit.word, 0.0) + visit.end - visit.start
            furthest = visit.word
    return sorted(found)


def _twice(again: Sequence[Visit], took: Mapping[int, float]) -> set[int]:
    """Words of these visits if they are a repetition, not glances."""
    seconds = {v.word: sum(o.end - o.start for o in again if o.word == v.word) for v in again}
    alike = lambda a, b: min(a, b) >= AGAIN * max(a, b)
    words = {word for word, time in seconds.items() if alike(time, took.get(word, 0.0))}
    return words if len(words) > 1 and sum(seconds[word] for word in words) >= LONG else set()
