"""What many requests meet: percentiles of the time to the first audio over a row of requests, and the speech that one
process makes in a second when several are served in turns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import engine
from ..config import Request
from ..runtime import work_clock
from .rows import Row
from .speed import Bench
from .turns import in_turn

KIND = "requests"
PERCENTILES = (50, 95, 99)
AT_ONCE = (1, 2, 4)


def first_audio(stack: engine.Stack, request: Request) -> float:
    """Seconds of compute until the first audio. The rest of the run is not made."""
    events = (e for e in engine.generate(stack, request) if isinstance(e, engine.Stats | engine.Done))
    return next(e.snapshot.ttfa_seconds for e in events if e.snapshot.ttfa_seconds is not None)


def throughput(stack: engine.Stack, requests: Sequence[Request]) -> float:
    """Seconds of speech made in a second of compute, all ``requests`` served in turns."""
    clock = work_clock(stack.device)
    started = clock()
    done = in_turn(stack, requests)
    return sum(d.snapshot.audio_seconds for d in done) / (clock() - started)


def measure(bench: Bench, row: Row, count: int) -> dict[str, Any]:
    """The record of a row, measured unless it is there already: ``count`` requests of different seeds, one after the
    other, until their first audio, and whole runs of the bench's length at once."""
    stack, seed, where = bench.stack, bench.seed, bench.where_of(row)
    text = f"{count} requests, {bench.seconds:g} s"
    if found := bench.records.find(KIND, row.label, text, seed, where):
        return found
    ask = lambda n: bench.request(row, bench.seconds, n)
    engine.run(stack, ask(0))  # builds what the others use
    numbers = tqdm(range(count), desc=f"{row.label}: first audio", unit="request", mininterval=2.0)
    times = [first_audio(stack, ask(n)) for n in numbers]
    figures: dict[str, Any] = {f"ttfa_p{p}": float(np.percentile(times, p)) for p in PERCENTILES}
    figures |= {f"throughput_{n}": throughput(stack, [ask(i) for i in range(n)]) for n in AT_ONCE}
    return bench.records.append(KIND, row.label, text, seed, where, figures | {"requests": count})
