"""Recipe ``first-book``: the codec's first codebook (QTTS, section 3.1), between the recogniser and readers of its
codes.

A codec alone does not learn phonemes from a few hours of speech, so the first codebook is learnt as a supervised
tokenizer is (CosyVoice, Z. Du and others, 2024, section 2.1), frame by frame: every entry belongs to one phoneme or the
pause (``codec.quantizer.PhonemeCodebook``), frequent ones have more entries. The recogniser's features of a frame are
mapped to an entry of its phoneme by the alignment, and trained to be nearest to one of these (cross-entropy over all
entries). Which of a phoneme's entries it is carries how it was spoken: readers predict pitch, relative to the voice's
mean, and spectrum from the codes. The recogniser is frozen, so its features are computed once and a step is cheap.

In the first ``OPEN`` steps a new codebook passes features through unquantised; with ``start=published`` the readers
learn alone for as long, and ``codec start=published`` then fits the rest to the codebook. With ``recogniser=new`` the
new codebook learns to add to the latent what the old one did, so that the other codebooks and the decoder still fit."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from ... import checkpoints
from ...codec.layers import ConvNeXtBlock
from ...codec.model import Codec
from ...codec.quantizer import PhonemeCodebook
from ...codec.recogniser import PhonemeRecogniser
from ...config import HOP, CodecConfig, UserError
from ...text.symbols import SYMBOLS
from ..data.batch import TensorBatch
from ..data.corpora import describe, pad_stack
from ..data.load import load_speech, recogniser_shape, use_recogniser
from ..data.pitch import pitch_of
from ..data.sequences import phonetic_features
from ..data.speech import UNKNOWN
from ..losses import known_frames_loss
from ..progress import Progress
from ..settings import Count, Settings, Weight
from ..task import Loss, Task, TrainOptions

CROP = 128  # frames of each utterance
OPEN = 200  # steps (``Progress.begins``)
SETTLED, REVIVED = 2 / 3, 0.02  # share of the run in which entries used less often than this move to where data is
FEWEST, EVENNESS = 4, 0.5  # entries of a phoneme at least; they grow with this power of its frames
SCORED = 120  # utterances
ADDED = 4  # crops of a batch that the old codebook encodes too


@dataclass(frozen=True)
class CodebookBatch(TensorBatch):
    phonetic: Tensor  # [B, F, semantic width] features of the recogniser, F = CROP in training
    labels: Tensor  # [B, F] phoneme id of each frame, or UNKNOWN
    samples: Tensor  # [B, F * HOP]
    spectrum: Tensor  # [B, F, mels], each utterance at zero mean per band
    pitch: Tensor  # [B, F] in octaves above the utterance's mean, nan where unvoiced


class Reader(nn.Module):
    """The codebook's output [B, F, width] -> spectrum [B, F, mels], pitch [B, F]."""

    def __init__(self, width: int, mels: int, layers: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ConvNeXtBlock(width, kernel=9) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.spectrum, self.pitch = nn.Linear(width, mels), nn.Linear(width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.spectrum(x).float(), self.pitch(x).float()[..., 0]


class FirstCodebookSettings(Settings):
    entries: Count | None = Field(None, description="entries of a new codebook; by default the codec's own number")
    recogniser: Literal["kept", "new"] = Field(
        "kept", description="new, with start=published: a new recogniser and codebook, all else of the codec kept"
    )
    pitch: Weight = Field(1.0, description="weight of the pitch that readers find in the codes")
    spectrum: Weight = Field(1.0, description="weight of the spectrum that readers find in the codes")


class FirstCodebookTask(Task):
    Settings = FirstCodebookSettings
    settings: FirstCodebookSettings
    name = "first-book"
    steps, lr = 6000, 1e-3
    loads_published = True
    averaged, scored_every = 0.998, 1000

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        recogniser, settings = checkpoints.load_module(options.checkpoint, "ears"), self.settings
        self.speech, self.device = load_speech(options, settings, recogniser), options.device
        self.checkpoint, self.size = options.checkpoint, options.batch or 32
        self.weights = {"pitch": settings.pitch, "spectrum": settings.spectrum}
        self.goes_on = settings.start == "published" and settings.recogniser == "kept"
        self.codec = _network(options, settings, recogniser).requires_grad_(False)
        replaces = settings.start == "published" and not self.goes_on
        self.old = checkpoints.load_module(options.checkpoint, "codec").to(self.device) if replaces else None
        self.codebook: PhonemeCodebook = self.codec.quantizer.codebooks[0]
        for part in (self.codec.semantic, self.codebook):
            part.requires_grad_(True)
        self.phonetic, self.hertz = phonetic_features(self.speech, self.codec), pitch_of(self.speech)
        self.train, self.test = self.speech.split_longer(CROP)
        if not self.goes_on:
            self.codebook.sounds.copy_(allocated(self._phoneme_counts(), len(self.codebook.entries)))
        self.share = self.speech.shares(self.train)
        self.reader = Reader(self.codec.config.latent, self.codec.config.semantic_mels)
        self.modules, self.helpers = {"codec": self.codec}, {"reader": self.reader}
        self.data_summary = describe(self.speech, self.train)

    def _phoneme_counts(self) -> np.ndarray:
        """Frames of each symbol in the training speech [symbols]."""
        labels = np.concatenate([self.speech.labels(i) for i in self.train])
        return np.bincount(labels[labels >= 0], minlength=len(SYMBOLS))

    def batch(self, rng: np.random.Generator, step: int) -> CodebookBatch:
        chosen = rng.choice(self.train, size=self.size, p=self.share)
        starts = [int(rng.integers(self.speech.frames(i) - CROP + 1)) for i in chosen]
        return self._make([(int(i), start, CROP) for i, start in zip(chosen, starts)])

    @torch.no_grad()
    def _make(self, crops: list[tuple[int, int, int]]) -> CodebookBatch:
        """crops: utterance, first frame, frames."""
        phonetic, labels, samples, pitch = [], [], [], []
        for i, start, count in crops:
            stretch = slice(start, start + count)
            phonetic.append(self.phonetic.get(i)[stretch].astype(np.float32))
            labels.append(self.speech.labels(i)[stretch])
            samples.append(self.speech.samples(i, start * HOP, count * HOP))
            pitch.append(_octaves(self.hertz.get(i))[stretch])
        waves = pad_stack(samples)
        mel = self.codec.phonetic.features(waves)
        return CodebookBatch(
            pad_stack(phonetic),
            pad_stack(labels, UNKNOWN),
            waves,
            mel.unflatten(1, (-1, 2)).mean(2),
            pad_stack(pitch, np.nan).float(),
        )

    def loss(self, batch: CodebookBatch, progress: Progress) -> Loss:
        batch = batch.to(self.device)
        readers_alone = self.goes_on and progress.begins(OPEN)
        self.codebook.revive_below = REVIVED if progress.share < SETTLED else 0.002
        self.codebook.train(not readers_alone)  # else its statistics and unused entries change
        semantic = self.codec.semantic(batch.phonetic)
        first, _, vq = self.codebook(semantic, batch.labels)
        first_codebook_loss = known_frames_loss(self.codebook.phoneme_log_probs(semantic).transpose(1, 2), batch.labels)
        if readers_alone:
            first, vq, first_codebook_loss = first.detach(), vq.detach(), first_codebook_loss.detach()
        elif progress.begins(OPEN):
            first = self.codebook.unquantised(semantic)
        spectrum, pitch = self._reading_errors(first, batch)
        added = self._added(first, batch.samples) if self.old else first.new_zeros(())
        read = self.weights["spectrum"] * spectrum + self.weights["pitch"] * pitch
        loss = added + first_codebook_loss + vq.mean() + read
        parts = {"added": added} if self.old else {}
        parts |= {"phonemes": first_codebook_loss, "vq": vq.mean(), "spectrum": spectrum, "pitch": pitch}
        return loss, {name: part.item() for name, part in parts.items()}

    def _reading_errors(self, first: Tensor, batch: CodebookBatch) -> tuple[Tensor, Tensor]:
        """Mean errors of spectrum and pitch predicted from the codebook's output, each []."""
        spectrum, pitch = self.reader(first)
        voiced = ~batch.pitch.isnan()
        octaves = (pitch - batch.pitch.nan_to_num()).abs()[voiced].sum() / voiced.sum().clamp(min=1)
        return (spectrum - batch.spectrum).abs().mean(), octaves

    def _added(self, first: Tensor, samples: Tensor) -> Tensor:
        """Distance of the codebook's output from that of the one it replaces, relative to the latter's size, []."""
        with torch.no_grad():
            codebook = self.old.quantizer.codebooks[0]
            was = codebook.lookup(codebook.encode(self.old.semantic(self.old.phonetic(samples[:ADDED]))))
        return (first[:ADDED] - was).abs().mean() / was.abs().mean()

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """The first codebook on held-out speech: frames whose phoneme is wrong without labels, natural and a teacher's
        separately; errors of the readers on labelled codes; how evenly entries are used; how many codes equal the
        published codec's."""
        wrong, used, kept, errors = {}, [], [], []
        old = checkpoints.load_module(self.checkpoint, "codec").to(self.device) if self.goes_on else None
        for i in self.test[:: max(1, len(self.test) // SCORED)]:
            batch = self._make([(i, 0, self.speech.frames(i))]).to(self.device)
            semantic, known = self.codec.semantic(batch.phonetic), batch.labels >= 0
            unlabelled, codes = self.codebook.encode(semantic), self.codebook.encode(semantic, batch.labels)
            kind = "teacher" if self.speech.timings[i] else "natural"
            missed = (self.codebook.sounds[unlabelled] != batch.labels)[known]
            wrong.setdefault(kind, []).append(missed.float().mean().item())
            used.append(codes.flatten())
            errors.append([part.item() for part in self._reading_errors(self.codebook.lookup(codes), batch)])
            if old:
                labelled = old.quantizer.codebooks[0].encode(old.semantic(batch.phonetic), batch.labels)
                kept.append(float((codes == labelled).float().mean()))
        share = torch.bincount(torch.cat(used), minlength=len(self.codebook.entries)).float() / sum(map(len, used))
        spectrum, pitch = np.nanmean(errors, axis=0)
        scores = {f"first codebook, frames wrong, {kind}": float(np.mean(some)) for kind, some in wrong.items()} | {
            "first codebook, distance of the spectrum": float(spectrum),
            "first codebook, octaves off the pitch": float(pitch),
            "first codebook, perplexity of its entries": float(torch.exp(-(share * share.clamp(min=1e-9).log()).sum())),
        }
        return scores | ({"codes as before": float(np.mean(kept))} if old else {})


def allocated(frames: np.ndarray, entries: int) -> Tensor:
    """Frames of each symbol in the training speech [symbols] -> the symbol of each entry [entries], in order."""
    often = np.where(frames > 0, frames, 0.0) ** EVENNESS
    if entries < FEWEST * (often > 0).sum():
        raise UserError(f"--set entries must be at least {FEWEST * (often > 0).sum()}, {FEWEST} a phoneme.")
    free = entries - FEWEST * (often > 0).sum()
    ends = np.round(np.cumsum(often) / often.sum() * free).astype(int)
    counts = np.diff(ends, prepend=0) + FEWEST * (often > 0)
    return torch.from_numpy(np.repeat(np.arange(len(frames)), counts))


def _octaves(hertz: np.ndarray) -> np.ndarray:
    """Hz [F], 0 = unvoiced -> octaves above the mean of voiced frames, nan elsewhere."""
    voiced = hertz > 0
    octaves = np.where(voiced, np.log2(np.where(voiced, hertz, 1.0)), np.nan)
    return octaves - octaves[voiced].mean() if voiced.any() else octaves


def _network(options: TrainOptions, settings: FirstCodebookSettings, recogniser: PhonemeRecogniser) -> Codec:
    """The published codec, one with a new recogniser and first codebook in it, or a new one."""
    old = checkpoints.load_module(options.checkpoint, "codec") if settings.start == "published" else None
    if old and settings.recogniser == "kept":
        if not old.config.first_by_sound:
            raise UserError("The published first codebook is of an older kind: make one with --set recogniser=new.")
        return old
    config = recogniser_shape(recogniser, old.config if old else CodecConfig())
    codec = Codec(replace(config, first_entries=settings.entries or config.first_entries, first_by_sound=True))
    if old:
        anew = ("phonetic.", "semantic.", "quantizer.codebooks.0.")
        codec.load_state_dict({k: v for k, v in old.state_dict().items() if not k.startswith(anew)}, strict=False)
    use_recogniser(codec, recogniser)
    return codec
