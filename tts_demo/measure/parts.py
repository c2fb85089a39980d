"""Where the time of the acoustics goes: a clock on modules of the stack, for the length of one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..runtime import synchronize, work_clock


class PartClock:
    """``seconds`` spent inside each module while the block lasts. The device is waited for on both ends of a call."""

    def __init__(self, parts: Mapping[str, nn.Module], device: torch.device) -> None:
        self.seconds = dict.fromkeys(parts, 0.0)
        self._parts, self._device, self._clock = parts, device, work_clock(device)

    def __enter__(self) -> PartClock:
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
