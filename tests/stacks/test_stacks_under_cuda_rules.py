"""Whole stacks under CUDA's rules (tests/cuda_double.py): codec, refiner and speaker encoder of the bundled one, flow
and vocoder of both released versions."""

from __future__ import annotations

import cuda_double
import numpy as np
import pytest
import torch
from cosyvoice_tiny import speech_like, tiny, write_model
from nano_tiny import make_checkpoint

from conftest import real_voice
from tts_demo import engine
from tts_demo.config import Request
from tts_demo.lm import graphs
from tts_demo.measure import launches
from tts_demo.runtime import launches_inside
from tts_demo.stacks import load_stack


@pytest.fixture(params=["plain", "static"])
def rules(request, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_double.obey(monkeypatch)
    if request.param == "static":
        monkeypatch.setattr(graphs, "available", lambda device: True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("books", [1, 4])
def test_nano(tmp_path, rules, dtype, books):
    """One codebook through the refiner, several through the refiner of books; and a voice's prompt."""
    stack = load_stack(str(make_checkpoint(tmp_path)), "cpu", dtype)
    prompt = stack.encode_prompt(real_voice(), 16_000)
    vocoder = stack.vocoder(prompt, books)
    wave = np.concatenate([vocoder.push(torch.randint(32, (30, books))), vocoder.finish()])
    assert len(wave) == 30 * 320 and np.isfinite(wave).all()
    done = engine.run(stack, Request("Hello.", prompt, forced_frames=12))
    assert len(done.codes) == 12


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("version", [2, 3])
def test_cosyvoice(tmp_path, rules, version, dtype, live):
    stack = load_stack(str(write_model(tmp_path, tiny(version))), "cpu", dtype)
    prompt = stack.encode_prompt(speech_like(1.4, 24_000), 24_000, "The king sang.")
    vocoder = stack.vocoder(prompt, 1, live)
    codes = torch.randint(6561, (37, 1), generator=torch.Generator().manual_seed(0))
    codes = codes[~torch.isin(codes[:, 0], torch.tensor(stack.config.silent_tokens or (-1,)))]
    found = launches.Launches()
    with launches_inside(found.launch), launches._Waits(found):
        wave = np.concatenate([vocoder.push(codes), vocoder.finish()])
    assert not found.refused and (found.graphs > 0) == (stack.decoder.pool is not None), "CUDA could capture them"
    assert len(wave) == len(codes) * 2 * stack.config.hift.frame and np.isfinite(wave).all()
    done = engine.run(stack, Request("The king sang again.", prompt, forced_frames=12))
    assert len(done.codes) == 12
