"""No method ends speech before the shortest length its text can have, however soon the model would."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conftest import make_prefix
from tts_demo.config import Sampling
from tts_demo.methods import METHODS
from tts_demo.methods.batched import BatchedBaseline

ROWS = [(name, options) for name, method in METHODS.items() for options in (method.bench_options or ({},))]


@pytest.mark.parametrize(
    "name, options", ROWS, ids=lambda v: v if isinstance(v, str) else ",".join(f"{k}={x}" for k, x in v.items())
)
def test_a_method_speaks_at_least_the_shortest_length(tiny_lm, guided, name, options):
    """Hot sampling over 33 ids ends a tiny model's speech within a few dozen frames, often at once."""
    method = METHODS[name](tiny_lm, METHODS[name].build_modules(tiny_lm))
    prefix = dataclasses.replace(make_prefix(tiny_lm), shortest=41)
    for seed in range(3):
        state = method.prefill(
            prefix, method.Options(**options), Sampling(2.0, 0, 1.0), torch.Generator().manual_seed(seed), 60
        )
        frames, done = 0, False
        while not done:
            step = method.step(state)
            frames, done = frames + len(step.frames), step.done
        assert 41 <= frames <= 60


def test_rows_of_a_batch_have_their_own_shortest_length(tiny_lm):
    prefixes = [dataclasses.replace(make_prefix(tiny_lm, text=t), shortest=s) for t, s in ((4, 0), (7, 30), (9, 45))]
    rows, _ = BatchedBaseline(tiny_lm.decoder, Sampling(2.0, 0, 1.0), torch.Generator().manual_seed(0)).run(
        prefixes, 60
    )
    assert [len(r) >= p.shortest for r, p in zip(rows, prefixes)] == [True] * 3
