"""Runs turned into words: the table of results, one-sentence verdicts, alignment scores, the list of runs. HTML
strings."""

from __future__ import annotations

import html

from .session import Run


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
    ("wer", "Words misheard", "%", -1, "by Whisper tiny.en, which mishears people too: a hint only"),
    (
        "similarity",
        "Voice similarity",
        "x",
        1,
        "cosine with the prompt, by Resemblyzer, which conditioned nothing here",
    ),
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
        body.append(
            f"<tr><th scope='row'>{label}<small>{meaning}</small></th>{''.join(cells)}"
            f"<td>{change(values[0], values[1], better)}</td><td class='quiet'>{arrow}</td></tr>"
        )
    titles = [html.escape(side.title) if side else "–" for side in (a, b)]
    head = (
        "<tr><th scope='col'>Measure</th>"
        f"<th scope='col' class='base'>{titles[0]}</th>"
        f"<th scope='col' class='meth'>{titles[1]}</th><th scope='col'>Change</th><th scope='col'></th></tr>"
    )
    return f"<table class='results'><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{heard(run)}{conditions(run)}"


def heard(run: Run) -> str:
    """What a recogniser understood, once it was asked."""
    lines = [
        f"<li class='{name}'><b>{escape(s.title)}</b>: {escape(s.metrics['heard']) or 'nothing'}</li>"
        for name, s in run.sides()
        if "heard" in s.metrics
    ]
    if not lines:
        return ""
    return f"<p class='quiet conditions'>Whisper tiny.en understood:</p><ul class='words'>{''.join(lines)}</ul>"


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
    arrow, kind, verdict = "▲" if ratio > 1 else "▼", "good" if good else "bad", "better" if good else "worse"
    return f"<span class='{kind}'>{arrow} {word} {verdict}</span>"


def conditions(run: Run) -> str:
    c = run.conditions
    words = [
        f"{c.get('stack', '?')} stack",
        f"{escape(c.get('processor') or c.get('device', '?'))}, {c.get('dtype', '?')}",
        f"checkpoint {str(c.get('checkpoint_hash', '?'))[:10]}",
        f"seed {run.seed}",
        f"prompt {c.get('prompt_seconds', 0):.1f} s",
    ]
    if c.get("cold"):
        words.append("<b>cold: first run after loading, do not quote its times</b>")
    words += [escape(note) for note in c.get("notes", ())]
    words += [f"<b>{escape(f'{side.title}: {note}')}</b>" for _, side in run.sides() for note in side.notes]
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
        return (
            f"{html.escape(side.title)} spoke {side.seconds:.1f} s at a real-time factor of {side.metrics['rtf']:.2f}."
        )
    if a.stopped or b.stopped:
        return "Stopped. What was spoken so far can be heard and inspected."
    speed = a.metrics["lm_rtf"] / b.metrics["lm_rtf"] if b.metrics.get("lm_rtf") else 0
    memory = b.metrics["kv_bytes_peak"] / a.metrics["kv_bytes_peak"] if a.metrics.get("kv_bytes_peak") else 0
    how = f"{speed:.2f}× faster" if speed >= 1 else f"{1 / speed:.2f}× slower" if speed else "unmeasured"
    cold = " This was a cold run: press again before you quote it." if run.conditions.get("cold") else ""
    return (
        f"<b>{html.escape(b.title)}</b> decoded <b>{how}</b> than the baseline, per second of speech, and held "
        f"<b>{memory:.0%}</b> of its KV cache.{cold}"
    )


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
            f"reaches {m['coverage']:.0%} of the text, {m['diagonality']:.0%} of its attention lies near the diagonal.</li>"
        )
    return f"<ul class='words'>{''.join(lines)}</ul>" if lines else ""


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
        rows.append(
            f"<tr><td>{run.number}</td><td>{escape(side.title)}<small>{escape(options)}</small></td>"
            f"<td>{escape(run.text[:60])}</td><td>{run.seed}</td><td>{m['rtf']:.3f}</td>"
            f"<td>{size(m['kv_bytes_peak'])}</td><td>{side.seconds:.1f} s</td></tr>"
        )
    head = "".join(f"<th scope='col'>{h}</th>" for h in ("Run", "Method", "Text", "Seed", "RTF", "KV peak", "Speech"))
    return (
        f"<div class='scroll'><table class='results runs'><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
