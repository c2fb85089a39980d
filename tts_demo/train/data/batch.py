"""Batches: frozen dataclasses of tensors, which go to a device together."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorBatch:
    """All fields of a subclass are tensors."""

    @classmethod
    def of(cls, rows: Iterable[tuple[np.ndarray, ...]]) -> Self:
        """Of items that hold an array for each field, all of one shape."""
        return cls(*(torch.from_numpy(np.stack(column)) for column in zip(*rows)))

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(*(change(getattr(self, field.name)) for field in fields(self)))

    def repeat(self, times: int) -> Self:
        """Each row ``times`` times in a row."""
        return self.each(lambda tensor: tensor.repeat_interleave(times, 0))

    def to(self, device: torch.device | str) -> Self:
        return self.each(lambda tensor: tensor.to(device))
