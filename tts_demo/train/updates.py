"""One step of the optimiser: gradients averaged over processes, clipped, and left out where they are not finite."""

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from .optimiser import optimiser_of
from .processes import average_gradients
from .task import Task

# so many steps in a row without a finite gradient, or such a share of all, are a fault, not a bad batch
SKIPPED, SKIPPED_SHARE = 20, 0.05


class Updates:
    """Of a task's ``parameters``. Modules that learn more quickly are clipped apart from the rest."""

    def __init__(self, task: Task, parameters: list[nn.Parameter], peak: float, accelerator: Accelerator) -> None:
        quick = [([p for p in task.helpers[n].parameters() if p.requires_grad], k) for n, k in task.quicker.items()]
        matrices = task.matrices() if task.settings.optimiser == "muon" else []
        self.optimiser = optimiser_of(parameters, matrices, peak, quick)
        aside = {id(p) for weights, _ in quick for p in weights}
        self._sides = [[p for p in parameters if id(p) not in aside], *(weights for weights, _ in quick)]
        self._name, self._parameters, self._accelerator = task.name, parameters, accelerator
        self._taken = self._left_out = self._in_a_row = 0

    def set_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group.get("times", 1.0)

    def apply(self, loss: Tensor) -> bool:
        """Whether the weights moved: a batch that would spoil every weight is left out. Raises RuntimeError where that
        is no accident."""
        self.optimiser.zero_grad(set_to_none=True)
        self._accelerator.backward(loss)
        average_gradients(self._accelerator, self._parameters)
        norms = torch.stack([nn.utils.clip_grad_norm_(side, 1.0) for side in self._sides])
        self._taken += 1
        if torch.isfinite(norms).all():
            self._in_a_row = 0
            self.optimiser.step()
            return True
        self._in_a_row += 1
        self._left_out += 1
        if self._in_a_row == SKIPPED or self._left_out > max(SKIPPED, SKIPPED_SHARE * (self._taken - 1)):
            raise RuntimeError(
                f"{self._name}: no finite gradient in {self._left_out} of {self._taken} steps, the last "
                f"{self._in_a_row} in a row; resume from an earlier state, lower --lr, or mend the loss."
            )
        return False
