"""The meter is exact under a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tts_demo.metrics import Meter, nearest_words, word_errors


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


def test_what_other_programs_took():
    clock, work = Clock(), Clock()
    meter = Meter(50, clock, work)
    with meter.measure("lm"):
        clock.time += 0.3
        work.time += 0.2
    meter.step(SimpleNamespace(passes=1, marks=(), proposed=0, accepted=0, stats={}), 10, {})
    s = meter.snapshot()
    assert not s.delayed and (s.rtf, s.work_rtf) == (pytest.approx(1.5), pytest.approx(1.0))
    clock.time += 0.1
    assert meter.snapshot().delayed


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


@pytest.mark.parametrize(
    ("text", "transcripts"),
    [
        (
            "She sells seashells by the seashore.",
            ["she sells sea shells by the sea shore", "She sells seashells by the seashore..."],
        ),
        ("The sea shells lie every where.", ["The seashells lie everywhere."]),
        (
            "It costs $1,249.50.",
            [
                "It costs $1249.50.",
                "It costs 1,249 dollars and 50 cents.",
                "it costs one thousand two hundred and forty nine dollars and fifty cents",
            ],
        ),
        (
            "We meet at 7:45 p.m.",
            ["We meet at 7.45 PM.", "We meet at 745 PM.", "we meet at seven forty-five p m", "We meet at 7:45pm."],
        ),
        ("The grey colour of the centre.", ["the gray color of the center"]),
        ("He travelled to the theater and apologised.", ["He traveled to the theatre, and apologized."]),
        ("Mr. Smith's neighbour won't organise it.", ["Mister Smith's neighbor will not organize it"]),
        ("Dr. Jones (the captain) didn't come.", ["Doctor Jones, the captain, did not come."]),
        ("It costs twenty-four dollars, doesn't it?", ["it costs $24 does not it"]),
        ("Hello 世界", ["Hello 世界"]),
    ],
)
def test_the_same_words_in_another_spelling_are_no_errors(text: str, transcripts: list[str]) -> None:
    for transcript in [text, *transcripts]:
        assert word_errors(text, transcript).errors == 0, (transcript, nearest_words(text, transcript))


@pytest.mark.parametrize(
    ("text", "transcript", "errors", "words"),
    [
        ("The cat sat down.", "the cat sat", 1, 4),
        ("The cat sat down.", "the big cat sat up", 2, 4),
        ("The cat sat down.", "", 4, 4),
        ("Hello.", "hello hello", 1, 1),
        ("Hello.", "...", 1, 1),
        ("Rooms 15 and 5.", "Rooms 50 and 5.", 1, 4),
        ("It costs $1,249.50.", "It costs $1,249.15.", 1, 3),
        ("We meet at 7:45 p.m.", "We meet at 7:45 a.m.", 1, 6),
        ("Into the room, no where.", "in to a room now here", 3, 5),
        ("...", "hello", 1, 0),
    ],
)
def test_other_words_are_errors(text: str, transcript: str, errors: int, words: int) -> None:
    assert word_errors(text, transcript) == (errors, words), nearest_words(text, transcript)


def test_the_number_of_words_is_the_texts_whatever_was_recognised() -> None:
    text = "Seashells (from the seashore) cost $1,249.50 at 7:45 p.m."
    counts = {word_errors(text, heard).words for heard in ("", text, "sea shells", "one two three", "7.45 PM")}
    assert len(counts) == 1
    assert word_errors("a b", "c").rate == 1 and word_errors("", "").rate == 0
