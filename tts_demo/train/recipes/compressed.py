"""Recipe ``compressed``: LoRA and the summary token of compressed-to-fine language modelling.

The mask of section 3.3 in one teacher-forced pass: summaries stand behind their spans, carry no loss, and everything
else attends as it will when decoding. Window, group and how much of the speech counts as prompt are drawn for every
batch, so that the dials are live on one adapter. ``--set window=50`` or ``group=10`` train one setting, as the paper.
``--set chains=0.5 chained=4500``: half of the batches are up to 4,500 frames of one voice in a row, for long speech.
Some input tokens are replaced at random, as in the base model's recipe. ``--set guide=0.3``: the heads that ``lm.py``
guided to the spoken phoneme stay guided while LoRA moves them, because in long speech losing one's place in the text is
what goes wrong. ``--set distil=0.6``: that share of the loss is the cross-entropy to the distribution of the base
model, which sees all of the past, so that the adapter learns to do without it and nothing else; ``drawn=1``: and what
is drawn from the two is to be alike (``as_base``).

Recipe ``compressed-text`` trains another adapter, from that one on, for which the text too is seen through a window
that moves along with speech (``lm/text_position.py``), in most batches (``--set text=0.8``). So a sentence teaches what
holds in a run of any length. It is guided and taught by the base unless it is told otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ...config import UserError
from ...lm.block import training_forward
from ...lm.decoder import Shifts
from ...lm.lora import attach
from ...lm.masks import nearby
from ...lm.text_position import ALIGNMENT_LAYERS, prefix_shifts
from ...methods.compressed import FULL_TEXT, GROUPS, NEIGHBOURS, TEXT_WINDOW, Layout, SummaryAdapter
from ..data.corpora import describe
from ..data.load import load_lm, scale, sequences
from ..data.sequences import PrefixBatch, SpeechBatch, attention_mask, prefix_batch, speech_targets
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import Count, SequenceSettings, Share, Weight
from ..task import Task, TrainOptions
from .lm import add_noise, as_base, base_logits, guided_loss

WINDOWS = (30, 40, 50, 50, 80, 120, 200)  # the paper's own counts twice
TEXTS = (16, 24, 30, 30, 40, 60)  # symbols of the text seen to either side of the spoken one
NOISE = 0.08  # share of input tokens replaced
# a decoder does not know the spoken place exactly: it is this far off at most, for so long
ASTRAY, ASTRAY_FRAMES = 6, 40
SCORED = ((50, 0), (50, 5), (50, 10), (50, 15), (30, 10), (120, 10))


@dataclass(frozen=True)
class Setting:
    window: int
    group: int
    prompt: int  # frames at the start of every item that are reference speech: always seen, never said
    text: int = 0  # symbols seen to either side of the spoken one, 0 = the whole text


class CompressedSettings(SequenceSettings):
    window: Count | None = Field(None, description="train this window alone, in tokens; by default several")
    group: int | None = Field(None, ge=0, description="train this span of a summary alone; by default several")
    guide: Weight = Field(0.0, description="weight of the attention guide")
    distil: Share = Field(0.0, description="share of the cross-entropy to the base model's distribution in the loss")
    drawn: Weight = Field(0.0, description="weight of how far apart tokens are sampled from the adapter and the base")
    text: Share = Field(0.0, description="share of the batches that see the text through a window")


class TextWindowSettings(CompressedSettings):
    guide: Weight = Field(0.3, description="weight of the attention guide")
    distil: Share = Field(0.5, description="share of the cross-entropy to the base model's distribution in the loss")
    text: Share = Field(0.8, description="share of the batches that see the text through a window")


class CompressedTask(Task):
    Settings = CompressedSettings
    settings: CompressedSettings
    name = "compressed"
    steps, lr = 400, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.base = load_lm(options).requires_grad_(False)
        self.lm = load_lm(options).requires_grad_(False)
        self.steps, self.lr, frames = scale(self, self.lm, 3000)
        self.data = sequences(options, self.settings, frames=options.batch or frames)
        self.adapter = SummaryAdapter(self.lm).requires_grad_(True)
        attach(self.lm.backbone, self.adapter.spec, self.adapter.lora)
        settings = self.settings
        fixed = {"window": settings.window, "group": settings.group}
        self.only = {key: value for key, value in fixed.items() if value is not None}
        self.guide, self.distil, self.drawn = settings.guide, settings.distil, settings.drawn
        self.text = settings.text
        if self.drawn and not self.distil:
            raise UserError("drawn needs what the base model says: set distil as well.")
        self.modules, self.helpers = {self.name: self.adapter}, {}
        self.data_summary = describe(self.data.speech, self.data.train)

    def matrices(self) -> list[nn.Parameter]:
        return inner_matrices(self.adapter.lora)

    def batch(self, rng: np.random.Generator, step: int) -> tuple[SpeechBatch, Setting]:
        batch = self.data.batch(rng)
        drawn = {"window": int(rng.choice(WINDOWS)), "group": int(rng.choice(GROUPS))} | self.only
        shortest = int(batch.frames.min())
        prompt = int(rng.integers(0, min(150, shortest // 2) + 1)) if rng.random() < 0.5 else 0
        text = int(rng.choice(TEXTS)) if rng.random() < self.text else 0
        prompt = 0 if text else prompt
        return batch, Setting(**drawn, prompt=prompt, text=text)

    def loss(self, batch: tuple[SpeechBatch, Setting], progress: Progress) -> tuple[Tensor, dict[str, float]]:
        speech, setting = batch
        codes = add_noise(speech.codes[..., 0], self.lm.config.speech_codes, NOISE)
        logits, targets, guided = self.logits(speech, setting, codes, ALIGNMENT_LAYERS if self.guide else (), ASTRAY)
        loss = entropy = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100)
        parts = {"ce": entropy.item()}
        if self.distil:
            said = targets != -100
            with torch.no_grad():
                law = base_logits(self.base, speech, codes)[said]
            base, told = as_base(logits[said], law, self.drawn)
            loss, parts = (1 - self.distil) * entropy + self.distil * base, parts | told
        if self.guide and bool((speech.alignment >= 0).any()):
            guide = guided_loss(guided, speech)
            loss, parts = loss + self.guide * guide, parts | {"guide": guide.item()}
        return loss, parts

    def logits(
        self, batch: SpeechBatch, setting: Setting, heard: Tensor, guided: tuple[int, ...] = (), astray: int = 0
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Logits [B, F + 1, V] of the rows that say speech after the tokens ``heard`` [B, F], their targets, and their
        log attention on the text in each ``guided`` layer [B, F + 1, T]; summaries are not among the rows. A window on
        the text lies up to ``astray`` symbols off."""
        lm, prefix, layout = self.lm, prefix_batch(self.lm, batch), self._layout(batch, setting)
        heard = lm.embed_speech(heard[:, layout.index + setting.prompt])
        speech = torch.where(layout.summary[:, None], self.adapter.summary, heard)
        start, text = prefix.x.shape[1] - 1, batch.text.shape[1]
        x, positions, mask = inputs(prefix, speech, layout, setting, lm.config.bidirectional_text)
        shifts: Shifts = ()
        if setting.text:
            places = text_places(batch, astray)[:, layout.index]
            symbols = torch.arange(text, device=mask.device)
            mask[:, start + 1 :, start - text : start] &= (symbols - places[..., None]).abs() <= setting.text
            long = batch.text_lengths > setting.text + 1  # as ``TextPosition.moves``
            mask[:, : start + 1, : start + 1] &= nearby(prefix.positions, NEIGHBOURS) | ~long[:, None, None]
            shifts = text_moved(prefix, places, layout.index, setting.text, long, text)
        hidden, weights = training_forward(
            lm, x, positions, mask, guided, slice(start, None), slice(start - text, start), shifts=shifts
        )
        speaks = F.pad(~layout.summary, (1, 0), value=True)
        targets = speech_targets(batch, lm.config.eos)
        targets[:, : setting.prompt] = -100
        return lm.head(hidden[:, start:][:, speaks]), targets, [w[:, speaks] for w in weights]

    def _layout(self, batch: SpeechBatch, setting: Setting) -> Layout:
        return Layout.of(setting.prompt, batch.codes.shape[1] - setting.prompt, setting.group, batch.codes.device)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Cross-entropy on held-out speech, the base model's with all of the past beside each setting of the dials."""
        held_out, chains = self.data.held_out(batches=4), self.data.held_out_chains()
        scores = {"base, everything seen": _mean([self._base(batch) for batch in held_out])}
        for window, group in SCORED:
            scores[f"window {window}, group {group}"] = self._entropy(held_out, window, group)
        scores["utterances in a row, base, everything seen"] = _mean([self._base(batch) for batch in chains])
        scores["utterances in a row, window 50, group 10"] = self._entropy(chains, 50, 10)
        if self.text:
            scores["window 50, group 10, text 30"] = self._entropy(held_out, 50, 10, 30)
            scores["utterances in a row, window 50, group 10, text 30"] = self._entropy(chains, 50, 10, 30)
        return {f"cross-entropy, {key}": value for key, value in scores.items()}

    def _entropy(self, batches: list[SpeechBatch], window: int, group: int, text: int = 0) -> float:
        setting = Setting(window, group, 0, text)
        return _mean([_entropy(*self.logits(batch, setting, batch.codes[..., 0])[:2]) for batch in batches])

    def _base(self, batch: SpeechBatch) -> tuple[float, int]:
        return _entropy(base_logits(self.base, batch, batch.codes[..., 0]), speech_targets(batch, self.base.config.eos))


class TextWindowTask(CompressedTask):
    Settings = TextWindowSettings
    name = TEXT_WINDOW
    follows = {TEXT_WINDOW: FULL_TEXT}


def text_places(batch: SpeechBatch, astray: int) -> Tensor:
    """[B, F]: the symbol spoken at each frame, or rather a place that is up to ``astray`` off, by an amount that
    changes every now and then."""
    size, frames = batch.alignment.shape
    place = batch.alignment.cummax(1).values.clamp(min=0)  # where unknown: the last one known
    if not astray:
        return place
    off = torch.randint(-astray, astray + 1, (size, -(-frames // ASTRAY_FRAMES)), device=place.device)
    off = off.repeat_interleave(ASTRAY_FRAMES, 1)[:, :frames]
    return (place + off).clamp(min=0).minimum(batch.text_lengths[:, None] - 1)


def text_moved(prefix: PrefixBatch, places: Tensor, index: Tensor, reach: int, long: Tensor, text: int) -> Shifts:
    """Where each row [B, C + S] sees the columns before speech: the speech of places [B, S] and numbers ``index`` [S]
    as decoding moves them, for items whose text is ``long`` [B]."""
    start, columns = prefix.x.shape[1] - 1 - text, prefix.x.shape[1]
    by = prefix_shifts(start, prefix.next[:, None], 0, reach, places, index.expand_as(places))
    shifts = (F.pad(torch.where(long[:, None], further, 0), (columns, 0)) for further in by)
    return tuple(zip((start, text, 1), shifts))


def inputs(
    prefix: PrefixBatch, speech: Tensor, layout: Layout, setting: Setting, bidirectional: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """speech [B, S, H] in the order of ``layout`` -> x [B, C + S, H], positions [B, C + S], mask [B, C + S, C + S]."""
    mask = attention_mask(prefix, layout.mask(setting.window, setting.group), bidirectional)
    start = prefix.x.shape[1]
    mask[:, start:, :start] &= ~layout.summary[:, None]  # a summary sees its span, not the text
    positions = torch.cat([prefix.positions, prefix.next[:, None] + setting.prompt + layout.index], 1)
    return torch.cat([prefix.x, speech], 1), positions, mask


def _entropy(logits: Tensor, targets: Tensor) -> tuple[float, int]:
    """Summed cross-entropy in nats, and the number of targets."""
    total = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100, reduction="sum")
    return total.item(), int((targets >= 0).sum())


def _mean(sums: list[tuple[float, int]]) -> float:
    return sum(total for total, _ in sums) / sum(count for _, count in sums)
