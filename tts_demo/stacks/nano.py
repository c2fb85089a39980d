"""The bundled stack: phonemes, our codec, refiner and speaker encoder, and a small Qwen2 speech language model.

The language model computes in the chosen dtype; codec, refiner and speaker encoder stay in float32, where their share
of the time is small and the inverse STFT needs it. Adapters of a method are loaded when it is first asked for.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .. import audio, checkpoints, text
from ..acoustic import Refiner
from ..codec.model import Codec
from ..codec.speaker import SpeakerEncoder
from ..codec.streaming import Windowed
from ..config import FRAME_RATE, HOP, SAMPLE_RATE, UserError
from ..lm import Decoder, LanguageModel, Prefix
from ..methods import METHODS, Method
from .base import Prompt

SEGMENT_CHARACTERS = 160  # about 12 s of speech: what the language model has seen in training
CONTEXT_SECONDS = 6.0  # a longer prompt conditions through its speaker vector and the refiner alone
FIRST_CHUNK, NEXT_CHUNK = 12, 40  # frames a vocoder gathers: few at first for a quick start, then more for less work


class NanoStack:
    name = "nano"
    sample_rate = SAMPLE_RATE
    frame_rate = FRAME_RATE

    def __init__(self, lm: LanguageModel, codec: Codec, refiner: Refiner, speaker: SpeakerEncoder, *,
                 root: Path | None = None, checkpoint_hash: str = "untrained",
                 device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        """root: where a method's trained modules are looked for; None = nowhere."""
        self.device, self.dtype = torch.device(device), dtype
        self.lm = lm.to(self.device, dtype).eval().requires_grad_(False)
        self.codec, self.refiner, self.speaker = (m.to(self.device).float().eval().requires_grad_(False)
                                                  for m in (codec, refiner, speaker))
        self.root, self.checkpoint_hash = root, checkpoint_hash
        self._methods: dict[str, Method] = {}
        self._loading = threading.Lock()

    @classmethod
    def load(cls, root: str | Path, device: torch.device | str, dtype: torch.dtype) -> "NanoStack":
        folder = checkpoints.resolve(root)
        parts = {name: checkpoints.load_module(folder, name) for name in ("lm", "codec", "refiner", "speaker")}
        return cls(**parts, root=folder, checkpoint_hash=checkpoints.checkpoint_hash(folder), device=device, dtype=dtype)

    @property
    def decoder(self) -> Decoder:
        return self.lm.decoder

    def tokenize(self, words: str) -> tuple[Tensor, tuple[str, ...]]:
        """-> phoneme ids [T], one label each."""
        ids, labels = text.encode(words)
        return torch.tensor(ids, device=self.device), labels

    def split(self, words: str) -> list[str]:
        return text.split_sentences(words, SEGMENT_CHARACTERS)

    @torch.no_grad()
    def encode_prompt(self, samples: np.ndarray, sample_rate: int, text: str | None = None) -> Prompt:
        """A voice from samples [N]. With its transcript, a short prompt is also given to the language model as context."""
        recording = audio.prompt(audio.read((sample_rate, samples)))
        words = text.strip() if text and text.strip() and not recording.cut else None
        if words:
            self.tokenize(words)  # a transcript that cannot be spoken is refused here, not in the middle of a run
        wave = torch.from_numpy(recording.samples).to(self.device)[None]
        codes = self.codec.encode(wave)
        key = hashlib.sha256(recording.samples.tobytes() + (words or "").encode()).hexdigest()[:16]
        return Prompt(codes=codes[0], speaker=self.speaker(wave)[0], text=words, seconds=recording.seconds, key=key,
                      extra={"latent": self.codec.quantizer.decode(codes)}, notes=recording.notes)

    def prefix(self, prompt: Prompt, segment: str) -> Prefix:
        """[speaker, SOS, prompt's text, text, TASK] with the prompt's speech behind it; without a transcript, or with a
        prompt longer than the model knows, [speaker, SOS, text, TASK] alone."""
        ids, labels = self.tokenize(segment)
        codes = prompt.codes[:0]
        if prompt.text and prompt.seconds <= CONTEXT_SECONDS:
            before, names = self.tokenize(prompt.text)
            gap = torch.tensor([text.IDS[text.BOUNDARY]], device=self.device)
            ids, labels = torch.cat([before, gap, ids]), (*names, text.Label.of(text.BOUNDARY), *labels)
            codes = prompt.codes
        speaker = None if prompt.speaker is None else prompt.speaker.to(self.dtype)
        return self.lm.prefix(ids, labels, speaker, codes)

    def method(self, name: str) -> Method:
        """The method, with its trained modules loaded the first time it is asked for."""
        if name not in METHODS:
            raise UserError(f"Unknown method {name!r}; the methods are: {', '.join(METHODS)}.")
        with self._loading:
            if name not in self._methods:
                kind = METHODS[name]
                modules = {folder: self._adapter(name, folder, module) for folder, module in kind.build_modules(self.lm).items()}
                self._methods[name] = kind(self.lm, modules)
        return self._methods[name]

    def _adapter(self, method: str, folder: str, module: torch.nn.Module) -> torch.nn.Module:
        if self.root is None or not checkpoints.available(self.root, folder):
            raise UserError(f"The method {method!r} has no trained weights ({folder}) here: make them with "
                            f"'python -m tts_demo train {folder}'.")
        return checkpoints.load_module(self.root, folder, module).to(self.device, self.dtype)

    def vocoder(self, prompt: Prompt, codebooks: int) -> "NanoVocoder":
        """codebooks 1: the refiner fills in the rest; more: that many codebooks are decoded as they are."""
        if codebooks == 1:
            speaker = prompt.speaker[None].float()
            latents = prompt.extra["latent"][:, -self.refiner.config.prompt_frames :]
            stages = [Windowed(lambda codes: self.refiner(codes[..., 0], speaker, latents), self.refiner.left, self.refiner.right)]
        else:
            stages = [Windowed(self.codec.quantizer.decode, 0, 0)]
        decoder = self.codec.decoder
        return NanoVocoder([*stages, Windowed(decoder, decoder.left, decoder.right, HOP)])


class NanoVocoder:
    """Frames through refiner and decoder, each streaming exactly (codec/streaming.py), in chunks worth their overhead."""

    def __init__(self, stages: list[Windowed]) -> None:
        self._stages = stages
        self._waiting: list[Tensor] = []
        self._chunk = FIRST_CHUNK
        self._started = False

    def push(self, frames: Tensor) -> np.ndarray:
        """frames [n, K] -> samples [N], N >= 0."""
        if len(frames):
            self._waiting.append(frames)
        if sum(map(len, self._waiting)) < self._chunk:
            return np.zeros(0, np.float32)
        self._chunk = NEXT_CHUNK
        return self._through()

    def finish(self) -> np.ndarray:
        """The rest of the samples: in all exactly F * 320."""
        samples = [self._through()] if self._waiting else []
        if not self._started:
            return np.zeros(0, np.float32)
        data = None
        for stage in self._stages:
            parts = ([stage.push(data)] if data is not None and len(data) else []) + [stage.finish()]
            data = torch.cat(parts)
        return np.concatenate([*samples, data.float().cpu().numpy()])

    def _through(self) -> np.ndarray:
        data, self._waiting, self._started = torch.cat(self._waiting), [], True
        for stage in self._stages:
            data = stage.push(data)
        return data.float().cpu().numpy()
