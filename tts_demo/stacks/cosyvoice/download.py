"""Where a released model lies: a folder, or the Hugging Face Hub, of which only the files that are used are fetched.

For version 3 these are 4.4 of 9.7 GB: TensorRT exports, the training tokenizer and the text model's own weights (all
of them again in ``llm.pt``) stay behind.
"""

import hashlib
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

from ...checkpoints import first_line
from ...config import UserError
from .configs import VERSION_2, VERSION_3, CosyConfig, with_sizes

TEXT_FOLDER = "CosyVoice-BlankEN"
TEXT_FILES = ("vocab.json", "merges.txt")
SPEAKER_ENCODER = "campplus.onnx"
SIZES = "sizes.json"  # optional, and in no released model
ACOUSTICS = ("flow.pt", "hift.pt")


def files_of(config: CosyConfig) -> tuple[str, ...]:
    """Every file this stack reads, relative to the model's folder."""
    return (
        config.yaml,
        config.lm_files[0],
        *ACOUSTICS,
        SPEAKER_ENCODER,
        config.speech_tokenizer,
        *(f"{TEXT_FOLDER}/{name}" for name in TEXT_FILES),
    )


def resolve(name_or_path: str | Path) -> tuple[Path, CosyConfig]:
    """The folder of a model and which version it is. ``NAME#rl``: with the language model of ``llm.rl.pt``. Raises
    UserError with the command that mends what is missing."""
    name, _, variant = str(name_or_path).partition("#")
    _varied(VERSION_3, variant)  # a variant that no version has is refused before anything is fetched
    if Path(name).is_dir():
        folder, repository = Path(name), None
    elif re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", name) and not name.startswith("."):
        folder, repository = _fetch(name, variant), name
    else:
        raise UserError(
            f"There is no model {name!r}: give the folder of a downloaded CosyVoice model, or a Hugging Face "
            "name such as FunAudioLLM/Fun-CosyVoice3-0.5B-2512."
        )
    config = _varied(version_of(folder), variant)
    check_complete(folder, config, repository)
    return folder, config


def version_of(folder: Path) -> CosyConfig:
    """By the yaml file in the folder, which is not read: see configs.py. A model of the same layout but other sizes
    says so in ``sizes.json``."""
    for config in (VERSION_3, VERSION_2):
        if (folder / config.yaml).is_file():
            return _sized(config, folder / SIZES)
    raise UserError(
        f"{folder} holds neither cosyvoice2.yaml nor cosyvoice3.yaml: download the model with "
        f"'{command(VERSION_3, folder)}'."
    )


def _varied(config: CosyConfig, variant: str) -> CosyConfig:
    """The same with another of its language models first: ``rl`` is ``llm.rl.pt``, "" the usual one."""
    file = f"llm.{variant}.pt" if variant else config.lm_files[0]
    if file not in config.lm_files:
        known = [name.split(".")[1] for name in config.lm_files if name.count(".") == 2]
        has = f"#{' or #'.join(known)}, or nothing" if known else "nothing"
        raise UserError(f"This model has no language model #{variant}: put {has} behind its name.")
    return replace(config, lm_files=(file, *(name for name in config.lm_files if name != file)))


def _sized(config: CosyConfig, path: Path) -> CosyConfig:
    if not path.is_file():
        return config
    try:
        return with_sizes(config, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} does not describe such a model ({str(error)[:80]}): mend or delete it.") from None


def check_complete(folder: Path, config: CosyConfig, repository: str | None = None) -> None:
    """Every file is there and is no pointer of an unfinished git-lfs checkout."""
    missing = [name for name in files_of(config) if not _is_whole(folder / name)]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"The model in {folder} lacks {missing[0]}{more}: finish the download with "
            f"'{command(config, folder, repository)}'."
        )


def command(config: CosyConfig, folder: Path, repository: str | None = None) -> str:
    """The shell command that fetches what this stack needs and nothing else."""
    name, _, revision = (repository or config.repository).partition("@")
    parts = ["hf", "download", name, *files_of(config)]
    if revision:
        parts += ["--revision", revision]
    if repository is None:
        parts += ["--local-dir", str(folder)]
    return shlex.join(parts)


def fingerprint(folder: Path, config: CosyConfig) -> str:
    """Twelve hex digits from names, sizes and the first and last 64 kB of the weight files: reading gigabytes to name
    a checkpoint would take longer than loading it."""
    digest = hashlib.sha256()
    for name in (config.lm_files[0], *ACOUSTICS, SPEAKER_ENCODER, config.speech_tokenizer):
        with open(folder / name, "rb") as file:
            size = file.seek(0, 2)
            digest.update(f"{name}:{size}".encode())
            for start in (0, max(0, size - 65_536)):
                file.seek(start)
                digest.update(file.read(65_536))
    return digest.hexdigest()[:12]


def _is_whole(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with open(path, "rb") as file:
        return not file.read(40).startswith(b"version https://git-lfs")


def _fetch(repository: str, variant: str) -> Path:
    """From the Hub, or from its cache where the Hub cannot be reached."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    name, _, revision = repository.partition("@")
    candidates = (_varied(VERSION_3, variant),) if variant else (VERSION_2, VERSION_3)
    wanted = sorted({file for config in candidates for file in files_of(config)})
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=wanted))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        config = VERSION_2 if "osyVoice2" in name else candidates[-1]
        folder = Path(name.rpartition("/")[2])
        raise UserError(
            f"{name} cannot be fetched here ({first_line(error)}): on a machine that reaches the Hugging Face Hub run "
            f"'{command(config, folder, repository)} --local-dir {folder}', bring the folder here, and give "
            "it as the stack."
        ) from None
