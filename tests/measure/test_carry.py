"""What was measured of rows that read no module that was replaced is taken over, and nothing else."""

import json
from pathlib import Path

import pytest

from tts_demo import checkpoints
from tts_demo.cli.main import main
from tts_demo.measure import gpu
from tts_demo.measure.carry import CARRIED, EARLIER, REWEIGHTED, carry, read_by
from tts_demo.measure.records import Records, Where
from tts_demo.measure.rows import Row, defaults
from tts_demo.methods import REGISTRY

MODULES = ("codec", "lm", "refiner", "refiner-books", "tldr", "dcar-heads", "dcar-policy", "qtts-delay", "ssd-draft")
ROWS = (
    "baseline",
    "tldr patch_size=4",
    "dcar chunk_range=2,3,4",
    "dcar chunk_range=random:2,3",
    "qtts strategy=delay",
    "ssd",
    "dcar-ssd",
    "codec, 8",
)


def checkpoint(root: Path, reshaped: bool = False, **versions: str) -> Path:
    files = {}
    for name in MODULES:
        (root / name).mkdir(parents=True)
        (root / name / "model.safetensors").touch()
        files[f"{name}/model.safetensors"] = versions.get(name.replace("-", "_"), "first")
        files[f"{name}/README.md"] = str(root)  # cards may differ
        files[f"{name}/config.json"] = versions.get(name.replace("-", "_"), "first") if reshaped else "one"
    (root / "manifest.json").write_text(json.dumps({"files": files}))
    return root


def measured(path: Path, root: Path) -> Records:
    records = Records(path)
    where = Where("nano", checkpoints.checkpoint_hash(root), "a processor", "float32", "2.11", "1234567")
    for row in ROWS:
        records.append("quality", row, "a text", 0, where, {"errors": 1})
    records.append("quality", "teacher", "a text", 0, where.nobody, {"errors": 1})
    return records


@pytest.mark.parametrize(
    ("replaced", "anew"),
    [
        ("tldr", {"tldr patch_size=4"}),
        ("refiner_books", {"qtts strategy=delay", "codec, 8"}),  # the codec's table has a row through it
        ("dcar_heads", {"dcar chunk_range=2,3,4", "dcar chunk_range=random:2,3", "dcar-ssd"}),
        ("dcar_policy", {"dcar chunk_range=2,3,4"}),
        ("ssd_draft", {"ssd"}),
        ("refiner", set(ROWS)),
        ("lm", set(ROWS)),
    ],
)
def test_rows_that_read_no_replaced_module_are_taken_over(tmp_path, replaced, anew):
    before, after = checkpoint(tmp_path / "a"), checkpoint(tmp_path / "b", **{replaced: "second"})
    records = measured(tmp_path / "records.jsonl", before)
    new, old = checkpoints.checkpoint_hash(after), checkpoints.checkpoint_hash(before)
    assert carry(records, before, after) == len(ROWS) - len(anew)
    taken = [r for r in records.read() if r["checkpoint"] == new]
    assert {r["row"] for r in taken} == set(ROWS) - anew and all(r[CARRIED] == old for r in taken)
    left = {r["row"] for r in records.read() if r["checkpoint"] == old}  # default rows for the table of earlier weights
    assert left == anew | (set(ROWS) & {row.label for row in defaults()})
    assert [r["row"] for r in records.read() if r["checkpoint"] == ""] == ["teacher"]
    assert carry(records, before, after) == 0  # a second time there is nothing left


CHUNKS, PATCHES = ("dcar chunk_range=3", "dcar chunk_range=sure:2,3"), ("tldr patch_size=8 confidence=0.2",)
TIMED = {*ROWS, *CHUNKS, *PATCHES, "ssd-draft-alone"}


@pytest.mark.parametrize("reshaped", [False, True])
@pytest.mark.parametrize(
    ("replaced", "paced"),
    [
        ("tldr", {"tldr patch_size=8 confidence=0.2"}),
        ("refiner_books", set()),
        ("dcar_heads", {"dcar chunk_range=2,3,4", "dcar chunk_range=sure:2,3", "dcar-ssd"}),
        ("dcar_policy", {"dcar chunk_range=2,3,4"}),
        ("ssd_draft", {"ssd"}),
    ],
)
def test_a_speed_that_no_weight_decides_holds_for_others_of_the_same_shapes(tmp_path, replaced, paced, reshaped):
    before = checkpoint(tmp_path / "a", reshaped)
    after = checkpoint(tmp_path / "b", reshaped, **{replaced: "second"})
    name = replaced.replace("_", "-")
    readers = {row for row in TIMED if name in read_by(row, list(MODULES))}
    records, where = Records(tmp_path / "records.jsonl"), Where("nano", checkpoints.checkpoint_hash(before), *"abcd")
    for row in TIMED:
        records.append("speed", row, "a text", 0, where, {"gain": 1.5})
    assert readers and carry(records, before, after) == len(TIMED) - len(readers if reshaped else paced)
    taken = [r for r in records.read() if r["checkpoint"] == checkpoints.checkpoint_hash(after)]
    assert {r["row"] for r in taken if REWEIGHTED in r} == (set() if reshaped else readers - paced)
    assert all(r[REWEIGHTED] == [name] for r in taken if REWEIGHTED in r)


def test_what_is_taken_over_twice_names_the_checkpoint_that_was_measured(tmp_path):
    roots = [
        checkpoint(tmp_path / "a"),
        checkpoint(tmp_path / "b", tldr="2"),
        checkpoint(tmp_path / "c", tldr="2", ssd_draft="2"),
    ]
    records = measured(tmp_path / "records.jsonl", roots[0])
    for before, after in zip(roots, roots[1:]):
        carry(records, before, after)
    last = [r for r in records.read() if r["checkpoint"] == checkpoints.checkpoint_hash(roots[2])]
    assert {r["row"] for r in last} == set(ROWS) - {"tldr patch_size=4", "ssd"}
    assert {r[CARRIED] for r in last} == {checkpoints.checkpoint_hash(roots[0])}


def test_the_oldest_checkpoints_are_forgotten(tmp_path):
    before, after = checkpoint(tmp_path / "a"), checkpoint(tmp_path / "b", tldr="second")
    records = measured(tmp_path / "records.jsonl", before)
    head = {"row": "baseline", "text": "a text", "seed": 0, "figures": {}}
    with open(records.path, "a") as file:
        for day in range(1, EARLIER + 2):
            file.write(
                json.dumps(head | {"kind": "quality", "checkpoint": f"of {day}", "date": f"2020-01-0{day}"}) + "\n"
            )
        file.write(json.dumps(head | {"kind": gpu.KIND, "checkpoint": "random weights", "date": "2019-01-01"}) + "\n")
    carry(records, before, after)
    own = {checkpoints.checkpoint_hash(root) for root in (before, after)}
    kept = {f"of {day}" for day in range(3, EARLIER + 2)}  # with ``before`` as many as are kept
    assert {r["checkpoint"] for r in records.read()} == kept | own | {"", "random weights"}


def test_every_module_that_a_method_loads_is_known_to_be_read(tiny_lm):
    """By its rows, with whatever settings; which ones read it is the method's to say."""
    for name, method in REGISTRY.items():
        loaded = set(method.build_modules(tiny_lm))
        assert loaded <= {*method.needs_weights, *method.reads}, name
    assert {"dcar-heads", "dcar-policy"} <= read_by("dcar chunk_range=2,3,4", ["dcar-heads", "dcar-policy", "lm"])
    assert read_by("dcar chunk_range=sure:2,3,4", ["dcar-heads", "dcar-policy", "lm"]) == {"dcar-heads", "lm"}


def test_a_folder_that_is_no_checkpoint_is_one_sentence(tmp_path, capsys):
    records = measured(tmp_path / "records.jsonl", checkpoint(tmp_path / "a"))
    assert main(["report", "--records", str(records.path), "--carry", str(tmp_path / "none")]) == 2
    assert "manifest.json" in capsys.readouterr().err


def test_a_row_is_found_again_by_its_label():
    for method in REGISTRY.values():
        for dials in ({}, *method.presets, method.neutral or {}):
            row = Row.of(method, **dials)
            assert Row.parse(row.label) == row
