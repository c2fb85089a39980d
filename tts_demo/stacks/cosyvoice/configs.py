"""Sizes of the two released models and of the parts they are made of. Knows no tensors.

The released folders carry these numbers in a yaml file that constructs arbitrary classes when it is read; they never
change between copies, so they are written down here instead.

Symbols beyond those of ``tts_demo.config``:  F tokens of speech (25 a second), M mel frames (50 a second).
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ...config import LMConfig, Sampling

SAMPLE_RATE = 24_000  # Hz, of everything the vocoder makes
TOKEN_RATE = 25  # speech tokens per second
MELS = 80
MEL_PER_TOKEN = 2
MEL_HOP = SAMPLE_RATE // TOKEN_RATE // MEL_PER_TOKEN  # 480 samples
SPEECH_CODES = 6561  # 3 ** 8, finite scalar quantisation
END_OF_PROMPT = "<|endofprompt|>"

# The authors' own sampler: nucleus of at most 25 ids, and a repeat inside ten tokens is drawn again.
RELEASED_SAMPLING = Sampling(temperature=1.0, top_k=25, top_p=0.8, repeat_window=10, repeat_ratio=0.1)


@dataclass(frozen=True)
class FlowConfig:
    """Tokens -> mel, the part both versions share: conditional flow matching with classifier-free guidance."""

    tokens: int = SPEECH_CODES
    token_width: int = 80  # of the token embedding
    speaker: int = 192
    mels: int = MELS
    lookahead: int = 3  # tokens of future the encoder sees
    block_tokens: int = 25  # streaming attention sees its own block of tokens and everything before it
    steps: int = 10
    guidance: float = 0.7

    @property
    def attention(self) -> tuple[int, int, int]:
        """Layers, heads and width of a head of the velocity field's attention."""
        raise NotImplementedError

    @property
    def remembered_bytes(self) -> int:
        """Of a token's keys and values, with and without guidance, at every Euler step, in float32."""
        return MEL_PER_TOKEN * self.steps * 2 * 2 * math.prod(self.attention) * 4


@dataclass(frozen=True)
class ConformerFlowConfig(FlowConfig):
    """Version 2: conformer encoder and a one-level U-Net as the velocity field."""

    token_width: int = 512
    heads: int = 8
    ffn: int = 2048
    blocks: int = 6
    up_blocks: int = 4
    channels: int = 256
    unet_heads: int = 8
    unet_head_dim: int = 64
    transformers: int = 4  # per U-Net block
    mid_blocks: int = 12

    @property
    def attention(self) -> tuple[int, int, int]:
        return (self.mid_blocks + 2) * self.transformers, self.unet_heads, self.unet_head_dim


@dataclass(frozen=True)
class DiTFlowConfig(FlowConfig):
    """Version 3: a look-ahead convolution and a diffusion Transformer."""

    lookahead_channels: int = 1024
    width: int = 1024
    depth: int = 22
    heads: int = 16
    ffn_ratio: int = 2
    time_width: int = 256
    rotary: int = 64  # channels that rotate: head 0 of 16 only, as released
    position_kernel: int = 31
    position_groups: int = 16

    @property
    def attention(self) -> tuple[int, int, int]:
        return self.depth, self.heads, self.width // self.heads


@dataclass(frozen=True)
class HiftConfig:
    """Mel -> wave: harmonic source, up-sampling convolutions, inverse STFT. ``causal`` is version 3."""

    causal: bool
    mels: int = MELS
    channels: int = 512
    rates: tuple[int, ...] = (8, 5, 3)
    kernels: tuple[int, ...] = (16, 11, 7)
    res_kernels: tuple[int, ...] = (3, 7, 11)
    source_res_kernels: tuple[int, ...] = (7, 7, 11)
    dilations: tuple[int, ...] = (1, 3, 5)
    n_fft: int = 16
    hop: int = 4
    harmonics: int = 9  # the fundamental included
    sine_amplitude: float = 0.1
    noise_std: float = 0.003
    voiced_above: float = 10.0  # Hz
    f0_channels: int = 512
    limit: float = 0.99
    sample_rate: int = SAMPLE_RATE

    @property
    def frame(self) -> int:
        """Samples made from one mel frame."""
        return self.hop * math.prod(self.rates)

    @property
    def pre_sides(self) -> tuple[int, int]:
        """Mel frames of past and of future that the first convolution sees."""
        return (0, 4) if self.causal else (3, 3)

    @property
    def f0_right(self) -> int:
        """Mel frames of future that the pitch network sees."""
        return 3 if self.causal else 5


@dataclass(frozen=True)
class CosyConfig:
    """One released model: its parts and the files it is read from."""

    version: int
    repository: str  # on the Hugging Face Hub
    lm: LMConfig
    marker_rows: tuple[int, int] | None  # see ``CosyLanguageModel``
    flow: FlowConfig
    hift: HiftConfig
    prompt_fmax: float  # upper edge of the prompt's mel filters, Hz
    speech_tokenizer: str  # file name
    yaml: str  # file that tells the version of a folder
    system_prompt: str  # spoken to the model before any text, "" for none
    silent_tokens: tuple[int, ...] = field(default=())  # runs of these are shortened before the flow
    lm_files: tuple[str, ...] = ("llm.pt",)  # the language models of the folder, of which the first is read


LM_2 = LMConfig(
    text_vocab=151_936,
    speech_codes=SPEECH_CODES,
    extra_codes=3,
    hidden=896,
    layers=24,
    heads=14,
    kv_heads=2,
    ffn=4864,
    rope_theta=1e6,
    rms_eps=1e-6,
    max_positions=32_768,
    speaker=0,
    bidirectional_text=False,
)
VERSION_2 = CosyConfig(
    version=2,
    repository="FunAudioLLM/CosyVoice2-0.5B",
    lm=LM_2,
    marker_rows=None,
    flow=ConformerFlowConfig(),
    hift=HiftConfig(causal=False),
    prompt_fmax=8000.0,
    speech_tokenizer="speech_tokenizer_v2.onnx",
    yaml="cosyvoice2.yaml",
    system_prompt="",
)
VERSION_3 = CosyConfig(
    version=3,
    repository="FunAudioLLM/Fun-CosyVoice3-0.5B-2512",
    lm=replace(LM_2, extra_codes=200, end=1),
    marker_rows=(6561, 6563),
    flow=DiTFlowConfig(),
    hift=HiftConfig(causal=True),
    prompt_fmax=SAMPLE_RATE / 2,
    speech_tokenizer="speech_tokenizer_v3.onnx",
    yaml="cosyvoice3.yaml",
    system_prompt=f"You are a helpful assistant.{END_OF_PROMPT}",
    silent_tokens=(1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323),
    lm_files=("llm.pt", "llm.rl.pt"),
)


def with_sizes(config: CosyConfig, sizes: dict[str, dict[str, Any]]) -> CosyConfig:
    """The same layout at other sizes: ``{"lm": {"layers": 2}, "flow": {...}, "hift": {...}}``. Raises TypeError for an
    unknown part or field."""
    parts = {}
    for part, fields in sizes.items():
        if part not in ("lm", "flow", "hift"):
            raise TypeError(f"unknown part {part!r}")
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
        parts[part] = replace(getattr(config, part), **values)
    return replace(config, **parts)
