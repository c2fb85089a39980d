"""Records summed up: rates pool errors over words, what a row adds to the baseline's errors is judged in pairs, and a
report is of one complete set."""

from typing import Any

import numpy as np
import pytest

from tts_demo.config import UserError
from tts_demo.measure import quality, speed, summary
from tts_demo.measure.rows import Row, defaults
from tts_demo.methods import find

BASE, OTHER = (row.label for row in defaults()[:2])


def record(row: str, text: str, figures: dict[str, Any], kind: str = quality.KIND, **more: Any) -> dict[str, Any]:
    where = {"stack": "nano", "checkpoint": "abc", "machine": "here", "dtype": "float32"}
    rest = {"torch": "2.11", "commit": "1234567", "date": "2026-01-01T00:00:00Z", "seed": 0}
    return {"kind": kind, "row": row, "text": text, **where, **rest, **more, "figures": figures}


def spoken(row: str, errors: list[int], words: int = 10, **more: Any) -> list[dict[str, Any]]:
    return [
        record(row, f"t{i}", {"errors": e, "words": words, "sim": 0.8, "cut": False}, **more)
        for i, e in enumerate(errors)
    ]


def timed(row: str, gain: float, **more: Any) -> list[dict[str, Any]]:
    figures = {"lm_gain": gain, "lm_rtf": 0.1 / gain, "rtf": 0.2, "kv_12s": 12.0 / gain, "kv_20s": 20.0 / gain}
    figures[speed.BEGAN] = 0
    return [record(row, "10 s, eager", figures, speed.KIND, seed=n, **more) for n in range(3)]


def complete(**more: Any) -> list[dict[str, Any]]:
    """A set in which every method doubles the baseline's speed and none its errors."""
    rows = [row.label for row in defaults()]
    return [r for row in rows for r in spoken(row, [1, 2, 3], **more) + timed(row, 1.0 if row == BASE else 2.0, **more)]


def table(*records: dict[str, Any]) -> Any:
    return summary.quality_table(summary.frame([*records]))


def test_rates_pool_errors_over_words_and_lie_in_their_interval() -> None:
    runs = [
        record(BASE, "a", {"errors": 1, "words": 10, "sim": 0.8}),
        record(BASE, "b", {"errors": 9, "words": 30, "sim": 0.8}),
        record(BASE, "c", {}),
    ]
    row = table(*runs).loc[BASE]
    assert row["texts"] == row["runs"] == 3 and row["wer"] == pytest.approx(10 / 40)
    assert row["sim"] == pytest.approx(0.8) and (row["wer_low"], row["wer_high"]) == pytest.approx((1 / 10, 9 / 30))


def test_what_is_added_to_every_text_is_found_exactly_however_unlike_the_texts_are() -> None:
    hard = np.random.default_rng(0).integers(0, 8, 40)
    rows = table(*spoken(BASE, [int(e) for e in hard]), *spoken(OTHER, [int(e) + 1 for e in hard]))
    row = rows.loc[OTHER]
    assert (row["over"], row["over_low"], row["over_high"]) == pytest.approx((0.1, 0.1, 0.1))
    assert row["wer_high"] - row["wer_low"] > 0.1, "what the row's own interval would have left open"
    assert row["times"] == pytest.approx((hard.sum() + 40) / hard.sum()) and rows.loc[BASE, "over"] == 0


def test_a_row_of_fewer_texts_is_compared_on_those_alone() -> None:
    rows = table(*spoken(BASE, [1, 1, 9, 9]), *spoken(OTHER, [2, 2]))
    assert rows.loc[OTHER, "over"] == pytest.approx(0.1) and rows.loc[OTHER, "texts"] == 2


def test_chance_alone_has_zero_in_its_interval() -> None:
    errors = np.random.default_rng(1).integers(0, 6, (2, 200)).tolist()
    row = table(*spoken(BASE, errors[0]), *spoken(OTHER, errors[1])).loc[OTHER]
    assert row["over_low"] < 0 < row["over_high"]


def test_takes_of_a_text_are_one_text_spoken_more_often() -> None:
    errors = np.random.default_rng(2).integers(0, 6, 30).tolist()
    once = table(*spoken(BASE, errors)).loc[BASE]
    thrice = table(*(r for seed in range(3) for r in spoken(BASE, errors, seed=seed))).loc[BASE]
    assert thrice["runs"] == 90 and once.drop(["runs", "pairs"]).equals(thrice.drop(["runs", "pairs"])), (
        "the same again tells nothing new"
    )


def test_errors_over_natural_recordings_are_those_of_the_same_texts() -> None:
    natural = spoken(quality.NATURAL, [1, 1], checkpoint="", stack="", dtype="")
    assert table(*natural, *spoken(BASE, [2, 2, 9])).loc[BASE, "times_natural"] == pytest.approx(2)


def test_the_newest_complete_set_is_shown_and_a_newer_half_is_not() -> None:
    old, new = {"date": "2026-01-01T00:00:00Z"}, {"checkpoint": "new", "date": "2026-02-01T00:00:00Z"}
    half = [r for r in complete(**new) if r["row"] != OTHER]
    assert summary.newest(complete(**old) + half).where["checkpoint"] == "abc"
    assert summary.newest(complete(**old) + complete(**new)).where["checkpoint"] == "new"
    unspoken = [r for r in complete(**new) if r["kind"] == speed.KIND or r["row"] != OTHER]
    with pytest.raises(UserError, match=f"{OTHER}.*evaluate"):
        summary.newest(unspoken)
    with pytest.raises(UserError, match="evaluate"):
        summary.newest([])


def test_times_of_two_machines_are_never_joined_but_what_is_said_hangs_on_none() -> None:
    there, here = complete(machine="there"), complete()
    timed_there = [r for r in there if r["kind"] == speed.KIND]
    found = summary.newest([r for r in here if r["kind"] == quality.KIND] + timed_there)
    assert found.where["machine"] == "there" and set(found.quality.index) == set(summary.newest(here).quality.index)
    one = {timed_there[0]["row"]}
    with pytest.raises(UserError, match="No set.*bench"):
        summary.newest([r for r in here if r["row"] not in one or r["kind"] == quality.KIND] + timed_there[:1])


def test_a_row_timed_on_another_machine_alone_has_its_gain_and_no_times() -> None:
    here = [r for r in complete() if (r["kind"], r["row"]) != (speed.KIND, OTHER)]
    there = [r for gain, row in ((1.0, BASE), (3.0, OTHER)) for r in timed(row, gain, machine="there", date="2026-03")]
    found = summary.newest(here + there)
    row, base = found.speed.loc[OTHER], found.speed.loc[BASE]
    assert found.where["machine"] == "here" and found.elsewhere == {"there": [OTHER]}
    assert row["lm_gain"] == 3.0 and row["rounds"] == 3 and row["kv_12s_share"] == pytest.approx(1 / 3)
    assert np.isnan(row["rtf"]) and np.isnan(row["lm_rtf"]) and base["rtf"] == 0.2 and base["rounds"] == 3
    assert summary.fastest_within(found) != OTHER, "gains of two machines are not set against each other"
    assert not found.timed_alike([BASE, OTHER]) and found.timed_alike([BASE, *(r.label for r in defaults()[2:])])
    again = summary.newest(here + there + timed(OTHER, 2.0))
    assert again.elsewhere == {} and again.speed.loc[OTHER, "lm_rtf"] == pytest.approx(0.05)


def test_natural_recordings_stand_beside_any_checkpoint() -> None:
    natural = spoken(quality.NATURAL, [0, 1, 0], checkpoint="", stack="", dtype="", machine="elsewhere")
    found = summary.newest(natural + complete())
    assert found.quality.loc[quality.NATURAL, "wer"] == pytest.approx(1 / 30)


def test_the_picture_leaves_out_what_babbles_and_the_best_row_is_understood_as_well() -> None:
    babble, close = "tldr patch_size=8", "tldr patch_size=2"
    more = spoken(babble, [9, 9, 9]) + timed(babble, 9.0) + spoken(close, [1, 2, 3]) + timed(close, 3.0)
    found = summary.newest(complete() + more)
    points = {point.label: point for point in summary.trade_off(found)}
    assert babble not in points and points[close].time == pytest.approx(1 / 3) and points[BASE].time == 1
    assert points[close].errors == pytest.approx(20) and summary.fastest_within(found) == close
    few = [*spoken("tldr patch_size=3", [0]), *timed("tldr patch_size=3", 20.0)]  # best of all, on one text
    assert summary.fastest_within(summary.newest(complete() + more + few)) == close
    worse = [r for r in complete() if not (r["kind"] == quality.KIND and r["row"] == OTHER)] + spoken(OTHER, [9, 9, 9])
    assert OTHER in {point.label for point in summary.trade_off(summary.newest(worse))}  # a default stays


def test_speed_is_the_median_of_rounds_and_memory_that_over_the_baselines() -> None:
    found = summary.newest(complete()).speed
    assert found.loc[OTHER, "lm_gain"] == 2 and found.loc[OTHER, "rounds"] == 3
    assert found.loc[OTHER, ["kv_12s_share", "kv_20s_share", "kv_growth"]].tolist() == pytest.approx([0.5] * 3)
    minute = [r | {"text": "60 s, eager"} for r in timed(OTHER, 4.0)]
    both = summary.frame(complete() + minute)
    assert summary.speed_table(both).loc[OTHER, "lm_gain"] == 2, "the shorter runs count"
    assert summary.speed_table(both, "60 s, eager").loc[OTHER, "lm_gain"] == 4


def test_a_gain_has_students_interval_over_its_rounds() -> None:
    """Of the logarithms: two rounds say little, one nothing, and a ratio of two rows has the spread of both."""
    of = lambda gains, row=OTHER: [timed(row, gain)[0] | {"seed": n} for n, gain in enumerate(gains)]
    rest = [r for r in complete() if (r["kind"], r["row"]) != (speed.KIND, OTHER)]
    found = lambda *gains: summary.of_rounds(summary.newest(rest + of(gains)), OTHER)
    ends = lambda each: (each.value, each.low, each.high, each.pairs)
    assert ends(found(1.9, 2.1)) == pytest.approx((2.0, 1.0574, 3.7732, 2), rel=1e-3)
    assert ends(found(1.0, 1.1, 1.1, 1.2)) == pytest.approx((1.1, 0.9751, 1.2357, 4), rel=1e-3)
    assert ends(found(2.0, 2.0, 2.0)) == pytest.approx((2, 2, 2, 3)) and found(2.0) is None
    both = summary.newest(rest + of((1.9, 2.1)) + of((1.0, 1.0, 1.0), "tldr patch_size=8"))
    assert ends(summary.of_rounds(both, OTHER, over="tldr patch_size=8"))[:3] == pytest.approx(
        (2, 1.0574, 3.7732), rel=1e-3
    )
    elsewhere = summary.newest(rest + of((1.9, 2.1)) + timed("tldr patch_size=8", 1.0, machine="there"))
    assert summary.of_rounds(elsewhere, OTHER, over="tldr patch_size=8") is None
    assert summary.of_rounds(both, OTHER, "rtf").value == 0.2 and summary.of_rounds(both, OTHER, "nothing") is None


def test_every_mean_of_a_goal_has_its_interval() -> None:
    of = lambda row, *sims: [record(row, f"t{i}", {"sim": s, "errors": 2, "words": 9}) for i, s in enumerate(sims)]
    row = table(*of(quality.NATURAL, 0.5, 0.9), *of(BASE, 0.5, 0.9), *of(OTHER, 0.6, 1.0)).loc[OTHER]
    assert (row["sim"], row["sim_low"], row["sim_high"]) == pytest.approx((0.8, 0.6, 1.0))
    assert (row["sim_over"], row["sim_over_low"], row["sim_over_high"]) == pytest.approx((0.1, 0.1, 0.1))
    assert row[["times_natural", "times_natural_low", "times_natural_high"]].tolist() == [1, 1, 1]


def test_the_page_has_the_points_of_the_file_and_none_without_one(tmp_path: Any) -> None:
    import json

    path = tmp_path / "records.jsonl"
    assert summary.published(tmp_path / "none.jsonl") == []
    path.write_text("".join(json.dumps(r) + "\n" for r in complete()))
    assert {point.label for point in summary.published(path)} == {row.label for row in defaults()}


def test_comparison_models_are_no_choice() -> None:
    """However fast and right: nobody can pick them on the page, so neither plot nor table offers them."""
    label = Row.of(find("tldr-parallel")).label
    found = summary.newest([*complete(), *spoken(label, [0, 0, 0]), *timed(label, 9.0)])
    assert label in found.quality.index and label not in summary.choices(found).index
    assert label not in {point.label for point in summary.trade_off(found)} and summary.fastest_within(found) != label


def test_runs_in_different_voices_are_no_pairs() -> None:
    """The voice that speaks a text has changed between measurements; recordings are in their readers' own."""
    figures = lambda errors, voice: {"errors": errors, "words": 10, "voice": voice}
    runs = [
        record(BASE, "a", figures(1, "libri-32")),
        record(BASE, "b", figures(1, "maya")),
        record(OTHER, "a", figures(2, "libri-32")),
        record(OTHER, "b", figures(9, "jack")),
        record(quality.NATURAL, "b", figures(0, "arctic-slt"), checkpoint=""),
    ]
    found = table(*runs)
    assert found.loc[OTHER, "pairs"] == 1 and found.loc[OTHER, "over"] == pytest.approx(0.1)
    assert found.loc[OTHER, "natural_over"] == pytest.approx(0.1) and found.loc[OTHER, "natural_pairs"] == 1
    assert found.loc[quality.NATURAL, "over"] == pytest.approx(-0.1)


def test_a_run_judged_twice_counts_once() -> None:
    once = complete()
    twice = [r for r in once if r["kind"] == "quality" and r["row"] == OTHER and r["text"] == "t2"]
    assert summary.newest([*once, *twice]).quality.equals(summary.newest(once).quality)


def test_rows_of_one_table_are_compared_on_the_runs_of_all_of_them() -> None:
    def said(row: str, errors: dict[tuple[str, int, str], int]) -> list[dict[str, Any]]:
        figures = lambda voice, count: {"errors": count, "words": 10, "voice": voice}
        return [record(row, text, figures(voice, n), seed=seed) for (text, seed, voice), n in errors.items()]

    easy, hard = ("t0", 0, "maya"), ("t0", 1, "maya")
    base = said(BASE, {easy: 0, hard: 8, ("t1", 0, "maya"): 2, ("t2", 0, "maya"): 9})
    other = said(OTHER, {easy: 1, ("t1", 0, "maya"): 3, ("t2", 0, "jack"): 0})
    runs = summary.frame([*base, *other])
    found = summary.on_shared_pairs(summary.Results({}, runs, summary.quality_table(runs), runs), [BASE, OTHER])
    assert found["wer"].tolist() == pytest.approx([0.1, 0.2]) and found["runs"].tolist() == [2, 2]
