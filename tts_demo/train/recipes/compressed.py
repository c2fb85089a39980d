"""Recipe ``compressed``: LoRA and the summary token of compressed-to-fine language modelling.

The mask of section 3.3 in one teacher-forced pass: summaries stand after their spans and carry no loss, and everything
else attends as it will when decoding. Window, group and how much of the speech counts as prompt are sampled for every
batch, so that one adapter serves all settings of the dials; the paper trains one (``window=50 group=10``). Some input
tokens are replaced at random, as in the base model's recipe. ``guide``: the heads that ``lm.py`` guided stay guided
while LoRA moves them, because long speech fails by losing its place in the text; ``chains`` trains long speech.
``distil``: the base model attends to all of the past. ``on_policy``: batches sampled from the method itself behind
prompts, with the base's distribution as the only target.

Recipe ``compressed-text`` trains another adapter, from that one on, for which the text too is attended through a window
that moves along with speech (``lm/text_position.py``), in most batches. So a sentence trains what holds in a run of any
length.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ...config import Sampling, UserError
from ...lm.block import compute_dtype, plain_products
from ...lm.lora import attach
from ...lm.model import ALIGNMENT_LAYERS, Layers
from ...methods.compressed import FULL_TEXT, GROUPS, NEIGHBOURS, TEXT_WINDOW, Compressed, Layout, SummaryAdapter
from ...methods.compressed.layout import nearby
from ...methods.compressed.text_position import Shifts, prefix_shifts, training_products
from ..data.corpora import describe
from ..data.load import load_lm, scale, sequences
from ..data.on_policy import PER_GROUP, OnPolicy, generate_by
from ..data.sequences import PrefixBatch, SpeechBatch, attention_mask, prefix_batch, speech_rows, speech_targets
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import AdapterSettings, Count, Share, Weight
from ..task import Loss, Task, TrainOptions
from .lm import add_noise, attended_symbol, attention_guide, attention_guide_to, base_logits, base_rows, distillation

WINDOWS = (30, 40, 50, 50, 80, 120, 200)  # the paper's own counts twice
TEXTS = (16, 24, 30, 30, 40, 60)  # symbols of the text visible to either side of the aligned one
NOISE = 0.08  # share of input tokens replaced
# a decoder does not know its position in the text exactly: it is this far off at most, for so many frames
POSITION_ERROR, ERROR_FRAMES = 6, 40
SCORED = ((50, 0), (50, 5), (50, 10), (50, 15), (30, 10), (120, 10))


@dataclass(frozen=True)
class BatchSetting:
    window: int
    group: int
    prompt: int  # frames at the start of every item that are reference speech: always visible, never a target
    text: int = 0  # symbols visible to either side of the aligned one, 0 = the whole text
    self_generated: bool = False  # the batch was sampled from the method


class CompressedSettings(AdapterSettings):
    window: Count | None = Field(None, description="train this window alone, in tokens; by default several")
    group: int | None = Field(None, ge=0, description="train this span of a summary alone; by default several")
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
        self.guide, self.distil, self.sampling_weight = settings.guide, settings.distil, settings.sampled
        self.text = settings.text
        if self.sampling_weight and not self.distil:
            raise UserError("sampled needs what the base model says: set distil as well.")
        if settings.on_policy and (not self.distil or self.text):
            raise UserError("on_policy needs what the base model says, and the whole text: set distil, and text to 0.")
        self.on_policy = OnPolicy(settings.on_policy, options.seed, self._sample, self.base)
        self.ahead = not settings.on_policy
        self.modules, self.helpers = {self.name: self.adapter}, {}
        self.data_summary = describe(self.data.speech, self.data.train)

    def matrices(self) -> list[nn.Parameter]:
        return inner_matrices(self.adapter.lora)

    def batch(self, rng: np.random.Generator, step: int) -> tuple[SpeechBatch, BatchSetting]:
        if (sample := self.on_policy.batch(step, self.process)) is not None:
            return sample
        if rng.random() < self.settings.prompted:
            batch, prompt = self.data.prompted(rng)
            return batch, BatchSetting(**self._dials(rng), prompt=prompt)
        batch, dials = self.data.batch(rng), self._dials(rng)
        shortest = int(batch.frames.min())
        prompt = int(rng.integers(0, min(150, shortest // 2) + 1)) if rng.random() < 0.5 else 0
        text = int(rng.choice(TEXTS)) if rng.random() < self.text else 0
        prompt = 0 if text else prompt
        return batch, BatchSetting(**dials, prompt=prompt, text=text)

    def _dials(self, rng: np.random.Generator) -> dict[str, int]:
        return {"window": int(rng.choice(WINDOWS)), "group": int(rng.choice(GROUPS))} | self.only

    def _sample(self, rng: np.random.Generator) -> list[tuple[SpeechBatch, BatchSetting]]:
        """Some batches sampled from the method behind prompts, each with its own window and group."""
        method = Compressed(self.on_policy.base, {FULL_TEXT: self.adapter})
        generator, samples = torch.Generator(self.base.device).manual_seed(int(rng.integers(2**62))), []
        for _ in range(PER_GROUP):
            batch, prompt = self.data.prompted(rng)
            dials = self._dials(rng)
            batch = generate_by(method, method.Options(**dials), batch, prompt, Sampling(), generator)
            samples.append((batch, BatchSetting(**dials, prompt=prompt, self_generated=True)))
        return samples

    def loss(self, batch: tuple[SpeechBatch, BatchSetting], progress: Progress) -> Loss:
        speech, setting = batch
        layers = ALIGNMENT_LAYERS if self.guide else ()
        codes = add_noise(speech.codes[..., 0], self.lm.config.speech_codes, 0.0 if setting.self_generated else NOISE)
        logits, targets, attention = self.logits(speech, setting, codes, layers, POSITION_ERROR)
        emits = targets != -100
        loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100)
        parts, own = {"ce": loss.item()}, setting.self_generated
        if self.distil:
            with torch.no_grad():
                teacher, base_attention = base_rows(self.base, speech, codes, layers if own else ())
            base, more = distillation(logits[emits], teacher[emits], self.sampling_weight)
            loss, parts = (base, more) if own else ((1 - self.distil) * loss + self.distil * base, parts | more)
        if self.guide and (own or bool((speech.alignment >= 0).any())):
            if own:  # to the symbol that the base looks at
                symbols = attended_symbol(base_attention).where(emits, -1)
                guide = attention_guide_to(attention, symbols[..., None])
            else:
                guide = attention_guide(attention, speech)
            loss, parts = loss + self.guide * guide, parts | {"guide": guide.item()}
        return loss, {f"own {name}": value for name, value in parts.items()} if own else parts

    def logits(
        self, batch: SpeechBatch, setting: BatchSetting, tokens: Tensor, alignment_layers: Layers = (), error: int = 0
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Logits [B, F + 1, V] of the rows that emit speech, given the input ``tokens`` [B, F], their targets, and
        their log attention to the text in each of ``alignment_layers`` [B, F + 1, T]; summaries are not among the rows.
        A window on the text is up to ``error`` symbols off."""
        lm, prefix, frames = self.lm, prefix_batch(self.lm, batch), batch.codes.shape[1]
        layout = Layout.of(setting.prompt, frames - setting.prompt, setting.group, batch.codes.device)
        tokens = lm.embed_speech(tokens[:, layout.index + setting.prompt])
        speech = torch.where(layout.summary[:, None], self.adapter.summary, tokens)
        start, text = prefix.x.shape[1] - 1, batch.text.shape[1]
        mask = attention_mask(prefix, layout.mask(setting.window, setting.group), lm.config.bidirectional_text)
        mask[:, start + 1 :, : start + 1] &= ~layout.summary[:, None]  # a summary sees its span, not the text
        positions = torch.cat([prefix.positions, prefix.next[:, None] + setting.prompt + layout.index], 1)
        x, products = torch.cat([prefix.x, speech], 1), plain_products
        if setting.text:
            aligned = text_positions(batch, error)[:, layout.index]
            symbols = torch.arange(text, device=mask.device)
            mask[:, start + 1 :, start - text : start] &= (symbols - aligned[..., None]).abs() <= setting.text
            long = batch.text_lengths > setting.text + 1  # as ``TextPosition.moves``
            mask[:, : start + 1, : start + 1] &= nearby(prefix.positions, NEIGHBOURS) | ~long[:, None, None]
            shifts = text_shifts(prefix, aligned, layout.index, setting.text, long, text)
            products = training_products(lm.config, shifts, compute_dtype(x))
        hidden, weights = speech_rows(lm, prefix, (x, positions, mask), alignment_layers, products=products)
        emits = F.pad(~layout.summary, (1, 0), value=True)
        targets = speech_targets(batch, lm.config.eos)
        targets[:, : setting.prompt] = -100
        return lm.head(hidden[:, emits]), targets, [w[:, emits] for w in weights]

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Cross-entropy on held-out speech, the base model's with all of the past visible beside each setting of the
        dials."""
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
        setting = BatchSetting(window, group, 0, text)
        return _mean([_entropy(*self.logits(batch, setting, batch.codes[..., 0])[:2]) for batch in batches])

    def _base(self, batch: SpeechBatch) -> tuple[float, int]:
        return _entropy(base_logits(self.base, batch, batch.codes[..., 0]), speech_targets(batch, self.base.config.eos))


class TextWindowTask(CompressedTask):
    Settings = TextWindowSettings
    name = TEXT_WINDOW
    follows = {TEXT_WINDOW: FULL_TEXT}


def text_positions(batch: SpeechBatch, error: int) -> Tensor:
    """[B, F]: the aligned symbol of each frame, up to ``error`` off by an amount that changes every
    ``ERROR_FRAMES``."""
    size, frames = batch.alignment.shape
    position = batch.alignment.cummax(1).values.clamp(min=0)  # where unknown: the last known one
    if not error:
        return position
    off = torch.randint(-error, error + 1, (size, -(-frames // ERROR_FRAMES)), device=position.device)
    off = off.repeat_interleave(ERROR_FRAMES, 1)[:, :frames]
    return (position + off).clamp(min=0).minimum(batch.text_lengths[:, None] - 1)


def text_shifts(prefix: PrefixBatch, positions: Tensor, index: Tensor, reach: int, long: Tensor, text: int) -> Shifts:
    """The shift of the prefix columns for each row [B, C + S], as decoding shifts them: for speech rows at text
    ``positions`` [B, S] and of numbers ``index`` [S], in items whose text is ``long`` [B]."""
    start, columns = prefix.x.shape[1] - 1 - text, prefix.x.shape[1]
    by = prefix_shifts(start, prefix.next[:, None], 0, reach, positions, index.expand_as(positions))
    shifts = (F.pad(torch.where(long[:, None], further, 0), (columns, 0)) for further in by)
    return tuple(zip((start, text, 1), shifts))


def _entropy(logits: Tensor, targets: Tensor) -> tuple[float, int]:
    """Summed cross-entropy in nats, and the number of targets."""
    total = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100, reduction="sum")
    return total.item(), int((targets >= 0).sum())


def _mean(sums: list[tuple[float, int]]) -> float:
    return sum(total for total, _ in sums) / sum(count for _, count in sums)
