"""The README: a valid Space, the two promised commands, and names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tts_demo.cli import main as cli
from tts_demo.methods import METHODS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_front_matter_is_a_valid_space() -> None:
    space = yaml.safe_load(README.split("---")[1])
    assert space["sdk"] == "gradio" and (ROOT / space["app_file"]).is_file()
    assert isinstance(space["python_version"], str) and len(space["short_description"]) <= 60
    low, high = re.search(r"gradio>=([\d.]+),<(\d+)", (ROOT / "requirements.txt").read_text()).groups()
    version = tuple(map(int, space["sdk_version"].split(".")))
    assert tuple(map(int, low.split("."))) <= version[:2] and version[0] < int(high)


def test_the_two_commands_are_there() -> None:
    assert "pip install -r requirements.txt && python app.py" in README
    assert "pip install -r requirements.txt && pytest" in README


def test_every_method_is_described() -> None:
    assert all(f"| `{name}` |" in README for name in METHODS)


def test_example_commands_parse() -> None:
    """Each ``python -m tts_demo`` line is understood by the command line's own parser."""
    import shlex

    block = README.split("## Command line")[1].split("```")[1]
    lines = [part.strip() for line in block.splitlines() for part in line.split("&&") if "tts_demo" in part]
    assert len(lines) >= 8
    for line in lines:
        words = [w.strip("[]") for w in shlex.split(line, comments=True)[3:]]
        assert cli.build_parser().parse_args(words).command == words[0]


def test_requirements_are_bounded() -> None:
    """Everything the application runs on has an upper bound, so that a fresh machine gets what was tested."""
    lines = [line.split("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    assert all(re.search(r"==[\d.]+\*|>=[\d.]+,<[\d.]+", line) for line in lines if line)


def test_the_place_for_figures_is_marked_once() -> None:
    assert README.count("<!-- results:begin -->") == README.count("<!-- results:end -->") == 1


def test_the_licence_of_every_package_is_named():
    section = README.split("## Licences of what it uses")[1].split("## ")[0]
    for file in ("requirements.txt", "tts_demo/requirements-quality.txt"):
        for line in (ROOT / file).read_text().splitlines():
            if name := re.match(r"[\w-]+", line):
                assert name[0] in section, name[0]
