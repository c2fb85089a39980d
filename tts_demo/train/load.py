"""What recipes build on: the published modules of the checkpoint, and the cached data made with them."""

from __future__ import annotations

from pathlib import Path

from .. import checkpoints
from ..codec.model import Codec
from ..codec.speaker import SpeakerEncoder
from ..lm.model import LanguageModel
from ..recogniser import Recogniser
from .alignment import Alignments
from .data import PhonemeCache, SpeechCache
from .loop import TrainOptions
from .sequences import CodeCache, Sequences, tag_of


def load_recogniser(root: Path) -> Recogniser:
    return checkpoints.load_module(root, "recogniser").eval()


def load_lm(root: Path) -> LanguageModel:
    return checkpoints.load_module(root, "lm").eval()


def sequences(options: TrainOptions, frames: int, **kw) -> Sequences:
    """Training sequences over ``options.data`` with the codec, speaker encoder and recogniser of the checkpoint."""
    speech = SpeechCache(options.data, options.work / "cache")
    phonemes = PhonemeCache(speech)
    recogniser = load_recogniser(options.checkpoint)
    codec: Codec = checkpoints.load_module(options.checkpoint, "codec").eval()
    voice: SpeakerEncoder = checkpoints.load_module(options.checkpoint, "speaker").eval()
    alignments = Alignments(speech, phonemes, recogniser, tag_of(recogniser))
    return Sequences(speech, phonemes, alignments, CodeCache(speech, codec, voice, tag_of(codec, voice)), frames, **kw)
