"""How the user interface is built: who imports whom, and that importing it leaves no trace."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
UI = ROOT / "tts_demo" / "ui"


def imported(path: Path) -> set[Path]:
    """Files of the user interface that one of them imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = path.parents[node.level - 1].joinpath(*filter(None, (node.module or "").split(".")))
        names = [base, *(base / alias.name for alias in node.names)]
        found |= {name.with_suffix(".py") for name in names if name.with_suffix(".py").is_file()}
    return {p for p in found if UI in p.parents}


def test_no_file_imports_itself_through_others() -> None:
    graph = {path: imported(path) for path in UI.rglob("*.py")}
    assert sum(map(len, graph.values())) > 40  # a reader that saw nothing would let everything pass
    done: set[Path] = set()

    def visit(path: Path, way: tuple[Path, ...]) -> None:
        assert path not in way, " -> ".join(p.name for p in (*way, path))
        if path not in done:
            for other in graph[path]:
                visit(other, (*way, path))
            done.add(path)

    for path in graph:
        visit(path, ())


def test_endpoints_know_nothing_of_the_page() -> None:
    for name in ("api.py", "speech.py", "asked.py", "runs.py", "voices.py"):
        assert not [p for p in imported(UI / name) if p.parent.name == "page"], name


def test_importing_writes_nothing_into_the_package_and_waits_for_no_transformers() -> None:
    before = {p for p in UI.rglob("*") if "__pycache__" not in p.parts}
    program = "import sys, tts_demo.ui; sys.exit('transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
    assert {p for p in UI.rglob("*") if "__pycache__" not in p.parts} == before
    assert not list(UI.rglob("*.pyi"))
