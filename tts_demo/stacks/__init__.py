"""Model stacks by name: ``nano``, the bundled one, and released CosyVoice checkpoints."""

from pathlib import Path

import torch

from ..config import UserError
from ..engine import Stack
from ..runtime import candidate_dtypes, device_errors, few_threads, pick_device


def load_stack(
    name: str = "nano",
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    adapters: str | None = None,
    graphs: bool = True,
    allow_stale: bool = False,
) -> Stack:
    """The stack ``name``: ``nano``, a folder, or a Hugging Face repository (``owner/name[@revision]``). A folder or a
    repository with a ``cosyvoice*.yaml`` or named FunAudioLLM/... is CosyVoice (``#rl`` behind its name: with the
    language model of ``llm.rl.pt``), any other must be laid out like ``checkpoints/nano``. ``device`` and ``dtype``:
    None = what this machine does best; ``float32`` on a CPU keeps every matrix in float32. ``adapters``: a folder or a
    repository of trained methods, of a released model all (None: the folder ``adapters`` inside the model's), of
    another stack those that it does not hold itself.
    ``graphs``: on CUDA, decoding steps run as CUDA graphs (False: eagerly). ``allow_stale``: also use modules of a
    checkpoint that were trained through others than it holds now. On a CPU a small model sets torch to one
    thread (``runtime.few_threads``)."""
    if not name.strip():
        raise UserError("The stack needs a name: nano, a folder, or a Hugging Face repository (owner/name).")
    where = pick_device(str(device) if device is not None else None)
    precision, exact = pick_dtype(dtype, where), dtype not in (None, "auto")
    with device_errors(where):
        if is_cosyvoice(name):
            from .cosyvoice import CosyVoiceStack

            return CosyVoiceStack(name, where, precision, adapters=adapters, graphs=graphs, exact=exact)
        from .nano import NanoStack

        stack = NanoStack(name, where, precision, graphs, exact, adapters, allow_stale)
    few_threads(where, stack.lm.config.hidden)
    return stack


def pick_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """``None`` or ``auto``: the safest precision worth using on ``device``."""
    if dtype in (None, "auto"):
        return candidate_dtypes(device)[0]
    if isinstance(dtype, torch.dtype):
        return dtype
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype not in known or (dtype == "float16" and device.type == "cpu"):
        raise UserError(f"{dtype!r} is no precision for {device.type}; use float32 or bfloat16.")
    return known[dtype]


def is_cosyvoice(name: str) -> bool:
    """By the yaml file in the folder, or by the repository's owner."""
    return name.lower().startswith("funaudiollm/") or any(Path(name.partition("#")[0]).glob("cosyvoice*.yaml"))
