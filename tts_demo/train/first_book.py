"""Recipe ``first-book``: the codec's first codebook alone, on the current recogniser's lower blocks (QTTS, section 3.1).

A batch is crops of cached features, no waveform, so ten times as much speech goes through as in recipe ``codec``; the
semantic probe shapes the book. With ``--set start=published`` the published codec keeps its other parts and, as far as
the new features allow, the numbering of its entries: for the first ``NUMBERING`` steps the old book's code is the target.
So a language model of the old codes has little to learn anew. ``codec --set start=published`` then fits the rest to the book.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .. import checkpoints
from ..codec.model import Codec
from ..codec.quantizer import Codebook
from ..config import CodecConfig, UserError
from ..text import SYMBOLS
from .alignment import Alignments, PhoneticCache, sounds_of
from .data import PhonemeCache, SpeechCache, describe, pad_stack
from .load import hear_with, load_recogniser
from .loop import TrainOptions
from .losses import SemanticProbe
from .sequences import tag_of

CROP, MAX_SOUNDS = 96, 64  # frames, phonemes
NUMBERING = 150  # steps in which the old book's codes are taught as well


@dataclass(frozen=True)
class BookBatch:
    phonetic: Tensor  # [B, CROP, semantic width]
    labels: Tensor  # [B, CROP] phoneme id per frame
    sounds: Tensor  # [B, T] phoneme ids of the crop, 0 = padding
    old: Tensor  # [B, CROP] what the old book calls each frame, -1 without an old book


class FirstBookTask:
    name = "first-book"
    steps, lr = 1500, 1e-3
    loads_published = True

    def __init__(self, options: TrainOptions) -> None:
        speech = SpeechCache(options.data, options.work / "cache")
        phonemes = PhonemeCache(speech)
        recogniser = load_recogniser(options.checkpoint)
        self.codec, self.old = _networks(options, recogniser.config.mels, recogniser.config.width)
        hear_with(self.codec, recogniser)
        self.codec.requires_grad_(False)
        self.book: Codebook = self.codec.quantizer.books[0]
        for part in (self.codec.semantic, self.book):
            part.requires_grad_(True)
        self.alignments = Alignments(speech, phonemes, recogniser, tag_of(recogniser))
        self.phonetic = PhoneticCache(speech, self.codec.phonetic, tag_of(self.codec.phonetic))
        self.heard = PhoneticCache(speech, self.old.phonetic, tag_of(self.old.phonetic)) if self.old else None
        self.ids = [np.asarray(ids, dtype=np.int64) for ids in phonemes.ids]
        self.train, self.test = speech.split(self._usable)
        if not self.train:
            raise UserError("There is too little speech to train on: at least two recordings over 2 s that fit their text.")
        seconds = np.asarray([speech.seconds(i) for i in self.train])
        self.weights, self.size = seconds / seconds.sum(), options.batch or 32
        self.probe = SemanticProbe(self.codec.config.latent, len(SYMBOLS))
        self.modules, self.helpers = {"codec": self.codec}, {"probe": self.probe}
        self.data_summary = describe(speech, self.train)

    def _usable(self, index: int) -> bool:
        row = self.alignments.get(index)
        return row is not None and CROP < len(row) <= len(self.phonetic.get(index))

    def batch(self, rng: np.random.Generator, step: int) -> BookBatch:
        return self._make(rng, rng.choice(self.train, size=self.size, p=self.weights), step < NUMBERING)

    def _make(self, rng: np.random.Generator, chosen: np.ndarray, numbering: bool) -> BookBatch:
        phonetic, labels, sounds, old = [], [], [], []
        for i in chosen:
            row, ids = self.alignments.get(i), self.ids[i]
            start = int(rng.integers(len(row) - CROP + 1))
            spoken = row[start : start + CROP]
            phonetic.append(self.phonetic.get(i)[start : start + CROP])
            labels.append(ids[spoken])
            sounds.append(ids[sounds_of(spoken, MAX_SOUNDS)])
            if self.heard and numbering:
                old.append(self.heard.get(i)[start : start + CROP])
        return BookBatch(pad_stack(phonetic).float(), torch.from_numpy(np.stack(labels)), pad_stack(sounds),
                         self._numbers(old, len(labels)))

    @torch.no_grad()
    def _numbers(self, heard: list[np.ndarray], count: int) -> Tensor:
        """The old book's codes of these old features."""
        if not heard:
            return torch.full((count, CROP), -1)
        return self.old.quantizer.books[0].encode(self.old.semantic(torch.from_numpy(np.stack(heard)).float()))

    def loss(self, batch: BookBatch, step: int) -> tuple[Tensor, dict[str, float]]:
        semantic = self.codec.semantic(batch.phonetic)
        first, codes, vq = self.book(semantic)
        frame, spoken = self.probe.frame_loss(first, batch.labels), self.probe.decoder_loss(first, batch.sounds)
        loss, parts = frame + 0.5 * spoken + vq.mean(), {"frame": frame.item(), "asr": spoken.item(), "vq": vq.mean().item()}
        if (batch.old >= 0).any():
            like = self.book.similarity(semantic) / 0.1
            numbered = F.cross_entropy(like.flatten(0, 1), batch.old.flatten())
            loss, parts = loss + numbered, parts | {"numbering": numbered.item(), "kept": float((codes == batch.old).float().mean())}
        return loss, parts

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """The first book on fixed crops of held-out speech: phoneme error, how evenly its entries are used, how many codes
        are still the old ones."""
        rng, errors, used, kept = np.random.default_rng(0), [], [], []
        for start in range(0, min(len(self.test), 256), 32):
            batch = self._make(rng, np.asarray(self.test[start : start + 32]), True)
            codes = self.book.encode(self.codec.semantic(batch.phonetic))
            errors.append(self.probe.frame_error(self.book.lookup(codes), batch.labels))
            used.append(codes.flatten())
            kept.append(float((codes == batch.old).float().mean()))
        share = torch.bincount(torch.cat(used), minlength=len(self.book.entries)).float() / sum(map(len, used))
        scores = {"first book, frame phoneme error": float(np.mean(errors)),
                  "first book, perplexity of its entries": float(torch.exp(-(share * share.clamp(min=1e-9).log()).sum()))}
        return scores | ({"codes as before": float(np.mean(kept))} if self.heard else {})


def _networks(options: TrainOptions, mels: int, width: int) -> tuple[Codec, Codec | None]:
    """The codec to train, and the published one it goes on from, if it does."""
    if options.settings.get("start") == "published":
        old = checkpoints.load_module(options.checkpoint, "codec").eval()
        return copy.deepcopy(old), old
    return Codec(CodecConfig(semantic_mels=mels, semantic_width=width)), None
