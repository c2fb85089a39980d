"""What every stack does alike: it holds a language model, and makes each method once."""

import threading
from pathlib import Path

import torch

from .. import checkpoints
from ..lm import Base, Decoder, LanguageModel
from ..methods import Method, find


class LanguageModelStack:
    adapters: Path | None = None  # where trained modules lie that are not of the stack's own checkpoint

    def __init__(
        self,
        lm: LanguageModel,
        device: torch.device | str,
        dtype: torch.dtype,
        exact: bool = False,
        graphs: bool = True,
    ) -> None:
        """exact: no matrix is kept in less than ``dtype``. graphs: on CUDA, steps run as CUDA graphs."""
        self.device, self.dtype = torch.device(device), dtype
        self.lm = self._placed(lm)
        self.base = Base(self.lm, exact, graphs)
        self._methods: dict[str, Method] = {}
        self._loading = threading.Lock()

    @property
    def decoder(self) -> Decoder:
        return self.base.decoder

    def method(self, name: str) -> Method:
        """The method, with its trained modules loaded the first time it is asked for."""
        kind = find(name)
        with self._loading:
            if name not in self._methods:
                found = {part: self._trained(kind, part, new) for part, new in kind.build_modules(self.lm).items()}
                modules = {part: module for part, module in found.items() if module is not None}
                beside = "" if self.adapters is None else checkpoints.modules_hash(self.adapters, modules)
                self._methods[name] = kind(self.base, modules, beside)
        return self._methods[name]

    def _trained(self, kind: type[Method], part: str, module: torch.nn.Module) -> torch.nn.Module | None:
        """The module of folder ``part`` as the method runs with it; None where it does without. Here: as it is."""
        return self._placed(module)

    def _placed(self, module: torch.nn.Module) -> torch.nn.Module:
        return module.to(self.device, self.dtype).eval().requires_grad_(False)
