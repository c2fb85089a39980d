"""Recipe ``first-book``: the codec's first codebook (QTTS, section 3.1), put between the ears and readers of its codes.

A codec alone does not learn to hear phonemes in a few hours of speech, so the first book is learnt as a supervised
tokenizer is (CosyVoice, Z. Du and others, 2024, section 2.1): what readers are to tell must pass through the codes. One
reads the phoneme of every frame, one spells (CTC), an autoregressive decoder says it again, as in the paper, and
``pitch=W`` (weight) adds one that tells the pitch against the voice's own mean. The ears are finished, so what they
hear is computed once and a step costs next to nothing.

``--set entries=2048`` makes a larger book. For the first ``OPEN`` steps a new book lets everything pass. ``--set
start=published`` goes on from the published codec, whose readers learn alone for as long; ``codec --set
start=published`` then fits the rest to the book. ``start=published ears=new`` keeps of the published codec all but the
book and what listens for it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F
from rapidfuzz.distance import Levenshtein
from torch import Tensor, nn

from ... import checkpoints
from ...codec.ears import Ears, read
from ...codec.layers import ConvNeXtBlock
from ...codec.model import Codec
from ...codec.quantizer import Codebook
from ...config import CodecConfig, UserError
from ...text.symbols import SYMBOLS
from ..data.corpora import describe, pad_stack
from ..data.load import hear_with, hears_as, load_ears, load_speech
from ..data.pitch import pitch_of
from ..data.sequences import heard_by
from ..data.speech import UNKNOWN, sounds_of
from ..loop import Task, TrainOptions
from ..losses import SemanticProbe, known_frames_loss

CROP, MAX_SOUNDS = 128, 60  # frames of each utterance, and the most phonemes in them
SAID = 64  # frames of a crop that the decoder reads: its places go no further
OPEN = 200  # steps
SETTLED, REVIVED = 4000, 0.02  # steps until which entries used less often than this are moved to where the data is
SCORED = 120  # utterances


@dataclass(frozen=True)
class BookBatch:
    heard: Tensor  # [B, F, semantic width] what the ears hear, F = CROP in training
    labels: Tensor  # [B, F] phoneme id of each frame, UNKNOWN where nobody knows
    targets: Tensor  # [B, T] phoneme ids of the whole crop, 0 = padding
    sounds: Tensor  # [B, T'] phoneme ids of its first SAID frames, 0 = padding
    pitch: Tensor  # [B, F] in octaves above the utterance's mean, nan where unvoiced

    def to(self, device: torch.device | str) -> BookBatch:
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})


class Reader(nn.Module):
    """The book's output [B, F, width] -> logits of spelling, logits of each frame's phoneme [B, F, symbols], pitch
    [B, F]."""

    def __init__(self, width: int, symbols: int, layers: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ConvNeXtBlock(width, kernel=9) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.spell, self.frame = nn.Linear(width, symbols), nn.Linear(width, symbols)
        self.pitch = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.spell(x).float(), self.frame(x).float(), self.pitch(x).float()[..., 0]


class FirstBookTask(Task):
    name = "first-book"
    steps, lr = 12_000, 1e-3
    loads_published = True
    averaged, scored_every = 0.998, 2000

    def __init__(self, options: TrainOptions) -> None:
        ears = load_ears(options.checkpoint)
        self.speech, self.device = load_speech(options, ears), options.device
        self.checkpoint, self.size = options.checkpoint, options.batch or 32
        self.weight = float(options.settings.get("pitch", 0.0))
        self.goes_on = options.settings.get("start") == "published" and options.settings.get("ears") != "new"
        self.codec = _network(options, ears).requires_grad_(False)
        self.book: Codebook = self.codec.quantizer.books[0]
        for part in (self.codec.semantic, self.book):
            part.requires_grad_(True)
        self.heard, self.hertz = heard_by(self.speech, self.codec), pitch_of(self.speech)
        self.train, self.test = self.speech.split(self._usable)
        if not self.train:
            raise UserError(
                "There is too little speech to train on: at least two recordings over 2.6 s that fit their text."
            )
        seconds = np.asarray([self.speech.seconds(i) for i in self.train])
        self.share = seconds / seconds.sum()
        width = self.codec.config.latent
        self.probe, self.reader = SemanticProbe(width, len(SYMBOLS)), Reader(width, len(SYMBOLS))
        self.modules, self.helpers = {"codec": self.codec}, {"probe": self.probe, "reader": self.reader}
        self.data_summary = describe(self.speech, self.train)

    def _usable(self, index: int) -> bool:
        return self.speech.frames(index) > CROP and self.speech.places(index) is not None

    def batch(self, rng: np.random.Generator, step: int) -> BookBatch:
        chosen = rng.choice(self.train, size=self.size, p=self.share)
        starts = [int(rng.integers(self.speech.frames(i) - CROP + 1)) for i in chosen]
        return self._make([(int(i), start, CROP) for i, start in zip(chosen, starts)])

    def _make(self, crops: list[tuple[int, int, int]]) -> BookBatch:
        """crops: utterance, first frame, frames."""
        heard, labels, pitch = [], [], []
        for i, start, count in crops:
            stretch = slice(start, start + count)
            heard.append(self.heard.get(i)[stretch].astype(np.float32))
            labels.append(self.speech.labels(i)[stretch])
            pitch.append(_octaves(self.hertz.get(i))[stretch])
        targets = [sounds_of(row, len(row)) for row in labels]
        return BookBatch(
            pad_stack(heard),
            pad_stack(labels, UNKNOWN),
            pad_stack(targets),
            pad_stack([sounds_of(row[:SAID], MAX_SOUNDS) for row in labels]),
            pad_stack(pitch, np.nan).float(),
        )

    def loss(self, batch: BookBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        batch = batch.to(self.device)
        readers_alone = self.goes_on and step < OPEN
        self.book.revive_below = REVIVED if step < SETTLED else 0.002
        self.book.train(not readers_alone)  # else its statistics move, and unused entries
        semantic = self.codec.semantic(batch.heard)
        first, _, vq = self.book(semantic)
        if readers_alone:
            first, vq = first.detach(), vq.detach()
        elif step < OPEN:
            first = self.book.open(semantic)
        parts = self._told(batch, first) | {"vq": vq.mean()}
        weights = {"asr": 0.5, "pitch": self.weight}
        return sum(weights.get(k, 1.0) * v for k, v in parts.items()), {k: v.item() for k, v in parts.items()}

    def _told(self, batch: BookBatch, first: Tensor) -> dict[str, Tensor]:
        """What the readers tell of the book's output, each part of the loss []."""
        spell, frame, pitch = self.reader(first)
        frames, lengths = torch.full((len(first),), first.shape[1]), (batch.targets != 0).sum(1)
        ctc = F.ctc_loss(spell.log_softmax(-1).transpose(0, 1), batch.targets, frames, lengths, zero_infinity=True)
        told = known_frames_loss(frame.transpose(1, 2), batch.labels)
        voiced = ~batch.pitch.isnan()
        apart = (pitch - batch.pitch.nan_to_num()).abs()[voiced].sum() / voiced.sum().clamp(min=1)
        alone = self.probe.frame_loss(first, batch.labels)  # of single frames: what a language model will see
        said = self.probe.decoder_loss(first[:, :SAID], batch.sounds)
        return {"ctc": ctc, "read": told, "frame": alone, "asr": said, "pitch": apart}

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """The first book on held-out speech: phonemes read from its codes alone, natural and a teacher's apart,
        phonemes of single frames, how evenly its entries are used, how many codes are still the published ones."""
        errors, length, wrong, used, kept, apart = {}, {}, [], [], [], []
        old = checkpoints.load_module(self.checkpoint, "codec").to(self.device) if self.goes_on else None
        for i in self.test[:: max(1, len(self.test) // SCORED)]:
            batch = self._make([(i, 0, self.speech.frames(i))]).to(self.device)
            codes = self.book.encode(self.codec.semantic(batch.heard))
            first = self.book.lookup(codes)
            spell, _, pitch = self.reader(first)
            kind, truth = "teacher" if self.speech.spoken[i] else "natural", self.speech.sounds(i).tolist()
            heard = read(spell[0].argmax(-1))
            errors[kind] = errors.get(kind, 0) + Levenshtein.distance(heard, truth)
            length[kind] = length.get(kind, 0) + len(truth)
            wrong.append(self.probe.frame_error(first, batch.labels))
            used.append(codes.flatten())
            apart.append(float((pitch - batch.pitch).abs().nanmean()))
            if old:
                kept.append(float((codes == old.quantizer.books[0].encode(old.semantic(batch.heard))).float().mean()))
        share = torch.bincount(torch.cat(used), minlength=len(self.book.entries)).float() / sum(map(len, used))
        scores = {f"first book, phonemes wrong, {kind}": errors[kind] / length[kind] for kind in errors} | {
            "first book, frame phoneme error": float(np.mean(wrong)),
            "first book, perplexity of its entries": float(torch.exp(-(share * share.clamp(min=1e-9).log()).sum())),
            "first book, octaves off the pitch": float(np.nanmean(apart)),
        }
        return scores | ({"codes as before": float(np.mean(kept))} if old else {})


def _octaves(hertz: np.ndarray) -> np.ndarray:
    """Hz [F], 0 = unvoiced -> octaves above the mean of what is voiced, nan where nothing is."""
    voiced = hertz > 0
    octaves = np.where(voiced, np.log2(np.where(voiced, hertz, 1.0)), np.nan)
    return octaves - octaves[voiced].mean() if voiced.any() else octaves


def _network(options: TrainOptions, ears: Ears) -> Codec:
    """The published codec, one with new ears and a new first book in it, or one that is new altogether."""
    published = options.settings.get("start") == "published"
    old = checkpoints.load_module(options.checkpoint, "codec") if published else None
    if old and options.settings.get("ears") != "new":
        return old
    config = hears_as(ears, old.config if old else CodecConfig())
    codec = Codec(replace(config, first_entries=int(options.settings.get("entries", config.first_entries))))
    if old:
        anew = ("phonetic.", "semantic.", "quantizer.books.0.")
        codec.load_state_dict({k: v for k, v in old.state_dict().items() if not k.startswith(anew)}, strict=False)
    hear_with(codec, ears)
    return codec
