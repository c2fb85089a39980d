"""A method is everywhere by being registered: on the page, in the command line, in the rows that are measured. And a
sixth method needs one file and one line of the registry."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tts_demo.cli import main as cli
from tts_demo.config import UserError
from tts_demo.measure import rows
from tts_demo.methods import METHODS, REGISTRY, checked, find
from tts_demo.methods.base import Method, Replay
from tts_demo.methods.baseline import Baseline
from tts_demo.report import papers
from tts_demo.ui.page import controls, texts

ROOT = Path(__file__).parents[2]
every_method = pytest.mark.parametrize("name", list(METHODS))


@every_method
def test_it_is_on_the_page(name):
    kind = METHODS[name]
    (drawn,) = [entry for entry in controls.catalogue() if entry["name"] == name]  # what the browser gets
    for words in (kind.idea, kind.cached, kind.emits, kind.paper):
        assert words in drawn.values()
    assert bool(drawn["picture"]) == (kind.picture is not None) and drawn["title"] == kind.title
    assert drawn in texts.about(controls.catalogue())["methods"]
    assert [dial["name"] for dial in drawn["dials"]] == [f.name for f in dataclasses.fields(kind.Options)]
    assert len(drawn["presets"]) == len(kind.presets)
    for preset, chosen in zip(drawn["presets"], kind.presets):
        lane = controls.setting({"method": name, "options": preset["options"]})
        assert (lane.method, lane.options) == (name, kind.Options(**chosen))


@every_method
def test_it_is_in_the_command_line(name, capsys):
    assert cli.main(["methods", "--json"]) == 0
    (listed,) = [row for row in json.loads(capsys.readouterr().out) if row["name"] == name]
    kind = METHODS[name]
    assert [o["name"] for o in listed["options"]] == [f.name for f in dataclasses.fields(kind.Options)]
    words = {option["name"]: str(option["default"]) for option in listed["options"]}
    assert find(name).Options.parse(words) == kind.Options()


@every_method
def test_it_has_its_rows(name):
    measured = [row for row in papers.measured_rows() if row.method is METHODS[name]]
    asked = {row.options for row in papers.paper(name).rows if row.method is METHODS[name]}
    assert {row.options for row in measured} == {METHODS[name].Options(), *asked}
    assert [row for row in rows.defaults() if row.method is METHODS[name]] == [row for row in measured if row.main]


def test_comparison_models_belong_to_a_method_and_are_no_choice():
    variants = {name: kind for name, kind in REGISTRY.items() if name not in METHODS}
    assert variants and all(kind.variant_of in METHODS and kind.neutral is None for kind in variants.values())


def test_a_method_that_lacks_something_is_refused_with_its_name():
    whole = dict(name="a", title="b", paper="c", idea="d", cached="e", emits="f")
    make = lambda base=Baseline, **fields: type("Mine", (base,), fields)
    assert checked(make(**whole)).name == "a"
    bare = {name: value for name, value in whole.items() if name not in ("cached", "emits")}
    steps = dict.fromkeys(("begin", "step", "replay"), lambda *_: None)
    with pytest.raises(UserError, match="Mine cannot be registered: give it cached, emits"):
        checked(make(Method, **bare, **steps))
    with pytest.raises(UserError, match="define replay"):
        checked(make(Method, **whole, begin=steps["begin"], step=steps["step"]))
    with pytest.raises(UserError, match="options {'size': 3} are wrong"):
        checked(make(**whole, presets=({"size": 3},)))


def test_a_wrong_replay_is_told_in_words():
    parts = dict(x=torch.zeros(5, 2), positions=torch.arange(5), mask=torch.ones(5, 5, dtype=torch.bool), decoder=None)
    Replay(**parts, rows=torch.tensor([3, 4]), frames_of=(1, 1))
    with pytest.raises(ValueError, match="one row a step: 2 rows for 3 steps"):
        Replay(**parts, rows=torch.tensor([3, 4]), frames_of=(1, 1, 1))
    with pytest.raises(ValueError, match="must lie in 0 to 4: 86"):
        Replay(**parts, rows=torch.tensor([3, 86]), frames_of=(1, 1))
    with pytest.raises(ValueError, match="as many positions"):
        Replay(**parts | {"positions": torch.arange(4)}, rows=torch.tensor([3]), frames_of=(1,))


def test_a_sixth_method_is_one_file_and_one_line(tmp_path):
    """In a copy of the package: the tests above and the matrix run for it, as many as for another method."""
    if "sixth" in METHODS:
        pytest.skip("this is the copy")
    shutil.copytree(ROOT / "tts_demo", tmp_path / "tts_demo", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "slow.txt", "methods/test_registry.py", "methods/test_matrix.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    shutil.copy(ROOT / "tests" / "methods" / "sixth_method.py", tmp_path / "tts_demo" / "methods" / "sixth.py")
    registry = tmp_path / "tts_demo" / "methods" / "__init__.py"
    lines = registry.read_text().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if '"ssd.SSD"' in line)
    registry.write_text("".join([*lines[: place + 1], '"sixth.Sixth",\n', *lines[place + 1 :]]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "-k", "sixth and not one_line"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    # three here; the three presets, one of them the default, in three tests of the matrix; neutral; interleaved runs
    assert passed == 3 + 3 * 3 + 2
