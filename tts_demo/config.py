"""Names, sizes and small frozen records that everything else is written in. Imports nothing of ours.

Symbols used in shape comments throughout the package:

    B  batch            K  codebooks          F  codec frames (50 per second)
    T  tokens in a sequence (text or speech)  P  patch or chunk size
    H  hidden width     A  attention heads    D  width of one head
    V  speech vocabulary of the LM, end-of-speech included
    S  slots of a KV cache                    N  audio samples

Words, one meaning each:

    prefix        embeddings before speech: [speaker, SOS, text, TASK]; the prompt's speech tokens follow it
    prompt        a recording of a voice and, if known, its transcript; ``speaker`` is the vector of that voice
    voice         an entry that people pick from a list
    codebook      one level of the residual quantiser; the first is the semantic one that the LM predicts
    token, frame  a code of the first codebook; the codes of all codebooks at one time
    position      logical index of a token in its sequence; ``slot``: where the KV cache keeps it
    generated     sampled by the model and accepted as frames; ``emitted``: frames counted so far
    distribution  over the next token, after temperature, top-k and top-p
    draft, verify propose tokens with a cheap model; accept or reject them by the base model's distribution
    base model    the language model without any method's adapter
    patch, chunk  tokens of one backbone pass: compressed into one input (TLDR), or read one by one (DCAR)
    window, span, summary   recent tokens attended to one by one; older tokens that one summary token stands for
    alignment     symbol of the text that each frame says; alignment heads: attention heads trained to follow it
    transcript    the words of a recording, given or recognised
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

SAMPLE_RATE = 16_000  # Hz, mono
HOP = 320  # samples per codec frame
FRAME_RATE = SAMPLE_RATE // HOP  # 50 codec frames per second


class UserError(ValueError):
    """A mistake in a request. Its text is one sentence that says what to do; it is shown without a traceback."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The question "Did you mean ...?" to follow a sentence that refuses ``name``; '' where no known name is near."""
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


@dataclass(frozen=True)
class CodecConfig:
    """Analysis half of a QDAC-like codec (QTTS, section 3.1): mel -> encoder -> residual VQ."""

    sample_rate: int = SAMPLE_RATE
    hop: int = HOP
    mels: int = 80
    encoder_width: int = 256
    encoder_layers: int = 4
    semantic_mels: int = 80  # input of the first codebook: see ``codec.semantic.PhoneticEncoder``
    semantic_width: int = 224
    semantic_layers: int = 6
    semantic_middle: int = 0
    semantic_middle_width: int = 256
    semantic_upper: int = 0
    latent: int = 256  # width of the quantised latent the decoder reads
    codebooks: int = 8
    entries: int = 1024
    first_entries: int = 0  # of the first codebook; 0 = as many as the others have
    first_by_sound: bool = False  # each of its entries belongs to one phoneme: see ``codec.quantizer.PhonemeCodebook``
    code_width: int = 32  # factorised lookup width

    @property
    def first(self) -> int:
        """Entries of the first codebook, of which the language model predicts one a frame."""
        return self.first_entries or self.entries


@dataclass(frozen=True)
class DecoderConfig:
    """Waveform decoder: latent -> trunk at the frame rate -> blocks at the sub-frame rate -> inverse STFT."""

    sample_rate: int = SAMPLE_RATE
    hop: int = HOP  # samples per frame
    latent: int = 256
    width: int = 320
    layers: int = 6
    lookahead: int = 4  # frames of future that the trunk sees
    subframes: int = 4  # per frame
    fine_width: int = 128
    fine_layers: int = 3
    window: int = 320  # samples of the inverse STFT's window: 20 ms


@dataclass(frozen=True)
class SpeakerConfig:
    mels: int = 80
    width: int = 192
    layers: int = 4
    embedding: int = 192


@dataclass(frozen=True)
class RefinerConfig:
    """First codebook + prompt + speaker -> decoder latent, in one pass. ``left``/``right``: attention window,
    frames."""

    entries: int = 1024
    latent: int = 256
    speaker: int = 192
    width: int = 256
    layers: int = 3
    heads: int = 4
    ffn: int = 768
    left: int = 45
    right: int = 2
    pitch_classes: int = 48  # log-spaced from 60 to 420 Hz, and one for unvoiced frames
    prompt_frames: int = 150  # at most this many prompt frames are attended (3 s)


@dataclass(frozen=True)
class LMConfig:
    """Shape of a speech language model: a Qwen2 backbone, a speech embedding and a speech head."""

    text_vocab: int = 128
    speech_codes: int = 1024
    extra_codes: int = 1  # ids after the codes; each of them ends speech
    end: int = 0  # which of them the model is taught to use
    hidden: int = 256
    layers: int = 12
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 768
    rope_theta: float = 10_000.0
    rms_eps: float = 1e-6
    max_positions: int = 32_768
    speaker: int = 192  # width of the speaker vector; 0 = the LM takes none
    bidirectional_text: bool = True  # text positions see each other; speech is always causal

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def vocab(self) -> int:
        """V: codes and the special ids after them."""
        return self.speech_codes + self.extra_codes

    @property
    def eos(self) -> int:
        """The id a model is taught to end speech with (any id >= ``speech_codes`` ends it)."""
        return self.speech_codes + self.end


@dataclass(frozen=True)
class Sampling:
    """How a token is sampled. ``temperature`` 0 is greedy. Repetition-aware sampling (VALL-E 2, section 3.2):
    a sampled token that fills at least ``repeat_ratio`` of the last ``repeat_window`` tokens is sampled again from the
    untruncated distribution; greedy sampling takes the likeliest other token. ``repeat_window`` 0 turns this off."""

    temperature: float = 0.7
    top_k: int = 50
    top_p: float = 0.9
    repeat_window: int = 20
    repeat_ratio: float = 0.4

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2:
            raise UserError(f"temperature must lie between 0 (greedy) and 2, not {self.temperature}.")
        if self.top_k < 0:
            raise UserError(f"top_k must be 0 (off) or more, not {self.top_k}.")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must lie above 0 and at most at 1, not {self.top_p}.")
        if self.repeat_window < 0 or not 0 < self.repeat_ratio <= 1:
            raise UserError("repeat_window must be 0 or more and repeat_ratio above 0 and at most 1.")

    @property
    def repeat_threshold(self) -> float:
        """Occurrences among the last ``repeat_window`` tokens from which a token is sampled again."""
        return self.repeat_ratio * self.repeat_window


@dataclass(frozen=True)
class Request:
    """One text to generate speech for.

    text: what to say. prompt: an encoded voice (``stack.encode_prompt``). method: a name in ``METHODS``. options: a
    dict such as ``{"patch_size": 4}``, the method's own ``Options``, or None for its defaults. sampling: temperature
    and its like. seed: the same seed on the same device gives the same speech. max_seconds: longest speech to make.
    capture_attention: ``Done`` holds the text-speech attention map."""

    text: str
    prompt: object
    method: str = "baseline"
    options: object = None
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    max_seconds: float = 30.0
    capture_attention: bool = False
    forced_frames: int = 0  # > 0: ignore end-of-speech and generate exactly this many frames (speed and memory runs)
    live: bool = True  # streamed to a listener; False: all audio may come at the end, where a better pass is possible
