"""Recipe ``speaker``: a prompt to one speaker vector, trained to tell speakers apart in noise, rooms and at any
loudness.

Every voice counts three times: as it is, and with pitch and formants shifted down and up by playing it slower and
faster, which makes new speakers out of few. Additive angular margin (J. Deng and others, "ArcFace", 2019, section 3.1)
over all of them; a crop is augmented as it is read (``data/varied.py``). Scores: on unseen speakers, the equal error
rate of two crops being from one speaker, clean against clean and clean against augmented.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...codec.speaker import SpeakerEncoder
from ...config import HOP, UserError
from ..data.batch import TensorBatch
from ..data.corpora import describe
from ..data.load import load_speech
from ..data.varied import in_rooms, louder, noisy
from ..progress import Progress
from ..task import Loss, Task, TrainOptions

CROP = 100  # frames
SHIFTS = (1.0, 0.87, 1.15)  # how much faster a voice is played
MARGIN, SCALE = 0.2, 24.0  # radians, of cosines
SCORED = 12  # crops of each voice


@dataclass(frozen=True)
class SpeakerBatch(TensorBatch):
    samples: Tensor  # [B, CROP * HOP]
    voices: Tensor  # [B]


class SpeakerTask(Task):
    name = "speaker"
    steps, lr = 8000, 1e-3
    averaged, scored_every = 0.998, 1000

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.speech, self.device, self.size = load_speech(options, self.settings), options.device, options.batch or 64
        long = lambda i: self.speech.frames(i) > CROP * max(SHIFTS) + 1
        self.train, self.test = self.speech.split(long)
        if not self.train:
            raise UserError(f"There is too little speech to train on: recordings over {CROP / 40:g} s of some voices.")
        self.by_speaker, tested = self.speech.by_speaker(self.train), self.speech.by_speaker(self.test)
        # held-out utterances of speakers that are not trained on; of all speakers where there are fewer than two
        strangers = {voice: some for voice, some in tested.items() if voice not in self.by_speaker}
        self.unheard = strangers if len(strangers) > 1 else tested
        self.names = sorted(self.by_speaker)
        self.encoder = SpeakerEncoder()
        self.voices = nn.Linear(self.encoder.config.embedding, len(self.names) * len(SHIFTS), bias=False)
        self.modules, self.helpers = {"speaker": self.encoder}, {"voices": self.voices}
        self.data_summary = describe(self.speech, self.train)

    def batch(self, rng: np.random.Generator, step: int) -> SpeakerBatch:
        """Every speaker as often as every other, however much speech there is."""
        samples, voices = [], []
        for _ in range(self.size):
            voice, shift = int(rng.integers(len(self.names))), int(rng.integers(len(SHIFTS)))
            samples.append(self._crop(rng, int(rng.choice(self.by_speaker[self.names[voice]])), SHIFTS[shift]))
            voices.append(voice * len(SHIFTS) + shift)
        return SpeakerBatch(torch.stack(samples), torch.tensor(voices))

    def _crop(self, rng: np.random.Generator, index: int, faster: float = 1.0) -> Tensor:
        """[CROP * HOP], played ``faster``."""
        count = int(CROP * HOP * faster)
        start = int(rng.integers(self.speech.frames(index) * HOP - count + 1))
        samples = torch.from_numpy(self.speech.samples(index, start, count))
        return F.interpolate(samples[None, None], CROP * HOP, mode="linear", align_corners=True)[0, 0]

    def loss(self, batch: SpeakerBatch, progress: Progress) -> Loss:
        batch = batch.to(self.device)
        with torch.no_grad():
            augmented = louder(noisy(in_rooms(batch.samples)))
        cosines = F.normalize(self.encoder(augmented).float(), dim=-1) @ F.normalize(self.voices.weight, dim=-1).t()
        loss = F.cross_entropy(SCALE * with_margin(cosines, batch.voices), batch.voices)
        return loss, {"loss": loss.item(), "right": (cosines.argmax(-1) == batch.voices).float().mean().item()}

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        rng = np.random.default_rng(0)
        torch.manual_seed(0)
        clean, varied, voices = [], [], []
        for number, indices in enumerate(self.unheard.values()):
            crops = torch.stack([self._crop(rng, int(rng.choice(indices))) for _ in range(SCORED)])
            augmented = louder(noisy(in_rooms(crops)))
            for kept, samples in ((clean, crops), (varied, augmented)):
                kept.append(F.normalize(self.encoder(samples.to(self.device)).float(), dim=-1).cpu())
            voices += [number] * SCORED
        clean, varied, voices = torch.cat(clean), torch.cat(varied), torch.tensor(voices)
        same, other = voices[:, None] == voices, ~torch.eye(len(voices), dtype=torch.bool)
        return {
            "equal error rate, clean": equal_error((clean @ clean.t())[other], same[other]),
            "equal error rate, clean and varied": equal_error((clean @ varied.t())[other], same[other]),
            "cosine of clean and varied": float((clean * varied).sum(-1).mean()),
        }


def with_margin(cosines: Tensor, voices: Tensor) -> Tensor:
    """cosines [B, V]: the angle to each item's own speaker made MARGIN larger."""
    own = cosines.gather(1, voices[:, None]).clamp(-1 + 1e-6, 1 - 1e-6)
    return cosines.scatter(1, voices[:, None], torch.cos((torch.arccos(own) + MARGIN).clamp(max=torch.pi)))


def equal_error(scores: Tensor, same: Tensor) -> float:
    """scores [n], same [n] -> the rate at which misses among the same equal false alarms among the others."""
    order = scores.argsort()
    missed = same[order].double().cumsum(0) / same.sum().clamp(min=1)
    taken = 1 - (~same[order]).double().cumsum(0) / (~same).sum().clamp(min=1)
    return float(torch.maximum(missed, taken).min())
