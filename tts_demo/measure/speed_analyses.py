"""What ``bench --all`` measures beside its rows, kept in section ``analyses`` of results.json: time and memory as
speech gets longer, and what decides the best draft length."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ..config import Sampling
from ..lm import Decoder
from ..lm.sampling import Law, law, sample
from ..methods.ssd import LONGEST, judge
from ..runtime import generator_for, synchronize
from .analyses import row
from .cases import Row, runnable
from .speed import Bench, median
from .turns import in_turn

LENGTHS = (10, 20, 60, 180)  # seconds
LONG_ROUNDS = 2  # rounds that speak the longest
CONTEXT = 400  # live slots while the cost of a pass is measured
REPEATS = 60  # passes timed of each length
TOLERANCES = (0.0, 0.1, 0.2, 0.3, 0.4)
FOLLOWS = {"draft lengths": "ssd", "lengths": "compressed"}  # the method whose speed they are about


def extra_rows() -> list[Row]:
    """Dials that only analyses need: every draft length (SSD), longer delays (QTTS)."""
    return [row("ssd", {"tolerance": 0.4, "draft_length": str(n)}) for n in range(1, LONGEST + 1)] + [
        row("qtts", {"strategy": "delay", "delay": delay}) for delay in (3, 4)
    ]


def lengths(bench: Bench, seconds: tuple[int, ...] = LENGTHS) -> dict[str, Any]:
    """Baseline and compressed side by side, speaking the longest of ``seconds`` at a stretch twice and the second of
    them in the other rounds: LM-RTF of the first so many seconds and over the baseline's in the same round, KV bytes
    then, and bytes per further second from the second length on."""
    wanted = [row("baseline", {})] + [row("compressed", {"window": 50, "group": 10, "text": text}) for text in (0, 30)]
    rows = runnable(bench.stack, wanted, False)[0]
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {each.label: [] for each in rows}
    for number in tqdm(range(bench.rounds), desc="long speech", unit="round"):
        if number and bench.expired:
            break
        spoken = seconds[-1] if number < LONG_ROUNDS else seconds[1]
        runs = in_turn(bench.stack, [bench.request(each, spoken, bench.seed + number) for each in rows])
        for each, done in zip(rows, runs):
            rounds[each.label].append(_along(done, seconds, bench.stack.frame_rate))
    return {label: _curve(runs, rounds[rows[0].label], seconds) for label, runs in rounds.items()}


def _curve(runs: list[dict[str, Any]], baseline: list[dict[str, Any]], seconds: tuple[int, ...]) -> dict[str, Any]:
    """Medians of the runs that lasted so long."""
    curve = {}
    for s in map(str, seconds):
        pairs = [(run[s], base[s]) for run, base in zip(runs, baseline) if s in run]
        curve[s] = {key: median([run[key] for run, _ in pairs]) for key in ("lm_rtf", "kv_bytes")}
        curve[s]["lm_rtf_over_baseline"] = median([run["lm_rtf"] / base["lm_rtf"] for run, base in pairs])
    first, last = (curve[str(s)]["kv_bytes"] for s in (seconds[1], seconds[-1]))
    return {"at": curve, "rounds": len(runs), "kv_bytes_per_second": (last - first) / (seconds[-1] - seconds[1])}


def _along(done: Any, seconds: tuple[int, ...], rate: float) -> dict[str, dict[str, float]]:
    """Seconds of speech -> LM-RTF until then (prefill included) and live KV bytes."""
    steps = done.trace.steps
    spent, spoken, found = 1000 * done.snapshot.lm_seconds - sum(step.ms for step in steps), 0, {}
    for step in steps:
        spent, spoken = spent + step.ms, spoken + step.frames
        for s in seconds:
            if spoken >= round(s * rate):
                found.setdefault(str(s), {"lm_rtf": spent / 1000 / (spoken / rate), "kv_bytes": step.kv_bytes})
    return found


@torch.inference_mode()
def step_milliseconds(method: Any, repeats: int = REPEATS) -> tuple[float, dict[int, float]]:
    """What steps are made of, behind ``CONTEXT`` other tokens, medians: a pass of the draft over one token, with
    drawing; and, for each number of drafted tokens, the base model's pass over them and the token before, with their
    laws and the verdict; without a draft, with drawing. Passes of the draft lie between those of the base, as in a run,
    because each model drives the other out of the caches; and all numbers take turns, because the machine's speed
    changes."""
    draft, base = method.draft, method.decoder
    codes = torch.zeros(CONTEXT + LONGEST + 1, dtype=torch.long, device=base.device)
    caches = {decoder: decoder.new_cache(len(codes)) for decoder in (draft, base)}
    for decoder, cache in caches.items():
        decoder.forward(decoder.embed(codes[:CONTEXT])[None], cache, 0)
    heard, generator = base.embed(codes), generator_for(base.device, 0)
    drafts, passes = [], {drafted: [] for drafted in range(LONGEST + 1)}

    def timed(work: Callable[[], Any], into: list[float]) -> Any:
        synchronize(base.device)
        started = time.perf_counter()
        found = work()
        synchronize(base.device)
        into.append(1000 * (time.perf_counter() - started))
        return found

    def logits(decoder: Decoder, x: Tensor) -> Tensor:
        return decoder.logits(decoder.forward(x[None], caches[decoder], caches[decoder].next_position)[0])

    def propose() -> Law:
        said = law(logits(draft, method.listen(heard[:1], draft.embed(codes[:1]))), Sampling())
        said.draw(generator)
        return said

    def verdict(laws: list[Law]) -> list[int]:
        scores = logits(base, base.embed(codes[: len(laws) + 1]))
        if not laws:
            return sample(scores, Sampling(), generator).tolist()
        p = Law.together(laws, base.config.vocab)
        # as if its likeliest tokens had been drafted
        return judge(p.ids[:, 0], p, law(scores, Sampling()), 0.0, generator)

    for _ in range(repeats + 1):
        for drafted, spent in passes.items():
            laws = [timed(propose, drafts) for _ in range(drafted)]
            timed(lambda: verdict(laws), spent)
            for decoder, count in ((draft, drafted), (base, drafted + 1)):
                caches[decoder].rollback(count)
    first = sum(passes)  # drafts of the first turn, in which everything is cold
    return median(drafts[first:]), {drafted: median(spent[1:]) for drafted, spent in passes.items()}


def draft_lengths(bench: Bench) -> dict[str, Any] | None:
    """The measured cost of a pass over n tokens and of a draft step, and the draft length they imply at the acceptance
    measured for each tolerance; beside it what drafts would gain if n tokens were judged at the price of one."""
    rows, skipped = runnable(bench.stack, [row("ssd", {})], False)
    if skipped:
        return None
    method = bench.stack.method("ssd")
    draft, judged = step_milliseconds(method)
    passes = {drafted + 1: ms for drafted, ms in judged.items()}
    found: dict[str, Any] = {"pass_ms": {str(n): ms for n, ms in passes.items()}, "draft_ms": draft, "tolerances": {}}
    for tolerance in TOLERANCES:
        measured = bench.measured.get(row("ssd", {"tolerance": tolerance, "draft_length": "3"}).label)
        if measured and measured.acceptance:
            rate = acceptance_rate(median(measured.acceptance), 3)
            even = best_length(rate, dict.fromkeys(passes, passes[1]), draft)
            found["tolerances"][str(tolerance)] = (
                {"rate": rate} | best_length(rate, passes, draft) | {"gain_if_even": even["gain"]}
            )
    return found


def acceptance_rate(share: float, length: int) -> float:
    """Chance a that a drafted token is accepted when those before it were, from the accepted share of all drafted ones:
    (a + a^2 + ... + a^length) / length = share, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if sum(middle**i for i in range(1, length + 1)) / length < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def best_length(rate: float, passes: dict[int, float], draft: float) -> dict[str, Any]:
    """The draft length that says most tokens a millisecond, and its gain over one token a pass; 0 = do not draft."""
    gains = [sum(rate**i for i in range(n + 1)) / (passes[n + 1] + n * draft) * passes[1] for n in range(LONGEST + 1)]
    best = max(range(len(gains)), key=gains.__getitem__)
    return {"best": best, "gain": gains[best]}


def run(bench: Bench, holds: Container[str] = ()) -> dict[str, dict[str, Any]]:
    """Name -> figures, of those that do not hold still."""
    made = {"draft lengths": draft_lengths, "lengths": lengths}
    found = {name: make(bench) for name, make in made.items() if name not in holds}
    return {name: figures for name, figures in found.items() if figures}
