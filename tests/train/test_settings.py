"""Settings of recipes: typed, frozen, refused with the nearest name before anything is loaded, and listed with help."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from tts_demo import checkpoints
from tts_demo.cli.main import main
from tts_demo.config import UserError
from tts_demo.methods.tldr.modules import ABLATIONS
from tts_demo.train import CPU_ONLY, RECIPES, check, recipe
from tts_demo.train.recipes.qtts import QTTSSettings
from tts_demo.train.recipes.tldr import TLDRSettings
from tts_demo.train.settings import Settings
from tts_demo.train.task import TrainOptions

CARDS = Path(__file__).parents[2] / "checkpoints" / "nano"


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_names_and_explains_its_settings(name: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", name, "--help"])
    listed = capsys.readouterr().out
    assert end.value.code == 0 and f"--steps {recipe(name).steps} " in listed
    task = recipe(name)
    assert name in (task.name, f"tldr-{getattr(task, 'ablate', None)}")
    settings = task.Settings
    assert issubclass(settings, Settings) and settings.parse({}) == settings()
    for key, default, text in settings.described():
        assert text and f"\n  {key}={default}\n" in listed
    assert {key for key, *_ in settings.described()} == set(settings.model_fields) >= set(Settings.model_fields)


@pytest.mark.parametrize(
    "words, message",
    [
        (["giude=1"], "'guide'"),
        (["guide=1", "optimizer=muon"], "'optimiser'"),
        (["guide=x"], "guide=x: input should be a valid number"),
        (["guide=-1"], "greater than or equal to 0"),
        (["guide=nan"], "finite"),
        (["optimiser=adam"], "'adamw' or 'muon'"),
        (["width=100"], "multiple of 64"),
        (["longest=0"], "greater than or equal to 1"),
        (["zzz=1"], "This recipe has: "),
    ],
)
def test_a_mistake_ends_with_one_sentence_before_anything_is_read(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["train", "lm", "--data", str(tmp_path / "none"), "--set", *words]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
    assert ("Did you mean" in told) == (message in ("'guide'", "'optimiser'"))


def test_a_misspelt_recipe_is_told_the_nearest(capsys: pytest.CaptureFixture) -> None:
    assert main(["train", "decodr"]) == 2 and "'decoder'" in capsys.readouterr().err


@pytest.mark.parametrize("name", CPU_ONLY)
def test_what_trains_on_the_cpu_may_do_so_in_several_processes(name: str) -> None:
    for device in ("cpu", "cpu:1"):  # accelerate calls that of its second process so
        check(name, TrainOptions(Path("speech"), device=device))
    with pytest.raises(UserError, match="--device cpu"):
        check(name, TrainOptions(Path("speech"), device="cuda:0"))


def test_settings_are_typed_and_frozen() -> None:
    some = QTTSSettings.parse({"codebooks": "2,4", "own": "0", "teacher": "a:b/c", "helpers": "d", "chained": "900"})
    assert some.codebooks == (2, 4) and some.own == 0.0 and some.teacher == (Path("a"), Path("b/c"))
    assert some.helpers == Path("d") and some.chained == 900 and some.start == "new"
    with pytest.raises(ValidationError):
        some.own = 0.5
    with pytest.raises(UserError, match="must be some of 2, 4, 8"):
        QTTSSettings.parse({"codebooks": "3"})
    with pytest.raises(UserError, match="valid integer"):
        QTTSSettings.parse({"codebooks": "x"})


def test_ablations_are_those_of_the_method() -> None:
    for name in ("none", *ABLATIONS):
        assert TLDRSettings(ablate=name).ablate == name
    with pytest.raises(UserError, match=" or ".join(("none", *ABLATIONS))[:4]):
        TLDRSettings.parse({"ablate": "head"})


def test_commands_on_published_cards_are_accepted() -> None:
    """What people have copied from a card goes on working."""
    history = [checkpoints.how_it_was_made(CARDS, name) for name in sorted(checkpoints.modules(CARDS))]
    commands = [words for made in history for words in re.findall(r"tts_demo train ([^;()]+)", made)]
    for command in dict.fromkeys(commands):
        if command.startswith("codec-decoder ") or "start=recogniser" in command or "price=" in command:  # gone since
            continue
        given = dict(pair.split("=", 1) for pair in re.findall(r"--set (\S+=\S+)", command))
        recipe(command.split()[0]).Settings.parse(given)
    assert len(commands) > 20


def test_settings_keep_the_names_that_cards_call_them_by() -> None:
    found = TLDRSettings.parse({"drawn": "1", "spoken": "0.5"})
    assert (found.sampled, found.on_policy) == (1.0, 0.5)
