"""Makes the speech of a teacher to learn from: sentences in many voices, with the phonemes it was given and how long it
spoke each.

The teacher is Kokoro-82M (hexgrad, Apache 2.0) as an ONNX file that also returns its durations. A sentence's phonemes
are our own front end's, of the alphabet that it was trained with. Its own English voices come first, then mixtures of
two or three of them, which are voices of their own. ``plan.jsonl`` says who speaks what; speaking goes on where it
stopped, in any number of processes, and what a killed one leaves is whole.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile
import torch
import torchaudio

from ...config import SAMPLE_RATE, UserError
from ...text.symbols import PUNCTUATION
from .speech import UNIT, phonemes_of, whole_lines

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MODEL = "onnx-community/Kokoro-82M-v1.0-ONNX-timestamped"
RATE = 24_000  # Hz, of what the teacher says
LONGEST = 480  # symbols of one utterance
ENGLISH = ("af_", "am_", "bf_", "bm_")  # how the names of its English voices begin
SPEEDS = 0.95, 1.1


@dataclass(frozen=True)
class Teacher:
    session: "InferenceSession"
    numbers: dict[str, int]  # of its symbols
    styles: dict[str, np.ndarray]  # of its own voices, [rows, 1, 256]: a row for each number of symbols

    @classmethod
    def load(cls, source: str, threads: int = 1) -> "Teacher":
        """From a folder, or a repository of the Hugging Face Hub. Raises UserError where something is missing."""
        import onnxruntime

        folder = Path(source) if Path(source).is_dir() else _download(source)
        files = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")], key=lambda path: path.stat().st_size)
        tables = [path for path in (folder / "tokenizer.json", folder / "vocab.json") if path.exists()]
        voices = sorted(p for p in folder.glob("voices/*.bin") if p.name.startswith(ENGLISH))
        if not (files and tables and voices):
            raise UserError(f"{folder} is no Kokoro model: it needs *.onnx, tokenizer.json and voices/*.bin.")
        table = json.loads(tables[0].read_text(encoding="utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(files[-1]), options, providers=["CPUExecutionProvider"])
        styles = {path.stem: np.fromfile(path, np.float32).reshape(-1, 1, 256) for path in voices}
        return cls(session, table.get("model", table).get("vocab", table), styles)

    def style(self, mixture: dict[str, float], symbols: int) -> np.ndarray:
        """[1, 256]: of a mixture of its voices, for an utterance of so many symbols."""
        return sum(weight * self.styles[name][symbols] for name, weight in mixture.items()).astype(np.float32)

    def synthesise(self, phonemes: str, mixture: dict[str, float], speed: float) -> tuple[np.ndarray, list[int]]:
        """-> samples [N] at 16 kHz, durations in UNITs of the silence before, each symbol and the silence after."""
        numbers = [self.numbers[symbol] for symbol in phonemes]
        values = {
            "tokens": np.array([[0, *numbers, 0]], np.int64),
            "style": self.style(mixture, len(numbers)),
            "speed": np.array([speed], np.float32),
        }
        values["input_ids"] = values["tokens"]  # the name in other exports
        feeds = {i.name: values[i.name] for i in self.session.get_inputs()}
        names = [output.name for output in self.session.get_outputs()]
        timed = [name for name in names if "dur" in name.lower() or "round" in name.lower()]
        if not timed:
            raise UserError(f"This model does not say how long it speaks each symbol: use {MODEL}.")
        samples, durations = (np.asarray(x).reshape(-1) for x in self.session.run([names[0], timed[0]], feeds))
        durations = durations.round().astype(int)
        if len(durations) != len(numbers) + 2 or abs(durations.sum() * UNIT * RATE - len(samples)) > UNIT * RATE:
            raise UserError("This model's durations are not those of its sound: use another export.")
        wave = torchaudio.functional.resample(torch.from_numpy(samples.astype(np.float32)), RATE, SAMPLE_RATE)
        return wave.numpy(), durations.tolist()


def _download(repository: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, allow_patterns=["tokenizer.json", "onnx/model.onnx", "voices/*.bin"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise UserError(
            f"{repository!r} is neither a folder nor a repository that the Hub hands out: without a network fetch "
            f"huggingface.co/{MODEL} elsewhere (tokenizer.json, onnx/model.onnx, voices/*.bin) and give its folder "
            "with --model."
        ) from error


def mixtures(names: Sequence[str], count: int, seed: int = 0) -> list[dict[str, float]]:
    """``count`` voices: the teacher's own, then mixtures of two or three of them, weights that sum to 1."""
    rng, found = np.random.default_rng(seed), [{name: 1.0} for name in names][:count]
    while len(found) < count:
        chosen = rng.choice(len(names), int(rng.integers(2, min(3, len(names)) + 1)), replace=False)
        weights = rng.dirichlet(np.full(len(chosen), 2.0)).round(3)
        found.append({names[n]: float(w) for n, w in zip(chosen, weights / weights.sum())})
    return found


def has_plan(folder: Path, sentences: str, voices: int, seed: int) -> bool:
    """Whether the folder holds a plan. UserError where that plan was made of other sentences, voices or another seed:
    speaking would go on with the old plan and ignore these."""
    asked = {"sentences": hashlib.sha256(sentences.encode()).hexdigest(), "voices": voices, "seed": seed}
    path = folder / "asked.json"
    if not (folder / "plan.jsonl").exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asked))
        return False
    made = json.loads(path.read_text()) if path.exists() else {}  # older plans do not say what they were made of
    if changed := [name for name in made if made[name] != asked[name]]:
        raise UserError(f"The plan in {folder} was made with other {' and '.join(changed)}: give another folder.")
    return True


def write_plan(folder: Path, sentences: Iterable[str], voices: list[dict[str, float]], seed: int = 0) -> None:
    """Say once and for all who speaks which sentence, in mixed order. What cannot be spoken is left out."""
    rng, rows = np.random.default_rng(seed), []
    for text in dict.fromkeys(s.strip() for s in sentences if s.strip()):
        try:
            phonemes = phonemes_of(text)
        except UserError:  # nothing of it can be spoken
            continue
        if len(phonemes) <= LONGEST and any(symbol not in PUNCTUATION for symbol in phonemes):
            rows.append((text, phonemes))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "voices.json").write_text(json.dumps(voices, indent=1))
    part = folder / "plan.part"
    with open(part, "w", encoding="utf-8") as file:
        for number, position in enumerate(rng.permutation(len(rows))):
            voice, (text, phonemes) = int(rng.integers(len(voices))), rows[position]
            row = {"id": f"k{voice:03d}-{number:05d}", "voice": voice, "speed": round(float(rng.uniform(*SPEEDS)), 2)}
            file.write(json.dumps(row | {"text": text, "phonemes": phonemes}, ensure_ascii=False) + "\n")
    os.replace(part, folder / "plan.jsonl")


def synthesise_plan(
    teacher: Teacher, folder: Path, shard: int = 0, of: int = 1, minutes: float = 0.0
) -> Iterator[float]:
    """Speak every ``of``-th utterance of the plan that nobody has spoken yet; yields the seconds of each."""
    voices = json.loads((folder / "voices.json").read_text())
    done = {row["id"] for path in folder.glob("align*.jsonl") for row in whole_lines(path)}
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    log = folder / f"align-{shard}.jsonl"
    _drop_half_a_line(log)
    with open(log, "a", encoding="utf-8") as file:
        for number, row in enumerate(whole_lines(folder / "plan.jsonl")):
            if number % of != shard or row["id"] in done:
                continue
            if time.monotonic() > end:
                return
            samples, (lead, *frames, tail) = teacher.synthesise(row["phonemes"], voices[row["voice"]], row["speed"])
            peak = float(np.abs(samples).max())
            if not np.isfinite(peak) or peak < 1e-3:
                continue
            path = folder / f"{row['id']}.flac"
            soundfile.write(path.with_suffix(".part"), samples * min(1.0, 0.98 / peak), SAMPLE_RATE, format="FLAC")
            os.replace(path.with_suffix(".part"), path)
            file.write(json.dumps({"id": row["id"], "lead": lead, "frames": frames, "tail": tail}) + "\n")
            file.flush()
            yield len(samples) / SAMPLE_RATE


def _drop_half_a_line(path: Path) -> None:
    """What a killed process wrote last would swallow the next line."""
    if path.exists():
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])
