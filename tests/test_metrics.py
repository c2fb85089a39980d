"""The meter is exact under a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tts_demo.metrics import Meter


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_exact_under_a_fake_clock():
    clock = Clock()
    meter = Meter(frame_rate=50, clock=clock)
    with meter.measure("lm"):
        clock.time += 0.5
    made = dict(passes=1, marks=("a", "b", "c", "d", "beyond"), proposed=3, accepted=2, stats={"x": 1})
    caches = {"backbone": SimpleNamespace(nbytes=30), "draft": SimpleNamespace(nbytes=12)}
    record = meter.step(SimpleNamespace(**made), 4, caches, 0.25)
    assert record.marks == ("a", "b", "c", "d")
    assert (record.frames, record.kv_bytes, record.ms) == (4, 42, 250)
    with meter.held():
        clock.time += 60  # a consumer thinks
    with meter.measure("vocoder"):
        clock.time += 0.25
    meter.first_audio()
    clock.time += 0.25
    meter.first_audio()  # only the first counts
    made = SimpleNamespace(**made | dict(proposed=1, accepted=1, stats={"x": 2}))
    meter.step(made, 6, {"backbone": SimpleNamespace(nbytes=20)})
    s = meter.snapshot()
    assert (s.audio_seconds, s.lm_seconds, s.vocoder_seconds, s.total_seconds) == (0.2, 0.5, 0.25, 1.0)
    assert (s.lm_rtf, s.rtf, s.ttfa_seconds) == (2.5, 5.0, 0.75)
    assert (s.frames, s.backbone_steps, s.frames_per_step, s.acceptance) == (10, 2, 5.0, 0.75)
    assert (s.kv_bytes, s.kv_bytes_total, s.kv_bytes_peak, s.method_stats) == ({"backbone": 20}, 20, 42, {"x": 2})


def test_nothing_yet():
    s = Meter(50, Clock()).snapshot()
    assert (s.rtf, s.lm_rtf, s.ttfa_seconds, s.acceptance, s.frames_per_step) == (0, 0, None, None, 0)


def test_a_consumer_that_never_comes_back_still_releases_the_clock():
    clock = Clock()
    meter = Meter(50, clock)
    with pytest.raises(KeyError):
        with meter.held():
            clock.time += 5
            raise KeyError
    assert meter.now() == 0
