"""Checkpoints: what is saved comes back, and nothing that is missing, changed or foreign is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tts_demo import checkpoints
from tts_demo.config import SpeakerConfig, UserError

SMALL = SpeakerConfig(mels=80, width=16, layers=1, embedding=8)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    from tts_demo.codec.speaker import SpeakerEncoder

    torch.manual_seed(0)
    checkpoints.save_module(
        tmp_path,
        "speaker",
        SpeakerEncoder(SMALL),
        facts={"recipe": "speaker", "seed": 0},
        scores={"error": 0.25},
        log=[{"step": 100, "loss": 1.5}, {"step": 200, "held_out": {}}],
    )
    return tmp_path


def test_a_module_comes_back_as_it_was(root: Path) -> None:
    from tts_demo.codec.speaker import SpeakerEncoder

    torch.manual_seed(0)
    original, loaded = SpeakerEncoder(SMALL), checkpoints.load_module(root, "speaker")
    assert loaded.config == SMALL and not loaded.training
    for a, b in zip(original.parameters(), loaded.parameters(), strict=True):
        assert b.dtype == torch.float32 and not b.requires_grad
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4)  # stored as fp16
    assert {p.name for p in (root / "speaker").iterdir()} == {"config.json", "model.safetensors", "README.md"}


def test_large_weights_lie_in_several_files_none_of_which_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LARGEST", 2000)
    layers = nn.Sequential(*(nn.Linear(20, 30) for _ in range(4)))
    checkpoints.save_module(tmp_path, "adapter", layers, dtype=torch.float32)
    parts = sorted((tmp_path / "adapter").glob("*.safetensors"))
    assert len(parts) > 2 and all(f"adapter/{p.name}" in checkpoints.read_manifest(tmp_path) for p in parts)
    fresh = checkpoints.load_module(tmp_path, "adapter", nn.Sequential(*(nn.Linear(20, 30) for _ in range(4))))
    assert all(torch.equal(a, b) for a, b in zip(layers.parameters(), fresh.parameters(), strict=True))
    parts[1].unlink()
    with pytest.raises(UserError, match="missing"):
        checkpoints.load_module(tmp_path, "adapter", layers)
    monkeypatch.setattr(checkpoints, "LARGEST", 9_000_000)
    checkpoints.save_module(tmp_path, "adapter", layers)  # in one file again
    assert {p.name for p in (tmp_path / "adapter").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    listed = {key for key in checkpoints.read_manifest(tmp_path) if key.startswith("adapter/")}
    assert listed == {"adapter/config.json", "adapter/model.safetensors", "adapter/README.md"}


def test_the_card_says_how_it_was_made(root: Path) -> None:
    card = (root / "speaker" / "README.md").read_text()
    assert (
        card.startswith("---\n") and "- **seed**: 0" in card and "| error | 0.25 |" in card and "| 100 | 1.5 |" in card
    )


def test_a_method_module_is_loaded_into_the_one_it_built(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    checkpoints.save_module(tmp_path, "adapter", layer)
    fresh = checkpoints.load_module(tmp_path, "adapter", nn.Linear(3, 2))
    assert torch.allclose(fresh.weight, layer.weight, atol=1e-3)
    with pytest.raises(UserError, match="does not fit"):
        checkpoints.load_module(tmp_path, "adapter", nn.Linear(4, 2))
    with pytest.raises(UserError, match="Unknown module"):
        checkpoints.load_module(tmp_path, "adapter")


def test_values_that_half_precision_cannot_hold_stay_whole(tmp_path: Path) -> None:
    layer = nn.Linear(1, 1)
    layer.weight.data.fill_(1e6)
    checkpoints.save_module(tmp_path, "big", layer)
    assert checkpoints.load_module(tmp_path, "big", nn.Linear(1, 1)).weight.item() == 1e6


def test_the_hash_follows_weights_not_cards(root: Path) -> None:
    before = checkpoints.checkpoint_hash(root)
    assert len(before) == 12 and before == checkpoints.checkpoint_hash(root)
    module = checkpoints.load_module(root, "speaker")
    checkpoints.save_module(root, "speaker", module, facts={"other": "card"})
    assert checkpoints.checkpoint_hash(root) == before
    next(module.parameters()).data.add_(1)
    checkpoints.save_module(root, "speaker", module)
    assert checkpoints.checkpoint_hash(root) != before


@pytest.mark.parametrize("damage", ["cut", "changed", "config"])
def test_a_damaged_file_is_refused(root: Path, damage: str) -> None:
    path = root / "speaker" / ("config.json" if damage == "config" else "model.safetensors")
    data = bytearray(path.read_bytes())
    path.write_bytes(data[:-9] if damage == "cut" else bytes([*data[:-9], data[-9] ^ 1, *data[-8:]]))
    with pytest.raises(UserError, match="not the file its manifest lists"):
        checkpoints.load_module(root, "speaker")


def test_what_is_missing_is_named(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'codec' is missing.*train codec"):
        checkpoints.load_module(root, "codec")
    assert checkpoints.available(root, "speaker") and not checkpoints.available(root, "codec")
    with pytest.raises(UserError, match="no checkpoint 'nowhere'"):
        checkpoints.resolve("nowhere")
    (root / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        checkpoints.load_module(root, "speaker")
    (root / "manifest.json").unlink()
    with pytest.raises(UserError, match="manifest.json is missing"):
        checkpoints.load_module(root, "speaker")


def test_a_newer_configuration_is_refused_in_words(root: Path) -> None:
    path = root / "speaker" / "config.json"
    record = json.loads(path.read_text())
    record["config"]["wings"] = 2
    path.write_text(json.dumps(record))
    files = json.loads((root / "manifest.json").read_text())["files"]
    files["speaker/config.json"] = checkpoints.sha256(path)
    (root / "manifest.json").write_text(json.dumps({"files": files}))
    with pytest.raises(UserError, match="newer version.*wings"):
        checkpoints.load_module(root, "speaker")


def test_a_hub_repository_is_fetched_by_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def fetch(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.update(name=name, revision=revision, patterns=allow_patterns)
        return str(root)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert checkpoints.load_module("someone/voice@v2", "speaker").config == SMALL
    assert asked["name"] == "someone/voice" and asked["revision"] == "v2"
    assert not any("bin" in p or "pt" in p.split("/")[-1].split(".") for p in asked["patterns"])  # safetensors only


def test_an_unreachable_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(UserError, match="someone/voice.*check the name and the network"):
        checkpoints.resolve("someone/voice")


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("model.safetensors", lambda data: b"\xff" * 200 + data),
        ("model.safetensors", lambda data: data[: len(data) // 2]),
        ("model.safetensors", lambda data: b""),
        ("config.json", lambda data: data.replace(b'"width": 16', b'"width": 32')),
        ("config.json", lambda data: data.replace(b'"width": 16', b'"width": -1')),
        ("config.json", lambda data: data.replace(b'"width": 16', b'"width": "wide"')),
        ("config.json", lambda data: data.replace(b'"layers": 1', b'"layers": null')),
        ("config.json", lambda data: data.replace(b'"config": {', b'"config": [{').replace(b"}", b"}]", 1)),
        ("config.json", lambda data: data[:40]),
    ],
)
def test_other_weights_or_sizes_under_a_valid_manifest_are_a_sentence(root: Path, file: str, change) -> None:
    path = root / "speaker" / file
    data = change(path.read_bytes())
    assert data != path.read_bytes()
    path.write_bytes(data)
    checkpoints._update_manifest(root, "speaker")
    with pytest.raises(UserError) as found:
        checkpoints.load_module(root, "speaker")
    assert "speaker" in str(found.value) and "\n" not in str(found.value)


def test_weights_are_renamed_once_and_back() -> None:
    state = {"quantizer.books.0.entries": torch.zeros(1), "encoder.stem.weight": torch.ones(1)}
    today = checkpoints.renamed(state, "Codec")
    assert list(today) == ["quantizer.codebooks.0.entries", "encoder.stem.weight"]
    assert list(checkpoints.renamed(today, "Codec", published=True)) == list(state)
    assert checkpoints.renamed(today, "Codec") == today
