"""AdamW for every weight, or Muon for the matrices inside blocks: fewer steps, each a quarter dearer."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..runtime import cpu_has_bf16

Weights = list[nn.Parameter]


class Float32(TorchFunctionMode):
    """Casts to float32 where torch's Muon casts to bfloat16: a CPU that has none emulates it, ten times as slowly."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func is torch.Tensor.bfloat16:
            return args[0].to(torch.float32, copy=True)
        return func(*args, **(kwargs or {}))


class Muon(torch.optim.Muon):
    """Torch's Muon (K. Jordan and others, 2024), scaled so that AdamW's learning rate and weight decay fit (J. Liu and
    others, "Muon is scalable for LLM training", 2025, section 2.2), for matrices and for stacks of them [..., rows,
    columns]: torch's takes matrices alone, so each of a stack is a parameter that shares its memory."""

    def __init__(self, weights: Iterable[nn.Parameter], lr: float) -> None:
        self.weights = list(weights)
        matrices = lambda w: [nn.Parameter(m) for m in w.detach().flatten(0, -3)]
        self.views = [[w] if w.dim() == 2 else matrices(w) for w in self.weights]
        matrices = [matrix for views in self.views for matrix in views]
        super().__init__(matrices, lr=lr, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw")

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for weight in self.weights:
            weight.grad = None

    def step(self, closure: None = None) -> None:
        for weight, views in zip(self.weights, self.views):
            if weight.dim() > 2:
                grads = [None] * len(views) if weight.grad is None else weight.grad.flatten(0, -3)
                for view, grad in zip(views, grads):
                    view.grad = grad
        emulated = self.weights[0].device.type == "cpu" and not cpu_has_bf16()
        with Float32() if emulated else nullcontext():
            super().step()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Of an older run too, whose Muon was this project's own: one momentum, ``moving``, for a whole stack."""
        if not any("moving" in entry for entry in state["state"].values()):
            return super().load_state_dict(state)
        kept, number = {}, 0
        for index, views in enumerate(self.views):
            if index in state["state"]:
                moving = state["state"][index]["moving"]
                for index, momentum in enumerate(moving.reshape(-1, *moving.shape[-2:])):
                    kept[number + index] = {"momentum_buffer": momentum.clone()}
            number += len(views)
        return super().load_state_dict(self.state_dict() | {"state": kept})


class Optimisers:
    """Several optimisers as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none)

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {str(n): part.state_dict() for n, part in enumerate(self.parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for n, part in enumerate(self.parts):
            part.load_state_dict(state[str(n)])


def inner_matrices(blocks: nn.Module) -> Weights:
    """The matrices of blocks or of LoRA that are trained: what Muon is for."""
    return [weight for weight in blocks.parameters() if weight.dim() == 2 and weight.requires_grad]


def optimiser_of(
    parameters: Weights, matrices: Weights, lr: float, quick: Sequence[tuple[Weights, float]] = ()
) -> torch.optim.Optimizer | Optimisers:
    """AdamW for ``parameters``, but Muon for those of ``matrices``. ``quick``: some of them that learn at so many times
    the rate, which each group of the optimiser that does so holds as ``times``."""
    aside = {id(weight) for weights, _ in quick for weight in weights}
    chosen = {id(weight) for weight in matrices}
    rest = [weight for weight in parameters if id(weight) not in chosen | aside]
    groups = [{"params": rest}] + [{"params": weights, "times": times} for weights, times in quick]
    adam = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
    if not chosen:
        return adam
    return Optimisers(adam, Muon([w for w in parameters if id(w) in chosen], lr))
