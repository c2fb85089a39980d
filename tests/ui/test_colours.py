"""The colours of the methods: legible in both themes, told apart by colour-blind eyes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from tts_demo.methods import COLOURS, METHODS, colour
from tts_demo.ui.run import charts

SHEET = (Path(charts.__file__).parents[1] / "static" / "style.css").read_text(encoding="utf-8")
CARDS = re.findall(r"--card: (#\w+);", SHEET)
THEMES = [re.findall(r"--lane-\d: (#\w+);", SHEET)[i : i + len(COLOURS)] for i in (0, len(COLOURS))]
EYES = {  # linear RGB as it is seen: Machado, Oliveira and Fernandes 2009, severity 1
    "all cones": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9690]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def linear(*colours: str) -> np.ndarray:
    """'#rrggbb' as linear RGB [N, 3]."""
    values = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in map(full, colours)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def full(colour: str) -> str:
    return colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB [N, 3], D65."""
    xyz = np.clip(rgb, 0, 1) @ TO_XYZ.T / (0.9505, 1.0, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)


@pytest.mark.parametrize("colours, card", list(zip(THEMES, CARDS, strict=True)), ids=("light", "dark"))
def test_colours_are_legible_and_told_apart_by_colour_blind_eyes(colours, card):
    light = linear(*colours, card) @ TO_XYZ[1]
    assert min((max(c, light[-1]) + 0.05) / (min(c, light[-1]) + 0.05) for c in light[:-1]) >= 4.5  # text, WCAG AA
    for eyes, seen in EYES.items():
        places = lab(linear(*colours) @ np.transpose(seen))
        pairs = itertools.combinations(enumerate(places), 2)
        apart = {(i, j): np.linalg.norm(a - b) for (i, a), (j, b) in pairs}
        assert min(apart.values()) > 10, (eyes, min(apart, key=apart.get))


def test_every_method_has_a_colour_of_its_own():
    colours = [colour(name) for name in METHODS]
    assert colours[0] == 0 and len(set(colours)) == len(METHODS) <= len(COLOURS)
    assert THEMES[0] == COLOURS  # the README's plot has the page's
    assert colour("gone") < len(COLOURS)
