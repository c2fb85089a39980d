"""What the page knows of a finished lane, and how it is kept, exported and opened again. Knows no Gradio and no stack.

A ``Lane`` is one finished synthesis in plain numbers and NumPy arrays, with everything that made it; a ``Take`` holds
the lanes of one press of "Speak", the baseline first. Nothing here holds the visitor's voice: a prompt leaves no trace
but its length.
"""

import csv
import dataclasses
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ... import audio
from ...config import Request, UserError
from ...lm.attention import clearest

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # beginnings that a spreadsheet does not take for text
KEEP = 3  # takes kept per visitor on the server; the browser keeps what it draws


@dataclass(frozen=True)
class AttentionPicture:
    """weights [layers, heads, steps, text] float16; one time span and one label per column of the picture."""

    weights: np.ndarray
    labels: tuple[str, ...]
    start: np.ndarray
    end: np.ndarray
    words: tuple[str, ...] = ()  # the written word each token belongs to, '' for none

    @cached_property
    def clear(self) -> np.ndarray:
        """[steps, text] float32: the mean of the heads that follow the text best."""
        return clearest(self.weights.astype(np.float32))


@dataclass(frozen=True)
class Made:
    """What a lane was made of and under which conditions: device, processor, dtype, stack, checkpoint_hash, cold,
    prompt_seconds, notes."""

    text: str
    voice: str  # the example's name, or "your own voice"
    seed: int
    sampling: dict[str, Any]
    max_seconds: float
    conditions: dict[str, Any]
    voice_hash: str = ""  # of the voice's file, to know whether the one at hand is still the same


@dataclass(frozen=True)
class Lane:
    """One finished synthesis. ``steps``: frames, marks, kv_bytes, ms, proposed, accepted of every backbone pass.
    ``curve``: [points, 3] audio seconds, RTF so far, live KV bytes. ``rounds``: LM-RTF of every round of turns;
    ``whole``: RTF of every round. RTF is by the work clock, the acoustics included."""

    made: Made
    method: str
    title: str
    options: dict[str, Any]
    audio: np.ndarray  # int16 [N]
    sample_rate: int
    codes: np.ndarray  # [F, K]
    metrics: dict[str, Any]
    steps: list[dict[str, Any]]
    curve: np.ndarray
    attention: AttentionPicture | None = None
    stopped: bool = False
    truncated: bool = False
    rounds: tuple[float, ...] = ()
    whole: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()  # what the run says about itself, one sentence each

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.sample_rate


@dataclass(frozen=True)
class Take:
    """The lanes of one press, the baseline first. ``id`` is unlike every other take's in this browser."""

    id: str
    lanes: tuple[Lane, ...]
    recorded: str = ""  # title of a recorded take, empty for one made by this visitor

    def lane_id(self, index: int) -> str:
        return f"{self.id}.{index}"


@dataclass(frozen=True)
class Speed:
    """How many times faster than the baseline beside it: the median of the rounds, and their range."""

    times: float
    low: float
    high: float
    rounds: int


def speed(lane: tuple[float, ...], baseline: tuple[float, ...]) -> Speed | None:
    """Gain in each round of turns, as ``bench`` has it: the baseline's RTF over the lane's, of the language model or of
    everything."""
    gains = [b / a for a, b in zip(lane, baseline) if a > 0 and b > 0]
    return Speed(float(np.median(gains)), min(gains), max(gains), len(gains)) if gains else None


def remember(takes: list[Take], take: Take) -> list[Take]:
    """The takes with ``take`` at their end, at most ``KEEP`` long."""
    return [*takes, take][-KEEP:]


def find(takes: Iterable[Take], lane_id: str) -> Lane | None:
    """The lane that the browser calls ``lane_id``; None for one no longer kept."""
    return next((lane for t in takes for i, lane in enumerate(t.lanes) if t.lane_id(i) == lane_id), None)


def wav_bytes(samples: np.ndarray, sample_rate: int, provenance: dict[str, Any] | None = None) -> bytes:
    """A 16-bit WAV file of int16 [N]; ``provenance`` is written into it so that the file says it is synthetic."""
    out = io.BytesIO()
    audio.write_wav(out, samples.astype(np.float64) / 32767, sample_rate, provenance)
    return out.getvalue()


def wav(lane: Lane) -> bytes:
    """The lane's speech as a WAV file that says what made it."""
    has = {k: lane.made.conditions.get(k) for k in ("stack", "checkpoint_hash")}
    facts = {"method": lane.method, "options": lane.options, "seed": lane.made.seed, **has}
    return wav_bytes(lane.audio, lane.sample_rate, facts)


def describe(lane: Lane) -> dict[str, Any]:
    """The JSON record of a lane: settings, conditions, measurements."""
    return {
        "text": lane.made.text,
        "method": lane.method,
        "title": lane.title,
        "options": lane.options,
        "seed": lane.made.seed,
        "sampling": lane.made.sampling,
        **lane.made.conditions,
        **lane.metrics,
        "lm_rtf_rounds": list(lane.rounds),
        "rtf_rounds": list(lane.whole),
        "sample_rate": lane.sample_rate,
        "stopped": lane.stopped,
        "truncated": lane.truncated,
        "notes": [*lane.made.conditions.get("notes", ()), *lane.notes],
        "synthetic": True,
    }


def _arrays(lane: Lane) -> dict[str, np.ndarray]:
    arrays = {"audio": lane.audio, "codes": lane.codes, "curve": lane.curve.astype(np.float32)}
    if lane.attention:
        a = lane.attention
        arrays |= {
            "weights": a.weights.astype(np.float16),
            "text_tokens": np.array(a.labels, dtype=np.str_),
            "text_words": np.array(a.words, dtype=np.str_),
            "step_start_seconds": a.start,
            "step_end_seconds": a.end,
        }
    return arrays


def export(lanes: list[Lane], path: Path, stopping: Callable[[], bool] = lambda: False) -> Path:
    """Audio, tokens, per-step trace, attention and figures of the lanes as one zip, and all figures as a CSV."""
    records = [describe(lane) for lane in lanes]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("figures.csv", csv_of(records))
        for number, (lane, record) in enumerate(zip(lanes, records)):
            if stopping():
                raise UserError("Nobody waits for these results any more.")
            folder = f"{number}-{lane.method}"
            z.writestr(f"{folder}/audio.wav", wav(lane))
            z.writestr(f"{folder}/metrics.json", json.dumps(record, indent=1, ensure_ascii=False))
            z.writestr(f"{folder}/trace.json", json.dumps(lane.steps, ensure_ascii=False))
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **{k: v for k, v in _arrays(lane).items() if k != "audio"})
            z.writestr(f"{folder}/tokens_and_attention.npz", buffer.getvalue())
    return path


def csv_of(records: list[dict[str, Any]]) -> str:
    """One line a lane, one column a figure; what is a list or a mapping stands as JSON. Text that a spreadsheet would
    take for a formula gets an apostrophe before it."""
    out = io.StringIO()
    table = csv.DictWriter(out, list(dict.fromkeys(k for r in records for k in r)))
    table.writeheader()
    for record in records:
        table.writerow({k: _cell(v) for k, v in record.items()})
    return out.getvalue()


def _cell(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA) else text


PLAIN = ("method", "title", "options", "sample_rate", "metrics", "steps", "stopped", "truncated")
PLAIN_TUPLES = ("rounds", "whole", "notes")


def save(take: Take, stem: Path) -> None:
    """Write a recorded take: ``stem.json`` (settings, metrics, steps) and ``stem.npz`` (arrays)."""
    arrays, lanes = {}, []
    for number, lane in enumerate(take.lanes):
        arrays |= {f"{number}.{k}": v for k, v in _arrays(lane).items()}
        lanes.append({k: getattr(lane, k) for k in (*PLAIN, *PLAIN_TUPLES)} | {"made": dataclasses.asdict(lane.made)})
    stem.parent.mkdir(parents=True, exist_ok=True)
    head = {"title": take.recorded, "lanes": lanes}
    stem.with_suffix(".json").write_text(json.dumps(head, ensure_ascii=False), encoding="utf-8")
    np.savez_compressed(stem.with_suffix(".npz"), **arrays)


def load(stem: Path) -> Take:
    """A recorded take from ``stem.json`` and ``stem.npz``."""
    try:
        head = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        with np.load(stem.with_suffix(".npz"), allow_pickle=False) as z:
            arrays = dict(z)
        lanes = tuple(_lane(number, plain, arrays) for number, plain in enumerate(head["lanes"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"The recorded run {stem.name!r} cannot be read ({error}); make it again with "
            "'python -m tts_demo record runs'."
        ) from None
    return Take(stem.name, lanes, head["title"])


def _lane(number: int, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> Lane:
    a = {k.split(".", 1)[1]: v for k, v in arrays.items() if k.startswith(f"{number}.")}
    attention = None
    if "weights" in a:
        labels, words = (tuple(str(t) for t in a[k]) for k in ("text_tokens", "text_words"))
        attention = AttentionPicture(a["weights"], labels, a["step_start_seconds"], a["step_end_seconds"], words)
    tuples = {k: tuple(plain.get(k, ())) for k in PLAIN_TUPLES}
    plain = plain | tuples | {"made": Made(**plain["made"])}
    return Lane(**plain, audio=a["audio"], codes=a["codes"], curve=a["curve"], attention=attention)


def recorded(folder: Path) -> dict[str, Path]:
    """Title -> stem of every recorded take in ``folder``, in file order."""
    stems = [p.with_suffix("") for p in sorted(folder.glob("*.json")) if p.with_suffix(".npz").exists()]
    return {json.loads(s.with_suffix(".json").read_text(encoding="utf-8"))["title"]: s for s in stems}


def lane_from(
    done: Any, title: str, request: Request, made: Made, sample_rate: int, curve: list[tuple[float, float, float]]
) -> Lane:
    """The engine's ``Done`` event as a ``Lane`` of one round so far."""
    metrics = dataclasses.asdict(done.snapshot)
    if len(done.segment_ends) > 1:  # the cache is compared within the first segment, for it begins anew with each
        first, last = done.segment_ends[0], max(1, done.segment_ends[-1])
        metrics["first_segment_seconds"] = first * done.snapshot.audio_seconds / last
    attention = None
    if done.attention is not None:
        attention, a = attention_from(done.attention), done.attention
        metrics |= {k: float(getattr(a, k)) for k in ("diagonality", "monotonicity", "coverage")}
    return Lane(
        made=made,
        method=request.method,
        title=title,
        options=dataclasses.asdict(request.options) if request.options is not None else {},
        audio=to_int16(done.audio),
        sample_rate=sample_rate,
        codes=np.asarray(done.codes),
        metrics=metrics,
        steps=[plain(step) for step in done.trace.steps],
        curve=np.asarray(curve, dtype=np.float32).reshape(-1, 3),
        attention=attention,
        stopped=done.stopped,
        truncated=done.truncated,
        rounds=(float(done.snapshot.lm_rtf),),
        whole=(float(done.snapshot.work_rtf),),
        notes=tuple(done.notes),
    )


def attention_from(found: Any) -> AttentionPicture:
    """The engine's ``AttentionPicture`` as it is kept."""
    return AttentionPicture(
        np.asarray(found.weights, dtype=np.float16),
        tuple(found.labels),
        np.asarray(found.step_start_seconds, dtype=np.float32),
        np.asarray(found.step_end_seconds, dtype=np.float32),
        tuple(getattr(label, "word", "") for label in found.labels),
    )


def plain(step: Any) -> dict[str, Any]:
    """One ``StepRecord`` in JSON's types."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(step).items()}


def to_int16(samples: np.ndarray) -> np.ndarray:
    """Float [N] in -1..1 to int16, at the level it has: lanes are not made equally loud."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype(np.int16)
