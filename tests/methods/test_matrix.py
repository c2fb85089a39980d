"""What holds for every registered method at every setting it names: a new method is in this matrix by being
registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from conftest import TinyStack, base_of, finish, make_prefix
from tts_demo.config import Request, Sampling
from tts_demo.engine import AttentionUpdate, Done, generate, run
from tts_demo.lm.decoder import Decoder
from tts_demo.methods import METHODS
from tts_demo.methods.base import Method
from tts_demo.report import papers

HOT, GREEDY = Sampling(2.0, 0, 1.0), Sampling(temperature=0)


def settings() -> Iterator[Any]:
    """Defaults, rows of the tables and presets of every method, each once."""
    for name, kind in METHODS.items():
        rows = [row.options for row in papers.paper(name).rows if row.method is kind]
        for options in dict.fromkeys([kind.Options(), *rows, *(kind.Options(**o) for o in kind.presets)]):
            yield pytest.param(name, options, id=f"{name}-{'-'.join(str(v) for v in vars(options).values())}")


every_setting = pytest.mark.parametrize("name, options", list(settings()))
every_method = pytest.mark.parametrize("name", list(METHODS))


def built(lm, name: str, stir: bool) -> Method:
    """The method on fresh modules, or on modules whose every weight is random, so that no path is the identity."""
    modules = METHODS[name].build_modules(lm)
    torch.manual_seed(5)
    for module in modules.values():
        for weight in module.eval().requires_grad_(False).parameters():
            if stir:
                weight.add_(torch.randn_like(weight) * 0.03)
    return METHODS[name](base_of(lm), modules)


def speak(method: Method, prefix, options, sampling=HOT, seed=0, frames=40, forced=False):
    """-> (state, codes [F, K])"""
    generator = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        state = method.prefill(prefix, options, sampling, generator, frames, forced)
        return state, finish(method, state)[1]


@every_setting
def test_it_finishes_with_codes_in_range_and_audio_of_their_length(tiny_lm, guided, name, options):
    stack = TinyStack(tiny_lm)
    prompt = stack.encode_prompt(torch.zeros(100).numpy(), stack.sample_rate)
    done = run(stack, Request("first one. second", prompt, name, options, HOT, max_seconds=1.2))
    assert 0 < len(done.codes) <= 60 and not done.stopped
    assert len(done.audio) == len(done.codes) * stack.sample_rate // stack.frame_rate
    assert done.codes.min() >= 0 and done.codes.max() < tiny_lm.config.speech_codes
    assert done.codes.shape[1] == METHODS[name].output_codebooks(options)
    assert sum(step.frames for step in done.trace.steps) == len(done.codes)
    assert all(len(step.marks) == step.frames for step in done.trace.steps)
    assert done.snapshot.kv_bytes_total > 0 and "backbone" in done.snapshot.kv_bytes


@every_setting
def test_looking_while_it_speaks_changes_nothing_and_sees_what_is_seen_at_the_end(tiny_lm, guided, name, options):
    stack = TinyStack(tiny_lm)
    prompt = stack.encode_prompt(torch.zeros(100).numpy(), stack.sample_rate)
    asked = Request("first one. second", prompt, name, options, HOT, max_seconds=1.6, capture_attention=True)
    events = list(generate(stack, asked, wants_attention=lambda: True))
    done, looks = events[-1], [e.attention for e in events if isinstance(e, AttentionUpdate)]
    unseen = run(stack, asked)
    assert isinstance(done, Done) and np.array_equal(done.codes, unseen.codes)
    np.testing.assert_array_equal(done.attention.weights, unseen.attention.weights)
    assert looks and len({len(a.step_end_seconds) for a in looks}) == len(looks)
    for a in looks:  # but for the last step, which a longer run may have let emit more
        n = len(a.step_end_seconds) - 1
        text = a.weights.shape[3]
        np.testing.assert_allclose(a.weights[:, :, :n], done.attention.weights[:, :, :n, :text], atol=1e-5)
        np.testing.assert_allclose(a.step_start_seconds[:n], done.attention.step_start_seconds[:n])


@every_method
def test_the_neutral_setting_is_the_baseline(tiny_lm, tiny_prefix, guided, name):
    kind = METHODS[name]
    if kind.neutral is None:
        pytest.skip("has no setting that is the baseline")
    expected = speak(METHODS["baseline"](base_of(tiny_lm)), tiny_prefix, None, GREEDY)[1]
    state, codes = speak(built(tiny_lm, name, stir=False), tiny_prefix, kind.Options(**kind.neutral), GREEDY)
    assert torch.equal(codes, expected) and len(codes) > 3


@every_setting
def test_the_replay_is_what_was_decoded(tiny_lm, guided, monkeypatch, name, options):
    """Hidden states of the teacher-forced pass, where steps were decided, equal those of decoding."""
    decoded: dict[Any, dict[int, torch.Tensor]] = {}
    forward = Decoder.forward

    def recorded(self, x, cache, positions, *args, **named):
        hidden = forward(self, x, cache, positions, *args, **named)
        places = torch.arange(x.shape[1]) + positions if isinstance(positions, int) else positions
        places = places.tolist()[-hidden.shape[1] :]
        rows = decoded.setdefault(cache, {})
        for i, place in enumerate(places):
            if i and place <= places[i - 1]:
                break  # rows that stand for what has been spoken decide nothing
            rows[place] = hidden[0, i]
        return hidden

    monkeypatch.setattr(Decoder, "forward", recorded)
    method = built(tiny_lm, name, stir=True)
    for seed, forced, frames in ((0, True, 70), (1, False, 30)):
        state, codes = speak(method, make_prefix(tiny_lm, text=40, prompt=9), options, HOT, seed, frames, forced)
        replay = method.replay(state)
        assert sum(replay.frames_of) == len(codes) and len(replay.rows) == len(replay.frames_of)
        hidden, _ = replay.decoder.full(
            replay.x[None], replay.positions, replay.mask, hook=replay.hook, past=replay.past
        )
        caches = (
            getattr(state, "full_prefix", None),
            state.caches["backbone"],
        )  # where a window of the text moves, two
        rows = {place: row for cache in caches for place, row in decoded.get(cache, {}).items()}
        stepwise = [rows[place] for place in replay.positions[replay.rows].tolist()]
        torch.testing.assert_close(hidden[0, replay.rows], torch.stack(stepwise), atol=2e-4, rtol=2e-4)


@every_method
def test_two_runs_of_one_method_object_do_not_mix(tiny_lm, tiny_prefix, guided, name):
    method, options = built(tiny_lm, name, stir=True), METHODS[name].Options()
    alone = [speak(method, tiny_prefix, options, seed=seed, forced=True)[1] for seed in (1, 2)]
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    with torch.inference_mode():
        states = [method.prefill(tiny_prefix, options, HOT, g, 40, True) for g in generators]
        together: list[list[torch.Tensor]] = [[], []]
        while not all(state.done for state in states):
            for state, frames in zip(states, together):
                if not state.done:
                    frames.append(method.step(state).frames)
    assert all(torch.equal(torch.cat(frames), codes) for frames, codes in zip(together, alone))
    assert not torch.equal(*alone)
