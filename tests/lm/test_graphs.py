"""The pooled, static-shape path that CUDA graphs capture, run as plain code, against the eager path."""

from __future__ import annotations

import copy
import gc

import pytest
import torch

from tts_demo.lm import Decoder, KVCache
from tts_demo.lm.graphs import BufferPool
from tts_demo.measure.launches import Launches, _Operators
from tts_demo.runtime import CUDAGraphed


def both(lm, device="cpu") -> tuple[Decoder, Decoder]:
    lm = copy.deepcopy(lm).to(device)
    eager, graphed = Decoder.from_model(lm), Decoder.from_model(lm)
    eager.pool, graphed.pool = None, BufferPool(enabled=device == "cuda")
    return eager, graphed


def drive(decoder: Decoder) -> list[torch.Tensor]:
    """Prefill, steps, a call of several tokens, rollback, an explicit mask, eviction: everything methods do."""
    torch.manual_seed(0)
    x = torch.randn(1, 40, 64).to(decoder.device)
    cache, out = decoder.new_cache(64), []
    with torch.inference_mode():
        out.append(decoder.forward(x[:, :20], cache, 0))
        out += [decoder.forward(x[:, i : i + 1], cache, i) for i in range(20, 23)]
        out.append(decoder.forward(x[:, 23:27], cache, 23))
        cache.rollback(2)
        out.append(decoder.forward(x[:, 30:32], cache, cache.next_position))
        keep = torch.ones(cache.length, dtype=torch.bool, device=decoder.device)
        keep[:4] = False
        mask = torch.cat([keep, keep.new_ones(1)])[None]
        out.append(decoder.forward(x[:, 33:34], cache, torch.tensor([27], device=decoder.device), mask))
        cache.rollback(1)
        cache.forget(4)
        out.append(decoder.forward(x[:, 33:34], cache, cache.next_position))
    return out


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))],
)
def test_graph_path_equals_eager_path(tiny_lm, device):
    eager, graphed = both(tiny_lm, device)
    expected = drive(eager)
    for run in range(2):  # the second run replays what the first captured, in the same memory
        for got, want in zip(drive(graphed), expected, strict=True):
            torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
        gc.collect()


def test_buffers_are_shared_in_turn_and_never_at_once(tiny_lm):
    _, graphed = both(tiny_lm)
    first, second = graphed.new_cache(100), graphed.new_cache(120)
    assert first.kv.data_ptr() != second.kv.data_ptr() and first.capacity == second.capacity == 256
    address = first.kv.data_ptr()
    with torch.inference_mode():
        graphed.forward(torch.randn(1, 3, 64), first, 0)
    del first
    gc.collect()
    third = graphed.new_cache(90)
    assert third.kv.data_ptr() == address and third.length == 0 and int(third.positions.max()) == -1


def test_a_nan_that_a_run_left_reaches_no_later_one(tiny_lm):
    """The static path reads masked slots too, and a weight of 0 times NaN is NaN."""
    eager, graphed = both(tiny_lm)
    expected = drive(eager)
    spoilt = graphed.new_cache(64)
    spoilt.kv.fill_(float("nan"))
    address = spoilt.kv.data_ptr()
    del spoilt
    gc.collect()
    again = graphed.new_cache(64)
    assert again.kv.data_ptr() == address
    del again
    for got, want in zip(drive(graphed), expected, strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_results_are_the_callers_and_the_graphs_of_a_buffer_are_bounded():
    pool, made = BufferPool(enabled=False, most=3), []
    cache = pool.lease(lambda kv: KVCache(1, 1, 1, 4, 2, kv=kv))

    def times(factor):
        def run(buffer, x, absent):
            made.append(factor)
            return x.mul_(factor), x[:1]

        return pool.run(cache, factor, run, torch.ones(2), None)

    first, second = times(2), times(3)
    assert [t.tolist() for t in (*first, *second)] == [[2, 2], [2], [3, 3], [3]]
    buffer = pool._leased[cache]
    for factor in (4, 2, 5):
        times(factor)
    assert [key for key, _ in buffer.graphs] == [4, 2, 5] and pool.keys == {2, 3, 4, 5}


def test_inputs_of_one_dtype_are_one_copy():
    graph, found = CUDAGraphed(lambda a, b, c, d: a + b + c, enabled=False), Launches()
    one, whole = torch.ones(2), torch.ones(2, dtype=torch.long)
    with _Operators(found):
        assert graph(one, 2 * one, whole, None).tolist() == [4, 4]
    assert found.operators["_foreach_copy_"] == 2
    with pytest.raises(ValueError, match="missing"):
        graph(one, one, None, None)


def test_a_graph_refuses_another_shape():
    double = CUDAGraphed(lambda x: 2 * x, enabled=False)
    assert double(torch.ones(2)).tolist() == [2, 2] and double(torch.zeros(2)).tolist() == [0, 0]
    with pytest.raises(ValueError, match="one shape"):
        double(torch.ones(3))
