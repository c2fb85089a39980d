"""Text-speech attention maps: captured in a second, untimed, teacher-forced pass, and scored.

The run itself is not slowed: afterwards the method rebuilds the backbone's inputs (``Replay``), with its own mask and
positions, and the pass returns the attention weights of the text columns for every layer and head. As the replay's
logits equal the stepwise ones, the map of an evicting or patch-wise run is the map of that run."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .decoder import Decoder, Hook

BAND = 0.1  # half width of the diagonal band, as a share of the text
HEADS = 4  # heads that the scores are averaged over


@dataclass(frozen=True)
class Replay:
    """Inputs of the second, untimed, teacher-forced pass over a finished run.

    x: [T, H] inputs of the backbone; positions: [T] logical; mask: [T, T] bool, True = may attend. rows: [R] the row of
    x whose output decided step r; frames_of: how many frames each step emitted (0 allowed). decoder: the backbone of
    this run. hook: of the pass (see ``Hook``), where attention is not the plain one. past: keys and values
    [layers, 1, 2 kv, P, D] of columns in front that are no inputs of x; the mask is [T, P + T] then."""

    x: Tensor
    positions: Tensor
    mask: Tensor
    rows: Tensor
    frames_of: tuple[int, ...]
    decoder: Decoder
    hook: Hook | None = None
    past: Tensor | None = None

    def __post_init__(self) -> None:
        """Raises ValueError where the parts do not fit together: an own method's mistake, told in words."""
        total, steps = len(self.x), len(self.frames_of)
        past = 0 if self.past is None else self.past.shape[3]
        if len(self.positions) != total or self.mask.shape[-1] != past + total:
            raise ValueError(
                f"A replay of {total} inputs needs as many positions and a mask [T, T], not {len(self.positions)} and "
                f"{list(self.mask.shape)}."
            )
        if len(self.rows) != steps:
            raise ValueError(f"A replay needs one row a step: {len(self.rows)} rows for {steps} steps.")
        if steps and not 0 <= int(self.rows.min()) <= int(self.rows.max()) < total:
            raise ValueError(f"The rows of a replay must lie in 0 to {total - 1}: {int(self.rows.max())} does not.")

    @property
    def first_frame(self) -> tuple[int, ...]:
        """Frames emitted before each step."""
        return tuple(itertools.accumulate(self.frames_of, initial=0))[:-1]


@dataclass(frozen=True)
class AttentionMap:
    """weights [layers, heads, steps, text] float32: from the row that decided a step to each text token. labels: one a
    text token. step_start_seconds, step_end_seconds [steps]: the audio each step emitted."""

    weights: np.ndarray
    labels: tuple[str, ...]
    step_start_seconds: np.ndarray
    step_end_seconds: np.ndarray

    @cached_property
    def alignment(self) -> np.ndarray:
        """[steps, text], rows summing to 1: the mean of the few heads whose centre of mass follows time best."""
        return clearest(self.weights)

    @property
    def diagonality(self) -> float:
        """Share of attention that lies within a tenth of the text of the straight line from first to last token."""
        steps, text = self.alignment.shape
        if not steps or not text:
            return 0.0
        line = (np.arange(steps)[:, None] + 0.5) / steps
        near = np.abs((np.arange(text)[None] + 0.5) / text - line) <= BAND + 0.5 / text
        return float(self.alignment[near].sum() / steps)

    @property
    def monotonicity(self) -> float:
        """Share of steps whose centre of mass does not move back."""
        centre = self.alignment @ np.arange(self.alignment.shape[1])
        return float((np.diff(centre) >= -1e-6).mean()) if len(centre) > 1 else 1.0

    @property
    def coverage(self) -> float:
        """Share of text tokens that receive at least half of an even share of the attention."""
        steps, text = self.alignment.shape
        return float((self.alignment.sum(0) >= 0.5 * steps / text).mean()) if text else 0.0


def clearest(weights: np.ndarray) -> np.ndarray:
    """weights [layers, heads, steps, text] -> [steps, text], rows summing to 1: the mean of the few heads whose centre
    of mass follows time best. The mean of all heads hides them."""
    w = weights.reshape(-1, *weights.shape[2:])
    w = w / np.maximum(w.sum(-1, keepdims=True), 1e-9)
    steps, text = w.shape[1:]
    if steps < 2 or text < 2:
        return w.mean(0)
    centre = w @ np.arange(text) / (text - 1)  # [heads, steps]
    time = np.linspace(-1, 1, steps)
    away = centre - centre.mean(1, keepdims=True)
    follows = away @ time / np.maximum(np.linalg.norm(away, axis=1) * np.linalg.norm(time), 1e-9)
    return w[np.argsort(-follows, kind="stable")[:HEADS]].mean(0)


def capture(replay: Replay, text: slice) -> np.ndarray:
    """The weights [layers, heads, R, text] of the columns ``text`` in the rows that decided the steps."""
    decoder, x = replay.decoder, replay.x[None].to(replay.decoder.dtype)
    with torch.inference_mode():
        _, weights = decoder.full(x, replay.positions, replay.mask, text, replay.hook, replay.past)
        return weights[:, :, replay.rows].float().cpu().numpy()


def join(maps: Sequence[AttentionMap]) -> AttentionMap:
    """Maps of consecutive segments as one map. No segment attends to another's text: those weights are 0."""
    if len(maps) == 1:
        return maps[0]
    layers, heads = maps[0].weights.shape[:2]
    steps, text = (sum(m.weights.shape[axis] for m in maps) for axis in (2, 3))
    weights = np.zeros((layers, heads, steps, text), dtype=np.float32)
    step = text = 0
    for m in maps:
        weights[:, :, step : step + m.weights.shape[2], text : text + m.weights.shape[3]] = m.weights
        step, text = step + m.weights.shape[2], text + m.weights.shape[3]
    return AttentionMap(
        weights,
        sum((m.labels for m in maps), ()),
        np.concatenate([m.step_start_seconds for m in maps]),
        np.concatenate([m.step_end_seconds for m in maps]),
    )
