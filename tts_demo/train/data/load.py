"""What recipes build on: the published modules of the checkpoint, and the cached data made with them."""

from dataclasses import replace

from ... import checkpoints
from ...codec.model import Codec
from ...codec.recogniser import PhonemeRecogniser
from ...config import CodecConfig
from ...lm.model import LanguageModel
from ...methods.tldr.modules import PAPER_HIDDEN
from ..settings import SequenceSettings, Settings
from ..task import Task, TrainOptions
from .sequences import Codes, Sequences
from .speech import Speech


def load_speech(options: TrainOptions, settings: Settings, recogniser: PhonemeRecogniser | None = None) -> Speech:
    """Natural speech under ``--data`` and teachers' under ``--set teacher=FOLDER[:FOLDER]``; ``recogniser`` aligns the
    former."""
    return Speech(options.data, settings.teacher, options.work / "cache", recogniser)


def recogniser_shape(recogniser: PhonemeRecogniser, config: CodecConfig = CodecConfig()) -> CodecConfig:
    """The configuration of a codec whose first codebook quantises features of this recogniser."""
    c = recogniser.config
    return replace(
        config,
        semantic_mels=c.mels,
        semantic_width=c.width,
        semantic_layers=c.lower,
        semantic_middle=c.middle,
        semantic_middle_width=c.middle_width,
        semantic_upper=c.upper,
    )


def use_recogniser(codec: Codec, recogniser: PhonemeRecogniser) -> None:
    """Give the codec the recogniser's encoder for its first codebook, frozen."""
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


def sequences(options: TrainOptions, settings: SequenceSettings, frames: int) -> Sequences:
    """Training sequences over ``options.data``, encoded by the released model, or by the codec, speaker encoder and
    recogniser of the checkpoint."""
    if options.stack:
        from .tokens import TokenCache

        tokens = TokenCache(options)
        return Sequences(tokens, tokens.codes, frames, settings, lead=tokens.lead, joint=(), device=options.device)
    names = ("ears", "codec", "speaker")
    recogniser, *encoders = (checkpoints.load_module(options.checkpoint, name).to(options.device) for name in names)
    speech = load_speech(options, settings, recogniser)
    return Sequences(speech, Codes(speech, *encoders), frames, settings, device=options.device)
