"""Trained modules on disk: save and load by name, with a manifest of hashes, from a folder or the Hugging Face Hub.

A checkpoint is a folder with one sub-folder per module (``config.json``, ``model.safetensors``, ``README.md``) and
``manifest.json``, the SHA-256 of every file. Nothing is loaded whose hash is not the manifest's. safetensors only, in
several files, as the Hub's libraries split them, where one would be too large for a Git repository on the Hub.
"""

import dataclasses
import functools
import hashlib
import importlib
import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .config import UserError

BUNDLED = Path(__file__).parents[1] / "checkpoints"
MANIFEST = "manifest.json"
CONFIG, CARD = "config.json", "README.md"
WEIGHTS = "model*.safetensors"  # one file, or several
LARGEST = 9_000_000  # bytes of a file; 10 MB is what a plain Git push to the Hub takes

CARD_HEAD = """---
language: en
license: mit
tags: [text-to-speech]
---

# {module}

`{class}`, {millions:.2f} million parameters, stored as {dtype}. \
Part of the bundled English text-to-speech stack; load it with `tts_demo.load_stack()`."""
LIMITS = (
    "English only, trained on a few hours of read speech. Its output is synthetic and should be labelled so; do not "
    "use it to imitate a person without consent."
)

_TABLES = tomllib.loads(Path(__file__).with_name("modules.toml").read_text(encoding="utf-8"))
BUILDERS: dict[str, list[str]] = _TABLES["builders"]  # folder -> class of the module, class of its config


def resolve(root: str | Path) -> Path:
    """The folder of a checkpoint: a path, a bundled name (``nano``), or a Hub repository
    (``owner/name[@revision]``)."""
    path = Path(root)
    if path.is_dir():
        return path
    if (BUNDLED / path).is_dir():
        return BUNDLED / path
    if re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", str(root)) and not str(root).startswith((".", "/")):
        return _download(str(root))
    raise UserError(f"There is no checkpoint {str(root)!r}: give a folder, a Hub repository (owner/name), or nano.")


def _download(repository: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    name, _, revision = repository.partition("@")
    try:
        return Path(
            snapshot_download(
                name, revision=revision or None, allow_patterns=[MANIFEST, f"*/{CONFIG}", f"*/{WEIGHTS}*", f"*/{CARD}"]
            )
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise UserError(
            f"{repository!r} is neither a folder here nor a repository the Hugging Face Hub would hand out "
            f"({first_line(error)}): check the name and the network."
        ) from error


def first_line(error: Exception) -> str:
    """What an error says, short enough for a sentence; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120].rstrip(".")


def sha256(path: Path) -> str:
    """Of a file's content, read in pieces; computed once per process for an unchanged file."""
    info = path.stat()
    return _sha256(str(path), info.st_size, info.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _sha256(path: str, size: int, modified: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(root: Path) -> dict[str, str]:
    """Relative path -> SHA-256."""
    files = _manifest(root).get("files")
    if not isinstance(files, dict):
        raise UserError(f"{root / MANIFEST} is damaged: fetch the checkpoint again.")
    return files


def read_extra(root: Path) -> dict[str, Any]:
    """What the manifest holds beside the files (lineage.py)."""
    return {key: value for key, value in _manifest(root).items() if key != "files"}


def _manifest(root: Path) -> dict[str, Any]:
    path = root / MANIFEST
    if not path.is_file():
        raise UserError(f"{path} is missing: fetch the checkpoint again, or train with 'python -m tts_demo train lm'.")
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise UserError(f"{path} is damaged: fetch the checkpoint again.") from None


def checkpoint_hash(root: Path) -> str:
    """Twelve hex digits that change whenever any weight or configuration of the checkpoint does."""
    return short_hash({k: v for k, v in read_manifest(root).items() if not k.endswith(CARD)})


def short_hash(files: dict[str, str]) -> str:
    """Twelve hex digits of files and their hashes."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12]


def modules(root: Path) -> set[str]:
    """The modules that a checkpoint holds, by folder."""
    return {path.parent.name for path in root.glob(f"*/{WEIGHTS}")}


def modules_hash(root: Path, names: Collection[str]) -> str:
    """Twelve hex digits of those of these modules that a checkpoint holds; '' for none."""
    held = modules(root).intersection(names)
    of_held = lambda key: key.split("/")[0] in held and not key.endswith(CARD)
    return short_hash({k: v for k, v in read_manifest(root).items() if of_held(k)}) if held else ""


def shape_hash(root: Path, name: str) -> str:
    """Of what a module is beside its weights: class, configuration, number of parameters, dtype; '' for none."""
    return read_manifest(root).get(f"{name}/{CONFIG}", "")


def available(root: Path, name: str) -> bool:
    """Whether this checkpoint holds the module. Reads no weights."""
    return any((root / name).glob(WEIGHTS))


def _verified(root: Path, name: str, file: str) -> Path:
    path, key = root / name / file, f"{name}/{file}"
    if not path.is_file():
        raise UserError(
            f"The module {name!r} is missing under {root}: fetch the whole checkpoint, or make the module with "
            f"'python -m tts_demo train {name}'."
        )
    expected = read_manifest(root).get(key)
    if expected is None:
        raise UserError(f"{root / MANIFEST} does not list {key}: fetch the checkpoint or train the module again.")
    if sha256(path) != expected:
        raise UserError(
            f"{path} is not the file its manifest lists (cut short or changed): fetch it again, "
            f"with 'git lfs pull' if this is a clone."
        )
    return path


def _weights(root: Path, name: str) -> list[str]:
    """The files that the module's weights lie in by the manifest; where it lists none, the usual one, which is then
    missed."""
    listed = [Path(key) for key in read_manifest(root)]
    return [path.name for path in listed if path.match(f"{name}/{WEIGHTS}")] or ["model.safetensors"]


def read_config(root: str | Path, name: str) -> dict[str, Any]:
    """The module's config.json."""
    return json.loads(_verified(resolve(root), name, CONFIG).read_text(encoding="utf-8"))


def load_module(root: str | Path, name: str, module: nn.Module | None = None, keep_config: bool = False) -> nn.Module:
    """The trained module ``name``, float32 on the CPU, in evaluation mode and without gradients. ``module``: load into
    this one (a method's own); None: build it from its config.json. ``keep_config``: the module keeps its own
    configuration where it could take the stored one over."""
    folder = resolve(root)
    if name == "decoder" and not available(folder, name):  # older checkpoints hold it within the codec
        module = _import("codec.decoder.from_codec")(_read_weights(folder, "codec"))
        return module.float().eval().requires_grad_(False)
    try:
        if module is None:
            module = _build(name, read_config(folder, name))
        elif hasattr(module, "use_config") and not keep_config:
            module.use_config(read_config(folder, name).get("config", {}))
        state = _read_weights(folder, name)
        module.load_state_dict(renamed(state, type(module).__name__))
    except UserError:
        raise
    except Exception as error:  # whatever other sizes or a file that is none make of it
        detail = " ".join(str(error).split())[:160]
        raise UserError(f"{folder / name} does not fit this code; fetch or train it again ({detail}).") from None
    return module.float().eval().requires_grad_(False)


def _read_weights(folder: Path, name: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    state: dict[str, torch.Tensor] = {}
    for file in _weights(folder, name):
        state |= load_file(_verified(folder, name, file))
    return state


def renamed(state: dict[str, torch.Tensor], kind: str, published: bool = False) -> dict[str, torch.Tensor]:
    """The weights of a class of module under today's names (``modules.toml``), or under the ``published`` ones."""
    names, found = _TABLES["renamed_weights"].get(kind, {}), {}
    if published:
        names = {new: old for old, new in names.items()}
    for key, value in state.items():
        prefix = next((prefix for prefix in names if key.startswith(prefix)), "")
        found[names[prefix] + key.removeprefix(prefix) if prefix else key] = value
    return found


def _build(name: str, config: dict[str, Any]) -> nn.Module:
    if name not in BUILDERS:
        raise UserError(f"Unknown module {name!r}; those built from a checkpoint alone are: {', '.join(BUILDERS)}.")
    make, shape = (_import(path) for path in BUILDERS[name])
    known = {f.name for f in dataclasses.fields(shape)}
    values = {k: v for k, v in config.get("config", {}).items() if k not in _TABLES["retired_fields"].get(name, ())}
    if set(values) - known:
        raise UserError(f"The checkpoint's {name} needs a newer version (it sets {sorted(set(values) - known)[0]}).")
    return make(shape(**values))


def _import(path: str) -> Any:
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)


def save_module(
    root: str | Path,
    name: str,
    module: nn.Module,
    *,
    facts: dict[str, Any] | None = None,
    scores: dict[str, float] | None = None,
    log: list[dict[str, Any]] | None = None,
    dtype: torch.dtype = torch.float16,
) -> Path:
    """Write the module, its configuration and its model card, and bring the manifest up to date. Floating-point weights
    are stored as ``dtype``, those it cannot hold as float32."""
    from huggingface_hub import save_torch_state_dict

    folder = Path(root) / name
    folder.mkdir(parents=True, exist_ok=True)
    state = {key: _stored(value, dtype) for key, value in module.state_dict().items()}
    config = getattr(module, "config", None)
    record = {
        "module": name,
        "class": type(module).__name__,
        "config": dataclasses.asdict(config) if dataclasses.is_dataclass(config) else {},
        "parameters": sum(p.numel() for p in module.parameters()),
        "dtype": str(dtype).removeprefix("torch."),
    }
    with tempfile.TemporaryDirectory(dir=folder) as part:
        save_torch_state_dict(state, part, max_shard_size=LARGEST)
        made = sorted(Path(part).iterdir())
        for path in made:
            os.replace(path, folder / path.name)
    for path in folder.glob("model*.safetensors*"):
        if path.name not in {new.name for new in made}:  # those that earlier weights were split into
            path.unlink()
    (folder / CONFIG).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    (folder / CARD).write_text(model_card(record, facts or {}, scores or {}, log or []), encoding="utf-8")
    _update_manifest(Path(root), name)
    return folder


def _stored(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    value = value.detach().cpu().contiguous()
    small = value.to(dtype) if value.is_floating_point() else value
    # A copy of its own: safetensors refuses tensors that share memory.
    return (small if torch.isfinite(small).all() else value.float()).clone()


def how_it_was_made(root: str | Path, name: str) -> str:
    """The commands on the module's card, those before it first, with their steps and hours; "" where the card has
    none."""
    card = resolve(root) / name / CARD
    lines = card.read_text(encoding="utf-8").splitlines() if card.exists() else []
    facts = dict(line[4:].split("**: ", 1) for line in lines if line.startswith("- **") and "**: " in line)
    if "command" not in facts:
        return ""
    last = f"{facts['command']} ({facts.get('steps', '?')} steps, {facts.get('wall-clock hours', '?')} h)"
    return "; ".join(filter(None, (facts.get("begun with", ""), last)))


def copy_module(source: Path, root: Path, name: str) -> None:
    """Copy a module from one checkpoint to another, instead of the one of this name there."""
    listed = [Path(key).name for key in read_manifest(source) if key.startswith(f"{name}/")]
    verified = [_verified(source, name, file) for file in listed]
    folder = root / name
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for path in verified:
        shutil.copyfile(path, folder / path.name)
    _update_manifest(root, name)


def _update_manifest(root: Path, name: str) -> None:
    exists = (root / MANIFEST).exists()
    files, extra = (read_manifest(root), read_extra(root)) if exists else ({}, {})
    files = {key: value for key, value in files.items() if not key.startswith(f"{name}/")}
    written = (path for path in (root / name).iterdir() if path.name in (CONFIG, CARD) or path.match(f"{WEIGHTS}*"))
    files |= {f"{name}/{path.name}": sha256(path) for path in written}
    write_manifest(root, files, extra)


def write_manifest(root: Path, files: dict[str, str], extra: dict[str, Any]) -> None:
    """files: relative path -> SHA-256; extra: see ``read_extra``."""
    path, content = root / MANIFEST, {"files": dict(sorted(files.items())), **extra}
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def model_card(
    record: dict[str, Any], facts: dict[str, Any], scores: dict[str, float], log: list[dict[str, Any]]
) -> str:
    """README.md of one module: what it is, how it was made, what it scored, what it is not for."""
    rows = [row for row in log if "held_out" not in row]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    curve = [[str(row.get(column, "")) for column in columns] for row in rows[:: max(1, len(rows) // 12)]]
    sections = {
        "Training": [f"- **{key}**: {value}" for key, value in facts.items()],
        "Held-out scores": _table(["score", "value"], [[key, f"{value:.4g}"] for key, value in scores.items()]),
        "Training curve": _table(columns, curve),
        "Limits": [LIMITS],
    }
    parts = [CARD_HEAD.format(**record, millions=record["parameters"] / 1e6)]
    parts += ["\n".join([f"## {title}", "", *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join(parts) + "\n"


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of Markdown; none without rows."""
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return [lines[0], "|" + "---|" * len(heads), *lines[1:]] if rows else []
