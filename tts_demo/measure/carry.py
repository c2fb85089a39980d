"""Records that new weights do not touch. When a module of a checkpoint is replaced, what was measured of rows that do
not read it holds for the new checkpoint as well, and is not measured again."""

from pathlib import Path

from .. import checkpoints
from ..methods import REGISTRY
from .records import Record, Records, key_of
from .rows import Row, defaults

CARRIED = "carried"  # field of such a record: the checkpoint that it was measured with


def carry(records: Records, before: Path, after: Path) -> int:
    """Take over the records of the checkpoint ``before`` whose rows read the same modules in ``after``, under the hash
    of that one; returns how many. Those that ``after`` has already are left out. Of the earlier checkpoint the rows
    with default settings stay too, for the table of earlier weights; the others are moved, so that the file does not
    grow by all of them with every module."""
    old, new = (checkpoints.checkpoint_hash(root) for root in (before, after))
    names = sorted(checkpoints.modules(before) | checkpoints.modules(after))
    changed = {name for name in names if len({checkpoints.modules_hash(root, [name]) for root in (before, after)}) > 1}
    known, kept, taken = records.keys(), {row.label for row in defaults()}, 0

    def move(record: Record) -> list[Record]:
        nonlocal taken
        if record.get("checkpoint") != old or changed & read_by(record["row"], names):
            return [record]
        found = record | {"checkpoint": new, CARRIED: record.get(CARRIED, old)}
        if key_of(found) in known:
            return [record]
        taken += 1
        return [record, found] if record["row"] in kept else [found]

    records.rewrite(move)
    return taken


def read_by(row: str, names: list[str]) -> set[str]:
    """Which of a checkpoint's modules a row reads: those of its method with its options, and those that belong to no
    method. Rows that are no method's (of the codec, of a peer) read the latter."""
    of_methods = set().union(*({*method.needs_weights, *method.reads} for method in REGISTRY.values()))
    shared = set(names) - of_methods
    if row.split()[0] not in REGISTRY:
        return shared
    found = Row.parse(row)
    return shared | found.method.modules_read(found.options)
