"""AdamW for every weight, or Muon for the matrices inside blocks: fewer steps, each a quarter dearer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..runtime import precision

ROUNDS = 5  # of Newton and Schulz's iteration, whose coefficients Muon chose for speed, not for convergence to 1
A, B, C = 3.4445, -4.7750, 2.0315


class Muon(torch.optim.Optimizer):
    """Momentum whose singular values are all made about 1 (K. Jordan and others, "Muon", 2024), scaled so that AdamW's
    learning rate and weight decay fit (J. Liu and others, "Muon is scalable for LLM training", 2025, section 2.2). For
    matrices, or stacks of them [..., rows, columns]."""

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.01) -> None:
        super().__init__(list(matrices), {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            alike: dict[tuple[int, int], list[nn.Parameter]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    alike[tuple(weight.shape)].append(weight)
            for shape, weights in alike.items():
                wanted = torch.stack([self._momentum(weight, group["momentum"]) for weight in weights])
                moved = orthogonal(wanted.flatten(0, -3)).view_as(wanted)
                for weight, update in zip(weights, moved):
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(update, alpha=-0.2 * max(shape[-2:]) ** 0.5 * group["lr"])

    def _momentum(self, weight: nn.Parameter, momentum: float) -> Tensor:
        if "moving" not in self.state[weight]:
            self.state[weight]["moving"] = torch.zeros_like(weight)
        moving = self.state[weight]["moving"].lerp_(weight.grad, 1 - momentum)
        return weight.grad.lerp(moving, momentum)  # Nesterov's


class Together:
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


def inner_matrices(blocks: nn.Module) -> list[nn.Parameter]:
    """The matrices of blocks or of LoRA that are trained: what Muon is for."""
    return [weight for weight in blocks.parameters() if weight.dim() == 2 and weight.requires_grad]


def orthogonal(x: Tensor) -> Tensor:
    """[N, rows, columns] -> the same with singular values between about 0.7 and 1.2."""
    tall = x.shape[-2] > x.shape[-1]
    y = x.mT if tall else x
    y = y / y.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-12)
    y = y.to(precision(x.device))  # which the coefficients were chosen in
    for _ in range(ROUNDS):
        square = y @ y.mT
        y = A * y + torch.baddbmm(square, square, square, beta=B, alpha=C) @ y
    return (y.mT if tall else y).to(x.dtype)


def optimiser_of(
    parameters: list[nn.Parameter],
    matrices: list[nn.Parameter],
    lr: float,
    quick: Sequence[tuple[list[nn.Parameter], float]] = (),
) -> torch.optim.Optimizer | Together:
    """AdamW for ``parameters``, but Muon for those of ``matrices``. ``quick``: some of them that learn at so many times
    the rate, which each group of the optimiser that does so holds as ``times``."""
    aside = {id(weight) for weights, _ in quick for weight in weights}
    chosen = {id(weight) for weight in matrices}
    rest = [weight for weight in parameters if id(weight) not in chosen | aside]
    groups = [{"params": rest}] + [{"params": weights, "times": times} for weights, times in quick]
    adam = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
    if not chosen:
        return adam
    return Together(adam, Muon([w for w in parameters if id(w) in chosen], lr))
