"""The README shows what results.json holds, and goals are judged by the figures alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tts_demo.report import analyses as results_analyses
from tts_demo.report import goals as results_goals
from tts_demo.report import machines as results_machines
from tts_demo.report import papers as results_papers
from tts_demo.report import plot as results_plot
from tts_demo.report import results

CONDITIONS = {
    "checkpoint": "x",
    "recogniser": "R",
    "voice model": "V",
    "mos model": "M",
    "device": "cpu",
    "machine": "m",
    "dtype": "float32",
    "threads": 1,
    "torch": "2",
    "seed": 0,
}
SPEED = CONDITIONS | {
    "rounds": 1,
    "seconds": 10.0,
    "runtime": "eager",
    "load_average": [0.0],
    "weight_bytes_per_step": 1e6,
    "bandwidth_gb_s": 5.0,
}


def quality(wer: float, **more: float) -> dict:
    return {"texts": 4, "runs": 4, "wer": wer, "wer_interval": [wer - 0.01, wer + 0.01], "sim": 0.8, **more}


def speed(lm_rtf: float, gain: float, **more) -> dict:
    return {"lm_rtf": lm_rtf, "lm_gain": gain, "rtf": 2 * lm_rtf, **more}


EVALUATE = {
    "command": "e",
    "conditions": CONDITIONS,
    "rows": {
        "baseline": quality(0.10),
        "tldr patch_size=4": quality(0.15),
        "qtts strategy=delay codebooks=8 delay=1": quality(0.2),
    },
}
BENCH = {
    "command": "b",
    "conditions": SPEED,
    "rows": {
        "baseline": speed(0.2, 1.0, kv_speech_12s=100),
        "tldr patch_size=4": speed(0.12, 1.7, kv_speech_12s=25),
        "qtts strategy=delay codebooks=8 delay=1": speed(
            0.25, 0.8, method="qtts", options={"strategy": "delay", "codebooks": 8, "delay": 1}
        ),
    },
}


def test_the_readme_shows_exactly_what_was_measured() -> None:
    assert results.shown() == results.render(results.load())


def test_a_row_of_another_precision_is_marked() -> None:
    now = CONDITIONS | {"dtype": "float32, weights float16"}
    rows = {"baseline": quality(0.10, precision=now["dtype"]), "tldr patch_size=4": quality(0.15)}
    text = results.render({"evaluate": {"command": "e", "conditions": now, "rows": rows}})
    assert "patches of 4 * |" in text or "tldr patch_size=4 * |" in text
    assert "| baseline | 4" in text and "marked * were spoken with float32 weights" in text
    assert " * |" not in results.render({"evaluate": EVALUATE})


def test_keeping_a_section_renders_it(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"a\n{results.BEGIN}\nold\n{results.END}\nb\n")
    figures = {
        "command": "python -m tts_demo.measure.codec",
        "conditions": {"checkpoint": "x"},
        "recordings": 3,
        "rows": {"8 books": {"stoi": 0.5, "pesq": 3.0}},
    }
    results.keep("codec", figures, tmp_path / "results.json", readme)
    text = readme.read_text()
    assert text.startswith("a\n") and text.endswith("\nb\n") and "old" not in text
    assert "| 8 books | 0.500 | 3.00 |" in text
    assert "| codec, 8 codebooks: STOI | ≥ 0.94 | 0.500 | **missed** |" in text
    assert "| codec, 8 codebooks: PESQ wide band | ≥ 2.6 | 3.00 | met |" in text
    assert "| baseline: LM-RTF | ≤ 0.2 |  | not measured |" in text
    more = figures | {"rows": {"4 books": {"stoi": 0.4, "pesq": 2.0}}, "command": "another"}
    for _ in range(2):
        results.keep("codec", more, tmp_path / "results.json", readme)
    kept = json.loads((tmp_path / "results.json").read_text())["codec"]
    assert (
        set(kept["rows"]) == {"8 books", "4 books"} and kept["command"] == "python -m tts_demo.measure.codec && another"
    )
    results.keep("codec", more | {"command": "a third"}, tmp_path / "results.json", readme)
    again = json.loads((tmp_path / "results.json").read_text())["codec"]
    assert (
        again["command"] == "python -m tts_demo.measure.codec && a third" and again["made_by"]["4 books"] == "a third"
    )
    results.keep("codec", more | {"rows": kept["rows"], "command": "all of it"}, tmp_path / "results.json", readme)
    assert json.loads((tmp_path / "results.json").read_text())["codec"]["command"] == "all of it"
    changed = more | {"conditions": {"checkpoint": "y"}}
    results.keep("codec", changed, tmp_path / "results.json", readme)
    assert set(json.loads((tmp_path / "results.json").read_text())["codec"]["rows"]) == {"4 books"}


def test_speeds_stay_while_the_weights_do_that_they_follow_from(tmp_path: Path) -> None:
    """Quality that other weights had goes; what ``bench`` measured of a method stays beside it, until that method's
    pace is another."""
    path, readme = tmp_path / "results.json", tmp_path / "README.md"
    readme.write_text(f"{results.BEGIN}\n{results.END}")
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {"lm/model.safetensors": "0" * 64}}))
    old = {
        "command": "bench",
        "conditions": {"checkpoint": "x", "paces": {"ssd": "p", "compressed": "c"}},
        "rows": {"draft lengths": {}, "lengths": {}, "heads": {}},
        "follows": {"draft lengths": "ssd", "lengths": "compressed"},
        "made_of": {"heads": {"modules": ["lm"], "hash": "other"}},
    }
    new = {"command": "evaluate", "conditions": {"checkpoint": "y"}, "rows": {"long form": {}}, "made_of": {}}
    for paces, left in (
        ({"ssd": "p", "compressed": "c"}, {"draft lengths", "lengths"}),
        ({"ssd": "q", "compressed": "c"}, {"lengths"}),
        ({"ssd": "q"}, set()),
        ({}, set()),
    ):
        path.write_text(json.dumps({"analyses": old}))
        assert results_machines.still_paced(old, paces) == left
        results.keep("analyses", new | {"conditions": new["conditions"] | {"paces": paces}}, path, readme)
        kept = json.loads(path.read_text())["analyses"]
        assert set(kept["rows"]) == left | {"long form"} and kept["command"] == (
            "bench && evaluate" if left else "evaluate"
        )
        assert set(kept.get("follows", {})) == left and results_machines.still_paced(kept, paces) == left


def test_speeds_of_two_machines_stand_apart(tmp_path: Path) -> None:
    """One table is of one machine; what another measured is kept and shown beside it, while it holds, and comes back as
    the table when that machine measures again."""
    path, readme = tmp_path / "results.json", tmp_path / "README.md"
    readme.write_text(f"{results.BEGIN}\n{results.END}")

    def measured(device: str, gain: float, pace: str = "p", label: str = "tldr patch_size=4") -> dict:
        return {
            "command": device,
            "conditions": SPEED | {"device": device, "paces": {"tldr": pace}},
            "rows": {label: speed(0.1, gain, ms_per_step=1.0)},
            "follows": {label: "tldr"},
        }

    lengths = {
        "command": "a",
        "conditions": SPEED | {"paces": {"tldr": "p"}},
        "rows": {"lengths": {}, "heads": {}},
        "follows": {"lengths": "tldr"},
        "made_of": {},
    }
    results.keep("bench", measured("old", 1.5), path, readme)
    path.write_text(json.dumps(results.load(path) | {"analyses": lengths}))
    assert "another machine" not in readme.read_text()
    results.keep("bench", measured("old", 1.1, label="tldr patch_size=8"), path, readme)
    assert set(results.load(path)["analyses"]["rows"]) == {"lengths", "heads"}
    results.keep("bench", measured("new", 1.9), path, readme)
    # time along long speech is the other machine's, too
    assert set(results.load(path)["analyses"]["rows"]) == {"heads"}
    kept, text = results.load(path)["bench"], readme.read_text()
    assert (
        list(kept["rows"]) == ["tldr patch_size=4"] and kept["command"] == "new" and set(kept["elsewhere"]) == {"old"}
    )
    assert (
        "**On another machine.** old" in text
        and "| tldr patch_size=4 | 1.00 | 1.00 | 0.100 | 0.100 | 1.90 | 1.50 |" in text
    )
    assert "| tldr, patch 4: LM gain | ≥ 1.8 | 1.90; 1.50 on old | met; **missed** |" in text
    # a row of the other machine alone proves nothing here
    assert "| tldr, patch 8: LM gain | ≥ 2.4 |  | not measured |" in text
    results.keep("bench", measured("old", 1.6), path, readme)
    kept = results.load(path)["bench"]
    assert (
        set(kept["elsewhere"]) == {"new"}
        and kept["rows"]["tldr patch_size=4"]["lm_gain"] == 1.6
        and len(kept["rows"]) == 2
    )
    results.keep("bench", measured("old", 1.7, pace="q"), path, readme)
    assert set(results.load(path)["bench"]["elsewhere"]) == {"new"} and "another machine" not in readme.read_text()


def test_an_analysis_that_has_got_a_row_of_other_modules_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    (tmp_path / "manifest.json").write_text(
        json.dumps({"files": {f"{name}/model.safetensors": name for name in ("lm", "tldr")}})
    )
    made = {"long form": results.made_of(["lm"], tmp_path), "semantic loss": results.made_of(["lm"], tmp_path)}
    path.write_text(json.dumps({"analyses": {"rows": dict.fromkeys(made, {}), "made_of": made}}))
    assert set(results.unchanged("analyses", path=path)) == set(made)
    assert set(results.unchanged("analyses", path=path, reads={"long form": ["lm"]}.get)) == set(made)
    assert set(results.unchanged("analyses", path=path, reads={"long form": ["lm", "tldr"]}.get)) == {"semantic loss"}


@pytest.mark.parametrize("sections", [("evaluate",), ("bench",), ("evaluate", "bench"), ("analyses",)])
def test_any_section_may_be_missing(sections: tuple[str, ...], tmp_path: Path) -> None:
    readme, path = tmp_path / "README.md", tmp_path / "results.json"
    readme.write_text(f"{results.BEGIN}\n{results.END}\n")
    whole = {
        "evaluate": EVALUATE,
        "bench": BENCH,
        "analyses": {
            "conditions": CONDITIONS,
            "rows": {
                "guidance": {"figure": "wer", "error_rates": {str(n): n / 10 for n in range(1, 8)}, "best": [1, 2, 3]}
            },
        },
    }
    for section in sections:
        results.keep(section, whole[section], path, readme)
    shown = results.shown(readme)
    assert shown == results.render(results.load(path)) and "not measured" in shown
    assert ("*TLDR*" in shown) == ("analyses" not in sections) and ("fixed chunk sizes" in shown) == (
        "analyses" in sections
    )
    assert (tmp_path / results.PLOT).is_file() == (sections == ("evaluate", "bench")) == (results.PLOT in shown)


def test_the_sentence_under_a_table_follows_from_the_figures() -> None:
    tldr = results_papers.PAPERS[0]
    said = results_papers.sentence(tldr, {"evaluate": EVALUATE, "bench": BENCH})
    assert said == (
        "patch 4 against CosyVoice3: speed-up 1.80 in the paper, 1.70 here, which agrees; WER changes by +0.01 points in the "
        "paper, by +5.00 here, which does not agree, ours is 5.0 points worse."
    )
    slow = {"bench": {"rows": BENCH["rows"] | {"tldr patch_size=4": speed(0.2, 0.9)}}}
    assert results_papers.sentence(tldr, slow).endswith("0.90 here, which does not agree, ours is 50% lower.")
    wide = {
        "evaluate": {
            "rows": EVALUATE["rows"]
            | {"tldr patch_size=4": quality(0.15, wer_above_baseline=0.04, wer_above_baseline_interval=[-0.1, 0.2])}
        }
    }
    assert "by +4.00 here, which 4 texts cannot tell apart (± 15.0)" in results_papers.sentence(tldr, wide)
    assert results_papers.sentence(tldr, {}) == "Not measured here yet."


def test_a_change_in_errors_stands_with_its_interval() -> None:
    row = quality(0.15, wer_above_baseline=0.03, wer_above_baseline_interval=[-0.01, 0.07])
    found = {"evaluate": EVALUATE | {"rows": {"baseline": quality(0.12), "tldr patch_size=4": row}}}
    assert (
        "| tldr, patch 4: WER above the baseline's, points | ≤ 1 | 3.00 (-1.00 to 7.00) | **missed** |"
        in results_goals.render(found)
    )
    assert "| tldr patch_size=4 | 4 | 4 | 15.0 ± 1.0 | +3.0 ± 4.0 |" in results.render(found)


def test_what_an_ablation_changes_is_told_with_its_direction() -> None:
    tldr, rows = (
        results_papers.PAPERS[0],
        {
            "tldr-short patch_size=4": quality(0.5),
            "tldr-no-lora patch_size=4": quality(0.4),
            "tldr-mean-pool patch_size=4": quality(0.6),
        },
    )
    said = results_papers.ablations(tldr, {"evaluate": {"rows": rows}})
    assert "no LoRA: WER % +5.63 in the paper, -10.00 here (the other direction); mean pool" in said
    assert "+0.63 in the paper, +10.00 here (the same direction)" in said and "no speaker" not in said
    assert (
        results_papers.ablations(tldr, {})
        == results_papers.ablations(results_papers.PAPERS[1], {"evaluate": {"rows": rows}})
        == ""
    )


def test_a_papers_figures_stay_in_its_columns() -> None:
    unpublished = [line.name for paper in results_papers.PAPERS for line in paper.lines if not line.published]
    for line in results_papers.render({"evaluate": {"rows": {}}, "bench": {"rows": {}}}).splitlines():
        cells = line.strip("|").split("|")
        if "`" in line and len(cells) > 4 and cells[0].strip() not in unpublished:
            assert not any(cell.strip() for cell in cells[3::2]) and any(cell.strip() for cell in cells[2::2]), line


def test_labels_of_the_papers_are_rows_that_are_measured() -> None:
    from tts_demo.measure.cases import EVERYTHING, rows_for

    labels = [row.label for row in rows_for(EVERYTHING, {})]
    for paper in results_papers.PAPERS:
        for line in paper.lines:
            assert any(label == line.label or label.startswith(line.label + " ") for label in labels), line.label


def test_an_option_is_not_taken_for_a_longer_one() -> None:
    rows = {
        "x": {"rows": {"dcar chunk_range=2,3,4": 1, "dcar chunk_range=2,3": 2, "qtts strategy=delay codebooks=8": 3}}
    }
    assert results_goals.find_row(rows, "x", "dcar chunk_range=2,3") == 2
    assert results_goals.find_row(rows, "x", "qtts strategy=delay") == 3
    with pytest.raises(StopIteration):
        results_goals.find_row(rows, "x", "dcar chunk_range=2")


def test_the_plot_draws_every_setting_and_the_front() -> None:
    found = results_plot.points({"evaluate": EVALUATE, "bench": BENCH})
    assert [p.label for p in results_plot.front(found)] == ["tldr patch_size=4", "baseline"]
    svg = ElementTree.fromstring(results_plot.draw(found))
    circles = svg.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2 * len(found)  # and one a method in the legend
    babble = {"ssd-draft-alone": quality(0.9)}
    more = {
        "evaluate": EVALUATE | {"rows": EVALUATE["rows"] | babble},
        "bench": BENCH | {"rows": BENCH["rows"] | {"ssd-draft-alone": speed(0.01, 9)}},
    }
    assert results_plot.points(more) == found
    assert results_plot.ticks(0, 0.27) == [0, 0.05, 0.1, 0.15, 0.2, 0.25] and results_plot.ticks(0, 34) == [
        0,
        10,
        20,
        30,
    ]


def test_figures_of_different_weights_are_not_joined() -> None:
    other = {"evaluate": EVALUATE, "bench": BENCH | {"conditions": SPEED | {"checkpoint": "y"}}}
    assert (
        not results_plot.points(other)
        and not results_analyses.trade_off(other)
        and results.PLOT not in results.render(other)
    )
    same_pace = {
        section: figures | {"conditions": figures["conditions"] | {"pace": "z"}} for section, figures in other.items()
    }
    assert results_plot.points(same_pace) and results_analyses.trade_off(same_pace)


def test_qtts_rows_are_joined() -> None:
    joined = results_analyses.trade_off({"evaluate": EVALUATE, "bench": BENCH})
    assert joined == [
        {"strategy": "delay", "codebooks": 8, "delay": 1, "wer": 0.2, "sim": 0.8, "lm_rtf": 0.25, "rtf": 0.5}
    ]
    assert re.search(r"\| delay \| 8 \| 1 \| 0.25 \|", results_analyses.render({"rows": {"qtts trade-off": joined}}))
