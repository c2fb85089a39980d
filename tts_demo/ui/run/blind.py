"""Level matching for blind listening: a louder clip sounds better, so all play at one loudness.

Order, votes and the tally live in the visitor's browser (``static/blind.js``); only the gains are worked out here.
"""

import numpy as np

TARGET_DB = -26.0  # gated level every lane is brought to, dB below full scale; low enough that speech does not clip
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


def gain(audio: np.ndarray, sample_rate: int) -> float:
    """Linear gain that brings int16 [N] to the level of blind listening, less where it would clip; 1 for silence."""
    level = level_db(audio, sample_rate)
    if level <= -120:
        return 1.0
    peak = np.abs(audio.astype(np.int32)).max() / 32768
    return float(min(10 ** ((TARGET_DB - level) / 20), PEAK / peak))
