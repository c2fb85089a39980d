"""The current position in the text, tracked during decoding from the attention of alignment heads.

Recipe ``lm`` trains one head of a few layers to attend to the current phoneme. In each step their attention is a
distribution over the visible symbols; a forward filter (a hidden Markov model that never moves back) estimates from it
the current symbol. Speech then needs to attend only to a window of the text around it, however long the text is.

The window can also stay at a constant distance: a model trained on sentences has never attended to text a minute back.
So the prefix is shifted along with speech (rotary positions within the cache instead of within the text, as in G. Xiao
and others, "Efficient streaming language models with attention sinks", 2023, section 3.2).
"""

import torch
from torch import Tensor

from ...lm.model import ALIGNMENT_LAYERS

MOVES = (0.68, 0.27, 0.05)  # probability of staying, and of moving one or two symbols on, in a frame of 20 ms
LINGER = 30  # frames at the last symbol after which the text is finished
DISTANCE = 128  # positions from the current symbol to the speech, not counting the prompt's: as in a long sentence
BEHIND = 96  # speech tokens after which what stands between text and speech goes no further away
BACK = 3  # symbols that the estimate may go back by: speech does not, and would say again what it went back to
FLOOR = 0.002  # attention may be elsewhere for a frame: it makes no symbol impossible


def prefix_shifts(
    start: int, fixed: Tensor | int, prompt: int, reach: int, symbol: Tensor, generated: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """By how many positions each part of the prefix is shifted towards speech: what stands before the text, the text,
    and what stands behind it (TASK and the prompt's speech), each [...].

    start: first column of the text. fixed: columns of the prefix, ``prompt`` of them the prompt's speech. reach:
    symbols visible on either side. symbol [...]: index of the current symbol. generated [...]: tokens generated
    so far."""
    of_text = generated + (fixed - DISTANCE - prompt - start) - symbol
    return of_text + (symbol - reach).clamp(min=0), of_text, (generated - BEHIND).clamp(min=0)


class TextPosition:
    """The position in a text that stands in the columns ``text`` of a prefix, of which ``reach`` symbols to either side
    are visible: of a text that moves the only ones in the cache, from slot ``text.start`` on."""

    def __init__(self, text: slice, reach: int) -> None:
        self.text, self.reach, self.index = text, reach, 0  # index: the current symbol
        self.posterior = torch.zeros(text.stop - text.start)  # on the CPU: a few operators on short vectors a step
        self.posterior[0] = 1.0
        self.furthest = self._frames_at_end = 0
        self._symbols = torch.arange(len(self.posterior), dtype=torch.float32)
        self._attention: Tensor | None = None  # of alignment heads since the last step, summed [visible symbols]

    def window(self, index: int) -> slice:
        """Columns of the symbols that are visible from symbol ``index``."""
        return slice(
            max(self.text.start, self.text.start + index - self.reach),
            min(self.text.stop, self.text.start + index + self.reach + 1),
        )

    @property
    def moves(self) -> bool:
        """Whether the text moves along with speech: one that is always visible as a whole stays where it is."""
        return len(self.posterior) > self.reach + 1

    @property
    def end_visible(self) -> bool:
        return self.window(self.index).stop == self.text.stop

    @property
    def finished(self) -> bool:
        """Whether the last symbol was reached more than ``LINGER`` frames ago."""
        return self._frames_at_end > LINGER

    def observe(self, layer: int, query: Tensor, key: Tensor) -> None:
        """query [1, T, A, D] and key [1, kv, S, D] of a layer: adds up the attention of alignment heads, from the first
        token of the pass to the visible symbols."""
        if layer not in ALIGNMENT_LAYERS:
            return
        query, key, visible = query[0, 0, 0], key[0, 0], self.window(self.index)
        key = key[self.text.start :][: visible.stop - visible.start]
        weights = (key @ query * query.shape[0] ** -0.5).float().softmax(0)
        self._attention = weights if self._attention is None else self._attention + weights

    def advance(self) -> None:
        """One frame on, by the attention observed since the last."""
        assert self._attention is not None, "no guided head was observed"
        predicted = MOVES[0] * self.posterior
        for symbols, probability in enumerate(MOVES[1:], 1):
            predicted[symbols:] += probability * self.posterior[:-symbols]
        first = self.window(self.index).start - self.text.start
        predicted[first : first + len(self._attention)] *= 1 + self._attention.cpu() / (len(ALIGNMENT_LAYERS) * FLOOR)
        predicted[: max(0, self.furthest - BACK)] = 0
        self.posterior, self._attention = predicted / predicted.sum(), None
        self.index = round(float(self.posterior @ self._symbols))
        self.furthest = max(self.furthest, self.index)
        self._frames_at_end = self._frames_at_end + 1 if self.index == len(self.posterior) - 1 else 0
