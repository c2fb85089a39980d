"""The processes that train together: started by ``accelerate launch`` or ``torchrun``, one a GPU, or gloo on CPUs.

Each has data of its own and the same weights; gradients are averaged by hand, so that a task may call its modules as it
likes (a wrapper around one forward pass would not see half of them). A run alone is the case of one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True)
class Ranks:
    index: int = 0
    count: int = 1
    device: torch.device = torch.device("cpu")

    @classmethod
    def join(cls, device: torch.device) -> Ranks:
        """This process's place among those its launcher started, on a GPU of its own where ``device`` is CUDA."""
        index, count = (int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))
        if count == 1:
            return cls(device=device)
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
        if not dist.is_initialized():  # a day: the first process may have a corpus to tokenise
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(days=1))
        return cls(index, count, device)

    @property
    def first(self) -> bool:
        """The one that writes files and speaks to people."""
        return self.index == 0

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first process runs the block, then all others do: they find the caches it made."""
        if not self.first:
            self.most(0.0)
        yield
        if self.first:
            self.most(0.0)

    def most(self, value: float) -> float:
        """The largest value of all processes, which all must ask for."""
        if self.count == 1:
            return value
        largest = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return float(largest)

    def share(self, module: nn.Module) -> None:
        """Give every process the first one's weights."""
        if self.count > 1:
            for value in module.state_dict().values():
                dist.broadcast(value, 0)

    @torch.no_grad()
    def average(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace gradients by their mean over the processes. One that has none here counts as zero."""
        if self.count == 1:
            return
        weights = list(parameters)
        for weight in weights:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        flat = torch.cat([weight.grad.flatten() for weight in weights])
        dist.all_reduce(flat)
        for weight, mean in zip(weights, (flat / self.count).split([w.numel() for w in weights])):
            weight.grad.copy_(mean.view_as(weight))

    def leave(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()
