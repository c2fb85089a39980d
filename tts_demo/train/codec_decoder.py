"""Recipe ``codec-decoder``: decoder and refiner go on with the whole encoder and quantizer frozen, so every code stays valid.

``--set adversarial=1`` trains discriminators along: distances alone teach the mean of all that a code leaves open. They are
not published, so each run makes its own and lets them speak up by degrees. They want a GPU: 1,300 steps on a CPU, before
the decoder had a voiced source, made harmonics noisier (DNSMOS 2.28 -> 2.12 on 16 recordings), and 1,361 with it changed
nothing that was measured (2.61 -> 2.63 on 54), so they are left out unless asked for.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..codec.model import Codec
from ..codec.speaker import SpeakerEncoder
from ..acoustic import Refiner
from ..config import HOP
from ..recogniser import Recogniser
from .codec import CROP, CodecBatch, CodecTask, published, random_books
from .discriminators import Discriminators
from .loop import TrainOptions

JUDGED, BY_DEGREES = 32, 300  # frames of each crop that the discriminators hear; steps until they count in full


class CodecDecoderTask(CodecTask):
    name = "codec-decoder"
    steps, lr = 6000, 4e-4
    goes_on = True

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.adversarial = float(options.settings.get("adversarial", 0.0))
        self.discriminators = Discriminators()
        self.helpers = {"discriminators": self.discriminators} if self.adversarial else {}

    def _networks(self, options: TrainOptions, recogniser: Recogniser) -> tuple[Codec, Refiner, SpeakerEncoder]:
        codec, refiner, voice = published(options)
        codec.decoder.requires_grad_(True)
        return codec, refiner, voice

    def loss(self, batch: CodecBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        codec, half = self.codec, max(1, self.size // 2)
        with torch.no_grad():
            codes = codec.encode(batch.audio, batch.phonetic)
            keep = random_books(len(codes), codec.config.codebooks).tolist()
            keep[:half] = [codec.config.codebooks] * half
            latent = torch.cat([codec.quantizer.decode(codes[i : i + 1, :, :k]) for i, k in enumerate(keep)])
            speaker = self.voice(batch.voice)
        made, loss, parts = self.speak(batch, latent, codes, speaker, half)
        return self._judged(made, batch.audio, step, loss, parts) if self.adversarial else (loss, parts)

    def _judged(self, made: Tensor, real: Tensor, step: int, loss: Tensor,
                parts: dict[str, float]) -> tuple[Tensor, dict[str, float]]:
        """What the discriminators say of a stretch of each crop [B, CROP * HOP], added to the loss."""
        start = int(torch.randint(CROP - JUDGED + 1, ())) * HOP
        stretch = slice(start, start + JUDGED * HOP)
        told, fooled, apart = self.discriminators.losses(made[:, stretch], real[:, stretch])
        weight = self.adversarial * min(1.0, step / BY_DEGREES)
        return (loss + told + weight * (fooled + 2 * apart),
                parts | {"told": told.item(), "fooled": fooled.item(), "apart": apart.item()})
