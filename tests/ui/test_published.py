"""What stands beside a run's figures: the settings' figures over many texts, in a sentence."""

from __future__ import annotations

import json

import pytest
from measure.test_summary import complete, timed

from tts_demo.measure.records import RECORDS
from tts_demo.measure.rows import defaults
from tts_demo.methods import METHODS
from tts_demo.ui.run import published
from tts_demo.ui.run.published import Gain, Published


def found(lm=2.0, whole=1.6, memory=0.25, more=1.0, low=0.2, high=2.5) -> Published:
    gain = lambda times: Gain(times, times * 0.99, times * 1.01)
    return Published("tldr", 67, "a processor", gain(lm), gain(whole), memory, more, low, high)


def test_one_sentence_says_what_a_setting_gains_and_costs():
    words = ", ".join(words for words, _ in published.sentence(found()))
    assert words == (
        "language model 2.0 times faster, everything 1.6, a quarter of the memory growth, "
        "1.0 more words in 100 misheard (0.2 to 2.5)"
    )
    assert [kind for _, kind in published.sentence(found())] == ["good", "good", "good", "bad"]
    slow = published.sentence(found(lm=0.75, whole=0.8, memory=1.0, more=-2.0, low=-4.0, high=1.0))
    assert [w for w, _ in slow][:3] == ["language model 1.3 times slower", "everything 1.2", "the same memory growth"]
    assert slow[3] == ("2.0 fewer words in 100 misheard (\N{MINUS SIGN}1.0 to 4.0)", "same")  # within its interval
    mixed = published.sentence(found(lm=1.2, whole=1.0))
    assert mixed[1] == ("everything as fast", "same")


def test_a_gain_whose_interval_holds_one_is_no_verdict():
    assert Gain(1.1, 0.9, 1.3).kind == "same" and published.times(Gain(1.1, 0.9, 1.3)) == "1.1 times as fast"
    assert Gain(1.1, 1.06, 1.3).kind == "good" and Gain(0.8, 0.7, 0.9).kind == "bad"
    assert published.times(Gain(1.01, 0.98, 1.04)) == "as fast"
    assert Gain(1.03, 1.02, 1.04).kind == "good" and published.times(Gain(1.03, 1.02, 1.04)) == "1.03 times faster"
    assert published.times(Gain(0.8, 0.7, 0.9)) == "1.2 times slower"


def test_the_interval_of_a_gain_is_that_of_the_report(tmp_path):
    row = defaults()[1].label
    path = tmp_path / "records.jsonl"
    gains = dict(enumerate((1.9, 2.1)))
    kept = [r for r in complete() if (r["kind"], r["row"]) != ("speed", row)]
    kept += [
        r | {"seed": n, "figures": r["figures"] | {"lm_gain": g}} for n, g in gains.items() for r in timed(row, g)[:1]
    ]
    kept = [r | {"figures": r["figures"] | {"rtf_gain": 1.0}} if r["kind"] == "speed" else r for r in kept]
    path.write_text("".join(json.dumps(r) + "\n" for r in kept))
    found = published.table(path)[row]
    assert (found.lm.low, found.lm.high) == pytest.approx((1.0574, 3.7732), rel=1e-3) and found.lm.kind == "good"
    assert found.whole == Gain(1.0, 1.0, 1.0) and found.whole.kind == "same"


@pytest.mark.skipif(not RECORDS.is_file(), reason="no records")
def test_the_bundled_settings_are_found_by_their_options(tmp_path):
    if not published.table():
        pytest.skip("no set of records is complete")
    for name, method in METHODS.items():
        here = published.of(name, method.Options())
        assert (here is None) == (name == "baseline"), name
        assert here is None or "cores" in here.machine  # gains hang on the processor
    tldr = published.of("tldr", {"patch_size": 4})
    assert tldr and tldr == published.of("tldr", METHODS["tldr"].Options(patch_size=4)) and tldr.texts > 1
    assert published.of("tldr", {"patch_size": 4, "gone": 1}) is None and published.of("nobody", {}) is None
    assert published.payload(None) is None and published.payload(tldr)["sentence"][0]["words"]
    assert published.table(tmp_path / "none.jsonl") == {}
