"""Runs turned into what the page draws: small JSON payloads, tables, sentences. Draws nothing itself.

Maps travel as base64 uint8, at most ``COLUMNS`` wide; every axis is audio time in seconds, never step counts, because
a patch, a chunk and a token are of different lengths.
"""

from __future__ import annotations

import base64
import html
from typing import Any

import numpy as np

from .session import Attention, Run, Side

COLUMNS = 480  # widest map sent to the browser
BANDS = 64  # mel-like bands of a spectrogram
GROUPED = ("token", "patch", "chunk", "delay")


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


def pick(attention: Attention, layer: str = "mean", head: str = "mean") -> np.ndarray:
    """[layers, heads, steps, text] -> [steps, text], one layer or head or their means."""
    w = attention.weights.astype(np.float32)
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
        "map": b64((255 * np.clip(w / peak, 0, 1)).astype(np.uint8)), "steps": len(w), "text": w.shape[1],
        "peak": round(peak, 4), "labels": list(attention.labels), "words": word_spans(attention.words),
        "start": np.round(start, 4).tolist(), "end": np.round(end, 4).tolist(),
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


def side_payload(side: Side, layer: str = "mean", head: str = "mean") -> dict[str, Any]:
    frames = sum(s["frames"] for s in side.steps)
    return {
        "title": side.title, "seconds": round(side.seconds, 4), "rate": side.sample_rate,
        "frame": side.seconds / frames if frames else 0.02,
        "spectrogram": b64(spectrogram(side.audio, side.sample_rate)) if len(side.audio) else "", "bands": BANDS,
        "timeline": timeline(side), "kv": [s["kv_bytes"] for s in side.steps],
        "attention": attention_payload(side.attention, layer, head) if side.attention else None,
    }


def inspector(run: Run | None, layer: str = "mean", head: str = "mean") -> dict[str, Any]:
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
    return {"points": {name: np.round(thin(side.curve), 4).tolist() for name, side in sides},
            "titles": {name: side.title for name, side in sides}}


def thin(curve: np.ndarray, most: int = 160) -> np.ndarray:
    """At most ``most`` points of a curve, first and last kept."""
    if len(curve) <= most:
        return curve
    return curve[np.unique(np.linspace(0, len(curve) - 1, most).astype(int))]


def size(n: float) -> str:
    """Bytes for people."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:.2f} {unit}" if n < 10 * scale else f"{n / scale:.1f} {unit}"
    return f"{n:.0f} B"


def number(value: float, unit: str) -> str:
    if unit == "bytes":
        return size(value)
    if unit == "s":
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"
    if unit == "%":
        return f"{100 * value:.0f} %"
    if unit == "":
        return f"{value:,.0f}" if value == int(value) else f"{value:.2f}"
    return f"{value:.3f}"


# metric, name for people, unit, which way is better (-1 lower, 1 higher, 0 neither), what it means
ROWS = (
    ("rtf", "Real-time factor, all", "x", -1, "compute seconds per second of audio, from request to last sample"),
    ("lm_rtf", "Real-time factor, language model", "x", -1, "the autoregressive part only"),
    ("ttfa_seconds", "Time to first audio", "s", -1, "request to the first samples, prompt already encoded"),
    ("audio_seconds", "Length of the speech", "s", 0, "what was spoken"),
    ("backbone_steps", "Backbone passes", "", -1, "passes of the big model"),
    ("frames_per_step", "Frames per pass", "", 1, "codec frames one pass yields on average"),
    ("acceptance", "Drafted tokens accepted", "%", 1, "speculative decoding only"),
    ("kv_bytes_total", "KV cache at the end", "bytes", -1, "live keys and values of every autoregressive model"),
    ("kv_bytes_peak", "KV cache, highest", "bytes", -1, "the same, at its largest"),
    ("wer", "Word errors", "%", -1, "by the bundled recogniser, which also trained parts of this model: a hint only"),
    ("similarity", "Voice similarity", "x", 1, "cosine between the prompt's and the output's speaker vector"),
    ("monotonicity", "Alignment moves forward", "%", 1, "share of steps whose attention does not move back"),
    ("coverage", "Text attended to", "%", 1, "share of text tokens that got their share of attention"),
)


def table(run: Run | None) -> str:
    """Results of one run: every measure with its unit, both sides, and the change in words and direction."""
    if run is None:
        return "<p class='quiet'>Nothing has been spoken yet.</p>"
    a, b = run.baseline, run.method
    body = []
    for key, label, unit, better, meaning in ROWS:
        values = [side.metrics.get(key) if side else None for side in (a, b)]
        if values[0] is None and values[1] is None:
            continue
        cells = [f"<td>{number(v, unit) if v is not None else '–'}</td>" for v in values]
        arrow = {-1: "lower is better", 1: "higher is better", 0: ""}[better]
        body.append(f"<tr><th scope='row'>{label}<small>{meaning}</small></th>{''.join(cells)}"
                    f"<td>{change(values[0], values[1], better)}</td><td class='quiet'>{arrow}</td></tr>")
    titles = [html.escape(side.title) if side else "–" for side in (a, b)]
    head = ("<tr><th scope='col'>Measure</th>" f"<th scope='col' class='base'>{titles[0]}</th>"
            f"<th scope='col' class='meth'>{titles[1]}</th><th scope='col'>Change</th><th scope='col'></th></tr>")
    return f"<table class='results'><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{conditions(run)}"


def change(a: float | None, b: float | None, better: int) -> str:
    if not a or b is None:
        return ""
    ratio = b / a
    if abs(ratio - 1) < 0.005:
        return "<span class='same'>same</span>"
    word = f"×{ratio:.2f}"
    if better == 0:
        return word
    good = (ratio > 1) == (better > 0)
    return f"<span class='{'good' if good else 'bad'}'>{'▲' if ratio > 1 else '▼'} {word} {'better' if good else 'worse'}</span>"


def conditions(run: Run) -> str:
    c = run.conditions
    words = [f"{c.get('stack', '?')} stack", f"{c.get('device', '?')}, {c.get('dtype', '?')}",
             f"checkpoint {str(c.get('checkpoint_hash', '?'))[:10]}", f"seed {run.seed}",
             f"prompt {c.get('prompt_seconds', 0):.1f} s"]
    if c.get("cold"):
        words.append("<b>cold: first run after loading, do not quote its times</b>")
    if run.reused:
        words.append(f"baseline taken from run {run.reused}")
    if run.recorded:
        words.append(f"recorded{' on ' + html.escape(c['machine']) if c.get('machine') else ''}, not run here")
    return f"<p class='quiet conditions'>{' · '.join(words)}</p>"


def verdict(run: Run) -> str:
    """One or two sentences that say what this run showed."""
    a, b = run.baseline, run.method
    if not (a and b):
        side = a or b
        if not side:
            return "Stopped before anything was spoken."
        return f"{html.escape(side.title)} spoke {side.seconds:.1f} s at a real-time factor of {side.metrics['rtf']:.2f}."
    if a.stopped or b.stopped:
        return "Stopped. What was spoken so far can be heard and inspected."
    speed = a.metrics["lm_rtf"] / b.metrics["lm_rtf"] if b.metrics.get("lm_rtf") else 0
    memory = b.metrics["kv_bytes_peak"] / a.metrics["kv_bytes_peak"] if a.metrics.get("kv_bytes_peak") else 0
    how = f"{speed:.2f}× faster" if speed >= 1 else f"{1 / speed:.2f}× slower" if speed else "unmeasured"
    cold = " This was a cold run: press again before you quote it." if run.conditions.get("cold") else ""
    return (f"<b>{html.escape(b.title)}</b> decoded <b>{how}</b> than the baseline, per second of speech, and held "
            f"<b>{memory:.0%}</b> of its KV cache.{cold}")


def alignment_words(run: Run | None) -> str:
    """The scores of both maps as sentences a newcomer understands."""
    lines = []
    for name, side in run.sides() if run else []:
        m = side.metrics
        if side.attention is None:
            lines.append(f"<li class='{name}'><b>{html.escape(side.title)}</b>: attention was not captured.</li>")
            continue
        lines.append(
            f"<li class='{name}'><b>{html.escape(side.title)}</b>: reads forward in {m['monotonicity']:.0%} of steps, "
            f"reaches {m['coverage']:.0%} of the text, {m['diagonality']:.0%} of its attention lies near the diagonal.</li>")
    return f"<ul class='words'>{''.join(lines)}</ul>" if lines else ""


def own_plots(run: Run | None) -> dict[str, Any]:
    """Data for the plots that belong to a method, chosen by what the run contains, so that a new method gets them too:
    sizes of steps, acceptance over time, cache by part, and any list among its own statistics."""
    plots: list[dict[str, Any]] = []
    for name, side in run.sides() if run else []:
        if name == "baseline" or not side.steps:
            continue
        frame = side_payload_frame(side)
        counts = np.bincount([s["frames"] for s in side.steps])
        if np.count_nonzero(counts) > 1 or len(counts) > 2:
            shown = [i for i in range(len(counts)) if counts[i]]
            plots.append({"kind": "bars", "title": "Frames emitted by one pass", "x": [str(i) for i in shown],
                          "y": [int(counts[i]) for i in shown], "unit": "passes"})
        if any(s.get("proposed") for s in side.steps):
            plots.append(acceptance_plot(side, frame))
        parts = cache_parts(side, frame)
        if parts:
            plots.append(parts)
        for key, value in (side.metrics.get("method_stats") or {}).items():
            if isinstance(value, (list, tuple)) and value and all(isinstance(v, (int, float)) for v in value):
                plots.append({"kind": "bars", "title": key.replace("_", " ").capitalize(),
                              "x": [str(i + 1) for i in range(len(value))], "y": [float(v) for v in value], "unit": ""})
            elif isinstance(value, dict) and value and all(isinstance(v, (int, float)) for v in value.values()):
                plots.append({"kind": "bars", "title": key.replace("_", " ").capitalize(), "x": list(map(str, value)),
                              "y": [float(v) for v in value.values()], "unit": ""})
    return {"plots": plots}


def side_payload_frame(side: Side) -> float:
    frames = sum(s["frames"] for s in side.steps)
    return side.seconds / frames if frames else 0.02


def acceptance_plot(side: Side, frame: float, window: int = 8) -> dict[str, Any]:
    """Share of drafted tokens accepted, over the last ``window`` passes."""
    proposed = np.array([s.get("proposed", 0) for s in side.steps], dtype=float)
    accepted = np.array([s.get("accepted", 0) for s in side.steps], dtype=float)
    box = np.ones(window)
    share = np.convolve(accepted, box)[: len(box) * -1 + 1 or None] / np.maximum(
        np.convolve(proposed, box)[: len(box) * -1 + 1 or None], 1)
    seconds = np.cumsum([s["frames"] for s in side.steps]) * frame
    return {"kind": "line", "title": f"Drafted tokens accepted, last {window} passes", "y_label": "share", "max": 1,
            "series": [{"name": side.title, "points": thin(np.stack([seconds, share], 1)).round(3).tolist()}]}


def cache_parts(side: Side, frame: float) -> dict[str, Any] | None:
    """Bytes of each cache over audio time, when the trace lists them apart."""
    rows = [s.get("kv_parts") for s in side.steps]
    if not rows or not isinstance(rows[0], dict) or len(rows[0]) < 2:
        return None
    seconds = np.cumsum([s["frames"] for s in side.steps]) * frame
    series = [{"name": part, "points": thin(np.stack([seconds, [r.get(part, 0) for r in rows]], 1)).round(3).tolist()}
              for part in rows[-1]]
    return {"kind": "line", "title": "KV cache by part", "y_label": "bytes", "series": series}


def escape(text: str) -> str:
    return html.escape(text, quote=True)


def history_table(history: list[Run]) -> str:
    """One line a run, newest first."""
    if not history:
        return "<p class='quiet'>Runs you make appear here. They are kept for this visit only.</p>"
    rows = []
    for run in reversed(history):
        side = run.method or run.baseline
        if side is None:
            continue
        m, options = side.metrics, ", ".join(f"{k} {v}" for k, v in side.options.items())
        rows.append(f"<tr><td>{run.number}</td><td>{escape(side.title)}<small>{escape(options)}</small></td>"
                    f"<td>{escape(run.text[:60])}</td><td>{run.seed}</td><td>{m['rtf']:.3f}</td>"
                    f"<td>{size(m['kv_bytes_peak'])}</td><td>{side.seconds:.1f} s</td></tr>")
    head = "".join(f"<th scope='col'>{h}</th>" for h in ("Run", "Method", "Text", "Seed", "RTF", "KV peak", "Speech"))
    return f"<div class='scroll'><table class='results runs'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
