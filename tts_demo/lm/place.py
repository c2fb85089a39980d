"""Where in the text a model is speaking: followed while decoding, by the heads that were taught to look there.

Recipe ``lm`` guides one head of a few layers to the phoneme being spoken. In each step they give a distribution over
the symbols in sight; a forward filter (a hidden Markov model whose places never go back) makes of it where the speech
is. With that known, speech need not see the whole text but only a window around it: what lies far off cannot be
confused with it, however long the text is.
"""

from __future__ import annotations

import torch
from torch import Tensor

GUIDED = (4, 5, 6, 7)  # layers of the language model whose first head looks at the spoken phoneme
MOVES = (0.68, 0.27, 0.05)  # chance of staying, and of going one or two symbols on, in a frame of 20 ms
LINGER = 30  # frames at the last symbol after which everything has been said
FLOOR = 0.002  # a head may look elsewhere for a frame: it rules no symbol out


class Place:
    """The place in a text that lies in the slots ``text`` of a cache, of which ``reach`` symbols to either side are
    seen."""

    def __init__(self, text: slice, reach: int) -> None:
        self.text, self.reach, self.now = text, reach, 0  # now: the symbol being spoken
        self.belief = torch.zeros(text.stop - text.start)  # on the CPU: a few operators on short vectors a step
        self.belief[0] = 1.0
        self._at_the_end = 0  # frames
        self._symbols = torch.arange(len(self.belief), dtype=torch.float32)
        self._looked: Tensor | None = None

    def seen(self, now: int) -> slice:
        """Slots of the symbols in sight from there."""
        return slice(
            max(self.text.start, self.text.start + now - self.reach),
            min(self.text.stop, self.text.start + now + self.reach + 1),
        )

    @property
    def sees_the_end(self) -> bool:
        return self.seen(self.now).stop == self.text.stop

    @property
    def through(self) -> bool:
        """The last symbol has been spoken, and a while has passed."""
        return self._at_the_end > LINGER

    def observe(self, layer: int, query: Tensor, key: Tensor) -> None:
        """query [1, T, A, D] and key [1, kv, S, D] of a layer: adds up the attention of guided heads, from the first
        token of the pass to the symbols in sight."""
        if layer not in GUIDED:
            return
        query, key = query[0, 0, 0], key[0, 0]
        weights = (key[self.seen(self.now)] @ query * query.shape[0] ** -0.5).float().softmax(0)
        self._looked = weights if self._looked is None else self._looked + weights

    def move(self) -> None:
        """A frame later, by what the guided heads have looked at since the last."""
        assert self._looked is not None, "no guided head has looked"
        moved = MOVES[0] * self.belief
        for places, chance in enumerate(MOVES[1:], 1):
            moved[places:] += chance * self.belief[:-places]
        first = self.seen(self.now).start - self.text.start
        moved[first : first + len(self._looked)] *= 1 + self._looked.cpu() / (len(GUIDED) * FLOOR)
        self.belief, self._looked = moved / moved.sum(), None
        self.now = round(float(self.belief @ self._symbols))
        self._at_the_end = self._at_the_end + 1 if self.now == len(self.belief) - 1 else 0
