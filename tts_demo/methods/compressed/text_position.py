"""The current position in the text, tracked during decoding from the attention of alignment heads.

Recipe ``lm`` trains one head of a few layers to attend to the current phoneme. In each step their attention is a
distribution over the visible symbols; a forward filter (a hidden Markov model that never moves back) estimates from it
the current symbol. Speech then needs to attend only to a window of the text around it, however long the text is.

The window can also stay at a constant distance: a model trained on sentences has never attended to text a minute back.
So the prefix is shifted along with speech (rotary positions within the cache instead of within the text, as in G. Xiao
and others, "Efficient streaming language models with attention sinks", 2023, section 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ...config import LMConfig
from ...lm.block import Products
from ...lm.decoder import Decoder, Hook
from ...lm.model import ALIGNMENT_LAYERS
from ...rotary import rotary_factors, rotate

MOVES = (0.68, 0.27, 0.05)  # probability of staying, and of moving one or two symbols on, in a frame of 20 ms
LINGER = 30  # frames at the last symbol after which the text is finished
DISTANCE = 128  # positions from the current symbol to the speech, not counting the prompt's: as in a long sentence
BEHIND = 96  # speech tokens after which what stands between text and speech goes no further away
BACK = 3  # symbols that the estimate may go back by: speech does not, and would say again what it went back to
FLOOR = 0.002  # attention may be elsewhere for a frame: it makes no symbol impossible
PADDING = 64  # texts are padded to multiples of so many symbols, so that those of about one length share CUDA graphs

Indices = TypeVar("Indices", int, Tensor)


def prefix_shifts(
    start: int, fixed: int, prompt: int, reach: int, symbol: Indices, generated: Indices
) -> tuple[Indices, Indices, Indices]:
    """By how many positions each part of the prefix is shifted towards speech: what stands before the text, the text,
    and what stands behind it (TASK and the prompt's speech), each [...].

    start: first column of the text. fixed: columns of the prefix, ``prompt`` of them the prompt's speech. reach:
    symbols visible on either side. symbol [...]: the current one. generated [...]: tokens so far."""
    positive = (lambda n: n.clamp(min=0)) if isinstance(symbol, Tensor) else (lambda n: max(n, 0))
    of_text = generated + (fixed - DISTANCE - prompt - start) - symbol
    return of_text + positive(symbol - reach), of_text, positive(generated - BEHIND)


@dataclass(frozen=True)
class TextFilter:
    """One frame of the filter over N symbols, padded to L > N: tensors of fixed shapes, inside a launch."""

    posterior: Tensor  # [L] probability of each symbol to be the current one
    symbols: Tensor  # [L] float, 0 to L - 1
    slots: Tensor  # [W] of the visible symbols in the cache, then any
    window: Tensor  # [W] the visible symbols, then L - 1
    possible: Tensor  # [L] bool: neither padding nor too far back
    ends: Tensor  # [2] the first symbols from which the end is visible, and from which the text is finished
    attention: list[Tensor] = field(default_factory=list)  # [W] to the visible symbols, one an alignment head

    def observe(self, layer: int, query: Tensor, key: Tensor) -> None:
        """query [1, T, A, D] and key [1, kv, S, D] of a layer: remembers the attention of an alignment head, from the
        first token of the pass to the visible symbols."""
        if layer not in ALIGNMENT_LAYERS:
            return
        query, key = query[0, 0, 0], key[0, 0].index_select(0, self.slots)
        scores = (key @ query * query.shape[0] ** -0.5).float()
        self.attention.append(scores.masked_fill_(self.window == len(self.symbols) - 1, float("-inf")).softmax(0))

    def advance(self) -> tuple[Tensor, Tensor]:
        """One frame on, by the attention observed: the next posterior [L] and the current symbol []."""
        attention = self.attention
        assert attention, "no alignment head was observed"
        predicted = MOVES[0] * self.posterior
        for symbols, probability in enumerate(MOVES[1:], 1):
            predicted[symbols:].add_(self.posterior[:-symbols], alpha=probability)
        seen = predicted.index_select(0, self.window)
        seen = seen.addcmul(seen, sum(attention[1:], attention[0]), value=1 / (len(ALIGNMENT_LAYERS) * FLOOR))
        predicted = predicted.index_copy_(0, self.window, seen) * self.possible
        posterior = predicted / predicted.sum()
        return posterior, (posterior @ self.symbols).round().long()

    def forbidden(self, symbol: Tensor, special: Tensor) -> Tensor:
        """special [V] bool: the ids that are not speech. Speech does not end before the end of the text is visible, and
        ends when the text is finished -> [V] bool, True = not allowed."""
        return torch.where(symbol < self.ends[1], special & (symbol < self.ends[0]), ~special)


class TextPosition:
    """The position in a text that stands in the columns ``text`` of a prefix, of which ``reach`` symbols to either side
    are visible: of a text that moves the only ones in the cache, from slot ``text.start`` on."""

    def __init__(self, text: slice, reach: int, device: torch.device | str = "cpu") -> None:
        self.text, self.reach, self.index = text, reach, 0  # index: the current symbol
        self.symbols, self.device = text.stop - text.start, device
        self._padded = (self.symbols // PADDING + 1) * PADDING
        self._numbers = torch.arange(self._padded, dtype=torch.float32, device=device)
        self._posterior = (self._numbers == 0).float()
        self._slots = torch.arange(2 * reach + 1, device=device).clamp(max=self.symbols - 1) + text.start
        self.furthest = self._frames_at_end = 0

    def window(self, index: int) -> slice:
        """Columns of the symbols that are visible from symbol ``index``."""
        return slice(
            max(self.text.start, self.text.start + index - self.reach),
            min(self.text.stop, self.text.start + index + self.reach + 1),
        )

    @property
    def moves(self) -> bool:
        """Whether the text moves along with speech: one that is always visible as a whole stays where it is."""
        return self.symbols > self.reach + 1

    @property
    def end_visible(self) -> bool:
        return self.window(self.index).stop == self.text.stop

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Of the ``TextFilter`` for the next frame."""
        visible, symbols = self.window(self.index), np.arange(self._padded)
        window = np.full(len(self._slots), self._padded - 1)
        first, last = visible.start - self.text.start, visible.stop - self.text.start
        window[: last - first] = symbols[first:last]
        possible = (symbols >= self.furthest - BACK) & (symbols < self.symbols)
        finished = self.symbols - 1 if self._frames_at_end >= LINGER else self._padded
        ends = np.array([self.symbols - 1 - self.reach, finished])
        on_host = (torch.from_numpy(values).to(self.device, non_blocking=True) for values in (window, possible, ends))
        return self._posterior, self._numbers, self._slots, *on_host

    def move(self, posterior: Tensor, symbol: int) -> None:
        """Store the posterior [L] and the most likely symbol of the frame just generated, as ``TextFilter.advance``
        returned them."""
        self._posterior, self.index = posterior, symbol
        self.furthest = max(self.furthest, symbol)
        self._frames_at_end = self._frames_at_end + 1 if symbol == self.symbols - 1 else 0


# One entry for each part of the prefix, in the order of columns: its number of columns, and offsets [..., T]. Row t
# attends to these columns as if they stood offsets[t] positions nearer to speech. In decoding the keys are rotated in
# the cache (``RingCache.write_prefix``), in replays and training the queries.
Shifts = Sequence[tuple[int, Tensor]]


def rotation_by(decoder: Decoder, offsets: Tensor) -> Tensor:
    """offsets [...] in positions, of either sign -> the rotation [..., D/2] that moves a key or a query so far on."""
    rotation = decoder.rotation[offsets.abs()]
    return torch.where(offsets[..., None] < 0, rotation.conj(), rotation)


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """x [..., D], pairs adjacent as in decoder.py, times complex rotation [..., D/2]; computed in float32."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)


def replay_hook(decoder: Decoder, shifts: Shifts) -> Hook:
    """For ``Decoder.full``: the products of queries and keys as each row of a finished run saw them."""
    rotations = [(count, rotation_by(decoder, -offsets)[:, None]) for count, offsets in shifts]

    def products(layer: int, query: Tensor, key: Tensor) -> Tensor:
        """query [1, T, A, D], key [1, kv, T, D] -> [A, T, T]."""
        key = key[0].repeat_interleave(query.shape[2] // key.shape[1], 0).transpose(1, 2)
        queries = [(count, rotated(query, rotation)[0].transpose(0, 1)) for count, rotation in rotations]
        return _by_group(queries, query[0].transpose(0, 1), key)

    return products


def training_products(config: LMConfig, shifts: Shifts, dtype: torch.dtype) -> Products:
    """For ``training_forward``, whose queries and keys have their rotary pairs in halves; offsets [B, T]."""
    shape = config.head_dim, config.rope_theta, dtype
    factors = [(count, rotary_factors(-offsets[:, None], *shape)) for count, offsets in shifts]

    def products(query: Tensor, key: Tensor, rows: slice) -> Tensor:
        queries = [(count, rotate(query, cos[:, :, rows], sin[:, :, rows])) for count, (cos, sin) in factors]
        return _by_group(queries, query, key.transpose(-1, -2))

    return products


def _by_group(queries: Sequence[tuple[int, Tensor]], query: Tensor, key: Tensor) -> Tensor:
    """query [..., T, D], key [..., D, S] -> [..., T, S]: each group with its own query, the rest with ``query``."""
    parts, start = [], 0
    for count, shifted in queries:
        parts.append(shifted @ key[..., start : start + count])
        start += count
    return torch.cat([*parts, query @ key[..., start:]], -1)
