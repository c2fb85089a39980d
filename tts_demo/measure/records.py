"""What was measured, one JSON object a line, appended and then left as it is: what, of which weights, where and when.

Two processes may append to one file. A record that stands there already is not measured again.
"""

import dataclasses
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..config import UserError
from ..engine import Stack
from ..methods.base import Method
from ..runtime import processor

ROOT = Path(__file__).parents[2]
Record = dict[str, Any]
RECORDS = ROOT / "checkpoints" / "nano" / "records.jsonl"  # what the repository shows
OWN = ROOT / ".measured" / "records.jsonl"  # where a person's own measurements go; no part of the repository
UNTIMED = ("quality", "codec", "heads", "alignment", "long")  # kinds whose figures hang on what is said, on no machine
KEY = ("kind", "row", "text", "seed", "stack", "checkpoint", "machine", "dtype", "adapters")
OPTIONAL = ("adapters", "sampling")  # fields of ``Where`` that most records leave out


@dataclass(frozen=True)
class Where:
    """What a figure belongs to. checkpoint: '' for speech that no weights of ours made. machine: the processor with
    the instructions that torch uses. adapters: of a method whose weights lie beside the checkpoint, their hash.
    sampling: what differs from the usual sampling (``sampling_label``)."""

    stack: str
    checkpoint: str
    machine: str
    dtype: str
    torch: str
    commit: str
    adapters: str = ""
    sampling: str = ""

    @classmethod
    def of(cls, stack: Stack, sampling: str = "") -> "Where":
        how = processor(stack.device), stack.decoder.precision, torch.__version__, _commit()
        return cls(stack.name, stack.checkpoint_hash, *how, sampling=sampling)

    def through(self, method: Method) -> "Where":
        """Of what this method says."""
        return dataclasses.replace(self, adapters=method.weights_hash)

    @property
    def nobody(self) -> "Where":
        """Of speech that was not made here."""
        return dataclasses.replace(self, stack="", checkpoint="", dtype="", sampling="")


def _commit() -> str:
    """The commit that is measured, '' where this is no clone."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return head.stdout.strip()


class Records:
    """``path`` None: kept in memory alone."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self._own = path, []

    def read(self) -> list[dict[str, Any]]:
        """All of them, oldest first. A line that was cut short (the machine went down) is left out."""
        if self.path is None or not self.path.is_file():
            return list(self._own)
        return parsed(self.path.read_text(encoding="utf-8"))

    def keys(self) -> set[tuple[Any, ...]]:
        return {key_of(record) for record in self.read()}

    def find(self, kind: str, row: str, text: str, seed: int, where: Where) -> Record | None:
        """The record of a measurement that was made before."""
        wanted = key(kind, row, text, seed, where)
        return next((record for record in self.read() if key_of(record) == wanted), None)

    def append(self, kind: str, row: str, text: str, seed: int, where: Where, figures: Record) -> Record:
        """Add a record, whole or not at all; returns it."""
        head = {"kind": kind, "row": row, "text": text, "seed": seed}
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = {k: value for k, value in dataclasses.asdict(where).items() if value or k not in OPTIONAL}
        record = head | conditions | {"date": date, "figures": rounded(figures)}
        if self.path is None:
            self._own.append(record)
            return record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        with open(self.path, "ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line  # behind one that was cut short
            os.write(file.fileno(), line)
        return record

    def rewrite(self, change: Callable[[Record], list[Record]]) -> None:
        """Put in the place of every record what ``change`` makes of it."""
        if self.path is None:
            self._own = [new for record in self._own for new in change(record)]
            return
        with open(self.path, "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            changed = [new for record in parsed(file.read().decode()) for new in change(record)]
            text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in changed)
            file.seek(0)
            file.write(text.encode())
            file.truncate()


def parsed(text: str) -> list[Record]:
    """The records of a file; a line that is none, or half of one, is left out."""
    found = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and {"kind", "figures"} <= record.keys():
            found.append(record)
    return found


def sampling_label(changed: Mapping[str, float]) -> str:
    """'temperature=0.0 top_k=5': the settings of sampling that were changed, as records name them."""
    return " ".join(f"{name}={value}" for name, value in sorted(changed.items()))


def check(path: Path, sampling: str | None = None) -> None:
    """UserError where a file holds something, but no record, or runs at another ``sampling`` (None: any will do): one
    table cannot hold both. A file that is empty or not there is to be written."""
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        text = "not to be read"
    found = parsed(text)
    if text and not found:
        raise UserError(f"{path} holds no records: give a file that 'evaluate' or 'bench' wrote, or a new one.")
    others = {record.get("sampling", "") for record in found if record.get("checkpoint")} - {sampling}
    if sampling is not None and others:
        held = others.pop() or "default sampling"
        raise UserError(f"{path} holds runs at {held}, which these are not: give --records another file.")


def key_of(record: dict[str, Any]) -> tuple[Any, ...]:
    """What was spoken on one machine is not spoken again on another; what was timed is."""
    if record["kind"] in UNTIMED:
        record = record | {"machine": ""}
    return tuple(record.get(name, "") for name in KEY)  # most records were made before there were adapters


def key(kind: str, row: str, text: str, seed: int, where: Where) -> tuple[Any, ...]:
    return key_of({"kind": kind, "row": row, "text": text, "seed": seed} | dataclasses.asdict(where))


def rounded(value: Any) -> Any:
    """Five digits are enough for every figure, and absent ones are left out."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
