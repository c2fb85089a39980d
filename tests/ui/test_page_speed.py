"""A run through the page is as fast as the command line's: interleaved in one process, on the bundled weights.

A quiet machine and a minute: ``TTS_DEMO_SPEED=1 pytest -s tests/ui/test_page_speed.py``.
"""

from __future__ import annotations

import os
import statistics

import pytest
from gradio_client import Client, handle_file
from toy import served

from tts_demo import audio, engine
from tts_demo.config import Request
from tts_demo.stacks import load_stack
from tts_demo.ui.page import voices

pytestmark = pytest.mark.skipif(
    not os.environ.get("TTS_DEMO_SPEED"), reason="needs a quiet machine: set TTS_DEMO_SPEED=1"
)
TEXT, ROUNDS = "The old ship left the harbour before the sun came up.", 12


def test_the_page_is_as_fast_as_the_command_line(tmp_path):
    stack, voice = load_stack("nano", "cpu", "float32"), voices.examples()[0].path
    recording = audio.read(voice, target=stack.sample_rate)
    with served(stack, max_seconds=30) as (url, _):
        client = Client(url, verbose=False, download_files=str(tmp_path))
        ratios, codes = [], []
        for number in range(ROUNDS + 1):
            record = client.predict(
                text=TEXT,
                voice=handle_file(str(voice)),
                consent=True,
                method="baseline",
                seed=number,
                api_name="/synthesize",
            )[1]
            prompt = stack.encode_prompt(recording.samples, recording.rate)
            request = Request(TEXT, prompt, seed=number, sampling=stack.sampling, max_seconds=20)
            *_, done = engine.generate(stack, request)  # what ``say`` does
            if number:  # the first of each is cold
                ratios.append(record["rtf"] / done.snapshot.rtf)
                codes.append((record["frames"], len(done.codes)))
    print(
        f"\npage over command line, RTF: median {statistics.median(ratios):.3f} of {ROUNDS} pairs "
        f"({min(ratios):.3f} to {max(ratios):.3f})"
    )
    assert all(a == b for a, b in codes) and 0.95 < statistics.median(ratios) < 1.05
