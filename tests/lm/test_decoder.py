"""The lean decoder against the Hugging Face forward, with and without a cache."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conftest import TINY, base_of, make_lm, make_prefix
from tts_demo.lm import Decoder, LanguageModel, LoraSpec
from tts_demo.lm.backend import Backend
from tts_demo.lm.linear import Projection
from tts_demo.lm.lora import attach, detach
from tts_demo.lm.masks import causal_mask, prefix_mask


@pytest.fixture(scope="module")
def sequence(tiny_lm):
    torch.manual_seed(3)
    x = torch.randn(1, 21, tiny_lm.config.hidden)
    mask = prefix_mask(9, 21, True)
    with torch.no_grad():
        return x, mask, tiny_lm(x, torch.arange(21)[None], mask[None])


def test_prefix_mask_is_two_way_in_the_prefix_and_causal_after():
    mask = prefix_mask(3, 5, True)
    assert mask[0].tolist() == [True, True, True, False, False]
    assert mask[3].tolist() == [True, True, True, True, False]
    assert torch.equal(prefix_mask(3, 5, False), causal_mask(5, 5))


def test_prefix_spans_the_text(tiny_lm):
    prefix = make_prefix(tiny_lm, text=4)
    assert prefix.x.shape == (1 + 1 + 4 + 1, 64) and prefix.text == slice(2, 6)
    assert torch.equal(prefix.x[1], tiny_lm.markers.weight[0]) and torch.equal(prefix.x[-1], tiny_lm.markers.weight[1])


def test_full_equals_hugging_face(tiny_lm, sequence):
    x, mask, expected = sequence
    hidden, _ = base_of(tiny_lm).decoder.full(x, torch.arange(21), mask)
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)


def in_passes(decoder, x, mask, ends, cache=None):
    """Hidden states of x in passes that end there: the first under ``mask``, the others causal."""
    cache = cache or decoder.new_cache(32)
    spans = zip([0, *ends], ends)
    return torch.cat([decoder.forward(x[:, a:b], cache, a, None if a else mask[:b, :b]) for a, b in spans], 1)


def test_cached_equals_hugging_face(tiny_lm, sequence):
    """Prefill, a call of several tokens, then single steps."""
    x, mask, expected = sequence
    decoder, cache = base_of(tiny_lm).decoder, base_of(tiny_lm).decoder.new_cache(32)
    found = in_passes(decoder, x, mask, [12, *range(17, 22)], cache)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert cache.length == 21 and cache.positions[:21].tolist() == list(range(21))


def test_chunks_see_their_past_as_far_as_the_cache_grows(tiny_lm, sequence):
    """The causal bias of a few new tokens is kept, and made anew where a run outgrows it; after a longer one it is cut
    down."""
    x, mask, expected = sequence
    decoder = Decoder.from_model(tiny_lm)
    decoder.forward(x[:, :3], decoder.new_cache(32), 0)  # as narrow as it can be
    for prefill in (9, 15, 9):
        found = in_passes(decoder, x, mask, range(prefill, 22, 3))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_heads_that_share_one_key_take_chunks_too(sequence):
    x, mask, _ = sequence
    lm = make_lm(replace(TINY, kv_heads=1))
    decoder, cache = base_of(lm).decoder, base_of(lm).decoder.new_cache(32)
    expected = lm(x, torch.arange(21)[None], mask[None])
    found = in_passes(decoder, x, mask, [9, 10, 14, 18], cache)
    torch.testing.assert_close(found, expected[:, :18], atol=1e-5, rtol=1e-5)
    last = decoder.forward(x[:, 18:], cache, 18, last=True)
    torch.testing.assert_close(last, expected[:, 20:], atol=1e-5, rtol=1e-5)


def test_rollback_then_restep(tiny_lm, sequence):
    x, mask, expected = sequence
    cache = base_of(tiny_lm).decoder.new_cache(32)
    base_of(tiny_lm).decoder.forward(x[:, :16], cache, 0, mask[:16, :16])
    base_of(tiny_lm).decoder.forward(torch.randn(1, 4, 64), cache, 16)
    cache.rollback(4)
    again = base_of(tiny_lm).decoder.forward(x[:, 16:17], cache, cache.next_position)
    torch.testing.assert_close(again, expected[:, 16:17], atol=1e-5, rtol=1e-5)


def test_logical_positions_survive_eviction(tiny_lm, sequence):
    """Evicting slots equals hiding them by mask, because positions stay logical."""
    x, mask, _ = sequence
    cache = base_of(tiny_lm).decoder.new_cache(32)
    base_of(tiny_lm).decoder.forward(x[:, :20], cache, 0, mask[:20, :20])
    kept = torch.ones(20, dtype=torch.bool)
    kept[:5] = False
    hidden_by_mask = base_of(tiny_lm).decoder.forward(
        x[:, 20:], cache, 20, torch.cat([kept, torch.ones(1, dtype=torch.bool)])[None]
    )
    cache.rollback(1)
    cache.forget(5)
    evicted = base_of(tiny_lm).decoder.forward(x[:, 20:], cache, cache.next_position)
    torch.testing.assert_close(evicted, hidden_by_mask, atol=1e-5, rtol=1e-5)


def test_batched_rows_of_unequal_length(tiny_lm, sequence):
    """A left-padded row with its own positions and mask gives what it gives alone."""
    x, mask, expected = sequence
    cache = base_of(tiny_lm).decoder.new_cache(32, batch=2)
    padded = torch.stack([x[0], torch.cat([torch.randn(4, 64), x[0, :17]])])
    positions = torch.stack([torch.arange(21), (torch.arange(21) - 4).clamp(min=0)])
    row = torch.eye(21, dtype=torch.bool)
    row[4:, 4:] = mask[:17, :17]
    hidden = base_of(tiny_lm).decoder.forward(padded, cache, positions, torch.stack([mask, row]))
    torch.testing.assert_close(hidden[0], expected[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(hidden[1, 4:], expected[0, :17], atol=1e-5, rtol=1e-5)


def test_the_last_row_alone_is_the_last_of_all_rows(tiny_lm, sequence):
    """With a mask or causal, one row or several, one sequence or two, in a block that is also the first; the cache is
    the same."""
    x, mask, _ = sequence
    for decoder in (base_of(tiny_lm).decoder, base_of(LanguageModel(replace(tiny_lm.config, layers=1))).decoder):
        for batch in (1, 2):
            whole, last = decoder.new_cache(32, batch), decoder.new_cache(32, batch)
            both, more = torch.cat([x, x.flip(1)])[:batch], mask[:12, :12]
            for span, seen in ((slice(0, 12), more), (slice(12, 17), None), (slice(17, 18), None)):
                ours = decoder.forward(both[:, span], last, last.next_position, seen, last=True)
                torch.testing.assert_close(
                    ours, decoder.forward(both[:, span], whole, whole.next_position, seen)[:, -1:]
                )
            torch.testing.assert_close(last.kv, whole.kv)


def test_what_needs_no_fusing_shares_memory(tiny_lm):
    decoder = Decoder.from_model(tiny_lm)
    assert decoder.embedding.data_ptr() == tiny_lm.speech_embedding.weight.data_ptr()
    assert decoder.head.data_ptr() == tiny_lm.head.weight.data_ptr()


def test_merged_lora_equals_peft(tiny_lm, sequence):
    x, mask, expected = sequence
    lm = copy.deepcopy(tiny_lm)
    spec = LoraSpec(rank=4, alpha=8)
    factors = attach(lm.backbone, spec)
    with torch.no_grad():
        for b in factors.b.values():
            b.normal_(std=0.2)
        unmerged = lm(x, torch.arange(21)[None], mask[None])
    assert (unmerged - expected).abs().max() > 0.05  # it does something
    merged, _ = Decoder.from_model(lm, factors).full(x, torch.arange(21), mask)
    torch.testing.assert_close(merged, unmerged, atol=2e-5, rtol=1e-5)
    detach(lm.backbone)
    with torch.no_grad():
        torch.testing.assert_close(lm(x, torch.arange(21)[None], mask[None]), expected, atol=0, rtol=0)


def test_training_reaches_the_factors_only(tiny_lm, sequence):
    x, mask, _ = sequence
    lm = copy.deepcopy(tiny_lm)
    factors = attach(lm.backbone, LoraSpec(rank=2, alpha=2, targets=("q_proj", "down_proj")))
    lm(x, torch.arange(21)[None], mask[None]).square().sum().backward()
    assert all(b.grad is not None and b.grad.abs().sum() > 0 for b in factors.b.values())
    assert all(p.grad is None for n, p in lm.backbone.named_parameters() if "lora_" not in n)


def test_static_step_equals_eager_step(tiny_lm, sequence):
    """The path a CUDA graph captures, run as plain code: whole buffers, slots and positions as tensors."""
    x, mask, expected = sequence
    decoder, cache = base_of(tiny_lm).decoder, base_of(tiny_lm).decoder.new_cache(32)
    decoder.forward(x[:, :15], cache, 0, mask[:15, :15])
    place = torch.arange(15, 19)
    hidden = decoder.forward_static(x[:, 15:19], cache.kv, place, place)
    torch.testing.assert_close(hidden, expected[:, 15:19], atol=1e-5, rtol=1e-5)
    cache.claim(place)
    for i in range(19, 21):
        place = torch.tensor([i])
        hidden = decoder.forward_static(x[:, i : i + 1], cache.kv, place, place)
        cache.claim(place)
        torch.testing.assert_close(hidden, expected[:, i : i + 1], atol=1e-5, rtol=1e-5)


def test_bf16_stays_close(tiny_lm, sequence):
    x, mask, expected = sequence
    decoder = Decoder.from_model(tiny_lm, backend=Backend(tiny_lm.device, torch.bfloat16))
    found = in_passes(decoder, x.bfloat16(), mask, range(12, 22))
    error = (found.float() - expected).norm() / expected.norm()
    assert error < 0.05 and decoder.logits(found[:, -1:]).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3])
def test_projection_layouts_agree_with_linear(dtype, rows):
    torch.manual_seed(0)
    weight, bias, x, residual = (torch.randn(s).to(dtype) for s in ((24, 16), (24,), (rows, 16), (rows, 24)))
    tolerance = dict(atol=1e-5, rtol=1e-5) if dtype == torch.float32 else dict(atol=0.06, rtol=0.02)
    with torch.inference_mode():
        torch.testing.assert_close(
            Projection(weight, bias)(x), torch.nn.functional.linear(x, weight, bias), **tolerance
        )
        torch.testing.assert_close(Projection(weight)(x, residual), x @ weight.t() + residual, **tolerance)


def test_a_step_launches_few_operators_a_layer():
    """Counted without views, by the difference that one layer makes."""

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            counts[-1] += not function.is_view
            return function(*args, **(kwargs or {}))

    counts = []
    for layers in (1, 2):
        decoder = base_of(make_lm(replace(TINY, layers=layers))).decoder
        cache = decoder.new_cache(16)
        for position in range(3):
            counts.append(0)
            with Counter():
                decoder.forward(torch.randn(1, 1, TINY.hidden), cache, position)
    assert counts[5] - counts[2] <= 17
