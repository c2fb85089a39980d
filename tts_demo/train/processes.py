"""The processes that train together, by accelerate: one a GPU, or gloo on CPUs, started by ``accelerate launch`` or
``torchrun``; a run alone is the case of one.

Each has data of its own and the same weights. Gradients are averaged after the backward pass instead of by a wrapper
around one forward pass, so that a task may call its modules as it likes.
"""

from collections.abc import Iterable
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, broadcast
from torch import nn

from ..runtime import precision


def accelerator_for(device: torch.device | str) -> Accelerator:
    """This process among those that its launcher started, on a GPU of its own where ``device`` is CUDA; matrices are
    multiplied in ``runtime.precision``. The others wait up to a day: the first may have a corpus to tokenise."""
    device = torch.device(device)
    return Accelerator(
        cpu=device.type == "cpu",
        mixed_precision="bf16" if precision(device) == torch.bfloat16 else "no",
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(days=1))],
    )


def largest(accelerator: Accelerator, value: float) -> float:
    """The largest value of all processes, which all must ask for."""
    if accelerator.num_processes == 1:
        return value
    return float(accelerator.reduce(torch.tensor(value, dtype=torch.float32, device=accelerator.device), "max"))


def share_weights(accelerator: Accelerator, module: nn.Module) -> None:
    """Give every process the first one's weights."""
    if accelerator.num_processes > 1:
        broadcast(list(module.state_dict().values()))


@torch.no_grad()
def average_gradients(accelerator: Accelerator, parameters: Iterable[nn.Parameter]) -> None:
    """Replace gradients by their mean over the processes. One that has none here counts as zero."""
    if accelerator.num_processes == 1:
        return
    weights = list(parameters)
    for weight in weights:
        weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
    mean = accelerator.reduce(torch.cat([weight.grad.flatten() for weight in weights]), "mean")
    for weight, part in zip(weights, mean.split([w.numel() for w in weights])):
        weight.grad.copy_(part.view_as(weight))
