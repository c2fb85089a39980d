"""One matrix, kept in the layout that its device streams fastest when only a few rows are multiplied.

Decoding is bound by reading weights. Measured on a two-core Zen 4 with AVX512-BF16, one thread, one row, weights not
in cache (seconds of CPU, so other work on the machine does not count): fp32 [in, out] streams 1.3 times as fast as the
usual [out, in]; bf16 packed by oneDNN 1.9 times as fast as a plain bf16 ``F.linear``. Several fp32 rows (a chunk, tokens to
verify) are another matter where a matrix widens, and another on every machine: 192 -> 1024 for four rows takes 43 us as
[in, out] and 30 packed on that Zen 4, but 43 and 66 on an Emerald Rapids. So that is measured when such a matrix is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor


WIDENS = 4  # times as many outputs as inputs from which several rows may go through the packed matrix,
SMALL = 1 << 20  # where it has at most so many weights: they are then kept twice
ROWS, COPIES, ROUNDS = 4, 8, 5  # of the measurement: rows multiplied, matrices in turn (more than a cache near the core holds)


class Projection:
    """y = x W^T + bias (+ residual) for weight [out, in]."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        self.columns: Tensor | None = None  # [in, out]
        self.packed: Tensor | None = None  # oneDNN's own layout
        self.rows: Tensor | None = None  # [out, in]
        if weight.device.type == "cpu" and weight.dtype == torch.float32:
            self.columns = weight.t().contiguous()
            wide = self.out_features >= WIDENS * self.in_features and weight.numel() <= SMALL
            if wide and torch.backends.mkldnn.is_available() and _packing_pays(self.in_features, self.out_features):
                self.packed = _pack(weight)
        elif weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and torch.backends.mkldnn.is_available():
            self.packed = _pack(weight)
        else:
            self.rows = weight
        self.nbytes = weight.numel() * weight.element_size() + (bias.numel() * bias.element_size() if bias is not None else 0)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [R, in] -> [R, out]; ``residual`` [R, out] is added (in place of a bias, which such a matrix has not)."""
        if self.columns is not None and (self.packed is None or x.shape[0] == 1):
            plus = self.bias if residual is None else residual
            return torch.mm(x, self.columns) if plus is None else torch.addmm(plus, x, self.columns)
        if self.packed is not None:
            if residual is not None:
                return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, None, "add")
            return _multiply_packed(x, self.packed, self.bias)
        return F.linear(x, self.rows, self.bias) if residual is None else torch.addmm(residual, x, self.rows.t())


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1)


def _multiply_packed(x: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


@cache
@torch.inference_mode(False)  # built lazily, perhaps inside a run
@torch.no_grad()
def _packing_pays(inputs: int, outputs: int) -> bool:
    """Whether ROWS rows go faster through packed fp32 matrices of this shape than through [in, out], here and now: some
    milliseconds, once a shape."""
    x, plain = torch.ones(ROWS, inputs), [torch.ones(inputs, outputs) for _ in range(COPIES)]
    packed = [_pack(matrix.t()) for matrix in plain]

    def seconds(multiply: Callable[[Tensor, Tensor], Tensor], matrices: list[Tensor]) -> float:
        started = time.perf_counter()
        for matrix in matrices:
            multiply(x, matrix)
        return time.perf_counter() - started

    rounds = [(seconds(torch.mm, plain), seconds(_multiply_packed, packed)) for _ in range(ROUNDS)]
    return min(r[1] for r in rounds) < 0.9 * min(r[0] for r in rounds)


def unit_rms(x: Tensor, eps: float) -> Tensor:
    """x [R, H] over its root mean square; a norm's weight is folded into what follows. On the CPU ``rms_norm`` is seven
    operators: a norm and a product serve for one row, four operators, half of its time, for several."""
    if x.shape[0] == 1 and x.device.type == "cpu":
        norm = torch.linalg.vector_norm(x, dtype=torch.float32).item()
        return x * (norm * norm / x.shape[1] + eps) ** -0.5
    if x.dtype == torch.float32 and x.device.type == "cpu":
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / torch.hypot(length.mul_(x.shape[-1] ** -0.5), _root(eps))
    return F.rms_norm(x, x.shape[-1:], None, eps)


@cache
@torch.inference_mode(False)
def _root(eps: float) -> Tensor:
    return torch.tensor(eps**0.5)
