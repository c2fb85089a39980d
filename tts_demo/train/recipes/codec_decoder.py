"""Recipe ``codec-decoder``: decoder and refiner go on with the whole encoder and quantizer frozen, so every code stays
valid.

``--set adversarial=1`` trains discriminators along (distances alone teach the mean of all that a code leaves open),
``judges=light`` the lighter set of them, which on one core tells recorded from decoded in two minutes where the other
learns nothing. They learn at ``judges_rate=8`` times the decoder's rate. They are not published: each run makes its
own, or goes on with those under ``helpers=DIR``, and lets them speak up by degrees. ``refiner=frozen`` leaves a refiner
that speaks clearly as it is, and has the decoder learn what it says.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from ...codec.ears import Ears
from ...codec.model import Codec
from ...codec.refiner import Refiner
from ...codec.speaker import SpeakerEncoder
from ..progress import Progress
from ..task import TrainOptions
from .codec import CodecBatch, CodecSettings, CodecTask, published, random_books


class CodecDecoderSettings(CodecSettings):
    refiner: Literal["trained", "frozen"] = Field(
        "trained", description="frozen: the refiner stays as it is, and the decoder learns what it makes"
    )


class CodecDecoderTask(CodecTask):
    Settings = CodecDecoderSettings
    settings: CodecDecoderSettings
    name = "codec-decoder"
    steps, lr = 6000, 4e-4
    goes_on = True
    averaged = 0.995  # discriminators pull to and fro

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.helpers = {name: part for name, part in self.helpers.items() if name == "discriminators"}
        finished = ["speaker"] + ["refiner"] * (self.settings.refiner == "frozen")
        for name in finished:  # their cards go on saying what made them
            self.modules.pop(name).requires_grad_(False).to(self.device)

    def _networks(self, options: TrainOptions, ears: Ears) -> tuple[Codec, Refiner, SpeakerEncoder]:
        codec, refiner, voice = published(options, self.settings.decoder_layers)
        codec.decoder.requires_grad_(True)
        return codec, refiner, voice

    def loss(self, batch: CodecBatch, progress: Progress) -> tuple[Tensor, dict[str, float]]:
        batch, codec, count = batch.to(self.device), self.codec, self.refined
        with torch.no_grad():
            codes = codec.encode(batch.audio, batch.phonetic, batch.labels)
            keep = random_books(len(codes), codec.config.codebooks).to(self.device)
            keep[:count] = codec.config.codebooks
            latent = sum(
                book.lookup(codes[..., k]) * (keep > k)[:, None, None] for k, book in enumerate(codec.quantizer.books)
            )
            speaker = self.voice(batch.voice)
        return self.speak(batch, latent, codes, speaker, count, progress)
