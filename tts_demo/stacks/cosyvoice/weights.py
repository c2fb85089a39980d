"""Released ``.pt`` files into our modules: tensors only, strictly, whichever way weight norm was spelt."""

import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from ...checkpoints import first_line
from ...config import UserError
from .configs import CosyConfig
from .lm import CosyLanguageModel, empty_lm

_WEIGHT_NORM = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint file, mapped from disk where its format allows. Nothing in it is ever executed
    (``weights_only``)."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise UserError(
            f"{path.name} cannot be read ({first_line(error)}): delete {path}, download it again."
        ) from None
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise UserError(f"{path.name} holds something other than weights: delete {path} and download it again.")
    return state


def hift_keys(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Vocoder weights under our names. Three spellings occur: torch's parametrizations, the older ``weight_g`` and
    ``weight_v``, and either of them under the ``generator.`` of the training wrapper."""
    renamed = {}
    for key, value in state.items():
        key = key.removeprefix("generator.")
        stem, _, leaf = key.rpartition(".")
        renamed[f"{stem}.{_WEIGHT_NORM[leaf]}" if leaf in _WEIGHT_NORM else key] = value
    return renamed


def load_flow(flow: nn.Module, path: Path) -> None:
    """The tensors become the module's own, so it may have been built without memory (``torch.device("meta")``)."""
    with _fitting(path):
        flow.load_state_dict(read_state(path), assign=True)


def load_hift(hift: nn.Module, path: Path) -> None:
    with _fitting(path):
        hift.load_state_dict(hift_keys(read_state(path)))


def released_lm(folder: Path, config: CosyConfig) -> CosyLanguageModel:
    """The language model of a complete model folder, on the CPU, in the precision it is stored in."""
    lm, path = empty_lm(config.lm, config.marker_rows), folder / config.lm_files[0]
    with _fitting(path):
        lm.load_released(read_state(path))
    return lm


@contextmanager
def _fitting(path: Path) -> Iterator[None]:
    """What inside does not fit the file's weights is told in one sentence."""
    try:
        yield
    except (KeyError, RuntimeError) as error:
        detail = re.sub(r"\s+", " ", str(error))[:160]
        raise UserError(
            f"{path.name} is not the released model's file ({detail}): delete {path} and download it again."
        ) from None
