"""Recipe ``first-book``: the codec's first codebook and what it listens with (QTTS, section 3.1).

A codec alone does not learn to hear phonemes in a few hours of speech, so the first book is learnt as a supervised
tokenizer is (CosyVoice, Z. Du and others, 2024, section 2.1): the recogniser is cut in two, the book put between, and
whatever the upper blocks are to spell (CTC) must pass through the codes. An autoregressive decoder that sees the book's
output alone must say it too, as in the paper, and every frame must tell its own phoneme: CTC alone would leave the
frames between its peaks empty. Each batch is varied as in the recogniser's recipe.

For the first ``OPEN`` steps a new book lets everything pass. ``--set start=published`` goes on from the published
codec, whose readers learn alone for as long; most entries keep their meaning, so that a language model has little to
learn anew. ``codec --set start=published`` then fits the rest to the book. ``--set start=published ears=new`` keeps of
the published codec all but the book and what listens for it, which begin anew with the recogniser's lower blocks.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F
from rapidfuzz.distance import Levenshtein
from torch import Tensor, nn

from ... import checkpoints
from ...codec.model import Codec
from ...codec.quantizer import Codebook
from ...codec.recogniser import Recogniser
from ...config import HOP, CodecConfig, UserError
from ...text.symbols import SYMBOLS
from ..data.alignment import Alignments, sounds_of
from ..data.corpora import PhonemeCache, SpeechCache, describe, pad_stack
from ..data.load import hear_with, load_recogniser
from ..data.sequences import tag_of
from ..loop import Task, TrainOptions
from ..losses import SemanticProbe
from .recogniser import buckets, mask_bands, noisy, warp

WINDOW, MAX_SOUNDS = 64, 48  # frames of each utterance that the decoder reads, and the most phonemes in them
OPEN = 200  # steps
SETTLED, REVIVED = 2000, 0.02  # steps until which entries used less often than this are moved to where the data is
IGNORE = -100


@dataclass(frozen=True)
class BookBatch:
    samples: Tensor  # [B, N]
    frames: Tensor  # [B], after the change of pace, like all that follows
    labels: Tensor  # [B, F] phoneme id per frame, IGNORE behind the end
    targets: Tensor  # [B, T] phoneme ids of the utterance, 0 = padding
    lengths: Tensor  # [B] of these
    starts: Tensor  # [B] first frame of the window
    sounds: Tensor  # [B, T'] phoneme ids of the window, 0 = padding
    pace: float
    pitch: float

    def to(self, device: torch.device | str) -> BookBatch:
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name not in ("pace", "pitch")}
        return replace(self, **moved)


class Reader(nn.Module):
    """The upper part of a recogniser, from ``block`` on: the book's output [B, F, width] -> log probabilities of
    phonemes and blank [B, F, symbols]."""

    def __init__(self, width: int, recogniser: Recogniser, block: int) -> None:
        super().__init__()
        upper = copy.deepcopy(recogniser).requires_grad_(True)
        self.enter = nn.Linear(width, recogniser.config.width)
        self.blocks, self.norm, self.head = upper.blocks[block:], upper.norm, upper.head

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return F.log_softmax(self.head(self.norm(x)).float(), -1)


class FirstBookTask(Task):
    name = "first-book"
    steps, lr = 2400, 8e-4
    any_length = True
    loads_published = True

    def __init__(self, options: TrainOptions) -> None:
        self.speech = SpeechCache(options.data, options.work / "cache")
        self.phonemes = PhonemeCache(self.speech)
        recogniser = load_recogniser(options.checkpoint)
        self.alignments = Alignments(self.speech, self.phonemes, recogniser, tag_of(recogniser))
        self.device, self.checkpoint = options.device, options.checkpoint
        self.goes_on = options.settings.get("start") == "published" and options.settings.get("ears") != "new"
        self.codec = _network(options, recogniser).requires_grad_(False)
        self.book: Codebook = self.codec.quantizer.books[0]
        for part in (self.codec.phonetic, self.codec.semantic, self.book):
            part.requires_grad_(True)
        self.codec.phonetic.skip = float(options.settings.get("skip", 0.05))
        self.ids = [np.asarray(ids, dtype=np.int64) for ids in self.phonemes.ids]
        train, self.test = self.speech.split(self._usable)
        if not train:
            raise UserError(
                "There is too little speech to train on: at least two recordings over 2 s that fit their text."
            )
        self.buckets = buckets(self.speech, train, seconds=options.batch or 90)
        width = self.codec.config.latent
        self.probe = SemanticProbe(width, len(SYMBOLS))
        self.reader = Reader(width, recogniser, self.codec.config.semantic_layers)
        self.modules, self.helpers = {"codec": self.codec}, {"probe": self.probe, "reader": self.reader}
        self.data_summary = describe(self.speech, train)

    def _usable(self, index: int) -> bool:
        row = self.alignments.get(index)
        return row is not None and WINDOW * 1.2 < len(row) <= len(self.speech.samples(index)) // HOP

    def batch(self, rng: np.random.Generator, step: int) -> BookBatch:
        chosen = self.buckets[rng.integers(len(self.buckets))]
        return self._make(rng, chosen, 1 + 0.1 * float(rng.uniform(-1, 1)), 1 + 0.1 * float(rng.uniform(-1, 1)))

    def _make(self, rng: np.random.Generator, chosen: list[int], pace: float = 1.0, pitch: float = 1.0) -> BookBatch:
        rows = [self.alignments.get(i) for i in chosen]
        longest = max(map(len, rows))
        total = round(longest * pace)
        labels, starts, sounds, frames = [], [], [], []
        for i, row in zip(chosen, rows):
            place = np.arange(total) * longest // total  # the frame of the recording that each of the batch is
            warped = row[place[place < len(row)]]
            start = int(rng.integers(len(warped) - WINDOW + 1))
            labels.append(self.ids[i][warped])
            sounds.append(self.ids[i][sounds_of(warped[start : start + WINDOW], MAX_SOUNDS)])
            starts.append(start)
            frames.append(len(warped))
        targets = [np.asarray(self.phonemes.sounds(i), dtype=np.int64) for i in chosen]
        samples = pad_stack([self.speech.samples(i)[: len(row) * HOP] for i, row in zip(chosen, rows)])
        labels = F.pad(padded := pad_stack(labels, IGNORE), (0, total - padded.shape[1]), value=IGNORE)
        return BookBatch(
            samples,
            torch.tensor(frames),
            labels,
            pad_stack(targets),
            torch.tensor([len(t) for t in targets]),
            torch.tensor(starts),
            pad_stack(sounds),
            pace,
            pitch,
        )

    def loss(self, batch: BookBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        batch = batch.to(self.device)
        readers_alone = self.goes_on and step < OPEN
        self.book.revive_below = REVIVED if step < SETTLED else 0.002
        self.book.train(not readers_alone)  # else its statistics move, and unused entries
        with torch.no_grad():
            features = mask_bands(
                warp(self.codec.phonetic.features(noisy(batch.samples)), batch.pace, batch.pitch), stretches=0
            )
        semantic = self.codec.semantic(self.codec.phonetic.hidden(features))
        first, _, vq = self.book(semantic)
        if readers_alone:
            first, vq = first.detach(), vq.detach()
        elif step < OPEN:
            first = self.book.open(semantic)
        ctc = F.ctc_loss(
            self.reader(first).transpose(0, 1), batch.targets, batch.frames, batch.lengths, zero_infinity=True
        )
        frame = self.probe.frame_loss(first, batch.labels)
        window = batch.starts[:, None] + torch.arange(WINDOW, device=first.device)
        spoken = self.probe.decoder_loss(
            first[torch.arange(len(first), device=first.device)[:, None], window], batch.sounds
        )
        loss = ctc + frame + 0.5 * spoken + vq.mean()
        return loss, {"ctc": ctc.item(), "frame": frame.item(), "asr": spoken.item(), "vq": vq.mean().item()}

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """The first book on held-out speech: phonemes read from its codes alone, phonemes of single frames, how evenly
        its entries are used, how many codes are still the published ones."""
        errors = length = 0
        wrong, used, kept = [], [], []
        old = checkpoints.load_module(self.checkpoint, "codec").to(self.device) if self.goes_on else None
        for i in self.test[:256]:
            batch = self._make(np.random.default_rng(0), [i]).to(self.device)
            codes = self.book.encode(self.codec.semantic(self.codec.phonetic(batch.samples)))
            first = self.book.lookup(codes)
            best = torch.unique_consecutive(self.reader(first)[0].argmax(-1))
            truth = self.phonemes.sounds(i)
            errors, length = errors + Levenshtein.distance(best[best != 0].tolist(), truth), length + len(truth)
            wrong.append(self.probe.frame_error(first, batch.labels))
            used.append(codes.flatten())
            if old:
                kept.append(
                    float(
                        (codes == old.quantizer.books[0].encode(old.semantic(old.phonetic(batch.samples))))
                        .float()
                        .mean()
                    )
                )
        share = torch.bincount(torch.cat(used), minlength=len(self.book.entries)).float() / sum(map(len, used))
        scores = {
            "first book, phoneme error rate": errors / length,
            "first book, frame phoneme error": float(np.mean(wrong)),
            "first book, perplexity of its entries": float(torch.exp(-(share * share.clamp(min=1e-9).log()).sum())),
        }
        return scores | ({"codes as before": float(np.mean(kept))} if old else {})


def _network(options: TrainOptions, recogniser: Recogniser) -> Codec:
    """The published codec, one with new ears and a new first book in it, or one that is new altogether. New ears begin
    as the recogniser's lower blocks."""
    published = options.settings.get("start") == "published"
    old = checkpoints.load_module(options.checkpoint, "codec") if published else None
    if old and options.settings.get("ears") != "new":
        return old
    c = recogniser.config
    codec = Codec(replace(old.config if old else CodecConfig(), semantic_mels=c.mels, semantic_width=c.width))
    if old:
        anew = ("phonetic.", "semantic.", "quantizer.books.0.")
        codec.load_state_dict({k: v for k, v in old.state_dict().items() if not k.startswith(anew)}, strict=False)
    hear_with(codec, recogniser)
    return codec
