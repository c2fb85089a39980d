"""The released configurations build exactly the released state dicts."""

import pytest
import torch
from cosyvoice_tiny import HIFT_2, HIFT_3, randomise, released_keys

from tts_demo.config import UserError
from tts_demo.stacks.cosyvoice import weights
from tts_demo.stacks.cosyvoice.configs import VERSION_2, VERSION_3
from tts_demo.stacks.cosyvoice.flow import build_flow
from tts_demo.stacks.cosyvoice.hift import Hift
from tts_demo.stacks.cosyvoice.lm import TEXT_HEAD, empty_lm

CONFIGS = {2: VERSION_2, 3: VERSION_3}


@pytest.mark.parametrize(("version", "count", "parameters"), [(2, 1121, 112_549_360), (3, 330, 332_257_088)])
def test_flow_keys(version, count, parameters):
    with torch.device("meta"):
        flow = build_flow(CONFIGS[version].flow)
    mine = {key: tuple(value.shape) for key, value in flow.state_dict().items()}
    assert mine == released_keys(f"flow_{version}")
    assert len(mine) == count
    assert sum(p.numel() for p in flow.parameters()) == parameters


@pytest.mark.parametrize(("version", "parameters"), [(2, 20_821_295), (3, 20_779_887)])
def test_hift_keys(version, parameters):
    with torch.device("meta"):
        hift = Hift(CONFIGS[version].hift)
    mine = {key: tuple(value.shape) for key, value in hift.state_dict().items()}
    assert mine == released_keys(f"hift_{version}")
    assert len(mine) == 328
    assert sum(p.numel() for p in hift.parameters()) == parameters


@pytest.mark.parametrize(("version", "count", "parameters"), [(2, 295, 505_803_812), (3, 293, 506_148_480)])
def test_language_model_keys(version, count, parameters):
    config = CONFIGS[version]
    lm = empty_lm(config.lm, config.marker_rows)
    own = {name: tuple(value.shape) for name, value in lm.state_dict().items()}
    mine = {theirs: own[ours] for theirs, ours in lm.released_names()}
    released = released_keys(f"llm_{version}")
    assert released.pop(TEXT_HEAD) == mine["llm.model.model.embed_tokens.weight"]  # an alias of it
    assert mine == released
    assert len(mine) + 1 == count
    stub = lm.backbone.embed_tokens.weight.numel()
    assert sum(p.numel() for p in lm.parameters()) - stub == parameters


def test_special_ids():
    for version, specials, rows in ((2, range(6561, 6564), None), (3, range(6561, 6761), (6561, 6563))):
        config = CONFIGS[version]
        assert range(config.lm.speech_codes, config.lm.vocab) == specials  # every one of them ends speech
        assert config.marker_rows == rows


def respelt(state: dict, spelling: str) -> dict:
    """The vocoder's weights as other files write them."""
    if spelling == "parametrizations":
        return dict(state)
    for number, old in enumerate(("weight_g", "weight_v")):
        state = {key.replace(f"parametrizations.weight.original{number}", old): value for key, value in state.items()}
    return {f"generator.{key}": value for key, value in state.items()} if spelling == "generator" else state


@pytest.mark.parametrize(
    ("spelling", "zipped"), [("parametrizations", True), ("weight_g", True), ("generator", True), ("weight_g", False)]
)
def test_weight_norm_spellings(tmp_path, spelling, zipped):
    """``zipped`` False: the file format of torch before 1.6, which cannot be mapped from disk."""
    saved = randomise(Hift(HIFT_2), scale=0.12)
    torch.save(respelt(saved.state_dict(), spelling), tmp_path / "hift.pt", _use_new_zipfile_serialization=zipped)
    loaded = Hift(HIFT_2)
    weights.load_hift(loaded, tmp_path / "hift.pt")
    for key, value in saved.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key


def test_weights_of_another_model_are_refused(tmp_path):
    torch.save(randomise(Hift(HIFT_3)).state_dict(), tmp_path / "hift.pt")
    with pytest.raises(UserError, match="not the released model's file"):
        weights.load_hift(Hift(HIFT_2), tmp_path / "hift.pt")
