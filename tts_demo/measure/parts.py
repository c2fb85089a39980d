"""Where the time goes: a clock on modules of the acoustics for the length of one run, and the operators of a step."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..methods.base import Method, State
from ..runtime import synchronize, work_clock

STEPS = 12  # that operators are counted in, behind as many that are not


class PartClock:
    """``seconds`` spent inside each module while the block lasts. The device is waited for on both ends of a call."""

    def __init__(self, parts: Mapping[str, nn.Module], device: torch.device) -> None:
        self.seconds = dict.fromkeys(parts, 0.0)
        self._parts, self._device, self._clock = parts, device, work_clock(device)

    def __enter__(self) -> "PartClock":
        self._hooks = [hook for part, module in self._parts.items() for hook in self._watch(part, module)]
        return self

    def __exit__(self, *_: Any) -> None:
        for hook in self._hooks:
            hook.remove()

    def _watch(self, part: str, module: nn.Module) -> tuple[Any, Any]:
        started = [0.0]

        def before(*_: Any) -> None:
            synchronize(self._device)
            started[0] = self._clock()

        def after(*_: Any) -> None:
            synchronize(self._device)
            self.seconds[part] += self._clock() - started[0]

        return module.register_forward_pre_hook(before), module.register_forward_hook(after)


@torch.inference_mode()
def operators(method: Method, state: State) -> Counter[str]:
    """PyTorch's operators in STEPS steps of a run that has begun, by name, those that others call left out."""
    for _ in range(STEPS):
        method.step(state)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        for _ in range(STEPS):
            method.step(state)
    return Counter(e.name for e in profile.events() if e.name.startswith("aten::") and e.cpu_parent is None)
