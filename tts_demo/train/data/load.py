"""What recipes build on: the published modules of the checkpoint, and the cached data made with them."""

from __future__ import annotations

from pathlib import Path

from ... import checkpoints
from ...codec.model import Codec
from ...codec.recogniser import Recogniser
from ...codec.speaker import SpeakerEncoder
from ...lm.model import LanguageModel
from ...methods.tldr.modules import PAPER_HIDDEN
from ..loop import Task, TrainOptions
from .alignment import Alignments
from .corpora import PhonemeCache, SpeechCache
from .sequences import CodeCache, Sequences, tag_of


def load_recogniser(root: Path) -> Recogniser:
    return checkpoints.load_module(root, "recogniser").eval()


def hear_with(codec: Codec, recogniser: Recogniser) -> None:
    """Give the codec's first book the recogniser's lower blocks to listen with, frozen."""
    wanted = codec.phonetic.state_dict().keys()
    codec.phonetic.load_state_dict({k: v for k, v in recogniser.state_dict().items() if k in wanted})
    codec.phonetic.requires_grad_(False)


def load_lm(options: TrainOptions) -> LanguageModel:
    """The language model to build on, float32: a released one, or the checkpoint's own."""
    if options.stack:
        from ...stacks.cosyvoice import download, weights

        lm = weights.released_lm(*download.resolve(options.stack)).float()
    else:
        lm = checkpoints.load_module(options.checkpoint, "lm")
    return lm.eval().to(options.device)


def scale(task: Task, lm: LanguageModel, frames: int) -> tuple[int, float, int]:
    """Steps, learning rate and frames a batch: the task's own, or those of half a billion weights and LibriTTS. The
    papers' tables of these numbers are empty in print; the length is DCAR's, 20 epochs of 585 hours (its section
    C.1)."""
    return (66_000, 2e-4, 16_000) if lm.config.hidden >= PAPER_HIDDEN else (task.steps, task.lr, frames)


def sequences(options: TrainOptions, frames: int, **kw) -> Sequences:
    """Training sequences over ``options.data``, encoded by the released model, or by the codec, speaker encoder and
    recogniser of the checkpoint. ``--set chains=0.3 chained=4500``: see ``Sequences``."""
    kw |= {
        name: kind(options.settings[name])
        for name, kind in (("chains", float), ("chained", int))
        if name in options.settings
    }
    if options.stack:
        from .tokens import TokenCache

        tokens = TokenCache(options)
        return Sequences(
            tokens,
            tokens,
            tokens.alignments,
            tokens.codes,
            frames,
            lead=tokens.lead,
            joint=(),
            device=options.device,
            **kw,
        )
    speech = SpeechCache(options.data, options.work / "cache")
    phonemes = PhonemeCache(speech)
    recogniser = load_recogniser(options.checkpoint)
    codec: Codec = checkpoints.load_module(options.checkpoint, "codec").eval().to(options.device)
    voice: SpeakerEncoder = checkpoints.load_module(options.checkpoint, "speaker").eval().to(options.device)
    alignments = Alignments(speech, phonemes, recogniser, tag_of(recogniser))
    # The decoder is left out: training it further leaves every code as it is.
    tag = tag_of(codec.encoder, codec.phonetic, codec.semantic, codec.quantizer, voice)
    return Sequences(
        speech, phonemes, alignments, CodeCache(speech, codec, voice, tag), frames, device=options.device, **kw
    )
