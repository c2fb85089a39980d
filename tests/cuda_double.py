"""What CUDA asks and a CPU does not, as test doubles on the CPU: its attention kernels' layouts and alignments, and the
code that only a GPU takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

VECTOR, ROWS = 16, 8  # bytes at whose multiples a kernel's vectors begin, elements of which rows are multiples


def cuda_attention(real: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``scaled_dot_product_attention`` with the rules of CUDA's fused kernels: inputs must be readable in vectors, and
    the result [B, A, S, D] lies in memory as [B, S, A, D]."""

    def attend(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **rest: Any) -> Tensor:
        y = real(query, key, value, attn_mask=attn_mask, **rest)
        if query.dim() != 4:  # no fused kernel takes it
            return y
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            assert tensor.stride(-1) == 1, f"{name}: last stride {tensor.stride(-1)}"
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            _readable_in_vectors(attn_mask)
            assert attn_mask.dtype == query.dtype, (attn_mask.dtype, query.dtype)
        return y.transpose(1, 2).contiguous().transpose(1, 2)

    return attend


def _readable_in_vectors(bias: Tensor) -> None:
    assert bias.data_ptr() % VECTOR == 0, f"misaligned address: the bias begins at {bias.data_ptr() % VECTOR} bytes"
    assert bias.stride(-1) == 1, f"bias: last stride {bias.stride(-1)}"
    for size, stride in zip(bias.shape[:-1], bias.stride()[:-1]):
        assert size == 1 or stride % ROWS == 0, f"bias {tuple(bias.shape)}: strides {bias.stride()}"


def obey(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on this test's models are built and run as on a GPU, and attention has CUDA's rules."""
    monkeypatch.setattr(F, "scaled_dot_product_attention", cuda_attention(F.scaled_dot_product_attention))
    for user in ("linear", "backend"):
        monkeypatch.setattr(f"tts_demo.lm.{user}.float32_on_cpu", lambda device, dtype: False)
