"""Rows are defaults and what the papers' files name: a sixth method has its rows without a line outside its file."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tts_demo.config import UserError
from tts_demo.measure import rows
from tts_demo.methods import METHODS, REGISTRY
from tts_demo.methods.base import Options, dial
from tts_demo.methods.baseline import Baseline
from tts_demo.report import papers

PACKAGE = Path(rows.__file__).parents[1]


@dataclass(frozen=True)
class ToyOptions(Options):
    size: int = dial(3, "Size", "Of nothing.", min=1, max=9)


class Toy(Baseline):
    name = "toy"
    Options = ToyOptions
    presets = ({"size": 5}, {"size": 3})


def test_defaults_come_first_and_every_dial_has_one_row() -> None:
    found = papers.measured_rows()
    usual = [method for method in METHODS.values() if not method.combines]
    assert [row.method for row in rows.defaults()] == usual
    assert found[: len(usual)] == rows.defaults() and len(set(found)) == len(found)
    assert {row.method for row in found} == {*REGISTRY.values()}
    assert rows.BASELINE.name == "baseline"
    assert [row.main for row in found].count(True) == len(usual)


def test_rows_that_something_is_concluded_from_are_few() -> None:
    """They speak every text with every seed in ``evaluate --all``, the others OTHER_PAIRS of them."""
    judged = papers.judged_rows()
    assert rows.BASELINE in {row.method for row in judged} and judged <= {*papers.measured_rows()}
    assert len(judged | {*rows.defaults()}) <= 20


def test_a_sixth_method_has_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (METHODS, REGISTRY):
        monkeypatch.setitem(registry, "toy", Toy)
    mine = [row for row in papers.measured_rows() if row.method is Toy]
    assert [row.label for row in mine] == ["toy size=3", "toy size=5"]
    assert [row.main for row in mine] == [True, False]
    assert rows.chosen(["toy"], {"size": "4", "patch_size": "2"})[0].label == "toy size=4"


def test_a_setting_that_a_method_does_not_take_is_refused() -> None:
    with pytest.raises(UserError, match="between"):
        rows.chosen(["tldr"], {"patch_size": "99"})
    with pytest.raises(UserError, match="nonsense"):
        rows.chosen(["nonsense"], {})


def test_a_row_without_weights_is_left_out_with_a_reason_or_refused() -> None:
    class Stack:
        def method(self, name: str) -> object:
            if name != "baseline":
                raise UserError(f"no weights of {name}")
            return type("Fine", (), {"check": lambda self, options: None})()

    fine, skipped = rows.runnable(Stack(), rows.defaults())
    assert fine == rows.defaults()[:1] and len(skipped) == len(rows.defaults()) - 1
    with pytest.raises(UserError, match="no weights"):
        rows.runnable(Stack(), rows.defaults(), strict=True)


def test_no_method_is_named_in_what_measures_and_reports() -> None:
    names = [name for name in REGISTRY if name not in ("baseline", "compressed")]
    for path in [*(PACKAGE / "measure").glob("*.py"), *(PACKAGE / "report").rglob("*.py")]:
        code = re.sub(r'""".*?"""|#.*', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not [name for name in names if re.search(rf"\b{name}\b", code)], path
