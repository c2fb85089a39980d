"""The loop: order of events, exact audio, stopping, limits, segments, clocks and attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import TinyVocoder
from tts_demo import engine
from tts_demo.config import Request, Sampling, UserError
from tts_demo.engine import Audio, Done, LoopGuard, Started, Stats, Trace, generate, run, warm_up
from tts_demo.methods import METHODS
from tts_demo.metrics import Meter

LIVELY = Sampling(temperature=2.0, top_k=0, top_p=1.0)


def request(prompt, text="one two", **changes) -> Request:
    return Request(text, prompt, **{"sampling": LIVELY, "max_seconds": 2.0, **changes})


def test_events_tell_the_whole_story(tiny_stack, tiny_prompt):
    events = list(generate(tiny_stack, request(tiny_prompt, forced_frames=90)))
    assert isinstance(events[0], Started) and events[0].segments == ["one two"] and events[0].cold
    done = events[-1]
    assert isinstance(done, Done) and not done.stopped and not done.truncated
    pieces = [e for e in events if isinstance(e, Audio)]
    np.testing.assert_array_equal(np.concatenate([p.samples for p in pieces]), done.audio)
    assert len(done.audio) == 90 * 20 and done.codes.shape == (90, 1)
    # frames reach the vocoder in order and unchanged
    np.testing.assert_allclose(done.audio[::20], (done.codes[:, 0] + 1) / 64, rtol=1e-6)
    assert len(pieces[0].samples) < len(pieces[1].samples) and len(pieces[0].samples) <= 0.24 * 1000  # first one early
    assert sum((e.steps for e in events if isinstance(e, Trace)), ()) == done.trace.steps
    assert sum(s.frames for s in done.trace.steps) == 90 == done.snapshot.frames
    assert 0 < sum(s.ms for s in done.trace.steps) < 1000 * done.snapshot.lm_seconds  # the rest is the first pass
    assert [e for e in events if isinstance(e, Stats)][-1].snapshot.ttfa_seconds > 0
    cache_bytes = 2 * 2 * 2 * 16 * 4  # K and V, layers, kv heads, width, bytes
    slots = 1 + 1 + 7 + 1 + len(tiny_prompt.codes) + 89
    assert (
        done.snapshot.kv_bytes == {"backbone": slots * cache_bytes}
        and done.snapshot.kv_bytes_peak == slots * cache_bytes
    )


def test_first_run_is_cold_the_next_is_not(tiny_stack, tiny_prompt):
    starts = [next(iter(generate(tiny_stack, request(tiny_prompt)))).cold]
    for _ in range(2):
        events = list(generate(tiny_stack, request(tiny_prompt, forced_frames=5)))
        starts.append(events[0].cold)
    assert starts == [True, True, False]  # a run that was abandoned warms nothing


def test_warming_up_speaks_the_beginning_once_and_changes_nothing(tiny_stack, tiny_prompt):
    wanted = request(tiny_prompt, forced_frames=400, capture_attention=True)
    calls = []
    vocoder = tiny_stack.vocoder
    tiny_stack.vocoder = lambda *args: calls.append(args) or vocoder(*args)
    asked = []
    warm_up(tiny_stack, wanted, lambda: asked.append(1) or False)
    assert 0 < len(asked) < 100 and len(calls) == 1  # a second at 50 steps, and what the growing chunks overshoot
    warm_up(tiny_stack, wanted)
    assert len(calls) == 1  # it has run
    first, *_, done = generate(tiny_stack, wanted)
    assert not first.cold
    np.testing.assert_array_equal(run(tiny_stack, wanted).codes, done.codes)


def test_what_is_built_for_other_options_is_warmed_apart(tiny_stack, tiny_prompt):
    """Of QTTS each strategy has a decoder of its own; for a tolerance nothing is built."""
    speak = lambda method, **dials: request(
        tiny_prompt, method=method, options=METHODS[method].Options(**dials), forced_frames=30
    )
    cold = lambda wanted: next(iter(generate(tiny_stack, wanted))).cold
    one, other = speak("qtts", strategy="delay"), speak("qtts", strategy="hierarchical")
    warm_up(tiny_stack, one)
    assert not cold(one) and cold(other)
    run(tiny_stack, other)
    assert not cold(other)
    warm_up(tiny_stack, speak("ssd", tolerance=0.1))
    assert not cold(speak("ssd", tolerance=0.4)) and cold(speak("ssd", draft_length=1))


def test_a_run_that_was_stopped_at_once_warms_nothing(tiny_stack, tiny_prompt):
    cold = lambda: next(iter(generate(tiny_stack, request(tiny_prompt)))).cold
    for frames, stopped, left_cold in ((400, True, True), (30, False, False)):
        list(generate(tiny_stack, request(tiny_prompt, forced_frames=frames), lambda: stopped))
        assert cold() is left_cold


def test_a_warm_up_can_be_stopped(tiny_stack, tiny_prompt):
    asked = []
    warm_up(tiny_stack, request(tiny_prompt, forced_frames=400), lambda: asked.append(1) or len(asked) >= 3)
    assert len(asked) == 3


def test_same_seed_same_speech(tiny_stack, tiny_prompt):
    a, b, c = (run(tiny_stack, request(tiny_prompt, forced_frames=30, seed=s)) for s in (3, 3, 4))
    np.testing.assert_array_equal(a.codes, b.codes)
    assert not np.array_equal(a.codes, c.codes)


def test_stop_is_looked_at_every_step_and_keeps_what_was_said(tiny_stack, tiny_prompt):
    asked = []
    events = list(
        generate(tiny_stack, request(tiny_prompt, forced_frames=80), lambda: asked.append(1) or len(asked) >= 17)
    )
    done = events[-1]
    assert done.stopped and len(done.codes) == 17 and len(done.audio) == 17 * 20


def test_length_limit_is_reported(tiny_stack, tiny_prompt):
    done = run(tiny_stack, request(tiny_prompt, sampling=Sampling(0.0), max_seconds=0.5))
    assert done.truncated and len(done.codes) == 25


def test_sentences_are_spoken_as_one(tiny_stack, tiny_prompt):
    done = run(tiny_stack, request(tiny_prompt, "first one. second", max_seconds=20.0, capture_attention=True))
    events = list(generate(tiny_stack, request(tiny_prompt, "first one. second", max_seconds=20.0)))
    assert events[0].segments == ["first one", "second"] and np.array_equal(events[-1].codes, done.codes)
    a = done.attention
    assert a.labels == tuple("first onesecond") and a.weights.shape[:2] == (2, 4)
    assert a.weights.shape[2] == len(done.trace.steps) == len(done.codes) + 2  # each sentence ends by itself
    (first, end), times = done.segment_ends, a.step_end_seconds
    assert 0 < first < end == len(done.codes) and a.weights[:, :, times <= first / 50, 9:].sum() == 0
    own = a.weights[:, :, 0, :9].sum(), a.weights[:, :, 0, 9:].sum()
    assert own[0] > 0 and own[1] == 0
    assert np.all(np.diff(a.step_start_seconds) >= -1e-6) and a.step_end_seconds[-1] == pytest.approx(
        len(done.codes) / 50
    )


def test_clock_stands_still_while_a_consumer_holds_an_event(tiny_stack, tiny_prompt):
    """A clock that only the consumer moves: no compute time may be counted."""
    now = [0.0]
    meter = Meter(50, lambda: now[0])
    for event in generate(tiny_stack, request(tiny_prompt, forced_frames=40), meter=meter):
        now[0] += 1.0
    assert event.snapshot.total_seconds == 0 and event.snapshot.lm_seconds == 0


def test_a_vocoder_prepares_outside_the_clock(tiny_stack, tiny_prompt, monkeypatch):
    """At the end of each sentence, when all of its frames are there, and of the run."""
    now, prepared = [0.0], []

    def prepare(self: TinyVocoder) -> None:
        now[0] += 1.0
        prepared.append(len(self.held))

    monkeypatch.setattr(TinyVocoder, "prepare", prepare)
    meter = Meter(50, lambda: now[0])
    done = list(generate(tiny_stack, request(tiny_prompt, forced_frames=40), meter=meter))[-1]
    assert prepared == [1, 1] and done.snapshot.total_seconds == 0


def test_a_runs_clock_starts_with_its_first_event(tiny_stack, tiny_prompt, monkeypatch):
    """Runs in turn are all made before the first goes on: what waits is not clocked."""
    made: list[Meter] = []
    monkeypatch.setattr(engine, "Meter", lambda *args, **named: made.append(Meter(*args, **named)) or made[-1])
    events = generate(tiny_stack, request(tiny_prompt, forced_frames=40))
    assert not made
    next(events)
    assert len(made) == 1


def test_inference_mode_never_leaks_to_the_consumer(tiny_stack, tiny_prompt):
    for event in generate(tiny_stack, request(tiny_prompt, forced_frames=40, capture_attention=True)):
        assert not torch.is_inference_mode_enabled(), type(event)
        assert torch.is_grad_enabled()


def test_empty_text_is_refused(tiny_stack, tiny_prompt):
    with pytest.raises(UserError, match="type some text"):
        run(tiny_stack, request(tiny_prompt, " . "))


def test_two_runs_interleaved_do_not_mix(tiny_stack, tiny_prompt):
    alone = [run(tiny_stack, request(tiny_prompt, forced_frames=40, seed=s)).codes for s in (1, 2)]
    pair = [generate(tiny_stack, request(tiny_prompt, forced_frames=40, seed=s)) for s in (1, 2)]
    last = [None, None]
    while any(pair):
        for i, events in enumerate(pair):
            event = next(events, None) if events else None
            last[i] = event or last[i]
            pair[i] = events if event else None
    for done, codes in zip(last, alone):
        np.testing.assert_array_equal(done.codes, codes)


def test_loop_guard_ends_a_cycle_and_endless_silence_only():
    guard = LoopGuard(frame_rate=50, sample_rate=1000)
    guard.codes(list(range(99)))
    assert not guard.tripped
    guard.codes([1, 2, 3] * 33)
    assert not guard.tripped  # one frame short of two seconds
    guard.codes([1])
    assert guard.tripped
    guard.reset()
    guard.samples(np.concatenate([np.ones(10), np.zeros(2900)]))
    assert not guard.tripped
    guard.samples(np.zeros(100))
    assert guard.tripped


def test_a_stuck_model_is_cut_short(tiny_stack, tiny_prompt):
    """Greedy decoding of one token for ever: forced by a head that always prefers it, and nothing against repeats."""
    stuck = tiny_stack.method("baseline")
    stuck.decoder.logits = lambda hidden: torch.nn.functional.one_hot(torch.tensor([5]), 33).float()
    try:
        done = run(tiny_stack, request(tiny_prompt, sampling=Sampling(0.0, repeat_window=0), max_seconds=60.0))
    finally:
        del stuck.decoder.logits
    assert done.truncated and len(done.codes) < 250
