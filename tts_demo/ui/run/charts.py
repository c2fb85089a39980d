"""The page's charts as plotly layouts: axes, titles and what hovering says. The browser puts in the results that stand
on its board, which the server may not have any more, and draws with the plotly.js that comes with the package."""

from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go

from ...measure import summary
from ...measure.rows import BASELINE
from ...methods import METHODS, colour
from . import words

SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def layout(title: str, under: str, x: str, y: str, **more: Any) -> go.Layout:
    """A chart of one kind for all: its own title and subtitle are in the picture that a visitor saves."""
    return go.Layout(
        title={"text": title, "subtitle": {"text": under}, "x": 0, "xanchor": "left", "font": {"size": 14}},
        xaxis={"title": {"text": x}, "rangemode": "tozero", "zeroline": False, "automargin": True},
        yaxis={"title": {"text": y}, "rangemode": "tozero", "zeroline": False, "automargin": True},
        hovermode="x unified",
        legend={"orientation": "h", "y": -0.26, "yanchor": "top", "x": 0},
        margin={"l": 56, "r": 96, "t": 62, "b": 46},
        height=320,
        uirevision="kept",
    ).update(more)


def charts() -> dict[str, dict[str, Any]]:
    """Name -> layout of every chart over the results of the board."""
    seconds = "seconds of audio"
    found = {
        "kv": layout("KV cache", "live keys and values; lower is better", seconds, "MB"),
        "rtf": layout(
            "Real-time factor so far",
            "first round; cards have the median of all; lower is better, below 1 keeps up",
            seconds,
            "RTF",
        ),
        "bars": layout("", "", "", "passes", hovermode="closest", bargap=0.25, barmode="group"),
        "line": layout("", "", seconds, "share", yaxis_tickformat=".0%", yaxis_range=[0, 1.05]),
    }
    return {name: made.to_plotly_json() for name, made in found.items()}


def heads(method: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Which head predicts a token best (``measure.heads.table``). traces: [name, shares at which each head is the best
    of all, at which its likeliest token is right, its mean cross-entropy], of all tokens first."""
    first = next(iter(found.values()))
    made = layout(
        f"{METHODS[method].title}: which head predicts a token best",
        f"by cross-entropy, of {first['tokens']:,} tokens of natural recordings",
        "tokens ahead; 1 is the model's own head",
        "share of the tokens",
        hovermode="closest",
        showlegend=True,
        yaxis_tickformat=".0%",
        height=400,
        margin_r=24,
    ).to_plotly_json()
    traces = [[kind, f["best"], f["right"], f["loss"]] for kind, f in found.items()]
    return {"layout": made, "traces": traces, "colour": colour(method), "ahead": list(range(1, len(first["best"]) + 1))}


def tradeoff(measured: list[summary.Point]) -> dict[str, Any] | None:
    """Word errors against speed of every setting that was measured with the bundled weights. points: [time, errors,
    name in the words of the results, whether it is the baseline, colour, whether these are the method's defaults]."""
    if len(measured) < 2:
        return None
    points = [
        [
            p.time,
            p.errors / 100,
            ", ".join(filter(None, (METHODS[p.method].title, words.dials(p.method, summary.dials(p.label))))),
            p.method == BASELINE.name,
            colour(p.method),
            not summary.dials(p.label),
        ]
        for p in measured
    ]
    made = layout(
        "Speed against word errors",
        f"lower left is better; time of the language model, {max(p.texts for p in measured)} texts at most",
        "time over the baseline's",
        "words misheard",
        hovermode="closest",
        showlegend=False,
        yaxis_tickformat=".0%",
        height=420,
        margin_r=24,
    )
    return {"layout": made.to_plotly_json(), "points": points}
