"""Model stacks by name: ``nano``, the bundled one, and released CosyVoice checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch

from ..config import UserError
from .base import Prompt, Stack, Vocoder

__all__ = ["Prompt", "Stack", "Vocoder", "load_stack"]


def load_stack(name: str = "nano", device: str | torch.device | None = None,
               dtype: str | torch.dtype | None = None) -> Stack:
    """The stack ``name``: ``nano``, a folder, or a Hugging Face repository (``owner/name[@revision]``). A folder or a
    repository with a ``cosyvoice*.yaml`` or named FunAudioLLM/... is CosyVoice, any other must be laid out like
    ``checkpoints/nano``. ``device`` and ``dtype``: None = what this machine does best."""
    from ..runtime import choose_device, choose_dtype

    where = choose_device(device)
    if _is_cosyvoice(name):
        from .cosyvoice import CosyVoiceStack

        return CosyVoiceStack.load(name, where, choose_dtype(dtype, where))
    from .nano import NanoStack

    if not name.strip():
        raise UserError("The stack needs a name: nano, a folder, or a Hugging Face repository (owner/name).")
    return NanoStack.load(name, where, choose_dtype(dtype, where))


def _is_cosyvoice(name: str) -> bool:
    return name.lower().startswith("funaudiollm/") or any(Path(name).glob("cosyvoice*.yaml"))
