"""Speed and memory: every row side by side with a run of the baseline in one process, at a forced length.

The two take turns every fraction of a second (``turns``), because a shared machine's speed changes within seconds; a
row's gain is over that run. The baseline's own gain, over another run of itself, tells how far to trust the others.
Each round says another sentence in another voice: what a draft or a chunk policy gains hangs on both.
Before a row's first round a long run of its language model, which is not timed, gives the KV bytes at 12 s and 20 s.
"""

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tqdm import tqdm

from .. import engine
from ..config import Request, Sampling
from ..lm import Prefix
from ..lm.cost import Cost, pass_costs, probe_bandwidth
from ..methods.base import Method, State
from ..methods.batched import batched
from ..runtime import generator_for, synchronize
from .parts import PartClock
from .peer import Peer
from .records import Records, Where, key, sampling_label
from .rows import BASELINE, Row
from .turns import in_turn

KIND, PEER = "speed", "transformers generate"
ROUNDS, SECONDS = 4, 6.0
PROBE_SECONDS = 0.15
USUAL_RATE = 1.0  # seconds a round takes per second of speech, until some have been measured
KV_SECONDS = (12, 20)
BEGAN = "began"  # a figure: which of the two runs began, 0 the row's; older rounds, where it always did, lack it
# of random weights, which read no text
TEXT = "The north wind and the sun were disputing which was the stronger, when a traveller came along in a warm cloak."


class Bench:
    """Times rows on ``stack`` and appends a record a round. ``spoken``: texts and prompts, which rounds and requests
    take in turn; whatever is measured once takes the first. ``runtime``: eager or graph, as the stack was made.
    ``sampling``: what differs from the default sampling, which every stack is timed at."""

    def __init__(
        self,
        stack: engine.Stack,
        spoken: Sequence[tuple[str, Any]],
        records: Records,
        seconds: float = SECONDS,
        seed: int = 0,
        runtime: str = "eager",
        sampling: Mapping[str, float] | None = None,
    ) -> None:
        changed = sampling or {}
        self.stack, self.spoken, self.records, self.seconds, self.seed = stack, spoken, records, seconds, seed
        self.sampling, self.where = Sampling(**changed), Where.of(stack, sampling_label(changed))
        self.setting = f"{seconds:g} s, {runtime}"
        self.cost = Cost.of(stack.decoder.config, stack.decoder.backend)
        self.baseline = Row.of(BASELINE)
        self._kv: dict[str, dict[str, float]] = {}

    def run(self, rows: list[Row], rounds: int = 0, minutes: float = 0.0, peer: bool = False) -> None:
        """``rounds`` of every row, by default one of each sentence; those that have a record are not run again.
        Nothing new starts after ``minutes`` (0 = no limit)."""
        until = time.monotonic() + 60 * minutes if minutes else float("inf")
        todo = self.missing(rows, rounds)
        for row, number in tqdm(todo, desc="bench", unit="run", mininterval=2.0, disable=not todo):
            if time.monotonic() < until:
                self.measure(row, number)
        if peer and time.monotonic() < until:
            self.measure_peer(rounds or ROUNDS)

    def missing(self, rows: list[Row], rounds: int = 0) -> list[tuple[Row, int]]:
        """(row, round) without a record yet, round by round."""
        known = self.records.keys()
        wanted = [(row, n) for n in range(rounds or ROUNDS) for row in rows]
        return [(row, n) for row, n in wanted if key(KIND, row.label, self.setting, n, self.where_of(row)) not in known]

    def where_of(self, row: Row) -> Where:
        """What the figures of a row belong to."""
        return self.where.through(self.stack.method(row.method.name))

    def frames(self, seconds: float) -> int:
        return max(2, round(seconds * self.stack.frame_rate))

    def prefix(self, number: int = 0) -> Prefix:
        """Of round ``number``."""
        text, prompt = self.spoken[number % len(self.spoken)]
        return self.stack.prefix(prompt, text)

    def request(self, row: Row, seconds: float, number: int) -> Request:
        """Of round ``number``."""
        text, prompt = self.spoken[number % len(self.spoken)]
        seed, frames = self.seed + number, self.frames(seconds)
        return Request(text, prompt, row.method.name, row.options, self.sampling, seed, forced_frames=frames)

    def measure(self, row: Row, number: int) -> dict[str, Any]:
        """One round of a row."""
        started = time.process_time()
        if row.label not in self._kv:
            self._kv[row.label] = self.kv_bytes(row)
        # Before every round: since the last one of this row all others ran, and the baseline beside each of them, so
        # that a row's weights would come from memory and the baseline's from the cache.
        warm = self.seconds if self.stack.device.type == "cuda" else 1.0  # graphs are made for one length
        bandwidth = probe_bandwidth(self.stack.device, self.cost.weight_bytes, PROBE_SECONDS)
        in_turn(self.stack, [self.request(each, warm, number) for each in (row, self.baseline)])
        clock = PartClock(getattr(self.stack, "parts", {}), self.stack.device)
        requests = [self.request(each, self.seconds, number) for each in (row, self.baseline)]
        # The run that begins fetches the decoder's weights and code, which the other finds in the cache: 10 % of a
        # CPU's time to first audio. So they take turns at that too.
        begins = number % 2
        done, beside = in_turn(self.stack, requests, clock, begins=begins)
        figures = self.figures(done, bandwidth) | self._kv[row.label]
        ours, base = done.snapshot, beside.snapshot
        figures |= {"lm_gain": base.lm_rtf / ours.lm_rtf, "rtf_gain": base.rtf / ours.rtf}
        figures |= {"ttfa_share": ours.ttfa_seconds / base.ttfa_seconds, "load": os.getloadavg()[0]}
        if row == self.baseline:
            figures |= {f"pass_of_{n}": times for n, times in pass_costs(self.stack.decoder).items()}
        figures |= {"cpu_seconds": time.process_time() - started, "said": requests[0].text, BEGAN: begins}
        figures["parts"] = {part: spent / done.snapshot.audio_seconds for part, spent in clock.seconds.items()}
        return self.records.append(KIND, row.label, self.setting, number, self.where_of(row), figures)

    def figures(self, done: engine.Done, bandwidth: float) -> dict[str, Any]:
        """Of one timed run. bandwidth: bytes a second, probed a moment before it."""
        s, steps = done.snapshot, done.trace.steps[1:]  # the first step had no pass to make
        spent, passes = sum(step.ms for step in steps) / 1000, max(1, s.backbone_steps - 1)
        read = self.cost.weight_bytes * passes + sum(step.kv_bytes for step in steps)
        first = next((i for i, step in enumerate(done.trace.steps) if step.frames), len(steps))
        prefill = 1000 * s.lm_seconds - sum(step.ms for step in done.trace.steps)
        return {
            "lm_rtf": s.lm_rtf,
            "rtf": s.rtf,
            "ttfa": s.ttfa_seconds,
            "acoustics_rtf": s.vocoder_seconds / s.audio_seconds,
            "frames_per_step": s.frames_per_step,
            "acceptance": s.acceptance,
            "first_frame_ms": prefill + sum(step.ms for step in done.trace.steps[: first + 1]),
            "ms_per_step": 1000 * spent / passes,
            "ceiling_share": read / bandwidth / spent,
            "bandwidth_gb_s": bandwidth / 1e9,
        }

    @torch.inference_mode()
    def begin(self, row: Row) -> tuple[Method, State]:
        """A run of the row's language model as long as the longest KV is asked for."""
        method, generator = self.stack.method(row.method.name), generator_for(self.stack.device, self.seed)
        limit = self.frames(KV_SECONDS[-1])
        return method, method.prefill(self.prefix(), row.options, self.sampling, generator, limit, True)

    @torch.inference_mode()
    def kv_bytes(self, row: Row) -> dict[str, float]:
        """Live bytes of the prefix, and of the speech at two lengths: of all caches, and of the small models' alone,
        some of which forget the prompt."""
        method, state = self.begin(row)
        start = state.caches["backbone"].nbytes
        before = {name: cache.next_position for name, cache in state.caches.items() if name != "backbone"}
        found, spoken, done = {"kv_prefix": sum(cache.nbytes for cache in state.caches.values())}, 0, False
        while not done:
            step = method.step(state)
            spoken, done = spoken + len(step.frames), step.done
            for seconds in KV_SECONDS:
                if spoken >= self.frames(seconds) and f"kv_{seconds}s" not in found:
                    small = sum(state.caches[name].bytes_from(position) for name, position in before.items())
                    found[f"kv_{seconds}s"] = state.caches["backbone"].nbytes - start + small
                    found[f"kv_small_{seconds}s"] = small
        return found

    def measure_peer(self, rounds: int) -> None:
        """transformers' own ``generate`` and our baseline, one after the other."""
        peer, known = Peer(self.stack.lm), self.records.keys()
        peer.seconds_per_token(self.prefix(), 4, self.sampling, self.seed)
        for number in (n for n in range(rounds) if key(KIND, PEER, self.setting, n, self.where) not in known):
            asked, prefix = self.request(self.baseline, self.seconds, number), self.prefix(number)
            theirs = 1000 * peer.seconds_per_token(prefix, asked.forced_frames, self.sampling, asked.seed)
            done = engine.run(self.stack, asked)
            ours = statistics.fmean(step.ms for step in done.trace.steps[1:])
            figures = {"ms_per_step": theirs, "ours_over_peer": ours / theirs}
            self.records.append(KIND, PEER, self.setting, number, self.where, figures)

    def batch(self, size: int, method: str = BASELINE.name, tokens: int = 1) -> dict[str, Any]:
        """``size`` requests in one step: a token each, or a chunk or patch of several ``tokens``."""
        decoder = batched(self.stack, method, tokens, self.sampling, generator_for(self.stack.device, self.seed))
        prefixes, limit = [self.prefix()] * size, self.frames(self.seconds)
        decoder.run(prefixes, 3)
        with torch.inference_mode():
            batch = decoder.prefill(prefixes, limit)
            decoder.step(batch)
            synchronize(self.stack.device)
            started = time.perf_counter()
            steps = (limit - 1) // tokens
            for _ in range(steps):
                decoder.step(batch)
            synchronize(self.stack.device)
        ms = 1000 * (time.perf_counter() - started) / steps
        bandwidth = probe_bandwidth(self.stack.device, self.cost.weight_bytes, PROBE_SECONDS)
        return {
            "size": size,
            "ms_per_step": ms,
            "lm_rtf_each": ms * self.stack.frame_rate / 1000 / size / tokens,
            "kv_bytes_live": batch.nbytes,
            "kv_bytes_allocated": batch.cache.allocated_nbytes,
            "ceiling_share": 1000 * self.cost.ceiling_seconds(bandwidth, batch.cache.length, size) / ms,
        }


def plan(bench: Bench, rows: list[Row], rounds: int = 0) -> str:
    """How long the missing rounds take an idle machine, by the processor's seconds that such runs took on this one."""
    here = [r for r in bench.records.read() if r["kind"] == KIND and r["machine"] == bench.where.machine]
    rates = [r["figures"]["cpu_seconds"] / float(r["text"].split()[0]) for r in here if "cpu_seconds" in r["figures"]]
    rate, todo = statistics.median(rates) if rates else USUAL_RATE, bench.missing(rows, rounds)
    minutes = rate * bench.seconds * len(todo) / 60
    return f"{len(rows)} rows, {len(todo)} rounds of {bench.seconds:g} s to do: about {minutes:.0f} minutes"
