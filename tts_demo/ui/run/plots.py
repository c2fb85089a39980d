"""Runs turned into what the page draws: small JSON payloads. Draws nothing itself; words and tables are in tables.py.

Maps travel as base64 uint8, at most ``COLUMNS`` wide; every axis is audio time in seconds, never step counts, because
a patch, a chunk and a token are of different lengths.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ...lm.attention import clearest
from ...measure import summary
from .session import Attention, Run, Side

CLEAR = "clear"  # the layer choice that picks the heads which follow the text best

COLUMNS = 480  # widest map sent to the browser
BANDS = 64  # mel-like bands of a spectrogram


def b64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def spectrogram(audio: np.ndarray, sample_rate: int, columns: int = COLUMNS) -> np.ndarray:
    """int16 [N] -> uint8 [bands, columns]: log energy over 70 dB, low bands last (drawn from the top)."""
    n_fft = 512
    hop = max(n_fft // 4, len(audio) // columns)
    x = np.pad(audio.astype(np.float32) / 32768, (n_fft // 2, n_fft // 2 + hop))
    frames = np.lib.stride_tricks.sliding_window_view(x, n_fft)[::hop][:columns]
    power = np.abs(np.fft.rfft(frames * np.hanning(n_fft).astype(np.float32), axis=1)) ** 2  # [columns, bins]
    top = 2595 * np.log10(1 + sample_rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    bins = np.arange(power.shape[1]) * sample_rate / n_fft
    rise = (bins - edges[:-2, None]) / np.maximum(edges[1:-1] - edges[:-2], sample_rate / n_fft)[:, None]
    fall = (edges[2:, None] - bins) / np.maximum(edges[2:] - edges[1:-1], sample_rate / n_fft)[:, None]
    bank = np.clip(np.minimum(rise, fall), 0, None)
    bank[bank.sum(1) == 0, 0] = 1  # a band narrower than one bin still shows something
    db = 10 * np.log10(power @ bank.T + 1e-8)
    scaled = (db - (db.max() - 70)) / 70
    return (255 * np.clip(scaled, 0, 1)).astype(np.uint8).T[::-1]


def pick(attention: Attention, layer: str = CLEAR, head: str = "mean") -> np.ndarray:
    """[layers, heads, steps, text] -> [steps, text]: the heads that follow the text best, or one layer or head, or
    means."""
    w = attention.weights.astype(np.float32)
    if layer == CLEAR:
        return clearest(w)
    w = w.mean(0) if layer == "mean" else w[min(int(layer), len(w) - 1)]
    return w.mean(0) if head == "mean" else w[min(int(head), len(w) - 1)]


def attention_payload(attention: Attention, layer: str, head: str) -> dict[str, Any]:
    """One map for the browser: text tokens down, steps across with their time spans, coverage of each token."""
    w = pick(attention, layer, head)  # [steps, text]
    start, end = attention.start, attention.end
    if len(w) > COLUMNS:  # join neighbouring steps so that no column is lost
        edges = np.linspace(0, len(w), COLUMNS + 1).astype(int)
        w = np.stack([w[a:b].mean(0) for a, b in zip(edges, edges[1:])])
        start, end = start[edges[:-1]], end[edges[1:] - 1]
    peak = float(w.max()) or 1.0
    coverage = w.sum(0)
    return {
        "map": b64((255 * np.clip(w / peak, 0, 1)).astype(np.uint8)),
        "steps": len(w),
        "text": w.shape[1],
        "peak": round(peak, 4),
        "labels": list(attention.labels),
        "words": word_spans(attention.words),
        "start": np.round(start, 4).tolist(),
        "end": np.round(end, 4).tolist(),
        "coverage": np.round(coverage / (coverage.max() or 1), 3).tolist(),
    }


def word_spans(words: tuple[str, ...]) -> list[list[Any]]:
    """[first token, last token, word] of every written word, in order."""
    spans: list[list[Any]] = []
    for i, word in enumerate(words):
        if not word:
            continue
        if spans and spans[-1][2] == word and spans[-1][1] == i - 1:
            spans[-1][1] = i
        else:
            spans.append([i, i, word])
    return spans


def path(attention: Attention) -> tuple[np.ndarray, np.ndarray]:
    """Times and text positions (0..1) along the alignment, never moving back: the centre of mass of each step."""
    w = pick(attention)
    place = (w @ np.arange(w.shape[1])) / np.maximum(w.sum(1), 1e-9) / max(1, w.shape[1] - 1)
    return (attention.start + attention.end) / 2, np.maximum.accumulate(place)


def warp(left: Side, right: Side, points: int = 40) -> list[list[float]]:
    """Pairs of seconds at which both sides say the same thing, for switching in mid-word. From the two attention
    paths where both were captured, else by proportion of the whole length."""
    ends = [[0.0, 0.0], [left.seconds, right.seconds]]
    if not (left.attention and right.attention) or min(left.seconds, right.seconds) <= 0:
        return ends
    (ta, pa), (tb, pb) = path(left.attention), path(right.attention)
    if min(len(ta), len(tb)) < 3:
        return ends
    low, high = max(pa[0], pb[0]), min(pa[-1], pb[-1])
    if high - low < 0.2:
        return ends
    steady = np.linspace(0, 1e-6, len(pa)), np.linspace(0, 1e-6, len(pb))  # np.interp wants rising abscissae
    at = np.linspace(low, high, points)[1:-1]
    pairs = np.stack([np.interp(at, pa + steady[0], ta), np.interp(at, pb + steady[1], tb)], 1)
    return [ends[0], *np.round(pairs, 3).tolist(), ends[1]]


def timeline(side: Side) -> list[list[Any]]:
    """[first frame, frames, marks, milliseconds, proposed, accepted] of every step."""
    rows, first = [], 0
    for s in side.steps:
        marks = [str(m).rstrip("|") for m in s.get("marks", ())]
        rows.append([first, s["frames"], marks, round(s["ms"], 2), s.get("proposed", 0), s.get("accepted", 0)])
        first += s["frames"]
    return rows


def side_payload(side: Side, layer: str = CLEAR, head: str = "mean") -> dict[str, Any]:
    return {
        "title": side.title,
        "seconds": round(side.seconds, 4),
        "rate": side.sample_rate,
        "frame": frame_seconds(side),
        "spectrogram": b64(spectrogram(side.audio, side.sample_rate)) if len(side.audio) else "",
        "bands": BANDS,
        "timeline": timeline(side),
        "kv": [s["kv_bytes"] for s in side.steps],
        "attention": attention_payload(side.attention, layer, head) if side.attention else None,
    }


def inspector(run: Run | None, layer: str = CLEAR, head: str = "mean") -> dict[str, Any]:
    """Everything the inspector draws for one run."""
    if run is None:
        return {"sides": {}}
    payload: dict[str, Any] = {"sides": {name: side_payload(side, layer, head) for name, side in run.sides()}}
    if run.baseline and run.method:
        payload["warp"] = warp(run.baseline, run.method)
    return payload


def curves(run: Run | None) -> dict[str, Any]:
    """The live charts of a finished run: the same message that a running one sends, whole."""
    sides = run.sides() if run else []
    return {
        "points": {name: np.round(thin(side.curve), 4).tolist() for name, side in sides},
        "titles": {name: side.title for name, side in sides},
    }


def thin(curve: np.ndarray, most: int = 160) -> np.ndarray:
    """At most ``most`` points of a curve, first and last kept."""
    if len(curve) <= most:
        return curve
    return curve[np.unique(np.linspace(0, len(curve) - 1, most).astype(int))]


def own_plots(run: Run | None) -> dict[str, Any]:
    """Data for the plots that belong to a method, chosen by what the run contains, so that a new method gets them too:
    sizes of steps, acceptance over time, cache by part, and any list among its own statistics."""
    plots: list[dict[str, Any]] = []
    for name, side in run.sides() if run else []:
        if name == "baseline" or not side.steps:
            continue
        frame = frame_seconds(side)
        counts = np.bincount([s["frames"] for s in side.steps])
        if np.count_nonzero(counts) > 1 or len(counts) > 2:
            shown = [i for i in range(len(counts)) if counts[i]]
            plots.append(
                {
                    "kind": "bars",
                    "title": "Frames emitted by one pass",
                    "x": [str(i) for i in shown],
                    "y": [int(counts[i]) for i in shown],
                    "unit": "passes",
                }
            )
        if any(s.get("proposed") for s in side.steps):
            plots.append(acceptance_plot(side, frame))
        parts = cache_parts(side, frame)
        if parts:
            plots.append(parts)
        for key, value in (side.metrics.get("method_stats") or {}).items():
            if isinstance(value, (list, tuple)) and value and all(isinstance(v, (int, float)) for v in value):
                plots.append(
                    {
                        "kind": "bars",
                        "title": key.replace("_", " ").capitalize(),
                        "x": [str(i + 1) for i in range(len(value))],
                        "y": [float(v) for v in value],
                        "unit": "",
                    }
                )
            elif isinstance(value, dict) and value and all(isinstance(v, (int, float)) for v in value.values()):
                plots.append(
                    {
                        "kind": "bars",
                        "title": key.replace("_", " ").capitalize(),
                        "x": list(map(str, value)),
                        "y": [float(v) for v in value.values()],
                        "unit": "",
                    }
                )
    return {"plots": [*plots, *tradeoff(summary.published())]}


def tradeoff(measured: list[summary.Point]) -> list[dict[str, Any]]:
    """Word errors against speed of every setting that was measured with the bundled weights: the README's picture."""
    if len(measured) < 2:
        return []
    return [
        {
            "kind": "scatter",
            "title": "What the settings trade",
            "x_label": "time of the language model over the baseline's",
            "y_label": "words misheard",
            "hint": f"measured by evaluate and bench, {max(p.texts for p in measured)} texts at most",
            "points": [[point.time, point.errors / 100, point.label] for point in measured],
        }
    ]


def frame_seconds(side: Side) -> float:
    frames = sum(s["frames"] for s in side.steps)
    return side.seconds / frames if frames else 0.02


def acceptance_plot(side: Side, frame: float, window: int = 8) -> dict[str, Any]:
    """Share of drafted tokens accepted, over the last ``window`` passes."""
    proposed = np.array([s.get("proposed", 0) for s in side.steps], dtype=float)
    accepted = np.array([s.get("accepted", 0) for s in side.steps], dtype=float)
    box = np.ones(window)
    share = np.convolve(accepted, box)[: len(box) * -1 + 1 or None] / np.maximum(
        np.convolve(proposed, box)[: len(box) * -1 + 1 or None], 1
    )
    seconds = np.cumsum([s["frames"] for s in side.steps]) * frame
    return {
        "kind": "line",
        "title": f"Drafted tokens accepted, last {window} passes",
        "y_label": "share",
        "max": 1,
        "series": [{"name": side.title, "points": thin(np.stack([seconds, share], 1)).round(3).tolist()}],
    }


def cache_parts(side: Side, frame: float) -> dict[str, Any] | None:
    """Bytes of each cache over audio time, when the trace lists them apart."""
    rows = [s.get("kv_parts") for s in side.steps]
    if not rows or not isinstance(rows[0], dict) or len(rows[0]) < 2:
        return None
    seconds = np.cumsum([s["frames"] for s in side.steps]) * frame
    series = [
        {"name": part, "points": thin(np.stack([seconds, [r.get(part, 0) for r in rows]], 1)).round(3).tolist()}
        for part in rows[-1]
    ]
    return {"kind": "line", "title": "KV cache by part", "y_label": "bytes", "series": series}
