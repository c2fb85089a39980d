"""The shape of the package: who may import whom, how long a file may be, what lies at the top."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tts_demo"

# Imports go one way: a folder (or a file beside them) may import from its own row and from rows above it, never below.
ROWS = (
    ("config",),
    ("audio", "checks", "prompts", "text", "runtime", "checkpoints", "lineage", "overlay", "rotary", "voices"),
    ("codec", "lm"),
    ("methods", "metrics"),
    ("engine",),
    ("stacks",),
    ("measure", "ui", "train"),
    ("report",),
    ("cli",),
    ("__main__", "__init__"),
)
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}
NEVER = {  # beyond the rows
    "codec": {"lm"},
    "lm": {"codec"},
    "methods": {"metrics"},
    "measure": {"train", "ui"},
    "ui": {"train"},
    "train": {"ui", "measure"},
    "report": {"train", "ui"},
}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part(path: Path) -> str:
    """'tts_demo/lm/cache.py' -> 'lm', 'tts_demo/engine.py' -> 'engine'"""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of our package that a file imports, anywhere in it (functions included)."""
    package = ("tts_demo", *path.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            names = [(*base, *filter(None, (node.module or "").split(".")))]
            if names[0] == ("tts_demo",):  # from . import a, b
                names = [("tts_demo", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        else:
            continue
        found |= {name[1] for name in names if name[0] == "tts_demo" and len(name) > 1}
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    own = part(path)
    assert own in RANK, f"{own} has no row in ROWS: decide where it belongs"
    for other in imported_parts(path) & set(RANK):
        assert RANK[other] <= RANK[own], f"{own} must not import {other}: it lies below it"
        assert other not in NEVER.get(own, ()), f"{own} must not import {other}"


def test_the_reader_of_imports_sees_every_form(tmp_path: Path) -> None:
    """A reader that saw nothing would let everything pass."""
    assert {"config", "lm", "methods"} <= imported_parts(PACKAGE / "methods" / "base.py") | {"methods"}
    assert {"codec", "config"} <= imported_parts(PACKAGE / "codec" / "refiner.py") | {"codec"}
    assert {"config", "measure", "report"} <= imported_parts(PACKAGE / "cli" / "report.py")  # some in a function


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450


def test_every_class_has_a_name_of_its_own() -> None:
    """Two classes of one name are two things under one word."""
    found: dict[str, list[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert set(twice) <= {"Sentence"}, twice  # of a text; of a paper's table


def test_importing_the_package_is_free() -> None:
    """Nothing heavy is imported until it is needed: a command that only complains must answer at once."""
    heavy = "('torch', 'gradio', 'transformers')"
    code = f"import sys, tts_demo, tts_demo.cli; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_top_level_holds_what_the_owner_listed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    allowed = {"app.py", "tts_demo", "assets", "checkpoints", "tests", "requirements.txt", "README.md"}
    assert {name for name in top if not name.startswith(".")} <= allowed


def test_what_is_tracked_fits_into_a_space() -> None:
    """Git on Spaces takes no plain file over 10 MB; all weights together stay below 120 MiB."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    sizes = {name: (ROOT / name).stat().st_size for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    assert not [name for name, size in sizes.items() if size > 10_000_000]
    assert sum(size for name, size in sizes.items() if name.startswith("checkpoints/")) <= 120 * 2**20
