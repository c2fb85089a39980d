"""Released ``.pt`` files into our modules: tensors only, strictly, whichever way weight norm was spelt."""

import pickle
import re
import zipfile
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
    _strict(flow, read_state(path), path, assign=True)


def load_hift(hift: nn.Module, path: Path) -> None:
    _strict(hift, hift_keys(read_state(path)), path, assign=False)


def released_lm(folder: Path, config: CosyConfig) -> CosyLanguageModel:
    """The language model of a complete model folder, on the CPU, in the precision it is stored in."""
    lm, path = empty_lm(config.lm, config.layout), folder / config.lm_files[0]
    try:
        lm.load_released(read_state(path))
    except (KeyError, RuntimeError) as error:
        raise _misfit(path, error) from None
    return lm


def _strict(module: nn.Module, state: dict[str, Tensor], path: Path, assign: bool) -> None:
    try:
        module.load_state_dict(state, assign=assign)
    except RuntimeError as error:
        raise _misfit(path, error) from None


def _misfit(path: Path, error: Exception) -> UserError:
    detail = re.sub(r"\s+", " ", str(error))[:160]
    return UserError(f"{path.name} is not the released model's file ({detail}): delete {path} and download it again.")
