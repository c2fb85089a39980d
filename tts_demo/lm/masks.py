"""Attention masks: bool tensors [rows, columns], True = the row's token may attend to the column's."""

import torch
from torch import Tensor

ALIGNED = 8  # elements: CUDA's attention reads a bias in vectors, which begin at multiples of 16 bytes


def causal_mask(rows: int, columns: int, device: torch.device | str | None = None) -> Tensor:
    """[rows, columns]: the last ``rows`` tokens of a sequence of ``columns``, each sees itself and all before it."""
    return torch.ones(rows, columns, dtype=torch.bool, device=device).tril_(columns - rows)


def prefix_mask(n_prefix: int, total: int, bidirectional: bool, device: torch.device | str | None = None) -> Tensor:
    """[total, total]: causal, except that the first ``n_prefix`` positions (speaker, SOS, text, TASK) attend to each
    other in both directions when ``bidirectional`` (DCAR, section 3.2)."""
    mask = causal_mask(total, total, device)
    if bidirectional:
        mask[:n_prefix, :n_prefix] = True
    return mask


def empty_bias(like: Tensor, *shape: int) -> Tensor:
    """An uninitialised bias [..., S] for attention, of the dtype and device of ``like``: every row begins at a multiple
    of ``ALIGNED`` elements, as CUDA's kernels need it."""
    columns = shape[-1]
    return like.new_empty(*shape[:-1], columns + -columns % ALIGNED)[..., :columns]


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """mask [...] bool -> what is added to attention scores [...]: 0 where the row's token may attend, else -inf."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
