"""RESULTS.md and the README's table: rendered from one set of records, equal to each other, and honest about gaps."""

import dataclasses
import json
import re
from pathlib import Path
from string import Formatter
from typing import Any

import pandas as pd
import pytest
from measure.test_summary import BASE, OTHER, complete, record, spoken, timed

from tts_demo.cli.main import main
from tts_demo.measure import analyses, codec, quality, speed, summary
from tts_demo.measure.carry import REWEIGHTED
from tts_demo.measure.records import RECORDS, Records
from tts_demo.measure.rows import OTHER_PAIRS, Row, defaults
from tts_demo.methods import METHODS, REGISTRY
from tts_demo.methods.baseline import Baseline
from tts_demo.report import goals, gpu, papers, plot, results
from tts_demo.report.markdown import Column, table
from tts_demo.report.papers import data as papers_data
from tts_demo.report.papers import sentences as said
from tts_demo.report.papers import table as papers_table

FIGURES = {
    "lm_gain": 2.0,
    "lm_rtf": 0.05,
    "rtf": 0.2,
    "ttfa": 0.3,
    "rtf_gain": 1.5,
    "ttfa_share": 0.9,
    "load": 1.0,
    "kv_12s": 6.0,
    "kv_prefix": 5.0,
    "ceiling_share": 0.2,
    "kv_20s": 10.0,
    "kv_small_12s": 1.0,
    "first_frame_ms": 9.0,
    "frames_per_step": 2.0,
    "pass_of_2": 1.25,
    "pass_of_4": 1.5,
}


def everything() -> list[dict]:
    """A complete set in which every figure that a goal or a paper asks for was measured."""
    found = [r | {"figures": r["figures"] | FIGURES} if r["kind"] == "speed" else r for r in complete()]
    return [
        *spoken(quality.NATURAL, [0, 1, 1], checkpoint="", stack="", dtype="", machine="elsewhere"),
        *spoken(quality.TEACHER, [0, 0, 1], checkpoint="", stack="", dtype=""),
        *found,
    ]


def files(tmp_path: Path, records: list[dict]) -> tuple[Path, Path, Path]:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n\n{results.BEGIN}\nold\n{results.END}\n\nThe end.\n")
    (tmp_path / "assets").mkdir(exist_ok=True)
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path, tmp_path / "RESULTS.md", readme


def readme_table(readme: Path) -> str:
    """What stands between the markers of the README."""
    return readme.read_text(encoding="utf-8").split(results.BEGIN)[1].split(results.END)[0].strip("\n")


def test_one_command_writes_the_page_the_table_and_the_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page, readme = files(tmp_path, everything())
    assert main(["report", "--records", str(path), "-o", str(page), "--readme", str(readme)]) == 0
    assert "Checkpoint abc, float32" in capsys.readouterr().out
    small, whole = readme_table(readme), page.read_text()
    assert small.splitlines()[0] == whole.splitlines()[2] and readme.read_text().endswith("The end.\n")
    rows = [line.split("|")[1].strip() for line in small.splitlines() if line.startswith("|")][2:]
    assert rows[:2] == ["Natural recordings", "Teacher"] and len(rows) == 2 + len(defaults()), "nothing is faster"
    assert all(f"`{row.method.name}`" in small for row in defaults())
    assert (tmp_path / results.PLOT).read_text().count("<svg ") == 1
    assert "here, in passes over a single one: 2 1.25, 4 1.50." in whole
    assert "load average of 1.0" in small and len(results.conditions(summary.newest(everything()))) <= 480
    assert "Not measured in this set: Methods together, Codec" in whole
    assert "../../assets" in whole and "3 texts a row" in small


def test_the_conditions_say_how_many_sentences_were_timed() -> None:
    timed = [r | {"figures": r["figures"] | {"said": f"Text {i % 3}."}} for i, r in enumerate(everything())]
    assert " rounds (3 sentences and voices) beside" in results.conditions(summary.newest(timed))
    assert "sentences and voices" not in results.conditions(summary.newest(everything()))


def test_the_conditions_say_where_rows_always_began() -> None:
    fair = everything()
    first = next(i for i, r in enumerate(fair) if r["kind"] == speed.KIND)
    other = fair[first] | {"figures": {k: v for k, v in fair[first]["figures"].items() if k != speed.BEGAN}}
    began = "Timed at commit 1234567, when rows always began"
    assert began not in results.conditions(summary.newest(fair))
    assert began in results.conditions(summary.newest([*fair[:first], other, *fair[first + 1 :]]))


def test_the_conditions_name_the_gains_on_other_machines_that_timed_every_default_row() -> None:
    slow = {"lm_rtf": 1e3, "lm_gain": 3.25}
    older = lambda r: r | {"machine": "slow one", "date": "2020", "figures": r["figures"] | slow}
    timed = [older(r) for r in everything() if r["kind"] == "speed"]
    shown = results.conditions(summary.newest([*timed, *everything()]))
    assert "LM gains on slow one, where the baseline's LM-RTF is" in shown and "`tldr` 3.25, `dcar` 3.25" in shown
    assert "slow one" not in shown.split("LM gains on")[0] and "`baseline`" not in shown
    carried = [r | {REWEIGHTED: ["tldr"]} if r["row"] == Row.of(METHODS["tldr"]).label else r for r in timed]
    shown = results.conditions(summary.newest([*carried, *everything()]))
    assert "; of `tldr` with earlier weights of the same shapes. KV" in shown.split("LM gains on")[1]
    some = [r for r in timed if r["row"] != Row.of(METHODS["ssd"]).label]
    assert "slow one" not in results.conditions(summary.newest([*some, *everything()]))


def test_rows_that_were_timed_with_earlier_weights_are_named() -> None:
    row = Row.of(METHODS["tldr"]).label
    with_earlier = lambda r: r | ({REWEIGHTED: ["tldr"]} if (r["kind"], r["row"]) == ("speed", row) else {})
    shown = results.conditions(summary.newest([with_earlier(r) for r in everything()]))
    assert "; of `tldr` with earlier weights of the same shapes. KV" in shown
    assert "earlier" not in results.conditions(summary.newest(everything()))


def test_gains_of_another_machine_are_named_and_no_sentence_holds_a_time_that_is_missing(tmp_path: Path) -> None:
    row = Row.of(METHODS["dcar"]).label
    there = [r | {"machine": "there"} for r in everything() if r["row"] in (row, Row.of(Baseline).label)]
    here = [r for r in everything() if (r["kind"], r["row"]) != ("speed", row)]
    path, page, readme = files(tmp_path, here + [r for r in there if r["kind"] == "speed"])
    results.write(path, page, readme)
    assert "whose RTF is 0.20 at a load average of 1.0; of `dcar` on there. KV" in readme_table(readme)
    whole = page.read_text()
    assert "on another machine, there." in whole and not re.search(r"\bnan\b", whole)
    head, *rows = [
        [cell.strip() for cell in line.split("|")]
        for line in whole.partition("## Speed")[2].splitlines()
        if line.startswith(("| row |", f"| `{row}` |"))
    ]
    cells = dict(zip(head, rows[0]))
    assert (cells["LM gain"], cells["LM-RTF"], cells["RTF"]) == ("2.00", "", "")


def test_it_says_what_to_measure_where_a_row_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page, readme = files(tmp_path, [r for r in everything() if r["row"] != OTHER])
    assert main(["report", "--records", str(path), "-o", str(page), "--readme", str(readme)]) == 2
    assert OTHER in capsys.readouterr().err and "old" in readme.read_text() and not page.exists()
    assert main(["report", "--records", str(tmp_path / "none")]) == 2


def goal(figure: str, bound: float, higher: bool = False, row: Row | None = None, **more: Any) -> papers.Goal:
    row = row or Row.of(METHODS["tldr"])
    return papers.Goal(row.label, row, "what", figure, bound, higher, **more)


def test_a_goal_is_judged_by_its_figure_and_what_was_not_measured_is_named() -> None:
    found = summary.newest(everything())
    shown = goals.render(found, results.codec_table(found)).splitlines()
    assert any("`baseline`" in line and "| met |" in line for line in shown)
    assert any("`tldr patch_size=4` | LM gain | ≥ 1.8 | 2 | met |" in line for line in shown)
    assert any("`tldr patch_size=8` | LM gain | ≥ 2.4 |  | not measured |" in line for line in shown)
    assert any("codec, 8 codebooks" in line and "not measured" in line for line in shown)


def test_a_goal_whose_interval_holds_the_bound_is_open() -> None:
    """Neither met nor missed is said of a difference that its 95 % interval does not decide."""
    line = lambda bound, higher=False: goals._line(goal("over", bound, higher, scale=100.0), interval)
    interval = {"over": 0.01, "over_low": -0.005, "over_high": 0.025}
    assert line(1)[-1] == "open" and line(1)[3] == "1 (-0.5 to 2.5)"
    assert line(3)[-1] == "met" and line(-1)[-1] == "**missed**"
    assert line(-1, True)[-1] == "met" and line(3, True)[-1] == "**missed**" and line(2, True)[-1] == "open"


def test_every_goal_is_one_that_the_bundled_records_can_judge() -> None:
    found = summary.newest(Records(RECORDS).read())
    assert "not measured" not in goals.render(found, results.codec_table(found))


def test_a_goal_against_another_row_compares_the_texts_of_both() -> None:
    mine, other = (Row.of(METHODS["dcar"], chunk_range=word) for word in ("2,3,4", "random:2,3,4"))
    more = [*spoken(other.label, [3, 3]), *timed(other.label, 4.0)]
    found = summary.newest([*everything(), *more])  # the method errs 1, 2 and 3 times
    asked = lambda figure: goals.against(found, mine, other, figure)[figure]
    assert asked("over") == pytest.approx((1 + 2 - 6) / 20) and asked("lm_gain") == pytest.approx(2.0 / 4.0)
    assert goals.against(found, mine, Row.of(METHODS["dcar"], chunk_range="5"), "over") == {}


def test_the_codec_is_judged_against_its_recordings() -> None:
    books = {"errors": 2, "words": 10, "stoi": 0.9, "pesq": 2.7, "distilmos": 3.9, "sim": 0.9}
    codecs = [
        record(row, f"r{i}", books | {"errors": 1 if row == codec.RECORDING else 2}, codec.KIND)
        for i in range(2)
        for row in (codec.RECORDING, "8 books", "first book, refined")
    ]
    found = summary.newest(everything() + codecs)
    rows = results.codec_table(found)
    assert rows.loc["8 codebooks", "times"] == pytest.approx(2) and rows.loc["8 codebooks", "texts"] == 2
    assert rows.loc[codec.RECORDING, "stoi"] != rows.loc[codec.RECORDING, "stoi"], "compared with itself: no figure"
    shown = goals.render(found, rows)
    assert "| `codec, 8 codebooks` | PESQ wide band | ≥ 2.6 | 2.7 | met |" in shown
    assert "## Codec" in results.render(found)


def test_a_papers_figures_stand_beside_ours_and_the_sentence_follows_from_both() -> None:
    found = summary.newest(everything())
    shown = papers_table.render(found, results.codec_table(found), {})
    assert "| CosyVoice3 | `baseline` | 0.605 | 0.05 |" in shown and "no LoRA" in shown
    assert not [line for line in shown.splitlines() if line.startswith("|") and not line.endswith("|")]
    theirs, tldr = {"gain": 2.1, "wer": 3.0}, Row.of(METHODS["tldr"])
    text = papers_table.sentence({"wer": 3.0}, theirs, found, tldr)
    assert "speed-up 2.10 in the paper, 2.00 here (2.00 to 2.00), which is lower" in text
    assert "WER changes by +0.00 points in the paper, by +0.00 here (+0.0 to +0.0 on 3 pairs), which cannot" in text
    text = papers_table.sentence({"wer": 9.0}, {"gain": 4.0, "wer": 3.0}, found, tldr)
    assert "in the paper, 2.00 here (2.00 to 2.00), which is lower; WER" in text and "which is higher" in text


def rounds(row: Row, gains: list[float]) -> list[dict]:
    """``everything`` with these gains of a row."""
    others = [r for r in everything() if (r["kind"], r["row"]) != ("speed", row.label)]
    return [*others, *(timed(row.label, gain)[0] | {"seed": n} for n, gain in enumerate(gains))]


def test_a_gain_differs_from_a_papers_only_where_its_interval_excludes_that() -> None:
    tldr = Row.of(METHODS["tldr"])
    said_of = lambda gains, paper: papers_table.sentence({}, {"gain": paper}, summary.newest(rounds(tldr, gains)), tldr)
    assert "2.00 here (1.76 to 2.26), which cannot be told apart from it" in said_of([1.9, 2.0, 2.1], 2.2)
    assert "which is lower" in said_of([1.9, 2.0, 2.1], 2.5) and "which is higher" in said_of([1.9, 2.0, 2.1], 1.6)
    assert said_of([2.0], 2.5) == "", "one round has no interval"


def test_goals_of_speed_are_judged_by_the_interval_over_rounds() -> None:
    tldr, hierarchical = Row.of(METHODS["tldr"]), Row.of(METHODS["tldr"], patch_size=8)
    found = summary.newest([*rounds(tldr, [1.9, 2.0, 2.1]), *timed(hierarchical.label, 1.25)])
    line = lambda bound, figure="lm_gain", row=tldr, **more: goals._line(
        goal(figure, bound, True, row, **more),
        goals._found(found, goal(figure, bound, True, row, **more), pd.DataFrame()),
    )[3:]
    assert line(1.8) == ["2 (1.76 to 2.26)", "open"] and line(1.7)[1] == "met" and line(2.5)[1] == "**missed**"
    assert line(1.5, against=hierarchical) == ["1.6 (1.41 to 1.81)", "open"]
    assert line(1.2, against=hierarchical)[1] == "met"
    assert line(0.2, "kv_12s_share") == ["1", "met"], "counted, the same each time"
    once = summary.newest(rounds(tldr, [2.0]))
    unsure = goal("lm_gain", 1.5, True, tldr)
    assert goals._line(unsure, goals._found(once, unsure, pd.DataFrame()))[3:] == ["2", "open"]


def test_what_a_gpu_gains_at_scale_is_told_with_random_and_with_trained_weights() -> None:
    def record(row: str, gain: float, tokens: float, commit: str = "new", date: str = "2026-02-01") -> dict[str, Any]:
        figures = {"lm_gain": gain, "frames_per_step": tokens}
        where = {"machine": "GPU", "commit": commit, "stack": "qwen2-0.5b", "dtype": "bfloat16", "date": date}
        return where | {"kind": "gpu", "row": row, "figures": figures}

    runs = [record("ssd", 0.3, 1.0, "old", "2026-01-01"), record("ssd", 0.5, 1.0), record("tldr", 1.8, 3.9)]
    told = gpu.at_scale(runs, {"ssd": 2.4, "tldr": 3.95})
    assert "LM gain 0.50 at 1.00 tokens a step; at the 2.40 of trained weights it would be 1.20." in told["ssd"]
    assert told["tldr"].endswith("LM gain 1.80.") and "GPU, bfloat16" in told["tldr"]
    shown = papers_table.render(summary.newest(everything()), pd.DataFrame(), {Row.of(METHODS["tldr"]).label: "HERE"})
    assert shown.count("HERE") == 1


@pytest.mark.parametrize(
    ("errors", "verdict"), [([3, 4, 5, 3], "worse"), ([0, 0, 1, 0], "better"), ([1, 3, 2, 2], "equal")]
)
def test_which_row_is_better_is_said_only_where_the_interval_excludes_zero(errors: list[int], verdict: str) -> None:
    base, row = Row.of(Baseline), Row.of(METHODS["tldr"])
    words = {name: name + " {points:+.1f} of {pairs} pairs" for name in ("better", "worse", "equal")}
    sentence = papers.Sentence(row, base, **words)
    others = [r for r in everything() if r["row"] not in (base.label, row.label) or r["kind"] != quality.KIND]
    found = summary.newest([*others, *spoken(base.label, [1, 2, 3, 2]), *spoken(row.label, errors)])
    points = 100 * (sum(errors) - 8) / 40
    paper = papers.Paper(METHODS["tldr"], sentences=(sentence,))
    assert said.sentences(paper, found, pd.DataFrame()) == [f"{verdict} {points:+.1f} of 4 pairs"]


def test_a_speed_up_is_a_verdict_too_and_a_sentence_without_its_figures_is_left_out() -> None:
    row, found = Row.of(METHODS["tldr"]), summary.newest(everything())
    words = {name: name + " {gain:.1f} times" for name in ("better", "worse", "equal")}
    sentence = papers.Sentence(row, Row.of(Baseline), figure="lm_gain", readme=True, **words)
    missing = papers.Sentence(row, Row.of(Baseline), text="{quality.wer[nothing]:.1f}")
    paper = papers.Paper(METHODS["tldr"], sentences=(missing, sentence, papers.Sentence(row, row, text="Plain.")))
    assert said.sentences(paper, found, pd.DataFrame()) == ["better 2.0 times", "Plain."]
    assert said.sentences(paper, found, pd.DataFrame(), readme=True) == ["better 2.0 times"]


def test_a_sentence_says_what_a_step_costs_and_how_many_tokens_a_goal_takes() -> None:
    row, base = Row.of(METHODS["tldr"]), Row.of(Baseline)
    steps = {row.label: 6.0, base.label: 3.0}
    found = [r | {"figures": r["figures"] | {"ms_per_step": steps.get(r["row"], 1.0)}} for r in everything()]
    sentence = papers.Sentence(
        row, base, text="{tokens:.1f} for {cost:.1f} of {wanted:.1f}, {speed.cost[baseline]:.0f}"
    )
    paper = papers.Paper(METHODS["tldr"], sentences=(sentence,), goals=(goal("lm_gain", 1.5, True, row),))
    assert said.sentences(paper, summary.newest(found), pd.DataFrame()) == ["2.0 for 2.0 of 3.0, 1"]
    assert said.sentences(paper, summary.newest(everything()), pd.DataFrame()) == [], "steps were not timed"
    slow = {"lm_rtf": 0.1, "ms_per_step": 12.0}  # a row that was timed while the machine was half as fast
    later = [
        r | {"figures": r["figures"] | slow} if r["row"] == row.label and r["kind"] == "speed" else r for r in found
    ]
    assert said.sentences(paper, summary.newest(later), pd.DataFrame()) == ["2.0 for 2.0 of 3.0, 1"]


def test_comparison_models_are_told_of_only_where_they_were_measured() -> None:
    shown = lambda *more: papers_table.render(summary.newest([*everything(), *more]), pd.DataFrame(), {})
    assert "not shipped" not in shown() and "on 2 texts, learn" in shown(*spoken("tldr-short patch_size=4", [1, 2]))


def test_the_papers_files_name_methods_options_and_figures_that_exist() -> None:
    """A misspelt key, option or figure in a file is an error here and not a gap in a table."""
    known = {
        "": {"setting", "baseline", "rows", "goals", "sentences"},
        "rows": {"method", "options", "paper", "long"},
        "goals": {"codec", "options", "what", "figure", "at_least", "at_most", "scale", "against"},
        "sentences": {"method", "options", "against", "against_method", "figure", "readme"}
        | {"text", "better", "worse", "equal"},
    }
    files = sorted(papers_data.FOLDER.glob("*.toml"))
    assert {file.stem for file in files} <= {*METHODS, papers_data.CODEC} and len(files) >= 8
    for file in files:
        tables = papers_data._tables(file)
        assert set(tables) <= known[""], file
        for name in ("rows", "goals", "sentences"):
            for entry in tables.get(name, ()):
                assert set(entry) <= known[name], (file, entry)
                assert set(entry.get("paper", {})) - {"name"} <= set(papers_table.FIGURES)
                assert entry.get("long", "minute") in ("minute", "endless")
                if name == "goals":
                    assert ("at_least" in entry) != ("at_most" in entry)
                if name == "sentences":
                    assert ("text" in entry) != ({"better", "worse", "equal"} <= set(entry)), entry
        papers.paper(file.stem)  # raises for options that a method has not


def test_figures_in_sentences_are_figures_that_are_measured() -> None:
    """Every figure that a sentence asks for is one that some command measures."""
    found = summary.newest(Records(RECORDS).read())
    coded = results.codec_table(found)
    columns = said.tables_of(found) | {"codec": coded}
    rows = {row.label for row in papers.measured_rows()} | set(coded.index)
    texts = [
        text for paper in papers.papers() for s in paper.sentences for text in (s.text, s.better, s.worse, s.equal)
    ]
    asked = [figure for text in texts for _, figure, _, _ in Formatter().parse(text) if figure]
    assert len(asked) > 10
    own = {"points", "low", "high", "gain", "pairs", "cost", "tokens", "wanted"}
    for figure in set(asked) - own:
        table, column, row = re.fullmatch(r"(\w+)\.(\w+)\[(.+)\]", figure).groups()
        assert column in columns[table] and row in rows, figure
    assert {s.row for paper in papers.papers() for s in paper.sentences} <= {row for row in papers.measured_rows()}, (
        "a verdict on a row that is not measured"
    )


def test_a_sixth_method_brings_its_own_paper_and_goals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Toy(Baseline):
        name, title, paper = "toy", "A toy", "On Toys"

    class Plain(Baseline):
        name, title, paper = "plain", "Plain", "Nowhere"

    for kind in (Toy, Plain):
        for registry in (METHODS, REGISTRY):
            monkeypatch.setitem(registry, kind.name, kind)
    for file in papers_data.FOLDER.glob("*.toml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "toy.toml").write_text(
        'setting = "a shelf"\nbaseline = { name = "no toy", wer = 1.0 }\n'
        '[[rows]]\npaper = { name = "a toy", wer = 2.0 }\n'
        '[[goals]]\nwhat = "LM gain"\nfigure = "lm_gain"\nat_least = 1.5\n'
    )
    monkeypatch.setattr(papers_data, "FOLDER", tmp_path)
    more = [r for name in ("toy", "plain") for r in [*spoken(name, [1, 2, 3]), *timed(name, 2.0)]]
    found = summary.newest(everything() + more)
    sound = results.codec_table(found)
    assert "*A toy*: On Toys (a shelf)" in papers_table.render(found, sound, {})
    assert "| `toy` | LM gain | ≥ 1.5 | 2 | met |" in goals.render(found, sound)
    assert "A toy (`toy`)" in results.small_table(found)
    assert not papers.paper("plain").goals and papers.paper("toy").rows == (Row.of(Toy),)


def test_long_form_alignment_and_choices_have_their_tables() -> None:
    said = lambda errors: {"thirds": [[n, 10] for n in errors], "seconds": 20.0 * len(errors), "cut": False}
    long = lambda text, *errors: record(BASE, text, said(errors) | {"kv_peak": 1e6}, analyses.LONG)
    more = [
        long("p1", 1, 1, 2),
        long("all-1", 1, 9, 2, 9, 3),
        record(BASE, "t0", dict.fromkeys(analyses.SCORES, 0.5), analyses.ALIGNMENT),
        record(OTHER, "t9", {"errors": 1, "words": 9, "stats": {"chunk_sizes": {"2": 1, "4": 1}}}),
    ]
    shown = results.render(summary.newest(everything() + more))
    minute = "| `baseline` | 1 | 60 | 0 | 1 | 10 | 10 | 20 | 2 |"
    assert f"{minute}\n| `baseline` | 1 | 100 | 0 | 1 | 10 | 20 | 30 | 3 |" in shown
    assert "| `baseline` | 0.5 | 0.5 | 0.5 |" in shown and "| `tldr patch_size=4` | 3 | 0 | 50 | 0 | 50 |" in shown


def test_methods_together_are_set_against_the_product_of_their_gains() -> None:
    """Of every pair whose methods were all measured; a pair without one of them is left out."""
    found = summary.newest(everything())
    assert not results._combined(found)
    gains = {"dcar-ssd": 1.5, "dcar": 2.0, "ssd": 1.2}
    speeds = {Row.of(METHODS[name]).label: {"lm_gain": gain} for name, gain in gains.items()}
    found = dataclasses.replace(found, speed=pd.DataFrame(speeds).T)
    assert "| 1.5 | 2.00 × 1.20 | 2.4 | 62.5 |" in results._combined(found)
    assert "dcar-compressed" not in results._combined(found)


def test_labels_are_spelt_for_people() -> None:
    assert results.described("tldr patch_size=4") == "`tldr`" and results.described(BASE) == "`baseline`"
    assert results.described("tldr patch_size=8") == "`tldr`, patch size 8"


def test_earlier_weights_are_told_beside_those_of_today(tmp_path: Path) -> None:
    before = [r | {"checkpoint": "old", "date": "2020" + r["date"][4:]} for r in everything() if r["checkpoint"]]
    assert "Earlier weights" not in results.render(summary.newest(everything()))
    path, page, readme = files(tmp_path, before + everything())
    results.write(path, page, readme)
    table = page.read_text().split("## Earlier weights")[1]
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")][2:] == ["abc", "old"]


def test_a_column_that_no_row_fills_is_left_out() -> None:
    columns = (Column("a", "A", 100, 1, interval=True, signed=True), Column("b", "B"))
    shown = table("row", columns, [("one", {"a": 0.1, "a_low": 0.05, "a_high": 0.25}), ("two", {})])
    assert shown.splitlines() == ["| row | A |", "| --- | --- |", "| one | +10.0 ± 10.0 |", "| two |  |"]


def test_the_plot_shows_every_point_and_the_line_of_the_best() -> None:
    points = summary.trade_off(summary.newest(everything()))
    svg = plot.draw(points)
    assert svg == plot.draw(points)  # the same bytes each time
    drawn = {name: len(re.findall("<use ", part)) for name, part in re.findall(r'<g id="(\w+)">(.*?)</g>', svg, re.S)}
    for method in {p.method for p in points}:
        assert drawn[method] == sum(p.method == method for p in points)
    best = plot.front(points)
    assert best[0].short in svg
    assert best == sorted(best, key=lambda p: p.time) and all(
        not (other.time < p.time and other.errors < p.errors) for p in best for other in points
    )


def test_names_in_the_plot_stand_on_nothing() -> None:
    """A crowd of points gets fewer names, and none of two that are alike is written over the other."""
    crowd = [summary.Point("tldr patch_size=8", 0.5 + 0.001 * i, 10 - 0.001 * i, 9) for i in range(60)]
    assert 1 <= plot.draw(crowd).count("tldr patch size 8") < 12


def test_the_readme_shows_what_results_md_shows() -> None:
    """Both are written by one command from one set of records."""
    page = results.RESULTS.read_text(encoding="utf-8")
    shown = readme_table(results.README).replace(f"({results.PLOT})", f"(../../{results.PLOT})")
    assert shown and shown in page
    assert re.search(r"Checkpoint [0-9a-f]{12}, .+, until", shown)
    assert all(row.method.name in shown for row in defaults())


def test_what_rows_of_few_pairs_owe_to_the_baselines_luck_is_said() -> None:
    few = [Row.of(METHODS["tldr"], patch_size=size).label for size in (6, 8)]
    some = lambda row, errors, **more: spoken(row, [errors] * OTHER_PAIRS, **more)
    kept = [r for r in everything() if r["kind"] != "quality" or r["row"] not in {BASE, *few}]
    runs = [*some(BASE, 0), *some(BASE, 4, seed=1), *some(few[0], 2), *some(few[1], 2)]
    shown = results.render(summary.newest([*kept, *runs]))
    assert "The 2 rows of 48 pairs share these, on which the baseline errs in 0.0 % of words (20.0 % on all" in shown
