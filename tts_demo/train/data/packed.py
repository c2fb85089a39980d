"""One file that a recipe trains from: speech as Opus or FLAC, codes, labels, pitch, and the weights that it reads.

For machines that get a file of limited size instead of a corpus and its caches. The whole set is decoded at the start
and lies on the device; crops of a batch are gathered there at once, without a loop over its items.
"""

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor
from tqdm import tqdm

from ...config import HOP, SAMPLE_RATE, UserError
from .batch import TensorBatch

PARTS = ("train", "test")
META, WEIGHTS = "meta.json", "checkpoint/"
FORMATS = {  # of soundfile; 0.9 of Opus is about 30 kbit/s
    "opus": {"format": "OGG", "subtype": "OPUS", "compression_level": 0.9},
    "flac": {"format": "FLAC", "subtype": "PCM_16", "compression_level": 1.0},
}
HELD_OUT = 48  # utterances that scores are made on


@dataclass(frozen=True)
class PackedUtterance:
    """One utterance of F frames."""

    samples: np.ndarray  # float32 [F * HOP]
    codes: np.ndarray  # [F, K]
    labels: np.ndarray  # [F] phoneme of each frame
    pitch: np.ndarray  # [F] class of the refiner
    f0: np.ndarray  # [F] Hz, 0 = unvoiced
    speaker: np.ndarray  # [E]
    voice: str  # whose utterance it is


@dataclass(frozen=True)
class Resident(TensorBatch):
    """Utterances behind each other, sorted by speaker: F frames of all, U utterances."""

    samples: Tensor  # int16 [F, HOP]
    codes: Tensor  # int16 [F, K]
    labels: Tensor  # int16 [F]
    pitch: Tensor  # int16 [F]
    f0: Tensor  # [F]
    speakers: Tensor  # [U, E]
    begins: Tensor  # [U] first frame
    lengths: Tensor  # [U] frames
    same: Tensor  # [U, 2] first utterance of the same speaker, and how many there are

    def stretches(self, count: int, frames: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """``count`` random stretches, every position of the set alike: utterances [count], frame indices [count,
        frames]."""
        room = (self.lengths - frames + 1).clamp(min=0)
        ends = room.cumsum(0)
        pick = (self._random(count, generator) * ends[-1]).long().clamp(max=int(ends[-1]) - 1)
        chosen = torch.searchsorted(ends, pick, right=True)
        first = self.begins[chosen] + pick - (ends - room)[chosen]
        return chosen, first[:, None] + torch.arange(frames, device=first.device)

    def others(self, chosen: Tensor, frames: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A stretch of a random utterance of the same speaker as each of ``chosen`` [R], a short one repeated."""
        first, count = self.same[chosen].unbind(1)
        other = first + (self._random(len(chosen), generator) * count).long()
        length = self.lengths[other]
        begin = (self._random(len(chosen), generator) * (length - frames + 1).clamp(min=1)).long()
        within = (begin[:, None] + torch.arange(frames, device=begin.device)) % length[:, None]
        return other, self.begins[other][:, None] + within

    def wave(self, index: Tensor) -> Tensor:
        """Frame indices [B, F] -> samples [B, F * HOP] in -1..1."""
        return self.samples[index].flatten(1).float() / 32768

    def _random(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.rand(count, generator=generator, device=self.begins.device, dtype=torch.float64)


@dataclass(frozen=True)
class Packed:
    """What a file holds: the sets, a checkpoint with the weights, what the card says of the data."""

    train: Resident
    test: Resident
    checkpoint: Path
    meta: dict[str, Any]


def write(
    file: Path,
    rows: dict[str, Sequence[Callable[[], PackedUtterance]]],
    checkpoint: Path,
    meta: Callable[[int], dict[str, Any]],
    limit: int,
    sound: str = "opus",
) -> int:
    """Pack as many ``rows`` of the training set as fit into ``limit`` bytes, and ``HELD_OUT`` of the others. ``meta``:
    from the number of training utterances taken. Returns that number. Raises UserError where the weights alone fill
    the file."""
    free = limit - sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    kept: dict[str, list[tuple[bytes, PackedUtterance]]] = {name: [] for name in PARTS}
    bar = tqdm(total=max(0, free) >> 10, desc="packing", unit="KiB", mininterval=2.0)
    for name in reversed(PARTS):  # scores first
        for make in rows[name] if name == "train" else rows[name][:HELD_OUT]:
            row = make()
            coded = _encoded(row.samples, sound)
            cost = len(coded) + 3 * row.codes.size // 2 + 8 * len(row.codes)
            if cost > free:
                break
            free -= cost
            bar.update(cost >> 10)
            kept[name].append((coded, row))
    bar.close()
    if not kept["test"] and len(kept["train"]) > 1:
        kept["test"].append(kept["train"].pop())
    if not (kept["train"] and kept["test"]):
        raise UserError(f"{limit >> 20} MiB hold no speech beside the weights: allow more with --mib.")
    while True:
        _write(file, kept, checkpoint, meta(len(kept["train"])) | {"sound": sound})
        if file.stat().st_size <= limit:
            return len(kept["train"])
        del kept["train"][-max(1, len(kept["train"]) // 20) :]


def _write(
    file: Path, kept: dict[str, list[tuple[bytes, PackedUtterance]]], checkpoint: Path, meta: dict[str, Any]
) -> None:
    part = file.with_name(file.name + ".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(META, json.dumps(meta))
        for path in sorted(p for p in checkpoint.rglob("*") if p.is_file()):
            packed.write(path, WEIGHTS + path.relative_to(checkpoint).as_posix())
        for name, some in kept.items():
            some = sorted(some, key=lambda pair: pair[1].voice)
            voices = sorted({row.voice for _, row in some})
            table = {
                "sizes": np.asarray([len(coded) for coded, _ in some]),
                "lengths": np.asarray([len(row.codes) for _, row in some]),
                "voices": np.asarray([voices.index(row.voice) for _, row in some]),
                "speakers": np.stack([row.speaker for _, row in some]).astype(np.float16),
                "codes": np.concatenate([row.codes for _, row in some]).astype(np.int16),
                "labels": np.concatenate([row.labels for _, row in some]).astype(np.int16),
                "pitch": np.concatenate([row.pitch for _, row in some]).astype(np.int16),
                "f0": np.concatenate([row.f0 for _, row in some]).astype(np.float16),
            }
            buffer = io.BytesIO()
            np.savez(buffer, **table)
            packed.writestr(f"{name}.npz", buffer.getvalue())
            packed.writestr(f"{name}.sound", b"".join(coded for coded, _ in some), zipfile.ZIP_STORED)
    part.replace(file)


def read(file: Path, work: Path, device: torch.device | str) -> Packed:
    """Unpack onto the device; the weights go into a folder of ``work``. Raises UserError for a file that is none."""
    if not zipfile.is_zipfile(file):
        raise UserError(
            f"{file} is no packed training set: make one with 'python -m tts_demo train RECIPE --pack FILE'."
        )
    with zipfile.ZipFile(file) as packed:
        meta = json.loads(packed.read(META))
        digest = hashlib.sha256(packed.read(META) + str(file.stat().st_size).encode()).hexdigest()[:12]
        checkpoint = work / f"packed-{digest}"
        shutil.rmtree(checkpoint, ignore_errors=True)
        for member in packed.namelist():
            if member.startswith(WEIGHTS):
                target = checkpoint / member.removeprefix(WEIGHTS)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(packed.read(member))
        sets = [_resident(packed, name) for name in PARTS]
    return Packed(*(some.to(device) for some in sets), checkpoint, meta)


def _resident(packed: zipfile.ZipFile, name: str) -> Resident:
    table, sound = np.load(io.BytesIO(packed.read(f"{name}.npz"))), packed.read(f"{name}.sound")
    ends, lengths = np.cumsum(table["sizes"]), table["lengths"]
    pieces = [(sound[end - size : end], int(n)) for end, size, n in zip(ends, table["sizes"], lengths)]
    with ThreadPoolExecutor() as pool:  # libsndfile works outside the interpreter's lock
        samples = np.concatenate(list(pool.map(lambda piece: _decoded(*piece), pieces)))
    _, first, number, count = np.unique(table["voices"], return_index=True, return_inverse=True, return_counts=True)
    arrays = {
        "samples": samples,
        **{key: table[key] for key in ("codes", "labels", "pitch")},
        "f0": table["f0"].astype(np.float32),
        "speakers": table["speakers"].astype(np.float32),
        "begins": np.cumsum(lengths) - lengths,
        "lengths": lengths,
        "same": np.stack([first[number], count[number]], 1),
    }
    return Resident(**{key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()})


def _encoded(samples: np.ndarray, sound: str) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, SAMPLE_RATE, **FORMATS[sound])
    return buffer.getvalue()


def _decoded(coded: bytes, frames: int) -> np.ndarray:
    """int16 [frames, HOP]."""
    samples, rate = soundfile.read(io.BytesIO(coded), dtype="int16")
    assert rate == SAMPLE_RATE, rate
    whole = np.zeros(frames * HOP, np.int16)
    whole[: len(samples)] = samples[: len(whole)]
    return whole.reshape(frames, HOP)
