"""One matrix, in the layout that its device streams fastest when only a few rows are multiplied.

Decoding is bound by reading weights. On a CPU that FBGEMM supports, matrices of ``HALVED`` size are kept as float16, as
in the checkpoint, and multiply float32 rows in float32, in about a third of the time of float32 layouts. Larger ones
(released models) stay float32, because FBGEMM's kernel uses one thread. bfloat16 matrices are packed by oneDNN where
the CPU supports it."""

import warnings
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

HALVED = range(1 << 15, 1 << 20)  # number of weights of a matrix that is kept as float16


class Projection:
    """y = x W^T + bias (+ residual) for weight [out, in]. ``halved``: its weights were rounded to float16."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, exact: bool = False) -> None:
        """exact: float32 weights stay float32, however large."""
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        self.columns: Tensor | None = None  # [in, out]
        self.packed: Tensor | None = None  # oneDNN's own layout, bfloat16
        self.handle: Tensor | None = None  # FBGEMM's, float16
        self.rows: Tensor | None = None  # [out, in]
        if float32_on_cpu(weight.device, weight.dtype):
            if bytes_of_weight(weight.numel(), weight.dtype, weight.device, exact) == 2:
                self.handle = _pack_halves(weight)
            else:
                self.columns = weight.t().contiguous()
        elif weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and onednn_packs_bf16():
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 1)
        else:
            self.rows = weight

    @property
    def halved(self) -> bool:
        return self.handle is not None

    def __deepcopy__(self, memo: dict[int, object]) -> "Projection":
        return self  # it never changes, and FBGEMM's handle is an address, which must not be copied byte by byte

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x [R, in] -> [R, out]; ``residual`` [R, out] is added (in place of a bias, which such a matrix has not)."""
        if self.handle is not None:
            y = torch.fbgemm_linear_fp16_weight_fp32_activation(x, self.handle, self.bias)
            return y if residual is None else y.add_(residual)
        if self.columns is not None:
            plus = self.bias if residual is None else residual
            return torch.mm(x, self.columns) if plus is None else torch.addmm(plus, x, self.columns)
        if self.packed is not None:
            if residual is not None:
                return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, None, "add")
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return F.linear(x, self.rows, self.bias) if residual is None else torch.addmm(residual, x, self.rows.t())

    def into(self, x: Tensor, out: Tensor) -> Tensor:
        """x [R, in] -> ``out`` [R, out], of float32 on the CPU."""
        if self.handle is not None:
            return torch.fbgemm_linear_fp16_weight_fp32_activation(x, self.handle, self.bias, out)
        if self.bias is not None:
            return torch.addmm(self.bias, x, self.columns, out=out)
        return torch.mm(x, self.columns, out=out)


@dataclass(frozen=True)
class Layer:
    """Weights of one block: query, key and value in one matrix, gate and up in another, norms folded in."""

    qkv: Projection  # H -> (A + 2 kv) D
    out: Projection  # A D -> H
    gate_up: Projection  # H -> 2 FFN
    down: Projection  # FFN -> H


def float32_on_cpu(device: torch.device, dtype: torch.dtype) -> bool:
    """Where the layouts and operators that suit a CPU in float32 are used. Tests say no, and get what a GPU runs."""
    return device.type == "cpu" and dtype == torch.float32


def onednn_packs_bf16() -> bool:
    """Whether oneDNN takes bf16 matrices on this CPU: it refuses one that has AVX2 alone."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


@cache
def fbgemm_is_here() -> bool:
    """Whether this torch on this CPU multiplies by float16 weights (x86 with AVX2)."""
    return "fbgemm" in torch.backends.quantized.supported_engines and hasattr(torch, "fbgemm_pack_gemm_matrix_fp16")


def bytes_of_weight(count: int, dtype: torch.dtype, device: torch.device, exact: bool = False) -> int:
    """Bytes that a weight of a matrix of ``count`` weights takes where it is kept."""
    halved = not exact and device.type == "cpu" and dtype == torch.float32 and count in HALVED and fbgemm_is_here()
    return 2 if halved else dtype.itemsize


def _pack_halves(weight: Tensor) -> Tensor:
    """FBGEMM's handle of a matrix [out, in]. Its deprecation warning is silenced; requirements.txt pins torch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fbgemm.*deprecated")
        handle = torch.fbgemm_pack_gemm_matrix_fp16(weight.contiguous())
        torch.fbgemm_linear_fp16_weight_fp32_activation(weight.new_zeros(1, weight.shape[1]), handle, None)
    return handle


def unit_rms(x: Tensor, eps: float) -> Tensor:
    """x [R, H] over its root mean square; a norm's weight is folded into what follows. On the CPU ``rms_norm`` is seven
    operators, this is four, in half of its time (numbers as tensors: a Python number is made one at every call)."""
    if float32_on_cpu(x.device, x.dtype):
        share, root = _constants(x.shape[-1], eps)
        return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True).mul_(share), root)
    return F.rms_norm(x, x.shape[-1:], None, eps)


def direction(x: Tensor, eps: float) -> Tensor:
    """``unit_rms`` over ``direction_scale``, which is folded into what follows: one operator less on the CPU."""
    if float32_on_cpu(x.device, x.dtype):
        return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), root_of_eps(x.shape[-1], eps))
    return unit_rms(x, eps)


def direction_scale(like: Tensor, dtype: torch.dtype) -> float:
    """``unit_rms(x)`` over ``direction(x)`` for x of the width and device of ``like``: the square root of the width for
    float32 on a CPU, else 1."""
    return like.shape[-1] ** 0.5 if float32_on_cpu(like.device, dtype) else 1.0


@cache
@torch.inference_mode(False)
def root_of_eps(width: int, eps: float) -> Tensor:
    """sqrt(width * eps) as a tensor []: ``direction`` divides x by sqrt(|x|^2 + width * eps)."""
    return torch.tensor((width * eps) ** 0.5)


@cache
@torch.inference_mode(False)
def _constants(width: int, eps: float) -> tuple[Tensor, Tensor]:
    return torch.tensor(width**-0.5), torch.tensor(eps**0.5)
