"""Speed and memory tables: baseline and methods interleaved in one process, in one runtime mode, at a forced length.

Rows come from each method's ``bench_options``. Every row first makes one long run that is not timed: it warms up and
gives the KV bytes at 12 s and 20 s. The rounds then run all rows, each side by side with a run of the baseline: the two
take turns every fraction of a second (``turns``), and a row's gain is over that run, because a shared machine's speed
changes within seconds. The baseline's own gain, over another run of itself, tells how far to trust the others. The
bandwidth a row is held against is probed right before it. With a store, a stopped bench goes on behind its last whole
round.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import resource
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from .. import engine
from ..config import Request, Sampling
from ..lm.cost import Cost, probe_bandwidth
from ..methods.batched import BatchedBaseline
from ..runtime import generator_for, processor, synchronize
from ..stacks.random import RANDOM
from .cases import Row, pace_of, paces_of
from .parts import PartClock
from .peer import Peer
from .turns import in_turn

ROUNDS = 5
PROBE_SECONDS = 0.15
KV_SECONDS = (12, 20)
FIGURES = (
    "ms_per_step",
    "ceiling_ms",
    "lm_rtf",
    "lm_gain",
    "rtf",
    "ttfa",
    "frames_per_step",
    "acceptance",
    "ceiling_share",
    "first_frame_ms",
    "codes_per_second",
)
TEXT = "The north wind and the sun were disputing which was the stronger, when a traveller came along in a warm cloak."


@dataclass
class Measured:
    """Lists hold one value a round."""

    kv: dict[str, int] = field(default_factory=dict)
    lm_rtf: list[float] = field(default_factory=list)
    lm_gain: list[float] = field(default_factory=list)  # over the baseline's run beside it
    rtf: list[float] = field(default_factory=list)
    ttfa: list[float] = field(default_factory=list)
    ms_per_step: list[float] = field(default_factory=list)
    ceiling_ms: list[float] = field(default_factory=list)  # the shortest time these steps could take
    bandwidth: list[float] = field(default_factory=list)  # bytes a second, probed before the run
    ceiling_share: list[float] = field(default_factory=list)
    frames_per_step: list[float] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    first_frame_ms: list[float] = field(default_factory=list)  # prefill and steps until the first whole frame
    codes_per_second: list[float] = field(default_factory=list)  # codebook tokens said per second of the language model
    parts: dict[str, list[float]] = field(default_factory=dict)  # seconds a second of audio, by part of the stack
    peak_bytes: int = 0


class Bench:
    """Measures ``rows`` on ``stack``; ``report`` is the JSON object. ``store``: where whole rounds are kept."""

    def __init__(
        self,
        stack: Any,
        prompt: Any,
        rows: list[Row],
        seconds: float,
        seed: int,
        rounds: int = 0,
        store: Path | None = None,
    ) -> None:
        self.stack, self.prompt, self.rows, self.seconds, self.seed = stack, prompt, rows, seconds, seed
        config = stack.decoder.config
        self.cost = Cost.of(config, stack.decoder.dtype, stack.device, stack.decoder.exact)
        self.measured = {row.label: Measured() for row in rows}
        self.baseline = next((row for row in rows if row.method.name == "baseline"), None)
        self.peer: list[float] = []
        self.rounds, self.store = rounds or ROUNDS, store
        self._until = float("inf")
        self._restore()

    def allow(self, minutes: float) -> None:
        """No round starts after this long from now; 0 = no limit."""
        self._until = time.monotonic() + 60 * minutes if minutes else float("inf")

    @property
    def expired(self) -> bool:
        return time.monotonic() > self._until

    def _key(self) -> dict[str, Any]:
        """What must be the same for stored rounds to count."""
        return {
            "checkpoint": self.stack.checkpoint_hash,
            "stack": self.stack.name,
            "device": processor(self.stack.device),
            "dtype": self.stack.decoder.precision,
            "seconds": self.seconds,
            "seed": self.seed,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "rows": list(self.measured),
        }

    def _restore(self) -> None:
        if not (self.store and self.store.is_file()):
            return
        old = json.loads(self.store.read_text())
        if old["key"] == self._key():
            self.measured = {label: Measured(**m) for label, m in old["measured"].items()}
            self.peer = old["peer"]

    def _save(self) -> None:
        if self.store:
            self.store.parent.mkdir(parents=True, exist_ok=True)
            part = self.store.with_suffix(".part")
            measured = {label: dataclasses.asdict(m) for label, m in self.measured.items()}
            part.write_text(json.dumps({"key": self._key(), "measured": measured, "peer": self.peer}))
            part.rename(self.store)

    def frames(self, seconds: float) -> int:
        return max(2, round(seconds * self.stack.frame_rate))

    def request(self, row: Row, seconds: float, seed: int) -> Request:
        return Request(
            TEXT, self.prompt, row.method.name, row.options, Sampling(), seed, forced_frames=self.frames(seconds)
        )

    @torch.inference_mode()
    def warm_up(self, row: Row) -> None:
        """KV bytes of the speech at the lengths asked for, prompt and text apart, from a long run of the language model
        alone; then a short run of everything, not timed either."""
        method, limit, m = self.stack.method(row.method.name), self.frames(KV_SECONDS[-1]), self.measured[row.label]
        if not m.kv:
            state = method.prefill(
                self.stack.prefix(self.prompt, TEXT),
                row.options,
                Sampling(),
                generator_for(self.stack.device, self.seed),
                limit,
                True,
            )
            start = {name: cache.nbytes for name, cache in state.caches.items()}
            kv, spoken, done = {"prompt_and_text": sum(start.values())}, 0, False
            while not done:
                step = method.step(state)
                spoken, done = spoken + len(step.frames), step.done
                live = {name: cache.nbytes - start[name] for name, cache in state.caches.items()}
                for seconds in KV_SECONDS:
                    if spoken >= self.frames(seconds):
                        kv.setdefault(f"speech_{seconds}s", sum(live.values()))
                        kv.setdefault(f"small_{seconds}s", sum(live.values()) - live["backbone"])
            m.kv = kv
        if self.stack.device.type == "cuda":  # at full length, because graphs are made for a cache of one size
            torch.cuda.reset_peak_memory_stats(self.stack.device)
            engine.run(self.stack, self.request(row, self.seconds, self.seed))
            m.peak_bytes = torch.cuda.max_memory_allocated(self.stack.device)
        self.side_by_side(row, self.seconds if self.stack.device.type == "cuda" else 1.0, self.seed)

    def side_by_side(self, row: Row, seconds: float, seed: int, clock: PartClock | None = None) -> list[engine.Done]:
        """A run of ``row`` and, if there is one among the rows, of the baseline beside it."""
        rows = [row, self.baseline] if self.baseline else [row]
        return in_turn(self.stack, [self.request(each, seconds, seed) for each in rows], clock)

    def time(self, row: Row, seed: int) -> None:
        bandwidth = probe_bandwidth(self.stack.device, self.cost.weight_bytes, PROBE_SECONDS)
        clock = PartClock(getattr(self.stack, "parts", {}), self.stack.device)
        done, *beside = self.side_by_side(row, self.seconds, seed, clock)
        # the first step had no pass to make
        m, s, steps = self.measured[row.label], done.snapshot, done.trace.steps[1:]
        m.lm_gain += [other.snapshot.lm_rtf / s.lm_rtf for other in beside]
        m.lm_rtf.append(s.lm_rtf)
        m.rtf.append(s.rtf)
        m.ttfa.append(s.ttfa_seconds)
        m.frames_per_step.append(s.frames_per_step)
        if s.acceptance is not None:
            m.acceptance.append(s.acceptance)
        rest = s.vocoder_seconds - sum(clock.seconds.values())
        for part, seconds in {"lm": s.lm_seconds, **clock.seconds, "other acoustics": rest}.items():
            m.parts.setdefault(part, []).append(seconds / s.audio_seconds)
        spent = sum(step.ms for step in steps) / 1000
        spoken, until_frame = 0, 1000 * s.lm_seconds - sum(step.ms for step in done.trace.steps)  # the prefill
        for step in done.trace.steps:
            until_frame += step.ms * (not spoken)
            spoken += step.frames
        m.first_frame_ms.append(until_frame)
        m.codes_per_second.append(done.codes.size / s.lm_seconds)
        m.ms_per_step.append(1000 * spent / (s.backbone_steps - 1))
        read = self.cost.weight_bytes * (s.backbone_steps - 1) + sum(step.kv_bytes for step in steps)
        m.bandwidth.append(bandwidth)
        m.ceiling_ms.append(1000 * read / bandwidth / (s.backbone_steps - 1))
        m.ceiling_share.append(read / bandwidth / spent)

    def run(self, peer: bool) -> None:
        prefix = self.stack.prefix(self.prompt, TEXT)
        other = Peer(self.stack.lm) if peer else None
        for row in tqdm(self.rows, desc="warm up", unit="row", mininterval=2.0):
            self.warm_up(row)
        self._save()
        if other:
            other.seconds_per_token(prefix, 4, Sampling(), self.seed)
        finished = min(len(m.lm_rtf) for m in self.measured.values())
        for number in range(finished, self.rounds):
            if finished and self.expired:
                break
            self.round(number)
            if other:
                per_token = other.seconds_per_token(prefix, self.frames(self.seconds), Sampling(), self.seed + number)
                self.peer.append(1000 * per_token)
            finished = number + 1
            self._save()

    def round(self, number: int) -> None:
        """Every row once."""
        for row in tqdm(self.rows, desc=f"round {number + 1} of {self.rounds}", unit="row", mininterval=2.0):
            self.time(row, self.seed + number)

    @property
    def bandwidth(self) -> float:
        """Bytes a second, the median of all probes."""
        return statistics.median(b for m in self.measured.values() for b in m.bandwidth)

    def batch(self, size: int) -> dict[str, Any]:
        """The baseline with ``size`` requests in one step; the other methods' bytes are ``size`` separate caches."""
        decoder = BatchedBaseline(self.stack.decoder, Sampling(), generator_for(self.stack.device, self.seed), True)
        prefixes = [self.stack.prefix(self.prompt, TEXT)] * size
        limit = self.frames(self.seconds)
        decoder.run(prefixes, 3)
        with torch.inference_mode():
            batch = decoder.prefill(prefixes, limit)
            decoder.step(batch)
            synchronize(self.stack.device)
            start = engine.Meter(self.stack.frame_rate)
            for _ in range(limit - 1):
                decoder.step(batch)
            synchronize(self.stack.device)
        ms = 1000 * start.now() / (limit - 1)
        return {
            "size": size,
            "ms_per_step": ms,
            "lm_rtf_each": ms * self.stack.frame_rate / 1000 / size,
            "kv_bytes_live": batch.nbytes,
            "kv_bytes_allocated": batch.cache.allocated_nbytes,
            "share_of_ceiling": self.cost.ceiling_seconds(self.bandwidth, batch.cache.length, size) / ms * 1000,
            "kv_bytes_of": {label: {k: size * v for k, v in m.kv.items()} for label, m in self.measured.items()},
        }

    def report(self) -> dict[str, Any]:
        """Medians of every row by its label, with the range of the rounds under ``spread``."""
        base = self.measured[self.baseline.label] if self.baseline else None
        rows = {}
        for row in self.rows:
            m = self.measured[row.label]
            numbers = {name: getattr(m, name) for name in FIGURES}
            rows[row.label] = {
                **{name: median(values) for name, values in numbers.items()},
                **{f"kv_{name}": value for name, value in m.kv.items()},
                "peak_device_bytes": m.peak_bytes or None,
                "parts": {part: median(values) for part, values in m.parts.items()},
                "spread": {name: extent(values) for name, values in numbers.items()},
                "method": row.method.name,
                "options": dataclasses.asdict(row.options),
                "rounds": len(m.lm_rtf),
            }
        result = {
            "conditions": self.conditions(),
            "rows": rows,
            "follows": {row.label: row.method.name for row in self.rows},
        }
        if self.peer:
            ratios = [a / b for a, b in zip(base.ms_per_step, self.peer)] if base else []
            result["peer"] = {
                "name": "transformers generate, same weights",
                "ms_per_token": median(self.peer),
                "ours_over_peer": median(ratios),
                "spread": {"ms_per_token": extent(self.peer), "ours_over_peer": extent(ratios)},
            }
        return result

    def conditions(self) -> dict[str, Any]:
        device, decoder = self.stack.device, self.stack.decoder
        return {
            "random_weights": self.stack.checkpoint_hash == RANDOM,
            "stack": self.stack.name,
            "checkpoint": self.stack.checkpoint_hash,
            "pace": pace_of(self.stack),
            "paces": paces_of(self.stack),
            "device": processor(device),
            "runtime": "graph" if self.stack.decoder.graphed else "eager",
            "threads": torch.get_num_threads(),
            "load_average": os.getloadavg(),
            "dtype": decoder.precision,
            "seconds": self.seconds,
            "rounds": min(len(m.lm_rtf) for m in self.measured.values()),
            "seed": self.seed,
            "bandwidth_gb_s": self.bandwidth / 1e9,
            "parameters": self.cost.parameters,
            "weight_bytes_per_step": self.cost.weight_bytes,
            "kv_bytes_per_token": self.cost.kv_bytes_per_token,
            "torch": torch.__version__,
            "ceiling_ms": 1000 * self.cost.ceiling_seconds(self.bandwidth, 0),
            "transformers": transformers.__version__,
            "python": platform.python_version(),
            "peak_process_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }


def median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def extent(values: list[float]) -> list[float]:
    """[lowest, highest] of the rounds."""
    return [min(values), max(values)] if values else []
