"""No method ends speech before the shortest length its text can have, however soon the model would, nor speaks on
behind the longest, however long the model would."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from conftest import TinyStack, base_of, finish, make_prefix
from tts_demo import engine
from tts_demo.config import Request, Sampling
from tts_demo.methods import METHODS
from tts_demo.methods.batched import BatchedBaseline
from tts_demo.report import papers

ROWS = [row for row in papers.measured_rows() if row.method.name in METHODS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_a_method_speaks_at_least_the_shortest_length(tiny_lm, guided, row):
    """Hot sampling over 33 ids ends a tiny model's speech within a few dozen frames, often at once."""
    method = row.method(base_of(tiny_lm), row.method.build_modules(tiny_lm))
    prefix = dataclasses.replace(make_prefix(tiny_lm), shortest=41)
    for seed in range(3):
        state = method.prefill(prefix, row.options, Sampling(2.0, 0, 1.0), torch.Generator().manual_seed(seed), 60)
        assert 41 <= len(finish(method, state)[1]) <= 60


class Endless(TinyStack):
    """A model that never says it is through, and a cap of 20 frames and one more a letter."""

    def prefix(self, prompt, text):
        return dataclasses.replace(super().prefix(prompt, text), shortest=10_000, longest=20 + len(text))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_a_sentence_without_an_end_leaves_the_next_its_own_time(tiny_lm, guided, row):
    stack = Endless(tiny_lm)
    prompt = stack.encode_prompt(np.zeros(100, np.float32), stack.sample_rate)
    ask = Request("first one. second.", prompt, row.method.name, row.options, Sampling(2.0, 0, 1.0), seed=1)
    done = engine.run(stack, dataclasses.replace(ask, capture_attention=True))
    assert len(done.codes) == (20 + len("first one")) + (20 + len("second"))
    assert done.attention.labels == tuple("first onesecond") and not done.stopped and done.truncated
    assert [f"sentence {i} of 2: nobody needs more than" in note for i, note in enumerate(done.notes, 1)] == [True] * 2
    cut = engine.run(
        stack, dataclasses.replace(ask, max_seconds=0.7)
    )  # 35 frames: all of the first, the beginning of the second
    assert len(cut.codes) == 35 and "sentence 1 of 2: nobody" in cut.notes[0]
    assert "sentence 2 of 2: the length limit is 0.7 s" in cut.notes[1] and len(cut.notes) == 2
    forced = engine.run(stack, dataclasses.replace(ask, forced_frames=60))
    assert len(forced.codes) == 60 and forced.notes == () and not forced.truncated


def test_rows_of_a_batch_have_their_own_shortest_and_longest_length(tiny_lm):
    prefixes = [dataclasses.replace(make_prefix(tiny_lm, text=t), shortest=s) for t, s in ((4, 0), (7, 30), (9, 45))]
    rows, _ = BatchedBaseline(base_of(tiny_lm).decoder, Sampling(2.0, 0, 1.0), torch.Generator().manual_seed(0)).run(
        prefixes, 60
    )
    assert [len(r) >= p.shortest for r, p in zip(rows, prefixes)] == [True] * 3
    capped = [dataclasses.replace(p, shortest=60, longest=n) for p, n in zip(prefixes, (5, 30, None))]
    rows, _ = BatchedBaseline(base_of(tiny_lm).decoder, Sampling(2.0, 0, 1.0), torch.Generator().manual_seed(0)).run(
        capped, 60
    )
    assert [len(r) for r in rows] == [5, 30, 60]
