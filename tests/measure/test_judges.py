"""The judges: what one hears must not depend on what it heard before."""

from __future__ import annotations

import numpy as np
import pytest

from tts_demo import audio
from tts_demo.measure.judges import Judges, missing
from tts_demo.ui.page import voices

pytestmark = pytest.mark.skipif(
    "WER" in missing() or not voices.examples(), reason="needs PocketSphinx and the bundled voices"
)


def test_words_do_not_depend_on_the_order_of_runs() -> None:
    """Short and noisy pieces: on whole clean sentences the state that is carried seldom changes a word."""
    noise = 0.02 * np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    pieces = [audio.read(voice.path).samples[16_000:40_000] + noise for voice in voices.examples()[:5]]
    forth, back = Judges(), Judges()
    heard = [forth.transcribe(piece) for piece in pieces]
    assert heard == [back.transcribe(piece) for piece in reversed(pieces)][::-1] and any(heard)
