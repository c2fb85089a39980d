"""Batches: frozen dataclasses of tensors, which go to a device together."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorBatch:
    """All fields of a subclass are tensors."""

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(*(change(getattr(self, field.name)) for field in fields(self)))

    def repeat(self, times: int) -> Self:
        """Each row ``times`` times in a row."""
        return self.each(lambda tensor: tensor.repeat_interleave(times, 0))

    def to(self, device: torch.device | str) -> Self:
        return self.each(lambda tensor: tensor.to(device))
