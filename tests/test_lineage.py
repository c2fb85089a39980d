"""A module is refused once what it was trained through has changed, and says so in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch import nn

from tts_demo import checkpoints, lineage
from tts_demo.config import UserError

BUNDLED = checkpoints.BUNDLED / "nano"


class Codec(nn.Module):
    def __init__(self, encoder: float = 1.0, decoder: float = 1.0) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(2, 2), nn.Linear(2, 2)
        nn.init.constant_(self.encoder.weight, encoder)
        nn.init.constant_(self.decoder.weight, decoder)
        for bias in (self.encoder.bias, self.decoder.bias):
            nn.init.zeros_(bias)


def weight(value: float) -> nn.Module:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, value)
    return layer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkpoint in which everything was trained through what it holds."""
    folder = tmp_path / "checkpoint"
    checkpoints.save_module(folder, "codec", Codec())
    for name in ("speaker", "lm", "dcar-heads", "dcar-policy"):
        checkpoints.save_module(folder, name, weight(1.0))
        lineage.record(folder, [name], folder)
    return folder


def test_what_a_module_was_trained_through_stands_in_the_manifest(root):
    through = json.loads((root / checkpoints.MANIFEST).read_text())["through"]
    assert set(through) == {"lm", "dcar-heads", "dcar-policy"}
    assert set(through["lm"]) == {"codec:codes", "speaker"} and set(through["dcar-policy"]) == {"lm", "dcar-heads"}
    assert lineage.stale(root, checkpoints.modules(root)) == {}
    lineage.check(root, checkpoints.modules(root))


def test_only_what_was_trained_through_the_changed_weights_is_stale(root):
    checkpoints.save_module(root, "codec", Codec(decoder=2.0))  # every code stays as it is
    assert lineage.stale(root, checkpoints.modules(root)) == {}
    checkpoints.save_module(root, "codec", Codec(encoder=2.0))
    assert lineage.stale(root, checkpoints.modules(root)) == {"lm": ["codec:codes"]}
    checkpoints.save_module(root, "codec", Codec())
    checkpoints.save_module(root, "dcar-heads", weight(2.0))
    assert lineage.stale(root, checkpoints.modules(root)) == {"dcar-policy": ["dcar-heads"]}
    assert lineage.stale(root, ["lm"]) == {}  # only those that are asked about


def test_a_decoder_in_a_folder_of_its_own_takes_the_place_of_the_one_within_the_codec(root):
    checkpoints.save_module(root, "refiner", weight(1.0))
    lineage.record(root, ["refiner"], root)
    assert "decoder" in checkpoints.read_extra(root)["through"]["refiner"]
    checkpoints.save_module(root, "codec", Codec(decoder=2.0))
    assert lineage.stale(root, ["refiner"]) == {"refiner": ["decoder"]}
    checkpoints.save_module(root, "codec", Codec())
    checkpoints.save_module(root, "decoder", weight(1.0))
    assert lineage.stale(root, ["refiner", "lm"]) == {"refiner": ["decoder"]}
    lineage.record(root, ["decoder"], root)  # trained through this refiner: the two fit, whichever came last
    assert lineage.stale(root, checkpoints.modules(root)) == {}
    checkpoints.save_module(root, "refiner", weight(3.0))
    lineage.record(root, ["refiner"], root)
    assert lineage.stale(root, checkpoints.modules(root)) == {}


def test_a_card_or_a_new_file_name_makes_nothing_stale(root):
    checkpoints.save_module(root, "lm", weight(1.0), facts={"new": "card"})
    assert lineage.stale(root, checkpoints.modules(root)) == {}


def test_a_stale_module_is_refused_in_a_sentence_unless_that_is_asked_for(root):
    checkpoints.save_module(root, "lm", weight(3.0))
    with pytest.raises(UserError, match="'dcar-heads' was trained through another 'lm'.*train dcar-heads.*allow-stale"):
        lineage.check(root, ["dcar-heads"])
    lineage.check(root, ["dcar-heads"], allow_stale=True)


def test_an_exception_holds_for_the_very_weights_it_was_made_for(root):
    checkpoints.save_module(root, "lm", weight(3.0))
    lineage.allow(root, "dcar-heads", "not trained anew yet")
    assert set(lineage.stale(root, checkpoints.modules(root))) == {"dcar-policy"}
    checkpoints.save_module(root, "dcar-heads", weight(5.0))
    assert "dcar-heads" in lineage.stale(root, checkpoints.modules(root))
    lineage.record(root, ["dcar-heads"], root)
    assert lineage.stale(root, ["dcar-heads"]) == {}


def test_modules_trained_together_are_noted_with_each_other_s_new_weights(root, tmp_path):
    out = tmp_path / "out"
    checkpoints.save_module(out, "codec", Codec(encoder=7.0))
    checkpoints.save_module(out, "refiner", weight(1.0))
    lineage.record(out, ["codec", "refiner"], root)
    through = checkpoints.read_extra(out)["through"]["refiner"]
    assert through["codec:codes"] == lineage.present(out, ["codec:codes"])["codec:codes"]
    assert through["speaker"] == lineage.present(root, ["speaker"])["speaker"]


def test_a_candidate_is_adopted_with_what_it_was_trained_through(root, tmp_path):
    candidate = tmp_path / "candidate"
    checkpoints.save_module(candidate, "dcar-heads", weight(9.0))
    lineage.record(candidate, ["dcar-heads"], root)
    lineage.adopt(candidate, root, "dcar-heads")
    assert checkpoints.load_module(root, "dcar-heads", nn.Linear(1, 1, bias=False)).weight.item() == 9.0
    assert lineage.stale(root, checkpoints.modules(root)) == {"dcar-policy": ["dcar-heads"]}


def test_the_bundled_checkpoint_holds_nothing_stale_but_what_it_allows():
    held = checkpoints.modules(BUNDLED)
    extra = checkpoints.read_extra(BUNDLED)
    assert lineage.stale(BUNDLED, held) == {}
    for name in held & set(lineage.THROUGH):
        assert set(extra["through"][name]) == set(lineage.THROUGH[name]), f"{name}: run lineage.record"
    for name, entry in extra.get("allowed", {}).items():
        was = extra["through"][name]
        assert lineage.present(BUNDLED, was) != was and len(entry["why"]) > 20, (
            f"{name} is not stale any more: take it out of the manifest"
        )
