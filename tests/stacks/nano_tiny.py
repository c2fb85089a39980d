"""A complete but tiny, random checkpoint of the bundled stack. Nothing it says means anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tts_demo import checkpoints
from tts_demo.codec.decoder import WaveformDecoder
from tts_demo.codec.model import Codec
from tts_demo.codec.refiner import CodebookRefiner, Refiner
from tts_demo.codec.speaker import SpeakerEncoder
from tts_demo.config import CodecConfig, DecoderConfig, LMConfig, RefinerConfig, SpeakerConfig
from tts_demo.lm import LanguageModel

ENTRIES, LATENT, SPEAKER = 32, 16, 8


def make_checkpoint(root: Path) -> Path:
    """All modules the stack needs, under ``root``."""
    torch.manual_seed(0)
    refining = RefinerConfig(
        entries=ENTRIES,
        latent=LATENT,
        speaker=SPEAKER,
        width=32,
        layers=2,
        heads=2,
        ffn=48,
        left=5,
        right=1,
        prompt_frames=20,
    )
    books = CodebookRefiner(refining)
    for part in (books.finer, books.count_embedding, books.trust):
        torch.nn.init.normal_(part.weight, std=0.2)
    modules = {
        "lm": LanguageModel(
            LMConfig(speech_codes=ENTRIES, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, speaker=SPEAKER)
        ),
        "codec": Codec(CodecConfig(encoder_width=32, encoder_layers=1, latent=LATENT, entries=ENTRIES, code_width=8)),
        "decoder": WaveformDecoder(DecoderConfig(latent=LATENT, width=32, layers=2, fine_width=16, fine_layers=1)),
        "refiner": Refiner(refining),
        "refiner-books": books,
        "speaker": SpeakerEncoder(SpeakerConfig(width=16, layers=1, embedding=SPEAKER)),
    }
    for name, module in modules.items():
        checkpoints.save_module(root, name, module, facts={"recipe": "none: random weights for tests"})
    return root


def voice(seconds: float = 2.0, rate: int = 16000, pitch: float = 140.0) -> np.ndarray:
    """A buzz that swells like syllables, float32 [N]."""
    t = np.arange(int(seconds * rate)) / rate
    return (0.2 * np.sin(2 * np.pi * pitch * t) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))).astype(np.float32)
