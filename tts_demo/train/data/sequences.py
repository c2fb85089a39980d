"""Batches for every recipe that trains on codes: text, codes, speaker and alignment of utterances of like length.

Columns are laid out alike for all items, [speaker, SOS, text (padded), TASK, speech (padded)], with positions that skip
the padding, so an item's numbers are those of decoding it alone: position of TASK = 2 + its own text length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...codec.model import Codec
from ...codec.speaker import SpeakerEncoder
from ...config import HOP, UserError
from ...lm import Decoder
from ...lm.block import Products, plain_products, training_forward
from ...lm.lockstep import Lockstep
from ...lm.masks import causal_mask
from ...lm.model import SOS, TASK, LanguageModel, Layers
from ...runtime import autocast
from ...text.symbols import BOUNDARY, IDS
from ..settings import SequenceSettings
from .batch import TensorBatch
from .corpora import Corpus, Kept, pad_stack
from .speech import Speech, tag_of

PROMPT_FRAMES = (100, 450)  # of whole utterances in front, as prompts: shortest, longest


@dataclass(frozen=True)
class SpeechBatch(TensorBatch):
    text: Tensor  # [B, T] phoneme ids, 0 = padding
    text_lengths: Tensor  # [B]
    codes: Tensor  # [B, F, K], 0 behind the end
    frames: Tensor  # [B] true lengths
    speaker: Tensor  # [B, E] of another utterance of the same speaker
    alignment: Tensor  # [B, F] index into the item's text at that frame, -1 = unknown or padding


class Codes:
    """Codes [F, K] and a speaker vector of every utterance, made once per codec and speaker encoder. The codec's
    decoder does not count: training it further leaves every code as it is."""

    def __init__(self, speech: Speech, codec: Codec, speaker_encoder: SpeakerEncoder) -> None:
        device = codec.encoder.to_latent.weight.device
        features_of = phonetic_features(speech, codec)

        def whole(index: int) -> Tensor:
            return torch.from_numpy(speech.samples(index)[: speech.frames(index) * HOP])[None].to(device)

        @torch.no_grad()
        def codes(index: int) -> np.ndarray:
            phonetic = torch.from_numpy(features_of.get(index).astype(np.float32)).to(device)[None]
            labels = speech.labels(index)
            known = None if labels is None else torch.from_numpy(labels).to(device)[None]
            return codec.encode(whole(index), phonetic, known)[0].cpu().numpy().astype(np.uint16)

        @torch.no_grad()
        def speaker(index: int) -> np.ndarray:
            return speaker_encoder(whole(index)).cpu().numpy()

        made_by = tag_of(codec.encoder, codec.phonetic, codec.semantic, codec.quantizer)
        self.codes = speech.kept(
            f"codes-{made_by}", codes, texts=speech.texts
        )  # the alignment of known words labels the first codebook
        vectors = speech.kept(f"voice-{tag_of(speaker_encoder)}", speaker)
        self.speakers = np.concatenate([vectors.get(i) for i in range(len(speech))])

    def get(self, index: int) -> np.ndarray:
        """int64 [F, K]."""
        return self.codes.get(index).astype(np.int64)


def phonetic_features(speech: Speech, codec: Codec) -> Kept:
    """Features of the codec's phonetic encoder for whole utterances: float16 [F, width]."""
    device = codec.phonetic.stem.weight.device

    @torch.no_grad()
    def features(index: int) -> np.ndarray:
        samples = torch.from_numpy(speech.samples(index)[: speech.frames(index) * HOP])
        with autocast(device):
            return codec.phonetic(samples[None].to(device))[0].float().cpu().numpy().astype(np.float16)

    return speech.kept(f"heard-{tag_of(codec.phonetic)}", features)


class Sequences:
    """Deterministic batches of about ``frames`` codec frames each; ``batch(rng)`` for training, ``held_out`` to score.

    ``pairs``: share of utterances under half of the longest that get a second one of the same speaker appended, so that
    the model also knows sequences with a prompt in front and longer than one sentence. ``lead``: text ids in front of
    every text, ``joint``: those between two. Of a corpus without a hold-out rule one utterance in fifty is kept back.
    """

    def __init__(
        self,
        speech: Corpus,
        codes: Codes,
        frames: int,
        settings: SequenceSettings = SequenceSettings(),
        pairs: float = 0.4,
        *,
        lead: Sequence[int] = (),
        joint: Sequence[int] = (IDS[BOUNDARY],),
        device: str = "cpu",
    ) -> None:
        self.speech, self.codes = speech, codes
        self.pairs, self.frames, self.device = pairs, frames, device
        self.chains, self.chained, self.longest = settings.chains, settings.chained, settings.longest
        self.lead, self.joint = (np.asarray(ids, dtype=np.int64) for ids in (lead, joint))
        usable, self.test = speech.split(lambda i: speech.alignment(i) is not None)
        if not usable:
            raise UserError("There is too little speech to train on: at least two utterances that fit their text.")
        self.train = sorted(usable, key=self._frames)
        self._tested = set(self.test)
        self._voices: dict[tuple[str, bool], list[int]] = {}
        for i in self.train + self.test:
            self._voices.setdefault(self._side(i), []).append(i)
        lengths = np.asarray([self._frames(i) for i in self.train])
        self._share = np.cumsum(lengths) / lengths.sum()

    def _frames(self, index: int) -> int:
        return min(len(self.codes.get(index)), self.longest)

    def _side(self, index: int) -> tuple[str, bool]:
        return self.speech.utterances[index].speaker, index in self._tested

    def same_speaker(self, index: int) -> list[int]:
        """Utterances of the same speaker on the same side of the hold-out: held-out utterances are never trained on,
        not even as the second half of a pair."""
        return self._voices[self._side(index)]

    def prompt(self, rng: np.random.Generator, index: int, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """A stretch of another utterance of the speaker, a short one repeated: codes [frames, K], speaker vector."""
        other = int(rng.choice(self.same_speaker(index)))
        codes = self.codes.get(other)
        begin = int(rng.integers(max(1, len(codes) - frames + 1)))
        return np.resize(codes[begin : begin + frames], (frames, codes.shape[1])), self.codes.speakers[other]

    def batch(self, rng: np.random.Generator, times: int = 1) -> SpeechBatch:
        """One training batch, or one ``times`` as large: utterances around a random length, sampled in proportion to
        their frames."""
        centre = int(np.searchsorted(self._share, rng.random()))
        length = self._frames(self.train[centre])
        count = max(1, round(times * self.frames / length))
        chosen = self._near(rng, centre, count, 0, len(self.train))
        if self.chains and rng.random() < self.chains:
            goal = int(rng.integers(self.chained // 3, self.chained + 1))
            chosen = chosen[: max(1, times * self.frames // goal)]
            return self.collate([self._item(rng, int(i), goal, self.chained) for i in chosen]).to(self.device)
        pair = 2 * length < self.longest and rng.random() < self.pairs
        if pair:
            chosen = chosen[: max(1, len(chosen) // 2)]
        goals = [self._frames(int(i)) + 1 if pair else 0 for i in chosen]
        items = [self._item(rng, int(i), goal, self.longest) for i, goal in zip(chosen, goals)]
        return self.collate(items).to(self.device)

    def prompted(
        self, rng: np.random.Generator, shortest: int = PROMPT_FRAMES[0], longest: int = PROMPT_FRAMES[1]
    ) -> tuple[SpeechBatch, int]:
        """One training batch in which every utterance stands behind another whole one of its speaker, as behind a
        prompt, whose speaker vector it has: prompts of about one length between ``shortest`` and ``longest`` frames.
        Returns the batch and the frames of the shortest prompt in it."""
        lengths = np.asarray([self._frames(i) for i in self.train])
        low, high = np.searchsorted(lengths, [shortest, longest])
        if low == high:
            raise UserError(f"No utterance of {shortest} to {longest} frames can be a prompt in training.")
        centre = int(rng.integers(low, high))
        count = max(1, round(self.frames / (2 * lengths[centre])))
        chosen, items = self._near(rng, centre, count, low, high).tolist(), []
        for i in chosen:
            pair = self._joined(self._single(rng, i), self._single(rng, self._other(rng, i)))
            items.append(self._led(*pair, self.codes.speakers[i]))
        return self.collate(items).to(self.device), min(map(self._frames, chosen))

    def _near(self, rng: np.random.Generator, centre: int, count: int, low: int, high: int) -> np.ndarray:
        """Up to ``count`` utterances of about the length of number ``centre``, of numbers ``low`` to ``high``."""
        start = max(low, min(centre - 2 * count, high - 4 * count))
        pool = self.train[start : min(high, start + 4 * count)]
        return rng.choice(pool, size=min(count, len(pool)), replace=False)

    def _other(self, rng: np.random.Generator, index: int) -> int:
        """Another utterance of the same speaker; the same one where there is no other."""
        others = [i for i in self.same_speaker(index) if i != index]
        return int(rng.choice(others)) if others else index

    def _joined(self, first: tuple[np.ndarray, ...], second: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Text, codes and alignment of two utterances in a row."""
        text = np.concatenate([first[0], self.joint, second[0]])
        codes = np.concatenate([first[1], second[1]])
        align = np.concatenate([first[2], _shifted(second[2], len(first[0]) + len(self.joint))])
        return text, codes, align

    def batch_of(self, rng: np.random.Generator, indices: Sequence[int]) -> SpeechBatch:
        """These utterances, each with the speaker vector of another one of its speaker."""
        return self.collate([self._item(rng, int(i)) for i in indices]).to(self.device)

    def held_out_chains(self, count: int = 4) -> list[SpeechBatch]:
        """Fixed stretches of ``chained`` frames of held-out speech, each of one speaker."""
        rng = np.random.default_rng(0)
        chosen = rng.permutation(self.test)[:count]
        return [self.collate([self._item(rng, int(i), self.chained, self.chained)]).to(self.device) for i in chosen]

    def held_out(self, batches: int = 8, size: int = 12) -> list[SpeechBatch]:
        """Fixed batches of held-out speech."""
        rng = np.random.default_rng(0)
        chosen = rng.permutation(self.test)[: batches * size]
        order = sorted((int(i) for i in chosen), key=lambda i: len(self.codes.get(i)))
        return [self.batch_of(rng, order[k : k + size]) for k in range(0, len(order), size)]

    def _item(self, rng: np.random.Generator, index: int, goal: int = 0, longest: int = 0) -> tuple[np.ndarray, ...]:
        """An utterance, followed by others of its speaker while there are fewer than ``goal`` frames and the next fits
        into ``longest``."""
        same = self.same_speaker(index)
        speaker = self.codes.speakers[int(rng.choice(same))]
        text, codes, align = self._single(rng, index)
        while len(codes) < goal:
            more = self._single(rng, int(rng.choice(same)))
            if len(codes) + len(more[1]) > longest:
                break
            text, codes, align = self._joined((text, codes, align), more)
        return self._led(text, codes, align, speaker)

    def _led(
        self, text: np.ndarray, codes: np.ndarray, align: np.ndarray, speaker: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """With ``lead`` in front of the text."""
        return np.concatenate([self.lead, text]), codes, _shifted(align, len(self.lead)), speaker

    def _single(self, rng: np.random.Generator, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        codes, align = self.codes.get(index), self.speech.alignment(index)
        count = min(len(codes), len(align))
        whole = self.speech.ids(index), codes[:count], align[:count]
        return whole if count <= self.longest or index in self._tested else piece(rng, *whole, self.longest)

    @staticmethod
    def collate(items: list[tuple[np.ndarray, ...]]) -> SpeechBatch:
        text, codes, align, speaker = zip(*items)
        return SpeechBatch(
            pad_stack(list(text)),
            torch.tensor([len(t) for t in text]),
            pad_stack(list(codes)),
            torch.tensor([len(c) for c in codes]),
            torch.from_numpy(np.stack(speaker)),
            pad_stack(list(align), -1),
        )


def begun(data: Sequences, rng: np.random.Generator, prompted: float) -> tuple[SpeechBatch, int]:
    """A training batch, and how many of its first frames are given to a method that samples the rest: the shortest
    prompt in that share of batches that is ``prompted``, else a random number or none."""
    if prompted and rng.random() < prompted:
        return data.prompted(rng)
    batch = data.batch(rng)
    return batch, int(rng.integers(int(batch.frames.min()))) if rng.random() < 0.5 else 0


def piece(
    rng: np.random.Generator, text: np.ndarray, codes: np.ndarray, align: np.ndarray, longest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """At most ``longest`` frames of an utterance, from a random word on: text [T], codes [F, K], alignment [F]."""
    reached = np.maximum.accumulate(align)
    gaps = np.flatnonzero(text == IDS[BOUNDARY])
    ends = np.searchsorted(reached, gaps)  # the frame at which the gap behind a word begins
    starts = [(-1, 0), *((gap, end) for gap, end in zip(gaps, ends) if end + longest / 2 < len(codes))]
    gap, begin = starts[rng.integers(len(starts))]
    fits = np.flatnonzero((ends > begin) & (ends <= begin + longest))
    if len(codes) - begin <= longest:
        end, stop = len(text), len(codes)
    elif len(fits):
        end, stop = gaps[fits[-1]], ends[fits[-1]]
    else:  # one word as long as that: its beginning
        end, stop = len(text), begin + longest
    inside = align[begin:stop]
    inside = np.where((inside > gap) & (inside < end), inside - gap - 1, -1)
    return text[gap + 1 : end], codes[begin:stop], inside


def _shifted(alignment: np.ndarray, symbols: int) -> np.ndarray:
    """Indices into a text that has got ``symbols`` symbols in front; what is unknown stays so."""
    return np.where(alignment < 0, -1, alignment + symbols)


@dataclass(frozen=True)
class PrefixBatch:
    """Embedded prefixes: x [B, C, H], positions [B, C], valid [B, C] (False = text padding). Speech starts at
    ``next``."""

    x: Tensor
    positions: Tensor
    valid: Tensor
    next: Tensor  # [B] the position of the first speech token


def prefix_batch(lm: LanguageModel, batch: SpeechBatch) -> PrefixBatch:
    """[speaker, SOS, text (padded), TASK] for every item; without the speaker where the language model takes none."""
    (size, longest), device = batch.text.shape, batch.text.device
    marker = lm.markers.weight[:, None, None].expand(2, size, 1, -1)
    parts = [marker[SOS], lm.text_embedding(batch.text), marker[TASK]]
    head = 1
    if lm.speaker_proj is not None:
        parts.insert(0, lm.speaker_proj(batch.speaker)[:, None])
        head = 2
    columns = torch.arange(longest, device=device)
    valid = columns[None] < batch.text_lengths[:, None]
    ones = torch.ones(size, head, dtype=torch.bool, device=device)
    positions = torch.cat(
        [
            torch.arange(head, device=device).expand(size, -1),
            head + columns.expand(size, -1),
            (head + batch.text_lengths)[:, None],
        ],
        1,
    )
    seen = torch.cat([ones, valid, ones[:, :1]], 1)
    return PrefixBatch(torch.cat(parts, 1), positions, seen, head + batch.text_lengths + 1)


def attention_mask(prefix: PrefixBatch, speech_mask: Tensor, bidirectional: bool) -> Tensor:
    """Mask [B, C + S, C + S] for a prefix followed by S speech columns whose own mask is ``speech_mask`` [S, S] or
    [B, S, S]. Speech sees the whole valid prefix; padding rows see themselves so that no row is empty."""
    (size, columns), device = prefix.valid.shape, prefix.valid.device
    speech = speech_mask if speech_mask.dim() == 3 else speech_mask.expand(size, -1, -1)
    total = columns + speech.shape[1]
    mask = torch.zeros(size, total, total, dtype=torch.bool, device=device)
    inner = prefix.valid[:, None, :].expand(-1, columns, -1)
    mask[:, :columns, :columns] = inner if bidirectional else inner & causal_mask(columns, columns, device)
    mask[:, columns:, :columns] = prefix.valid[:, None, :]
    mask[:, columns:, columns:] = speech
    return mask | torch.eye(total, dtype=torch.bool, device=device)


def speech_inputs(prefix: PrefixBatch, speech: Tensor, bidirectional: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Embedded speech [B, S, H] behind a prefix, causal, at consecutive positions: x [B, C + S, H], positions [B, C +
    S], mask [B, C + S, C + S]."""
    count, device = speech.shape[1], speech.device
    positions = torch.cat([prefix.positions, prefix.next[:, None] + torch.arange(count, device=device)], 1)
    mask = attention_mask(prefix, causal_mask(count, count, device), bidirectional)
    return torch.cat([prefix.x, speech], 1), positions, mask


def speech_rows(
    lm: LanguageModel,
    prefix: PrefixBatch,
    inputs: tuple[Tensor, Tensor, Tensor],
    alignment_layers: Layers = (),
    aligned: int | None = None,
    dropout: float = 0.0,
    products: Products = plain_products,
) -> tuple[Tensor, list[Tensor]]:
    """``training_forward`` of ``inputs`` that begin with ``prefix``: hidden [B, S + 1, H] of TASK and all behind it,
    and in each of ``alignment_layers`` the log attention [B, S + 1, T] of these rows, or the first ``aligned`` of them,
    to the text."""
    task, head = prefix.x.shape[1] - 1, 1 if lm.speaker_proj is None else 2
    rows = slice(task, None if aligned is None else task + aligned)
    hidden, attention = training_forward(lm, *inputs, alignment_layers, rows, slice(head, task), dropout, products)
    return hidden[:, task:], attention


def begin_lockstep(decoder: Decoder, prefix: PrefixBatch, room: int, speech: Tensor) -> tuple[Lockstep, Tensor]:
    """Decode behind ``prefix`` and embedded speech [B, S, H], the same number of tokens in every row, with slots for
    ``room`` more -> the rows, and hidden [B, S + 1, H] that decides what comes after TASK and every token."""
    (rows, columns), count = prefix.valid.shape, speech.shape[1]
    valid = torch.cat([prefix.valid, prefix.valid.new_ones(rows, count)], 1)
    lockstep = Lockstep(decoder, valid, prefix.next + count, room)
    inputs = speech_inputs(prefix, speech.to(prefix.x.dtype), decoder.config.bidirectional_text)
    return lockstep, lockstep.first(*inputs)[:, columns - 1 :]


def speech_targets(batch: SpeechBatch, eos: int, ignore: int = -100) -> Tensor:
    """Targets [B, F + 1] of the first codebook: row t is the token after t speech tokens; EOS at the
    item's end, ``ignore`` behind it. Row 0 is predicted at TASK."""
    size, longest = batch.codes.shape[:2]
    targets = torch.full((size, longest + 1), ignore, device=batch.codes.device)
    targets[:, :longest] = batch.codes[..., 0]
    steps = torch.arange(longest + 1, device=batch.codes.device)[None]
    targets = torch.where(steps == batch.frames[:, None], eos, targets)
    return torch.where(steps > batch.frames[:, None], ignore, targets)
