"""How matrices are stored and steps are launched: device, precision, packing and graph mode, decided once."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from .graphs import BufferPool, buffer_pool
from .linear import Projection, bytes_of_weight, float32_on_cpu


@dataclass(frozen=True)
class Backend:
    """device, dtype: of activations. exact: see ``Projection``. graphed: on CUDA, steps run as CUDA graphs."""

    device: torch.device
    dtype: torch.dtype
    exact: bool = False
    graphed: bool = True

    @cached_property
    def lean(self) -> bool:
        """Whether a short pass goes through a ``Workspace``: float32 on the CPU."""
        return float32_on_cpu(self.device, self.dtype)

    def cast(self, weight: Tensor | None) -> Tensor | None:
        """The weight, if there is one, without its gradient, on this device and in this dtype."""
        return None if weight is None else weight.detach().to(self.device, self.dtype)

    def projection(self, weight: Tensor, bias: Tensor | None = None) -> Projection:
        """weight [out, in] and bias [out], cast and packed."""
        return Projection(self.cast(weight), self.cast(bias), self.exact)

    def weight_bytes(self, count: int) -> int:
        """Bytes that each weight of a matrix of ``count`` weights takes."""
        return bytes_of_weight(count, self.dtype, self.device, self.exact)

    def buffer_pool(self) -> BufferPool | None:
        """A new pool of cache buffers where steps run as graphs, else None."""
        return buffer_pool(self.device, self.graphed)

    def with_dtype(self, dtype: torch.dtype) -> "Backend":
        return replace(self, dtype=dtype)
