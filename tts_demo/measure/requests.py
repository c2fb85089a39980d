"""What many requests meet: percentiles of the time to the first audio over a row of requests, and the speech that one
process makes in a second when several are served in turns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import engine
from ..config import Request, Sampling
from ..runtime import work_clock
from .records import Records, Where, sampling_label
from .rows import Row
from .speed import TEXT
from .turns import in_turn

KIND = "requests"
COUNT = 200
PERCENTILES = (50, 95, 99)
AT_ONCE = (1, 2, 4)


def first_audio(stack: engine.Stack, request: Request) -> float:
    """Seconds of compute until the first audio. The rest of the run is not made."""
    for event in engine.generate(stack, request):
        if isinstance(event, engine.Stats) and event.snapshot.ttfa_seconds is not None:
            return event.snapshot.ttfa_seconds
        if isinstance(event, engine.Done):
            return event.snapshot.ttfa_seconds
    raise RuntimeError("a run ended without its last event")


def throughput(stack: engine.Stack, requests: Sequence[Request], clock: Callable[[], float] | None = None) -> float:
    """Seconds of speech made in a second of compute, all ``requests`` served in turns."""
    clock = clock or work_clock(stack.device)
    started = clock()
    done = in_turn(stack, requests)
    return sum(d.snapshot.audio_seconds for d in done) / (clock() - started)


def measure(
    stack: engine.Stack,
    prompt: Any,
    row: Row,
    records: Records,
    seconds: float,
    count: int = COUNT,
    seed: int = 0,
    sampling: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The record of a row, measured unless it is there already: ``count`` requests of different seeds, one after the
    other, until their first audio, and whole runs of ``seconds`` at once."""
    changed, text = sampling or {}, f"{count} requests, {seconds:g} s"
    where = Where.of(stack, sampling_label(changed)).through(stack.method(row.method.name))
    if found := records.find(KIND, row.label, text, seed, where):
        return found
    frames, options = max(2, round(seconds * stack.frame_rate)), row.options
    ask = lambda n: Request(TEXT, prompt, row.method.name, options, Sampling(**changed), seed + n, forced_frames=frames)
    engine.run(stack, ask(0))  # builds what the others use
    numbers = tqdm(range(count), desc=f"{row.label}: first audio", unit="request", mininterval=2.0)
    times = [first_audio(stack, ask(n)) for n in numbers]
    figures: dict[str, Any] = {f"ttfa_p{p}": float(np.percentile(times, p)) for p in PERCENTILES}
    figures |= {f"throughput_{n}": throughput(stack, [ask(i) for i in range(n)]) for n in AT_ONCE}
    return records.append(KIND, row.label, text, seed, where, figures | {"requests": count})
