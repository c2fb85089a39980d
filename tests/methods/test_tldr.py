"""Patch-level decoding: lean modules equal the trained ones, patches stay apart, speech ends anywhere in a patch."""

from __future__ import annotations

import pytest
import torch

from conftest import TINY, base_of, finish, make_lm, make_prefix
from tts_demo.config import LMConfig, Sampling, UserError
from tts_demo.lm import sampling as sampling_module
from tts_demo.lm.graphs import BufferPool
from tts_demo.lm.lora import LoraFactors
from tts_demo.methods import METHODS, REGISTRY, find
from tts_demo.methods.baseline import Baseline
from tts_demo.methods.tldr import TLDR
from tts_demo.methods.tldr.modules import LARGEST, TLDRConfig, patch_position

ABLATIONS = {name: kind for name, kind in REGISTRY.items() if kind.variant_of == "tldr"}

GREEDY = Sampling(temperature=0)
WIDE = Sampling(2.0, 0, 1.0)
KINDS = (TLDR, *ABLATIONS.values())


def stirred(lm, kind=TLDR) -> TLDR:
    """The method with random weights everywhere a fresh adapter has zeros, so that every path counts."""
    torch.manual_seed(3)
    modules = kind.build_modules(lm)
    for name, weight in modules[kind.needs_weights[0]].named_parameters():
        weight.requires_grad_(False).add_(torch.randn_like(weight) * (0.02 if "lora" in name else 0.1))
    return kind(base_of(lm), modules)


@pytest.fixture(scope="module")
def method(tiny_lm) -> TLDR:
    return stirred(tiny_lm)


def start(method, prefix, size=4, sampling=GREEDY, seed=0, max_frames=24, forced=True):
    options = method.Options(patch_size=size)
    return method.prefill(prefix, options, sampling, torch.Generator().manual_seed(seed), max_frames, forced)


def embed(lm, tokens, size):
    return lm.embed_speech(tokens).view(1, -1, size, lm.config.hidden)


def test_registered_after_the_baseline_with_ablations_apart():
    assert list(METHODS)[:2] == ["baseline", "tldr"] and METHODS["tldr"] is TLDR
    assert not set(ABLATIONS) & set(METHODS) and find("tldr-no-lora") is ABLATIONS["tldr-no-lora"]
    with pytest.raises(UserError, match="tldr"):
        find("tldr-no-head")
    with pytest.raises(UserError, match="between 1 and 8"):
        TLDR.Options(patch_size=9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", (1, 3, 8))
def test_every_kind_and_size_finishes_at_the_forced_length(tiny_lm, tiny_prefix, kind, size):
    method = stirred(tiny_lm, kind)
    steps, codes = finish(method, state := start(method, tiny_prefix, size, WIDE, max_frames=19))
    assert len(codes) == 19 and 0 <= codes.min() and codes.max() < tiny_lm.config.speech_codes
    assert len(steps) == -(-19 // size) and all(len(step.marks) == len(step.frames) for step in steps)
    prompt = 5 // size  # patches the five prompt tokens fill
    assert state.caches["backbone"].length == len(tiny_prefix.x) + prompt + len(steps) - 1  # one slot a patch
    assert state.caches["extractor"].length == size and "extractor" in state.caches


@pytest.mark.parametrize("graphed", (False, True))
@pytest.mark.parametrize("size", (1, 2, 4, 8))
def test_lean_extractor_equals_the_trained_one(tiny_lm, method, size, graphed, monkeypatch):
    monkeypatch.setattr(method.extractor, "pool", BufferPool(enabled=False) if graphed else None)
    extractor, adapter = method.extractor, method.adapter
    g, speaker = torch.randn(1, TINY.hidden), torch.randn(TINY.speaker)
    tokens, seen = torch.randint(TINY.vocab, (size,)), []

    def draw(logits):
        seen.append(logits)
        return tokens[len(seen) - 1 : len(seen)]

    drawn = extractor.decode(g, extractor.speaker_term(speaker), size, extractor.new_cache(), draw)
    expected = adapter.extractor(g, speaker[None], tiny_lm.embed_speech(tokens)[None])[0]
    assert torch.equal(drawn, tokens[None])
    torch.testing.assert_close(torch.cat(seen), expected, atol=1e-4, rtol=1e-4)


def test_graph_blocks_are_used_again_but_never_shared(method, monkeypatch):
    monkeypatch.setattr(method.extractor, "pool", BufferPool(enabled=False))
    first, second = method.extractor.new_cache(), method.extractor.new_cache()
    address = first.kv.data_ptr()
    assert address != second.kv.data_ptr()
    del first
    assert method.extractor.new_cache().kv.data_ptr() == address


def test_half_precision_runs_and_halves_the_memory(tiny_lm):
    lm = make_lm().bfloat16()
    modules = {name: module.bfloat16() for name, module in TLDR.build_modules(lm).items()}
    method = TLDR(base_of(lm), modules)
    state = start(method, make_prefix(lm), 4)
    assert len(finish(method, state)[1]) == 24
    assert state.caches["extractor"].slot_bytes == 2 * 1 * TINY.hidden * 2  # K and V, one layer, two bytes


@pytest.mark.parametrize("size", (1, 3, 8))
def test_lean_compressor_equals_the_trained_one_past_its_window(tiny_lm, method, size):
    tokens = torch.randint(TINY.speech_codes, (size * 40,))
    cache = method.encoder.new_cache(2 * size)
    pieces = [method.encoder.encode(tokens[: 2 * size], size, cache)]
    for patch in tokens[2 * size :].view(-1, size):
        pieces.append(method.encoder.encode(patch, size, cache))
    expected = method.adapter.compressor(embed(tiny_lm, tokens, size))[0]
    torch.testing.assert_close(torch.cat(pieces), expected, atol=1e-4, rtol=1e-4)
    assert cache.length <= method.encoder.reach + size < len(tokens) or size == 1  # its memory does not grow
    assert cache.length <= 16 + method.encoder.SPARE + LARGEST


def test_cross_attention_keeps_patches_apart(method):
    compressor, states = method.adapter.compressor, torch.randn(1, 5, 4, TINY.hidden)
    pooled = torch.randn(1, 5, TINY.hidden)
    before = compressor.gather(pooled, states)
    states[0, 2] += 1.0
    changed = (compressor.gather(pooled, states) - before).abs().amax((0, 2))
    assert changed[2] > 1e-3 and changed[[0, 1, 3, 4]].max() == 0


def test_a_patch_cannot_see_later_tokens_nor_beyond_the_window(tiny_lm, method):
    tokens = torch.randint(TINY.speech_codes, (48,))
    before = method.adapter.compressor(embed(tiny_lm, tokens, 4))
    tokens[20] = (tokens[20] + 1) % TINY.speech_codes
    changed = (method.adapter.compressor(embed(tiny_lm, tokens, 4)) - before).abs().amax((0, 2))
    assert changed[:5].max() == 0 and changed[5] > 1e-3
    assert changed[9:].max() == 0  # tokens 36 and later are more than a window of 16 away


@pytest.mark.parametrize("size", (2, 5))
def test_replay_equals_stepwise_and_rows_are_patches(tiny_lm, tiny_prefix, method, size):
    state, stepwise = start(method, tiny_prefix, size, Sampling(1.0), max_frames=61), []
    while not state.done:
        method.step(state)
        stepwise.append(state.hidden[0])
    replay = method.replay(state)
    hidden, _ = method.decoder.full(replay.x[None], replay.positions, replay.mask)
    torch.testing.assert_close(hidden[0, replay.rows], torch.stack(stepwise), atol=1e-4, rtol=1e-4)
    logits = [method.adapter.extractor.head(h) for h in (hidden[0, replay.rows], torch.stack(stepwise))]
    torch.testing.assert_close(*logits, atol=1e-3, rtol=1e-4)
    assert len(replay.rows) == len(stepwise) == -(-61 // size) and sum(replay.frames_of) == 61
    assert replay.first_frame == tuple(range(0, 61, size)) and replay.frames_of[-1] == (61 - 1) % size + 1


@pytest.mark.parametrize("size", (1, 4))
@pytest.mark.parametrize("place", range(4))
def test_end_of_speech_at_every_place_of_a_patch(tiny_lm, tiny_prefix, method, monkeypatch, size, place):
    if place >= size:
        place = 0
    state, steps = start(method, tiny_prefix, size, forced=False, max_frames=40), []
    script = [7] * (2 * size + place) + [TINY.eos] + [9] * size
    monkeypatch.setattr(sampling_module, "sample", lambda *_: torch.tensor([script.pop(0)]))
    steps, codes = finish(method, state)
    assert codes[:, 0].tolist() == [7] * (2 * size + place)  # nothing behind the end is spoken
    assert len(steps) == 3 and len(steps[-1].frames) == len(steps[-1].marks) == place and state.done
    replay = method.replay(state)
    assert replay.frames_of == (size, size, place) and len(replay.rows) == 3


def test_end_of_speech_is_drawn_unless_forced(tiny_lm, tiny_prefix, method):
    lengths = [len(finish(method, start(method, tiny_prefix, 4, WIDE, seed, 60, False))[1]) for seed in range(12)]
    assert min(lengths) < 60 and len(set(lengths)) > 3
    assert any(length % 4 for length in lengths)


def test_prompt_is_patchified(tiny_lm, method):
    prefix = make_prefix(tiny_lm, prompt=14)
    state = start(method, prefix, 4)
    begin = len(prefix.x)
    assert state.caches["backbone"].length == begin + 3  # 14 tokens: three patches, the oldest two tokens left out
    positions = state.caches["backbone"].positions[begin : begin + 3]
    assert positions.tolist() == [begin + 3, begin + 7, begin + 11]  # each where its last token would stand
    tokens = prefix.prompt_codes[2:, 0]
    z = method.adapter.compressor(embed(tiny_lm, tokens, 4))[0]
    method.step(state)
    torch.testing.assert_close(method.replay(state).x[begin : begin + 3], z, atol=1e-4, rtol=1e-4)


def test_global_memory_shrinks_by_the_patch_size(tiny_lm, method):
    prefix = make_prefix(tiny_lm, prompt=0)
    run = lambda m, s: (finish(m, s), s.caches["backbone"])[1]
    base = run(
        method_base := Baseline(base_of(tiny_lm)),
        method_base.prefill(prefix, Baseline.Options(), GREEDY, torch.Generator(), 401, True),
    )
    patched = run(method, start(method, prefix, 4, max_frames=401))
    text = len(prefix.x) * base.slot_bytes
    assert patched.nbytes - text == pytest.approx(0.25 * (base.nbytes - text), rel=0.01)


def test_fresh_adapter_at_patch_one_is_the_baseline(tiny_prefix):
    """With embeddings of one size, RMSNorm of the mean of one token is that token's embedding."""
    lm = make_lm(seed=5)
    table = lm.speech_embedding.weight
    table.div_(table.square().mean(-1, keepdim=True).sqrt())
    method, prefix = TLDR(base_of(lm), TLDR.build_modules(lm)), make_prefix(lm)
    base = Baseline(base_of(lm))
    expected = finish(base, base.prefill(prefix, Baseline.Options(), GREEDY, torch.Generator(), 30, True))[1]
    spoken = finish(method, start(method, prefix, 1, max_frames=30))[1]
    assert len(expected.unique()) > 3 and torch.equal(spoken, expected)


def test_two_runs_interleaved_equal_two_runs_apart(tiny_lm, tiny_prefix, method):
    alone = [finish(method, start(method, tiny_prefix, size, WIDE, seed))[1] for size, seed in ((4, 1), (3, 2))]
    states = [start(method, tiny_prefix, size, WIDE, seed) for size, seed in ((4, 1), (3, 2))]
    mixed: list[list] = [[], []]
    while not all(state.done for state in states):
        for i, state in enumerate(states):
            if not state.done:
                mixed[i].append(method.step(state).frames)
    assert all(torch.equal(torch.cat(frames), codes) for frames, codes in zip(mixed, alone))


def test_the_voice_reaches_the_extractor_alone_and_only_when_asked(tiny_lm, tiny_prefix):
    for kind, heard in ((TLDR, True), (ABLATIONS["tldr-no-speaker"], False)):
        method = stirred(tiny_lm, kind)
        one, other = (method.extractor.speaker_term(torch.full((TINY.speaker,), v)) for v in (-1.0, 1.0))
        assert (not torch.equal(one, other)) == heard
    assert stirred(tiny_lm, ABLATIONS["tldr-no-lora"]).decoder is base_of(tiny_lm).decoder


def test_sizes_at_the_papers_backbone_are_the_papers():
    """136.2 M trainable parameters in all (section 4.1), counted without allocating them."""
    shape = LMConfig(
        text_vocab=1000,
        speech_codes=6561,
        extra_codes=3,
        hidden=896,
        layers=24,
        heads=14,
        kv_heads=2,
        ffn=4864,
        speaker=192,
    )
    with torch.device("meta"):
        from tts_demo.lm.model import LanguageModel

        lm = LanguageModel(shape)
        config = TLDRConfig.of(shape)
        factors = LoraFactors(lm.backbone, config.lora)
    with torch.device("meta"):
        from tts_demo.methods.tldr.modules import Compressor, Extractor

        parts = [factors, Compressor(config, shape, 1.0), Extractor(config, lm.head, 1.0)]
    count = sum(p.numel() for part in parts for p in part.parameters())
    assert config.layers == 4 and config.ffn == 3584 and config.rank == 64
    assert count == pytest.approx(136.2e6, rel=0.02)


def test_patch_positions_are_token_positions_at_patch_one():
    assert [patch_position(9, k + 1) for k in range(3)] == [9, 10, 11]
    assert [patch_position(9, 4 * (k + 1)) for k in range(3)] == [12, 16, 20]
