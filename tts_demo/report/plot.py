"""Word errors against speed as one static SVG: a point a setting, and the line of those that none beats in both."""

from __future__ import annotations

import math
from html import escape

from ..measure.summary import Point

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 62, 170, 24, 50
COLOURS = ("#222222 #1f77b4 #d95f02 #2a9d4b #8e44ad #c2185b #7f7f7f #b8860b #00a3a3 #8c564b #5f6fd6 #a0b000").split()


def front(found: list[Point]) -> list[Point]:
    """Those that no other point beats in both, fastest first."""
    best: list[Point] = []
    for point in sorted(found, key=lambda p: (p.time, p.errors)):
        if not best or point.errors < best[-1].errors:
            best.append(point)
    return best


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Round numbers between ``low`` and ``high``."""
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first = math.ceil(low / step)
    return [round(i * step, 9) for i in range(first, math.floor(high / step) + 1)]


def draw(found: list[Point]) -> str:
    """SVG on a white ground, readable on dark pages too."""
    methods = list(dict.fromkeys(p.method for p in found))
    colour = {method: COLOURS[i % len(COLOURS)] for i, method in enumerate(methods)}
    x_end, y_end = 1.08 * max(p.time for p in found), 1.08 * max(max(p.errors for p in found), 1.0)
    x = lambda value: LEFT + value / x_end * (WIDTH - LEFT - RIGHT)
    y = lambda value: HEIGHT - BOTTOM - value / y_end * (HEIGHT - TOP - BOTTOM)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        "<title>Word errors against the time of the language model</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for value in ticks(0, x_end):
        parts += [_line(x(value), y(0), x(value), TOP, "#e4e4e4"), _text(x(value), y(0) + 16, f"{value:g}", "middle")]
    for value in ticks(0, y_end):
        parts += [
            _line(LEFT, y(value), WIDTH - RIGHT, y(value), "#e4e4e4"),
            _text(LEFT - 6, y(value) + 4, f"{value:g}", "end"),
        ]
    parts += [
        _text(
            (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 12,
            "time of the language model over the baseline's, lower is faster",
            "middle",
        ),
        f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle" '
        'fill="#222">WER %, lower is better</text>',
    ]
    best = front(found)
    path = " ".join(f"{x(p.time):.1f},{y(p.errors):.1f}" for p in best)
    parts.append(f'<polyline points="{path}" fill="none" stroke="#999" stroke-dasharray="4 3"/>')
    for p in found:
        parts.append(
            f'<circle cx="{x(p.time):.1f}" cy="{y(p.errors):.1f}" r="5" fill="{colour[p.method]}" fill-opacity="0.8">'
            f"<title>{escape(p.label)}: {p.time:.2f} of the baseline's time, WER {p.errors:.1f} %</title></circle>"
        )
    for p in best:
        parts.append(_text(x(p.time) - 4, y(p.errors) + 18, p.label.partition(" ")[2] or p.label, "start"))
    for i, method in enumerate(methods):
        parts += [
            f'<circle cx="{WIDTH - RIGHT + 16}" cy="{TOP + 10 + 20 * i}" r="5" fill="{colour[method]}"/>',
            _text(WIDTH - RIGHT + 28, TOP + 14 + 20 * i, method, "start"),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222">{escape(words)}</text>'
