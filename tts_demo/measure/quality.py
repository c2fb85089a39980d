"""Quality: rows speak texts, judges listen, records are kept; what stands in the records is not measured again.

Runs go text by text through all rows, so that a stopped evaluation leaves rows that can be compared. It drives
``engine.generate`` like everyone else and knows no method by name.
"""

import dataclasses
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tqdm import tqdm

from .. import audio, engine
from ..config import SAMPLE_RATE, Request
from ..metrics import WORD_SCORE, word_errors
from ..stacks import load_stack
from ..voices import Voice
from .judges import Judges, similarity
from .records import Records, Where, key, key_of, sampling_label
from .rows import Row
from .texts import Case, encoded

KIND = "quality"
NATURAL, TEACHER = "natural recordings", "teacher"  # rows of speech that is not ours


@dataclass(frozen=True)
class Measurement:
    """A text through a row; without one, somebody's recording of it. Other kinds of measurements are subclasses."""

    case: Case
    row: Row | None = None
    kind: ClassVar[str] = KIND
    usual: ClassVar[float] = 4.0  # seconds on one core, until some have been measured

    @property
    def seed(self) -> int:
        return self.case.seed

    @property
    def label(self) -> str:
        return self.row.label if self.row else TEACHER if self.case.kind == "teacher" else NATURAL

    def where(self, here: Where) -> Where:
        return here if self.row else here.nobody

    def figures(self, evaluation: "Evaluation") -> dict[str, dict[str, Any]]:
        """Row of the records -> its figures; ``label`` comes last and says that all are there."""
        case = self.case
        found = evaluation.generate(self) if self.row else evaluation.judged(_read_samples(case.recording), case)
        return {self.label: found | {"voice": case.voice.name, "kind": case.kind}}


class Evaluation:
    """Speaks and judges. ``sampling``: what differs from the stack's own."""

    def __init__(
        self, stack: engine.Stack, judge: Judges, records: Records, sampling: Mapping[str, float] | None = None
    ) -> None:
        self.stack, self.judge, self.records = stack, judge, records
        self.sampling = dataclasses.replace(stack.sampling, **(sampling or {}))
        self.where = Where.of(stack, sampling_label(sampling or {}))
        self._prompts: dict[Voice, Any] = {}
        self._voices: dict[Path, np.ndarray | None] = {}

    def missing(self, measurements: Iterable[Measurement]) -> list[Measurement]:
        """Those that have no record yet."""
        known = {(*key_of(r), voice) for r in self.records.read() for voice in {r["figures"].get("voice"), None}}
        return [measurement for measurement in measurements if self._key(measurement) not in known]

    def _key(self, measurement: Measurement) -> tuple[Any, ...]:
        """With the voice where the measurement's records hold one: the voices of the texts have changed before."""
        voice = measurement.case.voice.name if measurement.kind == KIND else None
        return *key(
            measurement.kind, measurement.label, measurement.case.id, measurement.seed, self._where(measurement)
        ), voice

    def _where(self, measurement: Measurement) -> Where:
        here = measurement.where(self.where)
        return here.through(self.stack.method(measurement.row.method.name)) if measurement.row else here

    def measure(self, measurement: Measurement) -> dict[str, Any]:
        """Do a measurement and append its records; returns the last."""
        started = time.process_time()  # of all threads: what a run costs does not hang on who else is at work
        record, rows = {}, measurement.figures(self)
        for label, figures in rows.items():
            if label == measurement.label:
                figures = figures | {"cpu_seconds": time.process_time() - started}
            record = self.records.append(
                measurement.kind, label, measurement.case.id, measurement.seed, self._where(measurement), figures
            )
        return record

    def generate(self, measurement: Measurement) -> dict[str, Any]:
        done = engine.run(self.stack, self.request(measurement.row, measurement.case, measurement.seed))
        s = done.snapshot
        return self.judged(done.audio, measurement.case, self.stack.sample_rate) | {
            "seconds": s.audio_seconds,
            "cut": done.truncated,
            "frames_per_step": s.frames_per_step,
            "kv_peak": s.kv_bytes_peak,
            "acceptance": s.acceptance,
            "stats": {k: v for k, v in s.method_stats.items() if isinstance(v, dict)},
        }

    def judged(self, samples: np.ndarray, case: Case, rate: int = SAMPLE_RATE) -> dict[str, Any]:
        """What every judge says of samples [N] that should say the case's text in its voice."""
        samples = audio.resample(samples, rate, SAMPLE_RATE)
        transcript = self.judge.transcribe(samples)
        errors, words = word_errors(case.text, transcript) if transcript is not None else (None, None)
        return {
            "heard": transcript,
            "errors": errors,
            "words": words,
            "score": WORD_SCORE,
            "distilmos": self.judge.distilmos(samples),
            "dnsmos": self.judge.dnsmos(samples),
            "sim": similarity(self.judge.voice(samples), self._voice(case.voice.path)),
        }

    def request(self, row: Row, case: Case, seed: int = 0, **more: Any) -> Request:
        return Request(
            case.text, self.prompt(case.voice), row.method.name, row.options, self.sampling, seed, live=False, **more
        )

    def prompt(self, voice: Voice) -> Any:
        """The voice, encoded once."""
        if voice not in self._prompts:
            self._prompts[voice] = encoded(self.stack, voice)
        return self._prompts[voice]

    def _voice(self, path: Path) -> np.ndarray | None:
        if path not in self._voices:
            self._voices[path] = self.judge.voice(_read_samples(path))
        return self._voices[path]


def _read_samples(path: Path) -> np.ndarray:
    return audio.read(str(path)).samples


def measurements(
    rows: Sequence[Row], cases: Sequence[Case], others: Sequence[Case] = (), most: Mapping[Row, int] | None = None
) -> list[Measurement]:
    """What to measure, case by case, each row all of them or its first ``most``; ``others``: recordings that are judged
    as they are."""
    most = most or {}
    own = [
        Measurement(case, row)
        for number, case in enumerate(cases)
        for row in rows
        if number < most.get(row, len(cases))
    ]
    return [*(Measurement(case) for case in others), *own]


@dataclass(frozen=True)
class Setup:
    """What an evaluation is made of, in this process or another."""

    stack: str = "nano"
    device: str | None = None
    dtype: str | None = None
    adapters: str | None = None
    records: Path | None = None
    sampling: dict[str, float] = dataclasses.field(default_factory=dict)
    allow_stale: bool = False

    def build(self) -> Evaluation:
        stack = load_stack(self.stack, self.device, self.dtype, self.adapters, allow_stale=self.allow_stale)
        return Evaluation(stack, Judges(), Records(self.records), self.sampling)


def run(
    setup: Setup, evaluation: Evaluation, todo: list[Measurement], processes: int = 1, minutes: float = 0.0
) -> None:
    """Measure what is missing of ``todo``; nothing new starts after so many ``minutes`` (0 = no limit)."""
    until, todo = time.time() + 60 * minutes if minutes else float("inf"), evaluation.missing(todo)
    with tqdm(total=len(todo), desc="evaluate", unit="run", mininterval=2.0, disable=not todo) as bar:
        if processes == 1:
            for measurement in todo:
                if time.time() < until:
                    evaluation.measure(measurement)
                    bar.update()
            return
        context, threads = multiprocessing.get_context("spawn"), max(1, (os.cpu_count() or 1) // processes)
        count = context.Value("i", 0)
        workers = [
            context.Process(target=_work, args=(setup, threads, until, todo[i::processes], count), daemon=True)
            for i in range(processes)
        ]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.5)
            bar.update(count.value - bar.n)
        bar.update(count.value - bar.n)
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("A process of the evaluation has died; what it said is above.")


def _work(setup: Setup, threads: int, until: float, todo: list[Measurement], count: Any) -> None:
    """A process of its own, until its measurements are done, the time is up or who began it is gone."""
    torch.set_num_threads(threads)
    evaluation, parent = setup.build(), multiprocessing.parent_process()
    for measurement in todo:
        if time.time() > until or not parent.is_alive():
            break
        evaluation.measure(measurement)
        with count.get_lock():
            count.value += 1


def plan(evaluation: Evaluation, todo: list[Measurement], processes: int) -> str:
    """What is to do, a line a row, and how long it takes an idle machine, by the seconds that runs took on this one."""
    here, kinds = evaluation.records.read(), {measurement.kind for measurement in todo}
    here = [r for r in here if r["machine"] == evaluation.where.machine and r["kind"] in kinds]
    here = [record for record in here if "cpu_seconds" in record["figures"]]
    costs: dict[tuple[str, ...], list[float]] = {}  # of a row, and of all of its kind
    for record in here:
        for name in ((record["kind"],), (record["kind"], record["row"])):
            costs.setdefault(name, []).append(record["figures"]["cpu_seconds"])
    left, lines, total = evaluation.missing(todo), [], 0.0
    for name in dict.fromkeys((measurement.kind, measurement.label) for measurement in todo):
        mine = [measurement for measurement in todo if (measurement.kind, measurement.label) == name]
        count = sum((measurement.kind, measurement.label) == name for measurement in left)
        each = statistics.median(costs.get(name, costs.get(name[:1], [mine[0].usual])))
        total += count * each
        title = name[1] if name[0] == KIND else ": ".join(name)
        lines.append(f"{title:<60}{len(mine):5} runs{count:5} to do{each:7.1f} s each")
    minutes = total / 60 / processes
    source = f"{len(here)} measured runs" if here else "the usual times, nothing being measured yet"
    by = "1 process" if processes == 1 else f"{processes} processes"
    time = f"about {minutes:.0f} minutes" if minutes >= 1 else "less than a minute"
    return "\n".join([*lines, f"{time} with {by}, by {source}"])
