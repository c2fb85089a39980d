"""Records that new weights do not touch. When a module of a checkpoint is replaced, what was measured of rows that do
not read it holds for the new checkpoint as well, and is not measured again. Nor is what was timed of a row that reads
it, if the new module computes as much as the old and no weight decides how many frames a step yields."""

from pathlib import Path

from .. import checkpoints
from ..methods import REGISTRY
from ..stacks.nano import CODEBOOK_REFINER
from . import gpu
from .records import UNTIMED, Record, Records, key_of
from .rows import Row, defaults

CARRIED = "carried"  # field of such a record: the checkpoint that it was measured with
EARLIER = 4  # checkpoints before the newest whose records are kept
REWEIGHTED = "reweighted"  # and of one that was timed: modules that it reads and that have other weights now


def carry(records: Records, before: Path, after: Path) -> int:
    """Take over the records of the checkpoint ``before`` that hold for ``after``, under the hash of that one; returns
    how many. Those that ``after`` has already are left out. Of the earlier checkpoint the rows with default settings
    stay too, for the table of earlier weights; the others are moved, and what is older than the last ``EARLIER``
    checkpoints goes (history has it), so that the file does not grow with every module."""
    old, new = (checkpoints.checkpoint_hash(root) for root in (before, after))
    names = sorted(checkpoints.modules(before) | checkpoints.modules(after))
    differ = lambda of: {name for name in names if of(before, name) != of(after, name)}
    changed = differ(lambda root, name: checkpoints.modules_hash(root, [name]))
    reshaped = differ(checkpoints.shape_hash)
    known, kept, taken = records.keys(), {row.label for row in defaults()}, 0

    def move(record: Record) -> list[Record]:
        nonlocal taken
        touched = changed & read_by(record["row"], names)
        timed = record["kind"] not in UNTIMED and not touched & reshaped and not paced(record["row"])
        if record.get("checkpoint") != old or touched and not timed:
            return [record]
        found = record | {"checkpoint": new, CARRIED: record.get(CARRIED, old)}
        if touched:
            found[REWEIGHTED] = sorted(touched.union(record.get(REWEIGHTED, ())))
        if key_of(found) in known:
            return [record]
        taken += 1
        return [record, found] if record["row"] in kept else [found]

    records.rewrite(move)
    latest: dict[str, str] = {}
    for record in records.read():
        if record["kind"] != gpu.KIND and record["checkpoint"] not in ("", new):
            latest[record["checkpoint"]] = max(latest.get(record["checkpoint"], ""), record["date"])
    gone = sorted(latest, key=latest.get, reverse=True)[EARLIER:]
    records.rewrite(lambda record: [] if record["checkpoint"] in gone else [record])
    return taken


def read_by(row: str, names: list[str]) -> set[str]:
    """Which of a checkpoint's modules a row reads: those of its method with its options, and those that belong to no
    method. Rows that are no method's (of the codec, of a peer) read the latter and the refiner of several codebooks."""
    of_methods = set().union(*({*method.needs_weights, *method.reads} for method in REGISTRY.values()))
    shared = set(names) - of_methods
    if row.split()[0] not in REGISTRY:
        return shared.union({CODEBOOK_REFINER}.intersection(names))
    found = Row.parse(row)
    return shared | found.method.modules_read(found.options)


def paced(row: str) -> bool:
    """Whether weights decide how many frames a step of the row yields, and so how fast it is."""
    if row.split()[0] not in REGISTRY:
        return False
    found = Row.parse(row)
    return found.method.paced_by_weights(found.options)
