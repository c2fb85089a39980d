"""What each module of a checkpoint was trained through, and whether that has changed since.

A refiner learns to feed one decoder, an adapter reads the hidden states of one language model: after these are trained
again, it no longer fits them as well as its card says, and nothing else would notice. So the manifest names, for every
module, the hashes of the weights that it was trained through (``through``), and a stack that holds others is refused.
``allowed`` in the manifest lists exceptions, each for the very weights that it was made for, with its reason.
"""

import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from . import checkpoints
from .config import UserError

# Module -> what it was trained through: modules, or a part of one. Not listed: what merely measured it (the recogniser
# and the vocoder behind a reward), and what else was trained on the way to it.
_LM = ("lm",)
THROUGH: dict[str, tuple[str, ...]] = {
    "lm": ("codec:codes", "speaker"),
    "decoder": ("codec:codes", "refiner"),
    "refiner": ("codec:codes", "decoder", "speaker"),
    "refiner-books": ("codec:codes", "decoder", "refiner", "speaker", "qtts-delay", "qtts-hierarchical"),
    **dict.fromkeys(("tldr", "compressed", "compressed-text", "dcar-heads", "ssd-draft"), _LM),
    **dict.fromkeys(("dcar-short-heads", "dcar-equal-heads", "tldr-short", "tldr-no-lora", "tldr-no-speaker"), _LM),
    **dict.fromkeys(("tldr-mean-pool", "tldr-parallel", "tldr-mtp"), _LM),
    **dict.fromkeys(("qtts-delay", "qtts-hierarchical"), ("codec:codes", "lm")),
    **dict.fromkeys(("dcar-policy", "dcar-no-chase", "dcar-no-penalty"), ("lm", "dcar-heads")),
}
# ``codec:codes``: the codec but for the waveform decoder that older checkpoints hold within it, which is ``decoder``.
INSIDE = "decoder."


def present(root: Path, names: Collection[str]) -> dict[str, str]:
    """Hashes of these modules and parts as the checkpoint holds them; those that it lacks are left out."""
    found = {name: _hash(root, name) for name in names}
    return {name: digest for name, digest in found.items() if digest}


def record(root: Path, names: Sequence[str], source: Path) -> None:
    """Note what ``names``, modules just written to ``root``, were trained through: each other where trained together,
    else the modules of ``source``."""
    through = {name: {} for name in names}
    for name in names:
        for other in THROUGH.get(name, ()):
            here = root if other.partition(":")[0] in names else source
            through[name] |= present(here, [other])
    _write(root, {"through": {k: v for k, v in through.items() if v}})


def note(root: Path, through: dict[str, dict[str, str]]) -> None:
    """Note what modules just written to ``root`` were trained through: hashes known from elsewhere."""
    _write(root, {"through": through})


def adopt(source: Path, root: Path, name: str) -> None:
    """Copy a module, and what it was trained through, from one checkpoint to another: how a candidate is published."""
    checkpoints.copy_module(source, root, name)
    through = _entries(source, "through").get(name)
    _write(root, {"through": {name: through}} if through else {})


def allow(root: Path, name: str, why: str) -> None:
    """Let this module, as it is now, be used although what it was trained through has changed."""
    _write(root, {"allowed": {name: {"weights": _hash(root, name), "why": why}}})


def stale(root: Path, names: Collection[str]) -> dict[str, list[str]]:
    """Those of these modules that were trained through other weights than the checkpoint holds, and which those are.
    Allowed ones are left out. Nothing is known of a module that the manifest does not list."""
    through, allowed, found = _entries(root, "through"), _entries(root, "allowed"), {}
    for name in names:
        if not checkpoints.available(root, name):
            continue
        now = present(root, through.get(name, ()))
        own = _hash(root, name)
        fits = lambda other: through.get(other, {}).get(name) == own  # made for this one, later than it
        changed = [o for o, was in through.get(name, {}).items() if now.get(o, was) != was and not fits(o)]
        if changed and allowed.get(name, {}).get("weights") != own:
            found[name] = changed
    return found


def check(root: Path, names: Collection[str], allow_stale: bool = False) -> None:
    """Raises UserError where one of these modules is stale."""
    if allow_stale or not (found := stale(root, names)):
        return
    name, changed = next(iter(found.items()))
    named = ["encoder or quantizer of 'codec'" if other == "codec:codes" else repr(other) for other in changed]
    raise UserError(
        f"The module {name!r} was trained through another {' and another '.join(named)} than "
        f"{root.name} holds: make it anew with 'python -m tts_demo train {name}', or use it all the same with "
        "--allow-stale."
    )


def _hash(root: Path, name: str) -> str:
    """Twelve hex digits of the weights of a module or a part; '' where the checkpoint has none. A module's are those of
    its files in the manifest, a part's those of its tensors."""
    if checkpoints.available(root, name):
        return checkpoints.short_hash(_files(root, name))
    if name in ("codec:codes", "decoder") and (files := _files(root, "codec")):
        return _tensors_hash([root / key for key in sorted(files)], name == "decoder")
    return ""


def _files(root: Path, module: str) -> dict[str, str]:
    if not (root / checkpoints.MANIFEST).exists():
        return {}
    listed = checkpoints.read_manifest(root).items()
    return {key: digest for key, digest in listed if Path(key).match(f"{module}/*.safetensors")}


def _tensors_hash(paths: Sequence[Path], inside: bool) -> str:
    """Of a codec's tensors: those of the decoder inside it ('' for none), or all others."""
    from safetensors import safe_open

    digest = hashlib.sha256()
    files = [safe_open(path, framework="np") for path in paths]
    where = {key: file for file in files for key in file.keys() if key.startswith(INSIDE) == inside}
    for key in sorted(where):
        digest.update(key.encode() + where[key].get_tensor(key).tobytes())
    return digest.hexdigest()[:12] if where else ""


def _entries(root: Path, key: str) -> dict[str, Any]:
    return checkpoints.read_extra(root).get(key, {})


def _write(root: Path, changes: dict[str, dict[str, Any]]) -> None:
    extra = checkpoints.read_extra(root)
    for key, entries in changes.items():
        extra[key] = dict(sorted((extra.get(key, {}) | entries).items()))
    checkpoints.write_manifest(root, checkpoints.read_manifest(root), extra)
