"""Recipe ``first-book``: the codec's first codebook (QTTS, section 3.1), put between the ears and readers of its codes.

A codec alone does not learn to hear phonemes in a few hours of speech, so the first book is learnt as a supervised
tokenizer is (CosyVoice, Z. Du and others, 2024, section 2.1), frame by frame: every entry belongs to one phoneme or the
pause (``codec.quantizer.SoundBook``), the common ones have more. What the ears hear is taken for an entry of the
phoneme that the alignment tells, and must look like one of these (cross-entropy over all entries). Which of a phoneme's
entries it is tells how it was said: readers must find pitch, against the voice's own mean, and spectrum in the codes.
The ears are finished, so what they hear is computed once and a step costs next to nothing.

``--set entries=2048`` makes a larger book, ``pitch=1`` and ``spectrum=1`` weigh the readers. For the first ``OPEN``
steps a new book lets everything pass. ``--set start=published`` goes on from the published codec, whose readers learn
alone for as long; ``codec --set start=published`` then fits the rest to the book. ``start=published ears=new`` keeps of
the published codec all but the book and what listens for it, and the new book learns to add to the latent what the old
one did, so that the other books and the decoder still fit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from ... import checkpoints
from ...codec.ears import Ears
from ...codec.layers import ConvNeXtBlock
from ...codec.model import Codec
from ...codec.quantizer import SoundBook
from ...config import HOP, CodecConfig, UserError
from ...text.symbols import SYMBOLS
from ..data.corpora import describe, pad_stack
from ..data.load import hear_with, hears_as, load_ears, load_speech
from ..data.pitch import pitch_of
from ..data.sequences import heard_by
from ..data.speech import UNKNOWN
from ..losses import known_frames_loss
from ..progress import Progress
from ..settings import Count, Settings, Weight
from ..task import Task, TrainOptions

CROP = 128  # frames of each utterance
OPEN = 200  # steps (``Progress.begins``)
SETTLED, REVIVED = 2 / 3, 0.02  # share of the run in which entries used less often than this move to where data is
FEWEST, EVENNESS = 4, 0.5  # entries a sound has at least; they grow with this power of how often it is spoken
SCORED = 120  # utterances
ADDED = 4  # crops of a batch on which the old book is asked


@dataclass(frozen=True)
class BookBatch:
    heard: Tensor  # [B, F, semantic width] what the ears hear, F = CROP in training
    labels: Tensor  # [B, F] phoneme id of each frame, UNKNOWN where nobody knows
    samples: Tensor  # [B, F * HOP]
    spectrum: Tensor  # [B, F, mels], each utterance at zero mean per band
    pitch: Tensor  # [B, F] in octaves above the utterance's mean, nan where unvoiced

    def to(self, device: torch.device | str) -> BookBatch:
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})


class Reader(nn.Module):
    """The book's output [B, F, width] -> spectrum [B, F, mels], pitch [B, F]."""

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


class FirstBookSettings(Settings):
    entries: Count | None = Field(None, description="entries of a new codebook; by default the codec's own number")
    ears: Literal["kept", "new"] = Field(
        "kept", description="new, with start=published: a new recogniser and codebook, all else of the codec kept"
    )
    pitch: Weight = Field(1.0, description="weight of the pitch that readers find in the codes")
    spectrum: Weight = Field(1.0, description="weight of the spectrum that readers find in the codes")


class FirstBookTask(Task):
    Settings = FirstBookSettings
    settings: FirstBookSettings
    name = "first-book"
    steps, lr = 6000, 1e-3
    loads_published = True
    averaged, scored_every = 0.998, 1000

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        ears, settings = load_ears(options.checkpoint), self.settings
        self.speech, self.device = load_speech(options, settings, ears), options.device
        self.checkpoint, self.size = options.checkpoint, options.batch or 32
        self.weights = {"pitch": settings.pitch, "spectrum": settings.spectrum}
        self.goes_on = settings.start == "published" and settings.ears == "kept"
        self.codec = _network(options, settings, ears).requires_grad_(False)
        replaces = settings.start == "published" and not self.goes_on
        self.old = checkpoints.load_module(options.checkpoint, "codec").to(self.device) if replaces else None
        self.book: SoundBook = self.codec.quantizer.books[0]
        for part in (self.codec.semantic, self.book):
            part.requires_grad_(True)
        self.heard, self.hertz = heard_by(self.speech, self.codec), pitch_of(self.speech)
        self.train, self.test = self.speech.split(self._usable)
        if not self.train:
            raise UserError(
                "There is too little speech to train on: at least two recordings over 2.6 s that fit their text."
            )
        if not self.goes_on:
            self.book.sounds.copy_(shared_out(self._spoken(), len(self.book.entries)))
        seconds = np.asarray([self.speech.seconds(i) for i in self.train])
        self.share = seconds / seconds.sum()
        self.reader = Reader(self.codec.config.latent, self.codec.config.semantic_mels)
        self.modules, self.helpers = {"codec": self.codec}, {"reader": self.reader}
        self.data_summary = describe(self.speech, self.train)

    def _usable(self, index: int) -> bool:
        return self.speech.frames(index) > CROP and self.speech.places(index) is not None

    def _spoken(self) -> np.ndarray:
        """How many frames of the training speech say each symbol [symbols]."""
        labels = np.concatenate([self.speech.labels(i) for i in self.train])
        return np.bincount(labels[labels >= 0], minlength=len(SYMBOLS))

    def batch(self, rng: np.random.Generator, step: int) -> BookBatch:
        chosen = rng.choice(self.train, size=self.size, p=self.share)
        starts = [int(rng.integers(self.speech.frames(i) - CROP + 1)) for i in chosen]
        return self._make([(int(i), start, CROP) for i, start in zip(chosen, starts)])

    @torch.no_grad()
    def _make(self, crops: list[tuple[int, int, int]]) -> BookBatch:
        """crops: utterance, first frame, frames."""
        heard, labels, samples, pitch = [], [], [], []
        for i, start, count in crops:
            stretch = slice(start, start + count)
            heard.append(self.heard.get(i)[stretch].astype(np.float32))
            labels.append(self.speech.labels(i)[stretch])
            samples.append(self.speech.samples(i, start * HOP, count * HOP))
            pitch.append(_octaves(self.hertz.get(i))[stretch])
        waves = pad_stack(samples)
        mel = self.codec.phonetic.features(waves)
        return BookBatch(
            pad_stack(heard),
            pad_stack(labels, UNKNOWN),
            waves,
            mel.unflatten(1, (-1, 2)).mean(2),
            pad_stack(pitch, np.nan).float(),
        )

    def loss(self, batch: BookBatch, progress: Progress) -> tuple[Tensor, dict[str, float]]:
        batch = batch.to(self.device)
        readers_alone = self.goes_on and progress.begins(OPEN)
        self.book.revive_below = REVIVED if progress.share < SETTLED else 0.002
        self.book.train(not readers_alone)  # else its statistics move, and unused entries
        semantic = self.codec.semantic(batch.heard)
        first, _, vq = self.book(semantic, batch.labels)
        told = known_frames_loss(self.book.heard(semantic).transpose(1, 2), batch.labels)
        if readers_alone:
            first, vq, told = first.detach(), vq.detach(), told.detach()
        elif progress.begins(OPEN):
            first = self.book.open(semantic)
        spectrum, pitch = self._apart(first, batch)
        added = self._added(first, batch.samples) if self.old else first.new_zeros(())
        loss = added + told + vq.mean() + self.weights["spectrum"] * spectrum + self.weights["pitch"] * pitch
        parts = {"added": added} if self.old else {}
        parts |= {"told": told, "vq": vq.mean(), "spectrum": spectrum, "pitch": pitch}
        return loss, {name: part.item() for name, part in parts.items()}

    def _apart(self, first: Tensor, batch: BookBatch) -> tuple[Tensor, Tensor]:
        """How far spectrum and pitch read from the book's output lie from the true ones, each []."""
        spectrum, pitch = self.reader(first)
        voiced = ~batch.pitch.isnan()
        octaves = (pitch - batch.pitch.nan_to_num()).abs()[voiced].sum() / voiced.sum().clamp(min=1)
        return (spectrum - batch.spectrum).abs().mean(), octaves

    def _added(self, first: Tensor, samples: Tensor) -> Tensor:
        """Distance of the book's output from that of the book it replaces, over the size of the latter, []."""
        with torch.no_grad():
            book = self.old.quantizer.books[0]
            was = book.lookup(book.encode(self.old.semantic(self.old.phonetic(samples[:ADDED]))))
        return (first[:ADDED] - was).abs().mean() / was.abs().mean()

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """The first book on held-out speech: frames whose phoneme is not heard without being told, natural and a
        teacher's apart; what readers find in told codes; how evenly entries are used; how many codes are still the
        published ones."""
        wrong, used, kept, apart = {}, [], [], []
        old = checkpoints.load_module(self.checkpoint, "codec").to(self.device) if self.goes_on else None
        for i in self.test[:: max(1, len(self.test) // SCORED)]:
            batch = self._make([(i, 0, self.speech.frames(i))]).to(self.device)
            semantic, known = self.codec.semantic(batch.heard), batch.labels >= 0
            heard, codes = self.book.encode(semantic), self.book.encode(semantic, batch.labels)
            kind = "teacher" if self.speech.spoken[i] else "natural"
            wrong.setdefault(kind, []).append((self.book.sounds[heard] != batch.labels)[known].float().mean().item())
            used.append(codes.flatten())
            apart.append([part.item() for part in self._apart(self.book.lookup(codes), batch)])
            if old:
                told = old.quantizer.books[0].encode(old.semantic(batch.heard), batch.labels)
                kept.append(float((codes == told).float().mean()))
        share = torch.bincount(torch.cat(used), minlength=len(self.book.entries)).float() / sum(map(len, used))
        spectrum, pitch = np.nanmean(apart, axis=0)
        scores = {f"first book, frames wrong, {kind}": float(np.mean(some)) for kind, some in wrong.items()} | {
            "first book, distance of the spectrum": float(spectrum),
            "first book, octaves off the pitch": float(pitch),
            "first book, perplexity of its entries": float(torch.exp(-(share * share.clamp(min=1e-9).log()).sum())),
        }
        return scores | ({"codes as before": float(np.mean(kept))} if old else {})


def shared_out(spoken: np.ndarray, entries: int) -> Tensor:
    """How often each symbol is spoken [symbols] -> the symbol of each entry [entries], in order."""
    often = np.where(spoken > 0, spoken, 0.0) ** EVENNESS
    if entries < FEWEST * (often > 0).sum():
        raise UserError(f"--set entries must be at least {FEWEST * (often > 0).sum()}, {FEWEST} a sound.")
    free = entries - FEWEST * (often > 0).sum()
    ends = np.round(np.cumsum(often) / often.sum() * free).astype(int)
    counts = np.diff(ends, prepend=0) + FEWEST * (often > 0)
    return torch.from_numpy(np.repeat(np.arange(len(spoken)), counts))


def _octaves(hertz: np.ndarray) -> np.ndarray:
    """Hz [F], 0 = unvoiced -> octaves above the mean of what is voiced, nan where nothing is."""
    voiced = hertz > 0
    octaves = np.where(voiced, np.log2(np.where(voiced, hertz, 1.0)), np.nan)
    return octaves - octaves[voiced].mean() if voiced.any() else octaves


def _network(options: TrainOptions, settings: FirstBookSettings, ears: Ears) -> Codec:
    """The published codec, one with new ears and a new first book in it, or one that is new altogether."""
    old = checkpoints.load_module(options.checkpoint, "codec") if settings.start == "published" else None
    if old and settings.ears == "kept":
        if not old.config.first_by_sound:
            raise UserError("The published first book is of an older kind: make a new one with --set ears=new.")
        return old
    config = hears_as(ears, old.config if old else CodecConfig())
    codec = Codec(replace(config, first_entries=settings.entries or config.first_entries, first_by_sound=True))
    if old:
        anew = ("phonetic.", "semantic.", "quantizer.books.0.")
        codec.load_state_dict({k: v for k, v in old.state_dict().items() if not k.startswith(anew)}, strict=False)
    hear_with(codec, ears)
    return codec
