"""The order of speech tokens and summaries, and the mask that defines who attends to whom: for training and replay.
Decoding evicts instead (ring.py), with equal logits."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ...lm import Prefix
from ...lm.masks import prefix_mask


@dataclass(frozen=True)
class Layout:
    """Speech with its summaries, in order. index: [S] the number of the token (negative = prompt speech), of a summary
    that of the last token of its span. summary: [S] bool."""

    index: Tensor
    summary: Tensor

    @classmethod
    def of(cls, prompt: int, tokens: int, group: int, device: torch.device | str | None = None) -> "Layout":
        """``prompt`` tokens of reference speech, then ``tokens``, with a summary after every full span."""
        generated = torch.arange(-prompt, tokens, device=device)
        span_ends = generated[prompt + group - 1 :: group] if group else generated[:0]
        order = torch.argsort(torch.cat([2 * generated, 2 * span_ends + 1]))
        kind = torch.cat([torch.zeros_like(generated), torch.ones_like(span_ends)]).bool()
        return cls(torch.cat([generated, span_ends])[order], kind[order])

    @property
    def fed(self) -> Tensor:
        """Where the tokens that were fed one by one stand."""
        return (~self.summary & (self.index >= 0)).nonzero(as_tuple=True)[0]

    def inputs(self, prefix: Prefix, tokens: Tensor, summary: Tensor) -> tuple[Tensor, Tensor]:
        """Backbone inputs [T, H] and their positions [T]. tokens [N, H]: of the prompt and the run; summary [1, H]."""
        first, prompt = len(prefix.x), len(prefix.prompt_codes)
        speech = torch.where(self.summary[:, None], summary, tokens[self.index + prompt])
        before = torch.arange(first, device=speech.device)
        return prefix.followed_by(speech), torch.cat([before, self.index + first + prompt])

    def mask(self, window: int, group: int, last: Tensor | None = None) -> Tensor:
        """[S, S]: who may attend to whom. The row of token s decides token s + 1. last: [S] the number of the last
        token of each row's pass, whose window all of its tokens have; None: each is alone in its pass."""
        row, column = self.index[:, None], self.index[None]
        end = row if last is None else last[:, None]
        token_token = (column <= row) & ((column > end - window) | (column < 0))
        token_summary = column + window <= end  # the span ends before the window of the row begins
        summary_token = (column <= row) & (column > row - group)
        of_tokens = torch.where(self.summary[None], token_summary, token_token)
        of_summaries = torch.where(self.summary[None], column == row, summary_token)
        return torch.where(self.summary[:, None], of_summaries, of_tokens)


def masks(
    prefix: int,
    layout: Layout,
    window: int,
    group: int,
    bidirectional: bool,
    last: Tensor | None = None,
    neighbours: int = 0,
) -> Tensor:
    """[T, T] for ``prefix`` columns of [speaker, SOS, text, TASK] and the speech of ``layout`` after them. neighbours:
    prefix columns but the last attend to none that is further away; 0 = to all."""
    mask = prompt_mask(prefix, prefix + len(layout.index), bidirectional, layout.index.device, neighbours)
    mask[prefix:, prefix:] = layout.mask(window, group, last)
    mask[prefix:, :prefix] = ~layout.summary[:, None]
    return mask


def prompt_mask(prefix: int, total: int, bidirectional: bool, device: torch.device, neighbours: int = 0) -> Tensor:
    """``prefix_mask`` with ``neighbours`` as ``masks`` takes them."""
    mask = prefix_mask(prefix, total, bidirectional, device)
    if neighbours:
        mask[:prefix, :prefix] &= nearby(torch.arange(prefix, device=device), neighbours)
    return mask


def nearby(positions: Tensor, reach: int) -> Tensor:
    """positions [..., N] -> [..., N, N]: which are at most ``reach`` apart, and all of them in the last row."""
    near = (positions[..., :, None] - positions[..., None, :]).abs() <= reach
    near[..., -1, :] = True
    return near
