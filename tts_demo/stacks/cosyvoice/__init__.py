"""CosyVoice 2 and 3: the released 0.5 B checkpoints behind the same interface as the bundled stack."""

from .stack import CosyVoiceStack

__all__ = ["CosyVoiceStack"]
