"""CosyVoice 2 and 3: the released 0.5 B checkpoints behind the same interface as the bundled stack."""

from __future__ import annotations

from pathlib import Path

import torch

from .stack import CosyVoiceStack

__all__ = ["CosyVoiceStack", "load"]


def load(
    name_or_path: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> CosyVoiceStack:
    """A folder or a Hugging Face repository, such as ``FunAudioLLM/Fun-CosyVoice3-0.5B-2512``."""
    return CosyVoiceStack.load(name_or_path, device, dtype)
