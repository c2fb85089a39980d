"""The baseline: exact against a naive loop, seeded, replayable."""

from __future__ import annotations

import torch

from conftest import base_of
from tts_demo.config import Sampling
from tts_demo.lm.masks import prefix_mask
from tts_demo.methods import METHODS
from tts_demo.methods.baseline import Baseline

GREEDY = Sampling(temperature=0)


def decode(lm, prefix, sampling=GREEDY, seed=0, max_frames=24, forced=False):
    method = Baseline(base_of(lm))
    state = method.prefill(
        prefix, Baseline.Options(), sampling, torch.Generator().manual_seed(seed), max_frames, forced
    )
    steps = [method.step(state)]
    while not steps[-1].done:
        steps.append(method.step(state))
    return method, state, torch.cat([s.frames for s in steps])


def test_registry_starts_with_the_baseline():
    assert next(iter(METHODS)) == "baseline" and METHODS["baseline"] is Baseline


def test_greedy_equals_a_loop_without_a_cache(tiny_lm, tiny_prefix):
    _, _, frames = decode(tiny_lm, tiny_prefix, Sampling(temperature=0, repeat_window=0))
    x = torch.cat([tiny_prefix.x, tiny_lm.embed_speech(tiny_prefix.prompt_codes[:, 0])])
    expected = []
    while len(expected) < 24:
        mask = prefix_mask(len(tiny_prefix.x), len(x), True)
        with torch.no_grad():
            token = tiny_lm.head(tiny_lm(x[None], torch.arange(len(x))[None], mask[None]))[0, -1].argmax()
        if token >= tiny_lm.config.eos:
            break
        expected.append(int(token))
        x = torch.cat([x, tiny_lm.embed_speech(token[None])])
    assert len(set(expected)) > 3 and frames[:, 0].tolist() == expected


def test_same_seed_same_tokens(tiny_lm, tiny_prefix):
    runs = [decode(tiny_lm, tiny_prefix, Sampling(1.0), seed)[2] for seed in (1, 1, 2)]
    assert torch.equal(runs[0], runs[1])
    assert runs[0].shape != runs[2].shape or not torch.equal(runs[0], runs[2])


def test_forced_length_never_ends_early(tiny_lm, tiny_prefix):
    _, state, frames = decode(tiny_lm, tiny_prefix, Sampling(2.0, 0, 1.0), max_frames=40, forced=True)
    assert len(frames) == 40 and frames.max() < tiny_lm.config.speech_codes
    assert state.caches["backbone"].length == len(tiny_prefix.x) + 5 + 39  # the last token is never fed back


def test_replay_logits_equal_stepwise_logits(tiny_lm, tiny_prefix):
    method = Baseline(base_of(tiny_lm))
    state = method.prefill(tiny_prefix, Baseline.Options(), Sampling(1.0), torch.Generator().manual_seed(4), 20, True)
    stepwise = []
    while not state.done:
        method.step(state)
        stepwise.append(state.hidden[0, 0])
    replay = method.replay(state)
    hidden, weights = base_of(tiny_lm).decoder.full(replay.x[None], replay.positions, replay.mask, tiny_prefix.text)
    torch.testing.assert_close(hidden[0, replay.rows], torch.stack(stepwise), atol=1e-5, rtol=1e-5)
    assert weights.shape == (2, 4, len(replay.x), 7) and len(replay.rows) == 20 == sum(replay.frames_of)


def test_replay_after_end_of_speech_has_the_deciding_row(tiny_lm, tiny_prefix):
    for seed in range(30):  # chance that no run of 60 draws from 33 ids ends early is nil
        method, state, frames = decode(tiny_lm, tiny_prefix, Sampling(2.0, 0, 1.0), seed, max_frames=60)
        if len(frames) < 60:
            break
    replay = method.replay(state)
    assert len(replay.rows) == len(frames) + 1 and replay.frames_of[-1] == 0
    assert int(replay.rows[-1]) == len(replay.x) - 1
