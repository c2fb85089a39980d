"""Attention masks: bool tensors [rows, columns], True = the row's token may attend to the column's."""

from __future__ import annotations

import torch
from torch import Tensor


def causal_mask(rows: int, columns: int, device: torch.device | str | None = None) -> Tensor:
    """[rows, columns]: the last ``rows`` tokens of a sequence of ``columns``, each attending to itself and all before
    it."""
    return torch.ones(rows, columns, dtype=torch.bool, device=device).tril_(columns - rows)


def prefix_mask(n_prefix: int, total: int, bidirectional: bool, device: torch.device | str | None = None) -> Tensor:
    """[total, total]: causal, except that the first ``n_prefix`` positions (speaker, SOS, text, TASK) attend to each
    other in both directions when ``bidirectional`` (DCAR, section 3.2)."""
    mask = causal_mask(total, total, device)
    if bidirectional:
        mask[:n_prefix, :n_prefix] = True
    return mask


def band(count: int, reach: int, device: torch.device | str | None = None) -> Tensor:
    """[count, count]: each symbol and those at most ``reach`` places from it."""
    places = torch.arange(count, device=device)
    return (places[:, None] - places).abs() <= reach
