"""A checkpoint that holds only some modules, completed with the bundled ones: what a person trained, heard at once."""

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import checkpoints, lineage


def completed(folder: Path, base: Path | None = None) -> tuple[Path, tuple[str, ...]]:
    """-> a checkpoint of the modules in ``folder`` and, where those are not all, of the others in ``base`` (default:
    the bundled one), and one sentence for each thing that was done. Modules of ``base`` that were trained through
    others than are now there are left out. ``folder`` may be new or empty; it is never written to. A checkpoint that
    lacks nothing is returned as it is."""
    base = base or checkpoints.resolve("nano")
    own = checkpoints.modules(folder)
    borrowed = sorted(checkpoints.modules(base) - own)
    if not borrowed:
        return folder, ()
    both = _linked(folder, own, base, borrowed)
    if outdated := sorted(lineage.stale(both, borrowed)):
        borrowed = [name for name in borrowed if name not in outdated]
        both = _linked(folder, own, base, borrowed)
    notes = [f"From the bundled checkpoint: {_listed(borrowed)}."] if own and borrowed else []
    if outdated:
        verb = "was" if len(outdated) == 1 else "were"
        notes.append(f"Left out: {_listed(outdated)}, which {verb} trained through modules that are replaced here.")
    return both, tuple(notes)


def _linked(folder: Path, own: Sequence[str] | set[str], base: Path, borrowed: Sequence[str]) -> Path:
    """A temporary folder, removed when the process ends, whose modules are links into the two checkpoints."""
    both = Path(tempfile.mkdtemp(prefix="tts-demo-"))
    atexit.register(shutil.rmtree, both, ignore_errors=True)
    files: dict[str, str] = {}
    extra: dict[str, dict[str, object]] = {}
    for source, names in ((base, borrowed), (folder, own)):
        if not names:
            continue
        for name in names:
            (both / name).symlink_to((source / name).resolve(), target_is_directory=True)
        files |= {k: v for k, v in checkpoints.read_manifest(source).items() if k.split("/")[0] in names}
        for key, entries in checkpoints.read_extra(source).items():
            extra[key] = extra.get(key, {}) | {name: entry for name, entry in entries.items() if name in names}
    checkpoints.write_manifest(both, files, extra)
    return both


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
