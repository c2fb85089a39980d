"""The released configurations build exactly the released state dicts."""

import pytest
import torch

from tts_demo.stacks.cosyvoice.configs import version_2, version_3
from tts_demo.stacks.cosyvoice.flow import build_flow
from tts_demo.stacks.cosyvoice.hift import Hift

from cosyvoice_tiny import released_keys

CONFIGS = {2: version_2(), 3: version_3()}


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
    hift = Hift(CONFIGS[version].hift)
    mine = {key: tuple(value.shape) for key, value in hift.state_dict().items()}
    assert mine == released_keys(f"hift_{version}")
    assert len(mine) == 328
    assert sum(p.numel() for p in hift.parameters()) == parameters
