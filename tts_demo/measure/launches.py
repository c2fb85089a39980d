"""What a step asks of a GPU's host, counted on any device by the path that CUDA graphs are captured from: launches of
graphs, operators launched one by one, and waits for a value.

A CPU cannot show every wait: copies from the host's memory count as operators, and moving a tensor to the device that
it is on already counts as nothing.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..config import Sampling
from ..lm import Base, Prefix
from ..lm.graphs import static_path
from ..methods.base import Method
from ..runtime import generator_for, launches_inside

STEPS = 12  # that are counted, behind as many that are not
WAITS = {
    *("tolist", "item", "numpy", "cpu", "nonzero", "masked_select", "equal", "unique", "isin", "allclose"),
    *("__bool__", "__int__", "__float__", "__index__", "__contains__", "is_nonzero"),
}
FROM_HOST = {"tensor", "as_tensor", "from_numpy"}  # a graph would keep what the host said when it was captured
FREE = {"empty", "empty_like", "empty_strided", "new_empty", "detach", "alias", "_reshape_alias"}  # no kernel


@dataclass
class Launches:
    """In ``STEPS`` steps."""

    graphs: int = 0
    operators: Counter[str] = field(default_factory=Counter)  # by name
    waits: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # inside a graph, by what CUDA could not capture
    inside: bool = False  # a graph: nothing else is counted

    @property
    def a_step(self) -> dict[str, float]:
        return {
            "graph launches": self.graphs / STEPS,
            "eager operators": self.operators.total() / STEPS,
            "host synchronisations": self.waits.total() / STEPS,
        }

    @contextmanager
    def launch(self) -> Iterator[None]:
        self.graphs += not self.inside
        before, self.inside = self.inside, True
        try:
            yield
        finally:
            self.inside = before


class _Operators(TorchDispatchMode):
    def __init__(self, found: Launches) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if not self.found.inside and not _is_view(func) and name not in FREE and name != "_local_scalar_dense":
            self.found.operators[name] += 1
        return func(*args, **(kwargs or {}))


def _is_view(func: Any) -> bool:
    aliases = [a.alias_info for a in func._schema.arguments if a.alias_info is not None]
    return bool(aliases) and not any(alias.is_write for alias in aliases)


class _Waits(TorchFunctionMode):
    def __init__(self, found: Launches) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(func, "__name__", "")
        picks = name in ("__getitem__", "__setitem__") and _chooses(args[1])
        if name in WAITS or picks:
            (self.found.refused if self.found.inside else self.found.waits)[name] += 1
        elif self.found.inside and name in FROM_HOST:
            self.found.refused[name] += 1
        return func(*args, **(kwargs or {}))


def _chooses(index: Any) -> bool:
    """Whether an index picks as many elements as a mask has: the host must know how many."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype == torch.bool for part in parts)


@torch.inference_mode()
def launches(method: Method, prefix: Prefix, options: Any, frames: int, sampling: Sampling = Sampling()) -> Launches:
    """Of a run of the method's language model as long as ``frames``, once its graphs are there."""
    found = Launches()
    with static_path():  # the same method and weights, decoders and samplers built anew for graphs
        twin = type(method)(Base(method.lm, method.base.backend.exact, graphed=True), method.modules)
        for _ in range(2):  # the first run makes what the second one uses
            state = twin.prefill(prefix, options, sampling, generator_for(method.lm.device, 0), frames, True)
            for _ in range(STEPS):
                twin.step(state)
        with launches_inside(found.launch), _Waits(found), _Operators(found):
            for _ in range(STEPS):
                twin.step(state)
    return found
