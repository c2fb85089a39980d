"""What the page remembers of a run, and how it is kept, exported and opened again. Knows no Gradio and no stack.

A ``Side`` is one finished synthesis in plain numbers and NumPy arrays; a ``Run`` is a pair of them. Nothing here
holds the visitor's voice: a prompt leaves no trace but its length.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ... import audio
from ...config import UserError
from ...lm.attention import clearest

KEEP = 12  # runs kept per visitor; the oldest goes first
WHOLE_MAPS = 3  # of them keep every layer and head of their attention, several MB a run; older ones the mean


@dataclass(frozen=True)
class Attention:
    """weights [layers, heads, steps, text] float16; one time span and one label per column of the picture."""

    weights: np.ndarray
    labels: tuple[str, ...]
    start: np.ndarray
    end: np.ndarray
    words: tuple[str, ...] = ()  # the written word each token belongs to, '' for none


@dataclass(frozen=True)
class Side:
    """One finished synthesis. ``steps``: frames, marks, kv_bytes, ms, proposed, accepted of every backbone pass.
    ``curve``: [points, 3] audio seconds, RTF so far, live KV bytes."""

    method: str
    title: str
    options: dict[str, Any]
    audio: np.ndarray  # int16 [N]
    sample_rate: int
    codes: np.ndarray  # [F, K]
    metrics: dict[str, Any]
    steps: list[dict[str, Any]]
    curve: np.ndarray
    attention: Attention | None = None
    stopped: bool = False
    truncated: bool = False
    notes: tuple[str, ...] = ()  # what the run says about itself, one sentence each

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.sample_rate


@dataclass(frozen=True)
class Run:
    """A baseline and a method that spoke the same text with the same voice, seed and sampling."""

    number: int
    text: str
    seed: int
    sampling: dict[str, Any]
    conditions: dict[str, Any]  # device, dtype, stack, checkpoint_hash, cold, prompt_seconds
    baseline: Side | None
    method: Side | None
    reused: int = 0  # the number of the run the baseline was taken from, 0 when it was made here
    recorded: str = ""  # title of a recorded run, empty for one made by this visitor
    voice: str = ""  # a hash of the voice's file, to know whether the one at hand is still the same
    key: tuple = field(default=(), compare=False)  # what a baseline depends on, to find one that can be reused

    def sides(self) -> list[tuple[str, Side]]:
        return [(name, side) for name, side in (("baseline", self.baseline), ("method", self.method)) if side]

    @property
    def label(self) -> str:
        words = self.text if len(self.text) <= 42 else self.text[:40].rstrip() + "…"
        spoken = self.method or self.baseline
        return f"{self.recorded or f'Run {self.number}'} · {spoken.title if spoken else 'nothing'} · {words}"


def remember(history: list[Run], run: Run) -> list[Run]:
    """The history with ``run`` at its end, at most ``KEEP`` long, with old attention maps reduced to their mean."""
    kept = [*history, run][-KEEP:]
    return [slim(old) for old in kept[:-WHOLE_MAPS]] + kept[-WHOLE_MAPS:]


def slim(run: Run) -> Run:
    """The run with each attention map reduced to its clearest heads."""
    sides = {}
    for name, side in run.sides():
        a = side.attention
        if a and a.weights.shape[:2] != (1, 1):
            clear = clearest(a.weights.astype(np.float32))[None, None].astype(np.float16)
            sides[name] = dataclasses.replace(side, attention=dataclasses.replace(a, weights=clear))
    return dataclasses.replace(run, **sides) if sides else run


def reusable(history: Iterable[Run], key: tuple) -> Run | None:
    """The newest run whose complete baseline was made under exactly the same conditions."""
    for run in reversed(list(history)):
        if run.key == key and run.baseline and not run.baseline.stopped and not run.reused:
            return run
    return None


def wav_bytes(samples: np.ndarray, sample_rate: int, provenance: dict[str, Any] | None = None) -> bytes:
    """A 16-bit WAV file of int16 [N]; ``provenance`` is written into it so that the file says it is synthetic."""
    out = io.BytesIO()
    audio.write_wav(out, samples.astype(np.float64) / 32767, sample_rate, provenance)
    return out.getvalue()


def provenance(run: Run, side: Side) -> dict[str, Any]:
    """What a generated file must say about itself."""
    has = {k: run.conditions.get(k) for k in ("stack", "checkpoint_hash")}
    return {"method": side.method, "options": side.options, "seed": run.seed, **has}


def describe(run: Run, side: Side) -> dict[str, Any]:
    """The JSON record of one side: settings, conditions, measurements."""
    return {
        "text": run.text,
        "method": side.method,
        "title": side.title,
        "options": side.options,
        "seed": run.seed,
        "sampling": run.sampling,
        **run.conditions,
        **side.metrics,
        "sample_rate": side.sample_rate,
        "stopped": side.stopped,
        "truncated": side.truncated,
        "notes": [*run.conditions.get("notes", ()), *side.notes],
        "synthetic": True,
    }


def _arrays(side: Side) -> dict[str, np.ndarray]:
    arrays = {"audio": side.audio, "codes": side.codes, "curve": side.curve.astype(np.float32)}
    if side.attention:
        a = side.attention
        arrays |= {
            "weights": a.weights.astype(np.float16),
            "text_tokens": np.array(a.labels, dtype=np.str_),
            "text_words": np.array(a.words, dtype=np.str_),
            "step_start_seconds": a.start,
            "step_end_seconds": a.end,
        }
    return arrays


def export(run: Run, folder: Path) -> Path:
    """Audio, tokens, per-step trace, attention and metrics of both sides as one zip under ``folder``."""
    path = folder / f"run-{run.number or 'recorded'}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, side in run.sides():
            z.writestr(f"{name}/audio.wav", wav_bytes(side.audio, side.sample_rate, provenance(run, side)))
            z.writestr(f"{name}/metrics.json", json.dumps(describe(run, side), indent=1, ensure_ascii=False))
            z.writestr(f"{name}/trace.json", json.dumps(side.steps, ensure_ascii=False))
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **{k: v for k, v in _arrays(side).items() if k != "audio"})
            z.writestr(f"{name}/tokens_and_attention.npz", buffer.getvalue())
    return path


def save(run: Run, title: str, stem: Path) -> None:
    """Write a recorded run: ``stem.json`` (settings, metrics, steps) and ``stem.npz`` (arrays)."""
    arrays, sides = {}, {}
    for name, side in run.sides():
        arrays |= {f"{name}.{k}": v for k, v in _arrays(side).items()}
        plain = ("method", "title", "options", "sample_rate", "metrics", "steps", "stopped", "truncated", "notes")
        sides[name] = {k: getattr(side, k) for k in plain}
    head = {"title": title, "text": run.text, "seed": run.seed, "sampling": run.sampling, "conditions": run.conditions}
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(head | {"sides": sides}, ensure_ascii=False), encoding="utf-8")
    np.savez_compressed(stem.with_suffix(".npz"), **arrays)


def load(stem: Path) -> Run:
    """A recorded run from ``stem.json`` and ``stem.npz``."""
    try:
        head = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        with np.load(stem.with_suffix(".npz"), allow_pickle=False) as z:
            arrays = dict(z)
    except (OSError, ValueError) as error:
        raise UserError(
            f"The recorded run {stem.name!r} cannot be read ({error}); make it again with "
            "'python -m tts_demo record runs'."
        ) from None
    sides = {}
    for name, plain in head.pop("sides").items():
        a = {k.split(".", 1)[1]: v for k, v in arrays.items() if k.startswith(f"{name}.")}
        attention = None
        if "weights" in a:
            labels, words = (tuple(str(t) for t in a[k]) for k in ("text_tokens", "text_words"))
            attention = Attention(a["weights"], labels, a["step_start_seconds"], a["step_end_seconds"], words)
        plain["notes"] = tuple(plain.get("notes", ()))
        sides[name] = Side(**plain, audio=a["audio"], codes=a["codes"], curve=a["curve"], attention=attention)
    title = head.pop("title")
    return Run(number=0, baseline=sides.get("baseline"), method=sides.get("method"), recorded=title, **head)


def recorded(folder: Path) -> dict[str, Path]:
    """Title -> stem of every recorded run in ``folder``, in file order."""
    stems = [p.with_suffix("") for p in sorted(folder.glob("*.json")) if p.with_suffix(".npz").exists()]
    return {json.loads(s.with_suffix(".json").read_text(encoding="utf-8"))["title"]: s for s in stems}


def side_from(done: Any, title: str, request: Any, sample_rate: int, curve: list[tuple[float, float, float]]) -> Side:
    """The engine's ``Done`` event as a ``Side``."""
    snapshot = dataclasses.asdict(done.snapshot) if dataclasses.is_dataclass(done.snapshot) else dict(done.snapshot)
    attention = None
    if done.attention is not None:
        a = done.attention
        weights = np.asarray(a.weights, dtype=np.float16)
        attention = Attention(
            weights,
            tuple(a.labels),
            np.asarray(a.step_start_seconds, dtype=np.float32),
            np.asarray(a.step_end_seconds, dtype=np.float32),
            tuple(getattr(label, "word", "") for label in a.labels),
        )
        snapshot |= {k: float(getattr(a, k)) for k in ("diagonality", "monotonicity", "coverage")}
    options = dataclasses.asdict(request.options) if request.options is not None else {}
    return Side(
        method=request.method,
        title=title,
        options=options,
        audio=to_int16(done.audio),
        sample_rate=sample_rate,
        codes=np.asarray(done.codes),
        metrics=snapshot,
        steps=[step_record(s) for s in done.trace.steps],
        curve=np.asarray(curve, dtype=np.float32).reshape(-1, 3),
        attention=attention,
        stopped=done.stopped,
        truncated=done.truncated,
        notes=tuple(done.notes),
    )


def step_record(step: Any) -> dict[str, Any]:
    """One step of the engine's trace as plain JSON values."""
    fields = dataclasses.asdict(step) if dataclasses.is_dataclass(step) else dict(step)
    return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}


def to_int16(samples: np.ndarray) -> np.ndarray:
    """Float [N] in -1..1 to int16: Gradio would rescale floats to full level and hide how loud each side really is."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype(np.int16)
