"""The README: a valid Space, the two promised commands, and names that exist."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

import conftest
from tts_demo.cli import main as cli
from tts_demo.methods import METHODS
from tts_demo.report import papers

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
    assert "pip install -r requirements.txt -r tests/requirements.txt && pytest" in README


def test_it_is_short_enough_to_be_read() -> None:
    assert len(README.splitlines()) <= 200


def test_every_method_is_described_with_a_link_to_its_paper() -> None:
    rows = {name: line for name in METHODS for line in README.splitlines() if line.startswith(f"| `{name}` |")}
    assert list(rows) == list(METHODS)
    assert all("https://arxiv.org/abs/" in line for name, line in rows.items() if papers.paper(name).baseline)


def test_pictures_and_pages_that_it_names_are_there() -> None:
    for path in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", ["README.md", "tts_demo/train/README.md"])
def test_example_commands_parse(page: str) -> None:
    """Each ``python -m tts_demo`` line is understood by the command line's own parser."""
    blocks = (ROOT / page).read_text(encoding="utf-8").split("```")[1::2]
    lines = [part.strip() for block in blocks for line in block.splitlines() for part in line.split("&&")]
    lines = [line for line in lines if line.startswith("python -m tts_demo") and not re.search(r"RECIPE|\[--", line)]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line, comments=True)[3:]
        assert cli.build_parser().parse_args(words).command == words[0]


def test_every_command_has_an_example() -> None:
    assert all(f"python -m tts_demo {name}" in README for name in cli.COMMANDS)


def test_requirements_are_bounded() -> None:
    """Everything the application runs on has an upper bound, so that a fresh machine gets what was tested."""
    for file in ("requirements.txt", "tests/requirements.txt"):
        lines = [line.split("#")[0].strip() for line in (ROOT / file).read_text().splitlines()]
        assert all(re.search(r"==[\d.]+\*?$|>=[\d.]+,<[\d.]+", line) for line in lines if line)


def test_torch_and_torchaudio_are_one_exact_pair() -> None:
    """torchaudio's library is built for one torch: a later patch of either alone does not load."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    torch, audio = (next(x for x in lines if x.startswith(f"{name}==")) for name in ("torch", "torchaudio"))
    assert torch.removeprefix("torch") == audio.removeprefix("torchaudio") and re.fullmatch(
        r"torch==\d+\.\d+\.\d+", torch
    )


def test_files_that_need_a_tool_are_found() -> None:
    assert "text/test_text_fuzz.py" in conftest.importing("hypothesis")
    assert conftest.importing("openai") == ["ui/test_openai_speech.py"] and not conftest.importing("playwright")


def test_the_licence_is_the_headers() -> None:
    assert "license: mit" in README.split("---")[1] and "tts_demo/LICENSE" in README
    assert (ROOT / "tts_demo" / "LICENSE").read_text().startswith("MIT License")


def test_the_place_for_figures_is_marked_once() -> None:
    assert README.count("<!-- results:begin -->") == README.count("<!-- results:end -->") == 1


def test_the_licence_of_every_package_is_named():
    section = README.split("## Licences of what it uses")[1].split("## ")[0]
    for file in ("requirements.txt", "tests/requirements.txt", "tts_demo/requirements-quality.txt"):
        for line in (ROOT / file).read_text().splitlines():
            if name := re.match(r"[\w-]+", line):
                assert name[0] in section, name[0]
