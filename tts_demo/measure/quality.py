"""Quality tables: every method and dial on the same texts, voices and seeds, judged by the same judges.

One record a run is kept with a hash of the weights it was made with, so that an interrupted evaluation goes on where it
stopped (``--json FILE``), and one after a module was trained anew measures again only what speaks with it (a change of
code that changes what is said it does not notice: remove the store then). Where the store is gone, ``--changed`` leaves
out what the published results hold of the same weights. Every figure has a bootstrap interval over the
texts it is made of; ``--takes N`` speaks each text N times, which tells a row's own chance from its method's. Natural
recordings go through the same judges where the list names them. It drives ``engine.generate`` like everyone else and
knows no method by name.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchaudio
from tqdm import tqdm

from .. import audio, engine
from ..config import SAMPLE_RATE, Request, Sampling, UserError
from ..methods import METHODS
from ..report import results
from ..report.table import compare, format_table, summarise
from . import judges
from .cases import EVERYTHING, ROWS_SHARE, Case, Row, pace_of, paces_of, read_cases, rows_for, runnable

NATURAL, BASELINE = "recordings", "baseline"
SECONDS_PER_CHARACTER = 1 / 15  # of read English, where no recording tells the expected length


@dataclass(frozen=True)
class Job:
    """One text through one row; without a row: its natural recording. ``take``: how often it was spoken before, each
    time with the next seed."""

    label: str
    row: Row | None
    case: Case
    take: int = 0


class Evaluation:
    """Runs what is missing of (rows x cases) and keeps the records; ``table()`` sums them up. Runs go text by text
    through all rows, so that one that is stopped leaves rows that can be compared."""

    def __init__(
        self, stack: Any, cases: list[Case], sampling: Sampling, seed: int, store: Path | None, judge: judges.Judges
    ) -> None:
        self.stack, self.cases, self.sampling, self.seed, self.judge = stack, cases, sampling, seed, judge
        self.store, self._made_of = store, {}
        self._until = float("inf")
        self.conditions = {
            "checkpoint": stack.checkpoint_hash,
            "pace": pace_of(stack),
            "paces": paces_of(stack),
            "stack": stack.name,
            "device": str(stack.device),
            "dtype": stack.decoder.precision,
            "sampling": dataclasses.asdict(sampling),
            "seed": seed,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "recogniser": "Whisper tiny.en",
            "voice model": "Resemblyzer",
            "mos model": "DNSMOS (speechmos)",
        }
        stored = self._stored()
        fresh = lambda record: record.get("weights") == self.made_of(record["row"])
        self.records: dict[str, dict[str, Any]] = {k: r for k, r in stored.get("records", {}).items() if fresh(r)}
        self.pieces: dict[str, dict[str, Any]] = stored.get("pieces", {})  # what analyses have measured so far
        self.published: dict[str, dict[str, Any]] = {}  # rows that are not measured here because they still hold
        self._prompts: dict[str, Any] = {}
        self._voices: dict[str, np.ndarray | None] = {}

    def allow(self, minutes: float) -> None:
        """Nothing new starts after this long from now; 0 = no limit."""
        self._until = time.monotonic() + 60 * minutes if minutes else float("inf")

    @property
    def expired(self) -> bool:
        return time.monotonic() > self._until

    def made_of(self, label: str) -> str:
        """Hash of the weights behind a record of the row (or method), the judging recogniser's counted; "" where it has
        none here."""
        if label not in self._made_of:
            try:
                row = None if label == NATURAL else Row.of(label)
                spoken = self.stack.made_of(row.method.name, row.options) if row else ""
                self._made_of[label] = spoken
            except UserError:
                self._made_of[label] = ""
        return self._made_of[label]

    def reads(self, *labels: str) -> list[str]:
        """Folders of all modules, the judge's among them, that the figures of these rows come from."""
        rows = [Row.of(label) for label in labels if label != NATURAL]
        return sorted(set().union(*(self.stack.reads(row.method.name, row.options) for row in rows)))

    def would_read(self, label: str) -> list[str] | None:
        """The same of one row, or None where this stack cannot speak it: what is published of it is then not looked
        into."""
        try:
            return self.reads(label)
        except UserError:
            return None

    def once(self, key: str, make: Callable[[], dict[str, Any]], label: str = "baseline") -> dict[str, Any] | None:
        """What ``make`` measures of a row or method, kept with the records; None when the time is up."""
        weights = self.made_of(label)
        if self.pieces.get(key, {}).get("weights") != weights:
            if self.expired:
                return None
            self.pieces[key] = {"weights": weights, "figures": make()}
            self.save()
        return self.pieces[key]["figures"]

    def _stored(self) -> dict[str, Any]:
        if not (self.store and self.store.is_file()):
            return {}
        old = json.loads(self.store.read_text())
        before = old.get("conditions", {})
        return old if self.alike(before) and before["dtype"] == self.conditions["dtype"] else {}

    def alike(self, conditions: dict[str, Any]) -> bool:
        """Whether what was measured under these conditions may stand beside what is measured here: they differ at most
        in the weights and the precision, which every row knows of its own."""
        other, mine = (
            {k: v for k, v in c.items() if k not in ("threads", "processes", "checkpoint", "pace", "paces", "dtype")}
            for c in (conditions, self.conditions)
        )
        return json.loads(json.dumps(mine)) == other

    def run(self, rows: list[Row], takes: int = 1, show: bool = True) -> None:
        for job in tqdm(self.missing(rows, takes), desc="evaluate", unit="run", disable=not show, mininterval=2.0):
            if self.expired:
                break
            self.records[self.key(job.label, job.case, job.take)] = self.measure(job)
            self.save()
        self.save()

    def missing(self, rows: list[Row], takes: int = 1) -> list[Job]:
        """What is still to be measured, text by text, each ``takes`` times."""
        jobs = []
        for case in self.cases:
            jobs += [Job(NATURAL, None, case)] * bool(case.recording)
            jobs += [Job(row.label, row, case, take) for row in rows for take in range(takes)]
        return [job for job in jobs if self.key(job.label, job.case, job.take) not in self.records]

    def measure(self, job: Job) -> dict[str, Any]:
        return {
            "row": job.label,
            "weights": self.made_of(job.label),
            **(self._natural(job.case) if job.row is None else self._speak(job)),
        }

    def of_row(self, label: str, cases: Iterable[Case] | None = None) -> list[list[dict[str, Any]]]:
        """The records of a row, over the texts of this evaluation or some of them, the takes of a text together."""
        return [takes for case in (self.cases if cases is None else cases) if (takes := self._takes(label, case))]

    def _takes(self, label: str, case: Case) -> list[dict[str, Any]]:
        keys = (self.key(label, case, take) for take in itertools.count())
        return [self.records[key] for key in itertools.takewhile(self.records.__contains__, keys)]

    def _pairs(self, label: str, other: str) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        """The records of two rows, text by text, where both have some."""
        pairs = ((self._takes(label, case), self._takes(other, case)) for case in self.cases)
        return [(mine, its) for mine, its in pairs if mine and its]

    def key(self, label: str, case: Case, take: int = 0) -> str:
        return f"{label} | {Path(case.prompt).stem} | {case.text}" + f" | take {take + 1}" * bool(take)

    def save(self) -> None:
        if self.store:
            self.store.parent.mkdir(parents=True, exist_ok=True)
            part = self.store.with_suffix(".part")
            part.write_text(json.dumps({"conditions": self.conditions, "records": self.records, "pieces": self.pieces}))
            part.rename(self.store)

    def _natural(self, case: Case) -> dict[str, Any]:
        """The recording of a text; whoever speaks it is seldom the voice that this text is given here, so that is not
        compared."""
        return self._said(audio.read(case.recording).samples, case)

    def _speak(self, job: Job) -> dict[str, Any]:
        case, done = job.case, engine.run(self.stack, self.request(job.row, job.case, job.take))
        s = done.snapshot
        seconds = self._expected(case)
        return self.judged(done.audio, self.stack.sample_rate, case) | {
            "seconds": s.audio_seconds,
            "expected_seconds": seconds,
            "truncated": done.truncated,
            "short": s.audio_seconds < 0.5 * seconds,
            "lm_rtf": s.lm_rtf,
            "rtf": s.rtf,
            "ttfa": s.ttfa_seconds,
            "frames_per_step": s.frames_per_step,
            "kv_peak": s.kv_bytes_peak,
            "acceptance": s.acceptance,
            "stats": {k: v for k, v in s.method_stats.items() if isinstance(v, (int, float, str, list, dict))},
        }

    def judged(self, samples: np.ndarray, rate: int, case: Case) -> dict[str, Any]:
        """What every judge says about samples [N] that should say the case's text in its voice."""
        if rate != SAMPLE_RATE:
            samples = torchaudio.functional.resample(torch.from_numpy(samples), rate, SAMPLE_RATE).numpy()
        return self._said(samples, case) | self._alike(samples, case)

    def _said(self, samples: np.ndarray, case: Case) -> dict[str, Any]:
        heard = self.judge.words(samples)
        record: dict[str, Any] = {"heard": heard, "mos": self.judge.dnsmos(samples)}
        if heard is not None:
            record["words"] = judges.word_errors(case.text, heard)
        return record

    def _alike(self, samples: np.ndarray, case: Case) -> dict[str, Any]:
        mine = self.judge.voice(samples)
        voices = {p: self._voice(p) for p in sorted({c.prompt for c in self.cases})}
        record: dict[str, Any] = {"sim": judges.similarity(mine, voices[case.prompt])}
        if mine is not None and voices[case.prompt] is not None:
            scores = {p: judges.similarity(mine, v) for p, v in voices.items() if v is not None}
            record["nearest"] = max(scores, key=scores.get) == case.prompt
            record["sim_others"] = float(np.mean([s for p, s in scores.items() if p != case.prompt] or [0.0]))
        return record

    def request(self, row: Row, case: Case, take: int = 0, **more: Any) -> Request:
        return Request(
            case.text, self.prompt(case), row.method.name, row.options, self.sampling, self.seed + take, **more
        )

    def prompt(self, case: Case) -> Any:
        """The case's voice, encoded once."""
        key = case.prompt
        if key not in self._prompts:
            recording = audio.read(case.prompt, target=None)
            self._prompts[key] = self.stack.encode_prompt(recording.samples, recording.rate, case.prompt_text or None)
        return self._prompts[key]

    def _voice(self, prompt: str) -> np.ndarray | None:
        if prompt not in self._voices:
            self._voices[prompt] = self.judge.voice(audio.read(prompt).samples)
        return self._voices[prompt]

    def _expected(self, case: Case) -> float:
        if case.recording:
            return len(audio.read(case.recording).samples) / SAMPLE_RATE
        return len(case.text) * SECONDS_PER_CHARACTER

    def table(self) -> dict[str, dict[str, Any]]:
        """Row label -> its figures, each with a 95 % interval where it is a mean over runs. ``wer_recorded`` is the
        word error rate over the texts that have a recording: what that of the recordings may be compared with."""
        labels = dict.fromkeys(r["row"] for r in self.records.values())
        found = {label: self.of_row(label) for label in labels}
        table = {label: summarise(records) for label, records in found.items() if records}
        recorded = [case for case in self.cases if case.recording]
        for label, row in table.items():
            of_recorded = summarise(self.of_row(label, recorded))
            if "wer" in of_recorded:
                row["wer_recorded"] = of_recorded["wer"]
            if label != BASELINE:
                row |= compare(self._pairs(label, BASELINE))
        return table

    def figures(self) -> dict[str, dict[str, Any]]:
        """What was measured here and what still holds of the published rows, by label."""
        return self.published | self.table()


@dataclass(frozen=True)
class Setup:
    """What an evaluation is made of, in this process or another."""

    stack: str
    device: str | None
    dtype: str | None
    adapters: str | None
    cases: list[Case]
    drawing: dict[str, str]  # what is asked of the sampling
    seed: int

    def build(self, store: Path | None = None) -> Evaluation:
        from ..cli.settings import parse_settings
        from ..stacks import load_stack

        stack = load_stack(self.stack, self.device, self.dtype, self.adapters)
        sampling = parse_settings(METHODS["baseline"], self.drawing, stack.sampling)[1]
        return Evaluation(stack, self.cases, sampling, self.seed, store, judges.Judges())


def command(args: argparse.Namespace) -> None:
    """``python -m tts_demo evaluate``: a table for people, then one JSON object as the last line."""
    from ..cli.settings import pairs
    from . import analyses as evaluate_analyses
    from . import processes as evaluate_processes

    keep = results.check_keep(args)
    for name in ("processes", "takes"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name} must be 1 or more, not {getattr(args, name)}.")
    settings = pairs(args.set)
    names = args.methods.split(",") if args.methods else EVERYTHING if args.all else METHODS
    rows = rows_for(names, settings) + (evaluate_analyses.extra_rows() if args.all else [])
    drawing = {k: v for k, v in settings.items() if hasattr(Sampling(), k)}
    setup = Setup(
        args.stack, args.device, args.dtype, args.adapters, read_cases(args.list, args.limit), drawing, args.seed
    )
    evaluation = setup.build(Path(args.json) if args.json else results.STORES / "evaluate.json" if args.all else None)
    rows, skipped = runnable(evaluation.stack, rows, bool(args.methods))
    if args.changed:
        evaluation.published = results.unchanged("evaluate", evaluation.alike, reads=evaluation.would_read)
        rows = [row for row in rows if row.label not in evaluation.published or row.label == BASELINE]
    evaluation.allow(args.minutes * (ROWS_SHARE if args.all else 1))
    if args.processes > 1:
        evaluate_processes.run(evaluation, rows, args.processes, setup.build, args.takes)
    else:
        evaluation.run(rows, args.takes)
    asked = {NATURAL, *(row.label for row in rows)}  # others that the store holds were made by another command
    table = {label: figures for label, figures in evaluation.table().items() if label in asked}
    if not table:
        raise UserError(f"Nothing was measured in {args.minutes:g} minutes: give --minutes more.")
    precision = {"precision": evaluation.conditions["dtype"]}
    figures: dict[str, Any] = {
        "command": _command(args),
        "conditions": evaluation.conditions,
        "rows": {label: row | precision for label, row in table.items()},
    }
    print("\n".join([format_table(table), *(f"skipped: {line}" for line in skipped)]))
    for figure, fix in judges.missing().items():
        print(f"{figure} was not measured: {fix}.")
    if keep:
        results.keep(
            "evaluate",
            figures | {"made_of": {label: results.made_of(evaluation.reads(label)) for label in table}},
            reads=evaluation.would_read,
        )
    if args.all:
        evaluation.allow(args.minutes * (1 - ROWS_SHARE))
        rows_of = {name: analysis.rows for name, analysis in evaluate_analyses.ANALYSES.items()}
        # an analysis may have got another row
        modules = {name: evaluation.reads(*labels) for name, labels in rows_of.items()}
        holds = results.unchanged("analyses", reads=modules.get) if evaluation.published else {}
        analyses = evaluate_analyses.run(evaluation, holds)
        print(evaluate_analyses.format_all(analyses))
        section = {
            "command": figures["command"],
            "conditions": evaluation.conditions,
            "rows": analyses,
            "made_of": {name: results.made_of(modules[name]) for name in analyses},
        }
        results.keep("analyses", section)
        figures["analyses"] = analyses
    print(json.dumps(figures))


def _command(args: argparse.Namespace) -> str:
    """What to type to measure this again, without the paths of this machine."""
    words = ["python -m tts_demo evaluate"] + ["--all"] * args.all + ["--changed"] * args.changed
    words += [f"--{key} {getattr(args, key)}" for key in ("methods", "limit") if getattr(args, key)]
    words += [f"--{key} {getattr(args, key)}" for key in ("processes", "takes") if getattr(args, key) > 1]
    words += [f"--minutes {args.minutes:g}"] * bool(args.minutes)
    words += [f"--set {' '.join(group)}" for group in args.set]
    return " ".join(words + (["--list LIST"] if args.list else []))
