"""Several requests in one step say what each says alone."""

from __future__ import annotations

import pytest
import torch

from conftest import base_of, finish, make_prefix
from tts_demo.config import Sampling
from tts_demo.methods.baseline import Baseline
from tts_demo.methods.batched import BatchedBaseline, BatchedChunks, BatchedPatches
from tts_demo.methods.dcar import Dcar
from tts_demo.methods.tldr.method import TLDR, MeanPooled, MultiToken, Parallel, WithoutSpeaker

GREEDY = Sampling(temperature=0)


def alone(lm, prefix, frames: int) -> list[int]:
    method = Baseline(base_of(lm))
    state = method.prefill(prefix, Baseline.Options(), GREEDY, torch.Generator(), frames)
    return finish(method, state)[1][:, 0].tolist()


def test_batch_equals_single_runs_under_greedy(tiny_lm):
    prefixes = [make_prefix(tiny_lm, text=t, prompt=p, seed=t) for t, p in ((4, 3), (11, 0), (7, 9), (5, 5))]
    single = [alone(tiny_lm, p, 24) for p in prefixes]
    rows, batch = BatchedBaseline(base_of(tiny_lm).decoder, GREEDY, torch.Generator()).run(prefixes, 24)
    assert [row.tolist() for row in rows] == single and len({tuple(s) for s in single}) == 4


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_batch_of_chunks_is_each_row_alone(tiny_lm, size):
    """Rows of unequal prefixes, one of which is cut within a chunk."""
    torch.manual_seed(4)
    modules = Dcar.build_modules(tiny_lm)
    for weight in modules["dcar-heads"].parameters():
        weight.requires_grad_(False).add_(torch.randn_like(weight) * 0.05)
    method = Dcar(base_of(tiny_lm), modules)
    prefixes = [make_prefix(tiny_lm, text=t, prompt=p, seed=t) for t, p in ((4, 3), (11, 0), (7, 9))]
    single = []
    for prefix in prefixes:
        state = method.prefill(prefix, Dcar.Options(str(size)), GREEDY, torch.Generator(), 25)
        single.append(finish(method, state)[1][:, 0].tolist())
    batched = BatchedChunks(method.decoder, method.heads, size, GREEDY, torch.Generator())
    rows, batch = batched.run(prefixes, 25)
    assert [row.tolist() for row in rows] == single and len({tuple(s) for s in single}) == 3
    assert batch.cache.length <= batch.cache.capacity and max(map(len, rows)) == 25


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize(
    ("kind", "forced"),
    [(TLDR, False), (TLDR, True), (MeanPooled, True), (WithoutSpeaker, True), (Parallel, True), (MultiToken, True)],
)
def test_a_batch_of_patches_is_each_row_alone(tiny_lm, kind, forced, size):
    """Rows of unequal texts and prompts: none, shorter than the compressor's window, longer; cut within a patch, and
    long enough for the compressor to forget."""
    torch.manual_seed(5)
    modules = kind.build_modules(tiny_lm)
    for weight in modules[kind.needs_weights[0]].parameters():
        weight.requires_grad_(False).add_(torch.randn_like(weight) * 0.05)
    method = kind(base_of(tiny_lm), modules)
    prefixes = [make_prefix(tiny_lm, text=t, prompt=p, seed=t) for t, p in ((4, 5), (11, 0), (7, 29), (5, 18))]
    lengths = [90, 83, 90, 61]
    single = []
    for prefix, length in zip(prefixes, lengths):
        state = method.prefill(prefix, kind.Options(size), GREEDY, torch.Generator(), length, forced)
        single.append(finish(method, state)[1][:, 0].tolist())
    rows, batch = BatchedPatches(method, size, GREEDY, torch.Generator(), forced).run(prefixes, lengths)
    assert [row.tolist() for row in rows] == single and len({tuple(s) for s in single}) == 4
    assert batch.cache.length <= batch.cache.capacity and (not forced or [*map(len, rows)] == lengths)


def test_rows_end_by_themselves_and_bytes_leave_padding_out(tiny_lm):
    prefixes = [make_prefix(tiny_lm, text=t, prompt=2, seed=t) for t in (4, 10)]
    lively = Sampling(2.0, 0, 1.0)
    rows, batch = BatchedBaseline(base_of(tiny_lm).decoder, lively, torch.Generator().manual_seed(3)).run(prefixes, 400)
    assert len(rows[0]) != len(rows[1]) and not batch.alive.any()  # each of 33 ids is likely: 400 tokens do not pass
    slots = sum(len(p.x) + 2 for p in prefixes) + 2 * (batch.frames - 1)
    assert batch.nbytes == slots * base_of(tiny_lm).decoder.new_cache(1).slot_bytes


def test_forced_length(tiny_lm):
    prefixes = [make_prefix(tiny_lm, seed=s) for s in (1, 2)]
    decoder = BatchedBaseline(
        base_of(tiny_lm).decoder, Sampling(2.0, 0, 1.0), torch.Generator().manual_seed(0), forced=True
    )
    rows, _ = decoder.run(prefixes, 50)
    assert [len(row) for row in rows] == [50, 50]
