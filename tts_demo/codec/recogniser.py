"""A small CTC model that ears may begin with: its blocks hear phonemes already."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from .semantic import PhoneticEncoder


@dataclass(frozen=True)
class RecogniserConfig:
    symbols: int = 128  # output classes; 0 is the CTC blank
    mels: int = 80
    width: int = 224
    layers: int = 9


class Recogniser(PhoneticEncoder):
    """Phonetic encoder and a CTC head, 50 frames a second."""

    def __init__(self, config: RecogniserConfig = RecogniserConfig()) -> None:
        super().__init__(config.mels, config.width, config.layers)
        self.config = config
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.symbols)
