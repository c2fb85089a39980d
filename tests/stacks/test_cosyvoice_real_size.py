"""The released sizes end to end with random weights: files on disk, a prompt in, a waveform of the right length out.

Minutes of a CPU core, 12 GB of disk and memory each: ``TTS_DEMO_REAL_SIZE=1 pytest -s
tests/stacks/test_cosyvoice_real_size.py``
"""

from __future__ import annotations

import os
import resource
import time

import numpy as np
import pytest
from cosyvoice_tiny import speech_like, write_model

from tts_demo import engine
from tts_demo.config import Request
from tts_demo.stacks import load_stack
from tts_demo.stacks.cosyvoice.configs import VERSION_2, VERSION_3
from tts_demo.stacks.cosyvoice.vocoder import SilenceFilter

pytestmark = pytest.mark.skipif(
    not os.environ.get("TTS_DEMO_REAL_SIZE"), reason="takes minutes: set TTS_DEMO_REAL_SIZE=1"
)


@pytest.mark.parametrize("config", [VERSION_2, VERSION_3], ids=["version 2", "version 3"])
def test_prompt_in_waveform_out(config, tmp_path):
    folder = write_model(tmp_path, config, released=True)
    marks = [time.perf_counter()]
    stack = load_stack(str(folder), "cpu", "float32")
    marks.append(time.perf_counter())
    prompt = stack.encode_prompt(speech_like(1.4, 24_000), 24_000, "The king sang.")
    done = engine.run(
        stack, Request("Then the thing began to sing.", prompt, forced_frames=25, sampling=stack.sampling)
    )
    marks.append(time.perf_counter())
    kept = SilenceFilter(stack.config.silent_tokens)(done.codes[:, 0].tolist())
    assert done.codes.shape == (25, 1) and len(done.audio) == 960 * len(kept) and np.isfinite(done.audio).all()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    s = done.snapshot
    print(
        f"\nversion {config.version}: loaded in {marks[1] - marks[0]:.1f} s; "
        f"1 s of speech in {marks[2] - marks[1]:.1f} s "
        f"(language model {s.lm_seconds:.1f}, flow and vocoder {s.vocoder_seconds:.1f}); "
        f"highest memory of the process {peak:.1f} GiB"
    )
