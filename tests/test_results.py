"""The README shows what results.json holds, and goals are judged by the figures alone."""

from __future__ import annotations

import json
from pathlib import Path

from tts_demo import results


def test_the_readme_shows_exactly_what_was_measured() -> None:
    assert results.shown() == results.render(results.load())


def test_keeping_a_section_renders_it(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"a\n{results.BEGIN}\nold\n{results.END}\nb\n")
    figures = {"command": "python -m tts_demo.evaluate_codec", "conditions": {"checkpoint": "x"}, "recordings": 3,
               "rows": {"8 books": {"stoi": 0.5, "pesq": 3.0}}}
    results.keep("codec", figures, tmp_path / "results.json", readme)
    text = readme.read_text()
    assert text.startswith("a\n") and text.endswith("\nb\n") and "old" not in text
    assert "| 8 books | 0.500 | 3.00 |" in text
    assert "| codec, 8 codebooks: STOI | ≥ 0.94 | 0.500 | **missed** |" in text
    assert "| codec, 8 codebooks: PESQ wide band | ≥ 2.6 | 3.00 | met |" in text
    assert "| baseline: LM-RTF | ≤ 0.2 |  | not measured |" in text
    more = figures | {"rows": {"4 books": {"stoi": 0.4, "pesq": 2.0}}}
    results.keep("codec", more, tmp_path / "results.json", readme)
    assert set(json.loads((tmp_path / "results.json").read_text())["codec"]["rows"]) == {"8 books", "4 books"}
    changed = more | {"conditions": {"checkpoint": "y"}}
    results.keep("codec", changed, tmp_path / "results.json", readme)
    assert set(json.loads((tmp_path / "results.json").read_text())["codec"]["rows"]) == {"4 books"}
