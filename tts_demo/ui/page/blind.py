"""Level matching for blind listening: a louder clip sounds better, so both play at one loudness.

Order, votes and the tally live in the visitor's browser (``static/blind.js``); only the gains are worked out here.
"""

from __future__ import annotations

import numpy as np

TARGET_DB = -23.0  # gated level both sides are brought to, dB below full scale
GATE_DB = -40.0  # frames this far under the loudest frame are pauses and do not count
PEAK = 0.98


def level_db(audio: np.ndarray, sample_rate: int) -> float:
    """Gated RMS level of int16 [N] in dB of full scale; -120 for silence."""
    frame = max(1, sample_rate // 50)
    x = audio.astype(np.float64) / 32768
    x = x[: len(x) // frame * frame].reshape(-1, frame)
    power = (x**2).mean(1) if len(x) else np.zeros(0)
    if not len(power) or power.max() < 1e-12:
        return -120.0
    loud = power[power >= power.max() * 10 ** (GATE_DB / 10)]
    return float(10 * np.log10(loud.mean()))


def matched_gains(first: np.ndarray, second: np.ndarray, sample_rate: int) -> tuple[float, float]:
    """Linear gains that bring both clips to one level without clipping either."""
    levels = [level_db(a, sample_rate) for a in (first, second)]
    target = TARGET_DB
    for audio, level in zip((first, second), levels):
        peak = np.abs(audio.astype(np.int32)).max(initial=0) / 32768
        if peak > 0 and level > -120:
            target = min(target, level + 20 * np.log10(PEAK / peak))
    gains = [10 ** ((target - level) / 20) if level > -120 else 1.0 for level in levels]
    return float(gains[0]), float(gains[1])
