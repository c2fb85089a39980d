"""What a run holds beside its weights: their moving average, its saved state, its batches, the wish to stop."""

import io
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from ..config import UserError


class Average:
    """The moving average of what is trained; ``keep`` 0 = there is none."""

    def __init__(self, parameters: list[nn.Parameter], keep: float) -> None:
        self.keep, self.current = keep, nn.ParameterList(parameters if keep else [])
        self.averaged = AveragedModel(self.current, multi_avg_fn=self._mix)
        self.averaged.n_averaged.fill_(1)  # the weights that training begins with

    @torch.no_grad()
    def _mix(self, averaged: list[Tensor], current: list[Tensor], count: Tensor) -> None:
        """A young average forgets faster, or it would remember how training began."""
        keep = min(self.keep, int(count) / (9 + int(count)))
        torch._foreach_lerp_(averaged, current, 1 - keep)

    def add(self, step: int) -> None:
        if len(self.current):
            self.averaged.n_averaged.fill_(1 + step)
            self.averaged.update_parameters(self.current)

    @property
    def weights(self) -> list[Tensor]:
        return [weight.detach() for weight in self.averaged.module]

    @contextmanager
    def instead(self) -> Iterator[None]:
        """The modules hold the average inside this block."""
        self._swap()
        yield
        self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for current, averaged in zip(self.current, self.weights):
            kept = current.detach().clone()
            current.copy_(averaged)
            averaged.copy_(kept)


PIECE = 15 << 20  # bytes of a file at most, where files are to be small


class Run:
    """Resumable state in one file, replaced atomically, or in ``pieces`` of it beside a list of them, which is replaced
    last. Of several processes one ``writes``, all read."""

    def __init__(
        self,
        folder: Path,
        modules: nn.Module,
        optimiser: torch.optim.Optimizer,
        average: Average,
        writes: bool,
        pieces: bool = False,
    ) -> None:
        self.pieces = pieces
        self.path, self.modules, self.optimiser, self.writes = folder / "state.pt", modules, optimiser, writes
        self.average = average
        self.trained = [name for name, weight in modules.named_parameters() if weight.requires_grad]
        self.began: dict[str, str] = {}  # what had made the weights a run began with, by module

    def save(self, step: int, log: list, seconds: float) -> None:
        if not self.writes:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "step": step,
            "log": json.dumps(log),
            "seconds": seconds,
            "optimiser": self.optimiser.state_dict(),
            "modules": self.modules.state_dict(),
            "began": self.began,
            "average": dict(zip(self.trained, self.average.weights)),
        }
        part = self.path.with_suffix(".part")
        if self.pieces:
            part.write_text("\n".join(self._write_pieces(state, step)))
        else:
            torch.save(state, part)
        os.replace(part, self.path)
        if self.pieces:
            listed = set(self.path.read_text().split())
            for old in self.path.parent.glob("state-*"):
                if old.name not in listed:
                    old.unlink()

    def _write_pieces(self, state: dict[str, Any], step: int) -> Iterator[str]:
        """Writes files of ``PIECE`` bytes, yields their names."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        whole = buffer.getbuffer()
        for number, start in enumerate(range(0, len(whole), PIECE)):
            name = f"state-{step}-{time.monotonic_ns()}.{number}"
            (self.path.parent / name).write_bytes(whole[start : start + PIECE])
            yield name

    def _read(self) -> dict[str, Any]:
        with open(self.path, "rb") as file:
            whole = file.read(6) != b"state-"
        source: Any = self.path
        if not whole:
            source = io.BytesIO(b"".join((self.path.parent / n).read_bytes() for n in self.path.read_text().split()))
        return torch.load(source, weights_only=True, map_location="cpu")

    def load(self) -> tuple[int, list, float]:
        if not self.path.exists():
            raise UserError(f"Nothing to resume: {self.path} does not exist; start without --resume.")
        state = self._read()
        self.modules.load_state_dict(state["modules"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.began = state["began"]
        kept = state.get("average", {})
        for name, weight in zip(self.trained, self.average.weights):
            if name in kept:
                weight.copy_(kept[name])
        return state["step"], json.loads(state["log"]), state["seconds"]


class Batches:
    """Batch number ``step`` of a task. ``ahead``: the next one is made while the device works on this one."""

    def __init__(self, make: Callable[[int], Any], ahead: bool) -> None:
        self.make, self.pool, self.waiting = make, ThreadPoolExecutor(1) if ahead else None, {}

    def take(self, step: int) -> Any:
        if self.pool is None:
            return self.make(step)
        ready = self.waiting.pop(step, None) or self.pool.submit(self.make, step)
        self.waiting[step + 1] = self.pool.submit(self.make, step + 1)
        return ready.result()

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)


@contextmanager
def requests_to_stop() -> Iterator[list[int]]:
    """SIGINT and SIGTERM that came within the block: they end the run after the current step, with state saved and
    modules published.

    Afterwards they do what they did before: a handler left behind would make the process, and all that it forks, deaf
    to whoever ends it."""
    came: list[int] = []
    ask = lambda number, _: came.append(number)
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
