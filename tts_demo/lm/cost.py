"""The memory cost of a decoding step: the bytes it reads and the time that takes at the device's bandwidth."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from ..config import LMConfig
from ..runtime import candidate_dtypes, synchronize, work_clock
from .backend import Backend
from .decoder import Decoder
from .model import LanguageModel

Key = TypeVar("Key")


@dataclass(frozen=True)
class Cost:
    """Parameters one backbone step multiplies by (the head included, input embeddings not: a step reads one row)."""

    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int

    @classmethod
    def of(cls, config: LMConfig, backend: Backend) -> "Cost":
        c, size = config, backend.dtype.itemsize
        heads = (c.heads + 2 * c.kv_heads) * c.head_dim
        matrices = c.layers * [c.hidden * n for n in (heads, c.heads * c.head_dim, 2 * c.ffn, c.ffn)]
        others = c.layers * (heads + 2 * c.hidden) + c.hidden  # biases and norms
        head = c.hidden * c.vocab  # float32 at least: see Decoder
        weight_bytes = others * size + sum(n * backend.weight_bytes(n) for n in matrices)
        weight_bytes += head * backend.with_dtype(torch.float32).weight_bytes(head)
        return cls(sum(matrices) + head + others, weight_bytes, 2 * c.layers * c.kv_heads * c.head_dim * size)

    def step_bytes(self, live: float, batch: int = 1) -> float:
        """Bytes one step reads with ``live`` slots in the cache of each of ``batch`` rows."""
        return self.weight_bytes + batch * live * self.kv_bytes_per_token

    def ceiling_seconds(self, bandwidth: float, live: float, batch: int = 1) -> float:
        """The shortest time a step can take: its bytes at ``bandwidth`` bytes a second."""
        return self.step_bytes(live, batch) / bandwidth


def probe_bandwidth(device: torch.device, size: int, seconds: float = 0.5) -> float:
    """Bytes a second this device reads from a buffer of ``size`` bytes: the best of the passes that fit in ``seconds``.

    The size should be what a step reads: a model that fits in a cache has that cache's bandwidth for its ceiling."""
    buffer = torch.ones(max(1 << 20, size // 4), device=device)
    best, start = float("inf"), time.perf_counter()
    with torch.inference_mode():
        while time.perf_counter() - start < seconds or best == float("inf"):
            best = min(best, _timed(lambda: buffer.sum(), device))
    return buffer.numel() * 4 / best


def fastest_dtype(config: LMConfig, device: torch.device, live: int = 400, steps: int = 8) -> torch.dtype:
    """The precision whose steps are quickest here, measured on a short stack of random blocks of this shape,
    interleaved. fp32 is kept unless another saves a tenth, because it is exact."""
    kinds = candidate_dtypes(device)
    if len(kinds) == 1:
        return kinds[0]
    lm = LanguageModel(replace(config, layers=min(config.layers, 4), text_vocab=1)).to(device).eval()
    decoders = [Decoder.from_model(lm, backend=Backend(device, dtype)) for dtype in kinds]
    cost = _medians({d.dtype: _repeated_pass(d, live, 1, head=True) for d in decoders}, steps, device)
    best = min(cost, key=cost.get)
    return best if cost[best] < 0.9 * cost[kinds[0]] else kinds[0]


def pass_costs(decoder: Decoder) -> dict[int, float]:
    """Tokens -> the time of a pass over so many, with some hundred in the cache, over that of a pass over one: medians
    of passes in turns. Where computing is what takes the time, reading several tokens at once is not free."""
    median = _medians({n: _repeated_pass(decoder, 300, n) for n in (1, 2, 4, 8)}, 24, decoder.device)
    return {n: seconds / median[1] for n, seconds in median.items() if n > 1}


@torch.inference_mode()
def _medians(calls: dict[Key, Callable[[], object]], rounds: int, device: torch.device) -> dict[Key, float]:
    """Median seconds of each call, made in turns, without the first two rounds."""
    times = [{key: _timed(call, device) for key, call in calls.items()} for _ in range(rounds)]
    return {key: statistics.median(taken[key] for taken in times[2:]) for key in calls}


@torch.inference_mode()
def _repeated_pass(decoder: Decoder, live: int, count: int, head: bool = False) -> Callable[[], None]:
    """A pass over ``count`` tokens behind ``live`` in the cache, and their logits with ``head``, to be called again."""
    cache, shape = decoder.new_cache(live + count), (1, live + count, decoder.config.hidden)
    x = torch.ones(shape, dtype=decoder.dtype, device=decoder.device)
    decoder.forward(x[:, count:], cache, 0)

    def call() -> None:
        hidden = decoder.forward(x[:, :count], cache, live)
        if head:
            decoder.logits(hidden)
        cache.rollback(count)

    return call


def _timed(call: Callable[[], object], device: torch.device) -> float:
    clock = work_clock(device)
    start = clock()
    call()
    synchronize(device)
    return clock() - start
