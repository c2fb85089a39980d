"""Runs turned into what the page draws: small JSON payloads. Draws nothing itself; sentences are in words.py.

Maps travel as base64 uint8, at most ``COLUMNS`` wide; every axis is audio time in seconds, never step counts, because
a patch, a chunk and a token are of different lengths.
"""

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...methods import colour
from . import blind, published, words
from .reading import CLEAR, pick, repeated, unread, words_of
from .session import AttentionPicture, Lane, Made, Take, speed, wav

COLUMNS = 480  # widest map sent to the browser
RECENT = 8  # passes whose acceptance is one point of its curve
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


def attention_payload(attention: AttentionPicture, layer: str = CLEAR, head: str = "mean") -> dict[str, Any]:
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
        "labels": labels(attention),
        "words": [[w.first, w.last, w.text] for w in words_of(attention.words)],
        "start": np.round(start, 4).tolist(),
        "end": np.round(end, 4).tolist(),
        "coverage": np.round(coverage / (coverage.max() or 1), 3).tolist(),
        "unread": unread(attention),
        "repeated": repeated(attention),
        "layers": attention.weights.shape[0],
        "heads": attention.weights.shape[1],
    }


def labels(attention: AttentionPicture) -> list[str]:
    """What each text token is, sounds in the phonetic alphabet."""
    sounds = bool(words.PHONETIC & set("".join(attention.labels)))
    return [label.translate(words.IPA) if sounds else label for label in attention.labels]


def lane_map(lane: Lane, layer: str = CLEAR, head: str = "mean") -> dict[str, Any] | None:
    """The map of a finished lane; None without attention. Of one stopped on purpose no word counts as missing."""
    if not lane.attention:
        return None
    return attention_payload(lane.attention, layer, head) | ({"unread": []} if lane.stopped else {})


def track(lane: Lane, points: int = 60) -> list[list[float]]:
    """[second, place in the text from 0 to 1] along a lane, rising: by it two lanes are switched in mid-word. Empty
    without attention: then moments correspond by proportion."""
    a = lane.attention
    if not a or len(a.start) < 3:
        return []
    w, at = pick(a), (a.start + a.end) / 2
    centre = (w @ np.arange(w.shape[1])) / np.maximum(w.sum(1), 1e-9) / max(1, w.shape[1] - 1)  # of mass of each step
    chosen = np.unique(np.linspace(0, len(at) - 1, points).astype(int))
    rising = np.maximum.accumulate(centre)[chosen] + 1e-5 * np.arange(len(chosen))
    return np.round(np.stack([at[chosen], rising], 1), 6).tolist()


def timeline(steps: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """[first frame, frames, marks, milliseconds, proposed, accepted] of every step."""
    rows, first = [], 0
    for s in steps:
        marks = [str(m).rstrip("|") for m in s.get("marks", ())]
        rows.append([first, s["frames"], marks, round(s["ms"], 2), s.get("proposed", 0), s.get("accepted", 0)])
        first += s["frames"]
    return rows


def head(lane_id: str, take_id: str, method: str, options: dict[str, Any], m: Made) -> dict[str, Any]:
    """What a lane is made of, which is known before it speaks."""
    return {
        "id": lane_id,
        "take": take_id,
        "method": method,
        "slot": colour(method),
        "options": options,
        "dials": words.dials(method, options),
        "made": {"text": m.text, "voice": m.voice, "seed": m.seed, "max_seconds": m.max_seconds, **m.sampling},
        "published": published.payload(published.of(method, options)),
    }


def lane_payload(lane: Lane, lane_id: str, take_id: str, recorded: str = "") -> dict[str, Any]:
    """Everything the browser draws, says and keeps of one lane; its speed follows when the rounds are over."""
    return {
        **head(lane_id, take_id, lane.method, lane.options, lane.made),
        "title": lane.title,
        "recorded": recorded,
        "conditions": words.conditions(lane, bool(recorded)),
        "warnings": words.warnings(lane),
        "wav": b64(np.frombuffer(wav(lane), np.uint8)),
        "seconds": round(lane.seconds, 4),
        "frame": frame_seconds(lane),
        "spectrogram": b64(spectrogram(lane.audio, lane.sample_rate)) if len(lane.audio) else "",
        "bands": BANDS,
        "nyquist": lane.sample_rate / 2000,
        "timeline": timeline(lane.steps),
        "kv": [s["kv_bytes"] for s in lane.steps],
        "curve": np.round(thin(lane.curve), 4).tolist(),
        "figures": figures(lane),
        "gain": round(blind.gain(lane.audio, lane.sample_rate), 4),
        "track": track(lane),
        "attention": lane_map(lane),
        "own": own_plots(lane),
    }


def figures(lane: Lane) -> dict[str, Any]:
    """Its metrics in plain values. RTF is the rounds' median by the work clock: one figure wherever the page has it."""
    plain = {k: v for k, v in lane.metrics.items() if isinstance(v, (int, float, str)) or k == "misheard"}
    return plain | ({"rtf": float(np.median(lane.whole))} if lane.whole else {})


def so_far(attention: AttentionPicture, steps: Sequence[dict[str, Any]], frame: float) -> dict[str, Any]:
    """What is drawn of a lane that still speaks: map, passes and cache. ``frame``: seconds of one."""
    shown = attention_payload(attention) | {"unread": []}  # the rest of the text is yet to come
    seconds = round(frame * sum(s["frames"] for s in steps), 4)
    kv = [s["kv_bytes"] for s in steps]
    return {"attention": shown, "timeline": timeline(steps), "kv": kv, "frame": frame, "seconds": seconds}


def speeds(take: Take) -> dict[str, Any]:
    """Lane id -> LM-RTF, RTF and how many times faster than the baseline beside it, with range and rounds: the language
    model alone, and (``whole``) everything."""
    found = {}
    for index, lane in enumerate(take.lanes):
        base = take.lanes[0]
        gains = [speed(lane.rounds, base.rounds), speed(lane.whole, base.whole)] if index else [None, None]
        lm, whole = (dataclasses.asdict(gain) if gain else {} for gain in gains)
        found[take.lane_id(index)] = {
            "lm_rtf": float(np.median(lane.rounds)),
            "rtf": figures(lane).get("rtf", 0.0),
            "rounds": len(lane.rounds),
            **lm,
            "whole": whole or None,
        }
    return found


def payload(take: Take) -> list[dict[str, Any]]:
    """A whole take for the browser."""
    rows = [lane_payload(lane, take.lane_id(i), take.id, take.recorded) for i, lane in enumerate(take.lanes)]
    gains = speeds(take)
    return [row | {"speed": gains[row["id"]]} for row in rows]


def thin(curve: np.ndarray, most: int = 160) -> np.ndarray:
    """At most ``most`` points of a curve, first and last kept."""
    if len(curve) <= most:
        return curve
    return curve[np.unique(np.linspace(0, len(curve) - 1, most).astype(int))]


def own_plots(lane: Lane) -> list[dict[str, Any]]:
    """Data for the plots that belong to a method, chosen by what the lane contains, so that a new method gets them too:
    sizes of steps, acceptance over time, cache by part, and any list among its own statistics."""
    plots: list[dict[str, Any]] = []
    if not lane.steps:
        return plots
    frame = frame_seconds(lane)
    counts = np.bincount([s["frames"] for s in lane.steps])
    if counts[2:].any():
        shown = [i for i in range(len(counts)) if counts[i]]
        plots.append(bars("Frames emitted by one pass", shown, [counts[i] for i in shown], "passes", "frames"))
    if any(s.get("proposed") for s in lane.steps):
        plots.append(acceptance_plot(lane, frame))
    for key, value in (lane.metrics.get("method_stats") or {}).items():
        if isinstance(value, (list, tuple)):
            value = dict(enumerate(value, 1))
        if isinstance(value, dict) and value and all(isinstance(v, (int, float)) for v in value.values()):
            kinds = ("passes", "tokens") if key.endswith("sizes") else ("", "")
            plots.append(bars(key.replace("_", " ").capitalize(), list(value), list(value.values()), *kinds))
    return plots


def bars(title: str, x: Sequence[Any], y: Sequence[float], unit: str, each: str) -> dict[str, Any]:
    """unit: of ``y``; each: of ``x``."""
    found = {"kind": "bars", "title": title, "x": [str(v) for v in x], "y": [float(v) for v in y]}
    return found | {"unit": unit, "each": each}


def frame_seconds(lane: Lane) -> float:
    frames = sum(s["frames"] for s in lane.steps)
    return lane.seconds / frames if frames else 0.02


def acceptance_plot(lane: Lane, frame: float) -> dict[str, Any]:
    """Share of drafted tokens accepted, over the last ``RECENT`` passes."""
    proposed = np.array([s.get("proposed", 0) for s in lane.steps], dtype=float)
    accepted = np.array([s.get("accepted", 0) for s in lane.steps], dtype=float)
    recent = lambda counts: np.convolve(counts, np.ones(RECENT))[: len(counts)]
    share = recent(accepted) / np.maximum(recent(proposed), 1)
    seconds = np.cumsum([s["frames"] for s in lane.steps]) * frame
    return {
        "kind": "line",
        "title": f"Draft tokens accepted, last {RECENT} passes",
        "y_label": "share",
        "max": 1,
        "series": [{"name": lane.title, "points": thin(np.stack([seconds, share], 1)).round(3).tolist()}],
    }
