"""A checkpoint of some modules, completed with those of another: nothing is written to either."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tts_demo import checkpoints, lineage
from tts_demo.overlay import completed


def save(root: Path, name: str, seed: int) -> None:
    torch.manual_seed(seed)
    checkpoints.save_module(root, name, nn.Linear(2, 2))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "base"
    for seed, name in enumerate(("lm", "codec", "speaker", "tldr")):
        save(root, name, seed)
    lineage.record(root, ["tldr"], root)
    return root


def test_a_whole_checkpoint_is_used_as_it_is(base: Path) -> None:
    assert completed(base, base) == (base, ())


def test_a_new_folder_is_completed_and_stays_as_it_was(base: Path, tmp_path: Path) -> None:
    both, notes = completed(tmp_path / "new", base)
    assert checkpoints.modules(both) == checkpoints.modules(base) and notes == ()
    assert not (tmp_path / "new").exists()
    assert checkpoints.checkpoint_hash(both) == checkpoints.checkpoint_hash(base)


def test_what_is_missing_comes_from_the_base_and_is_named(base: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    save(mine, "tldr", 9)
    before = sorted(mine.rglob("*"))
    both, notes = completed(mine, base)
    assert notes == ("From the bundled checkpoint: codec, lm and speaker.",)
    own, theirs = (checkpoints.load_module(root, "tldr", nn.Linear(2, 2)).weight for root in (mine, base))
    found = checkpoints.load_module(both, "tldr", nn.Linear(2, 2)).weight
    assert torch.equal(found, own) and not torch.equal(found, theirs)
    assert checkpoints.checkpoint_hash(both) != checkpoints.checkpoint_hash(base)
    assert sorted(mine.rglob("*")) == before


def test_what_was_trained_through_a_replaced_module_is_left_out(base: Path, tmp_path: Path) -> None:
    save(tmp_path / "mine", "lm", 9)
    both, notes = completed(tmp_path / "mine", base)
    assert checkpoints.modules(both) == {"lm", "codec", "speaker"}
    assert notes[1] == "Left out: tldr, which was trained through modules that are replaced here."
    lineage.check(both, checkpoints.modules(both))
