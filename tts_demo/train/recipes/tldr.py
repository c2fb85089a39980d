"""Recipe ``tldr``: compressor, LoRA and extractor of patch-level decoding, one adapter for every patch size.

Teacher-forced cross-entropy of every valid token, end of speech included, padding left out (section 3.4). P is sampled
per batch and is the same for its items. The context of patch k is the backbone's output at patch k - 1 (section A.2),
so its own latent is never seen. Some input tokens are replaced at random, as in the base model's recipe. The frozen
base model's distribution of a token (``distil``) carries more than the one token of the recording.

Self-generated batches (``on_policy``) are sampled from the patches themselves with the weights of the moment, from the
start or from some frame on; there the base model's distribution is the only target (on-policy distillation, R. Agarwal
and others, 2024). ``guide``: the alignment heads attend where the base model's do at any token of the patch; without it
patches skip and repeat words. A comparison model of the paper (``ablate``) goes into a folder of its own, which is also
a recipe's name; ``tldr-short`` is what they are compared with."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ...config import Sampling
from ...lm import lora
from ...lm.masks import causal_mask
from ...lm.model import ALIGNMENT_LAYERS, LanguageModel, Layers
from ...methods.batched import BatchedPatches
from ...methods.tldr import TLDR
from ...methods.tldr.modules import LARGEST, TLDRAdapter, TLDRConfig, patch_position
from ..data.corpora import describe
from ..data.load import load_lm, scale, sequences
from ..data.on_policy import PER_GROUP, OnPolicy, check_distilled, generate_rows
from ..data.sequences import SpeechBatch, attention_mask, begun, prefix_batch, speech_rows, speech_targets
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import AdapterSettings, Share
from ..task import Loss, Task, TrainOptions
from .lm import add_noise, attended_symbol, attention_guide_to, base_rows, distillation

IGNORE = -100
NOISE = 0.08  # share of input tokens replaced
# Patch sizes are sampled from this list. One token a patch starts as the base model and costs the most: it is here
# once.
SIZES = (1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6, 6, 7, 7, 8, 8, 8, 8)
SCORED = (1, 2, 4, 6, 8)


@dataclass(frozen=True)
class Patches:
    """Speech, the largest size of a patch, and the sizes of all; ``self_generated``: sampled from patches."""

    speech: SpeechBatch
    size: int
    sizes: list[int]
    self_generated: bool = False


class TLDRSettings(AdapterSettings):
    ablate: Literal["none", "no-lora", "no-speaker", "mean-pool", "parallel", "mtp"] | None = Field(
        None, description="part that a comparison model of the paper lacks; by default what the recipe's name says"
    )
    patch_size: int | None = Field(None, ge=1, le=LARGEST, description="train this size alone; by default all sizes")
    early: Share = Field(0.0, description="share of the batches in which patches end early, as by the dial confidence")


class TLDRTask(Task):
    Settings = TLDRSettings
    settings: TLDRSettings
    name = "tldr"
    steps, lr = 600, 1e-3
    ablate = "none"

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        settings = self.settings
        ablate = settings.ablate or self.ablate
        self.sizes = (settings.patch_size,) if settings.patch_size else SIZES
        self.lm = load_lm(options).requires_grad_(False)
        self.steps, self.lr, frames = scale(self, self.lm, 3000)
        self.data = sequences(options, self.settings, frames=options.batch or frames)
        self.adapter = TLDRAdapter(self.lm, TLDRConfig.of(self.lm.config, ablate))
        self.distil = settings.distil
        self.base = load_lm(options).requires_grad_(False) if self.distil else None  # without the LoRA
        if self.adapter.lora is not None:
            lora.attach(self.lm.backbone, self.adapter.lora.spec, self.adapter.lora)
        self.name = type(self).name if ablate == "none" else f"{TLDRTask.name}-{ablate}"
        self.modules, self.helpers = {self.name: self.adapter}, {}
        self.early, self.sampled, self.guide = settings.early, settings.sampled, settings.guide
        check_distilled(settings)
        self.on_policy = OnPolicy(settings.on_policy, options.seed, self._sample, self.base)
        self.ahead = not settings.on_policy
        self.data_summary = describe(self.data.speech, self.data.train)

    def matrices(self) -> list[nn.Parameter]:
        head = self.adapter.extractor.head.weight
        return [weight for weight in inner_matrices(self.adapter) if weight is not head]

    def batch(self, rng: np.random.Generator, step: int) -> Patches:
        if (samples := self.on_policy.batch(step, self.process)) is not None:
            return samples
        speech, size = begun(self.data, rng, self.settings.prompted)[0], int(rng.choice(self.sizes))
        frames = speech.codes.shape[1]
        uneven = self.early and size > 2 and rng.random() < self.early
        return Patches(speech, size, early_endings(frames, size, rng) if uneven else _whole(frames, size))

    def _sample(self, rng: np.random.Generator) -> list[Patches]:
        """Some batches sampled from patches of one size."""
        method, size = TLDR(self.on_policy.base, {TLDR.name: self.adapter}), int(rng.choice(self.sizes))
        generator, samples = torch.Generator(self.base.device).manual_seed(int(rng.integers(2**62))), []
        batched = BatchedPatches(method, size, Sampling(), generator)
        for _ in range(PER_GROUP):
            batch, kept = begun(self.data, rng, self.settings.prompted)
            kept = kept // size * size
            generated = generate_rows(batched, self.base, batch, kept)
            samples.append(Patches(generated, size, _whole(generated.codes.shape[1], size), self_generated=True))
        return samples

    def loss(self, batch: Patches, progress: Progress) -> Loss:
        speech, size, alignment_layers = batch.speech, batch.size, ALIGNMENT_LAYERS if self.guide else ()
        tokens = add_noise(speech.codes[..., 0], self.lm.config.speech_codes, 0.0 if batch.self_generated else NOISE)
        given = speech, size, batch.sizes, tokens, alignment_layers
        logits, targets, attention = uneven_logits(self.lm, self.adapter, *given)
        valid = targets != IGNORE
        logits, targets = logits[valid].float(), targets[valid]
        truth = F.cross_entropy(logits, targets)
        if self.base is None:
            return truth, {"ce": truth.item()}
        with torch.no_grad():
            teacher, base_attention = base_rows(self.base, speech, tokens, alignment_layers)
        targets_of = _windows(batch.sizes, size, valid.device).clamp(max=teacher.shape[1] - 1)  # [N, P]
        loss, parts = distillation(logits, teacher[:, targets_of][valid], self.sampled)
        if not batch.self_generated:
            loss, parts = (1 - self.distil) * truth + self.distil * loss, {"ce": truth.item(), **parts}
        if self.guide:
            symbols = attended_symbol(base_attention)[:, targets_of].where(valid, -1)
            guide = attention_guide_to(attention, symbols)
            loss, parts = loss + self.guide * guide, parts | {"guide": guide.item()}
        return loss, {f"own {name}": value for name, value in parts.items()} if batch.self_generated else parts

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Held-out cross-entropy and accuracy at several patch sizes, and how the first token of a patch fares
        alone."""
        sizes = [size for size in SCORED if size in self.sizes] or list(self.sizes)
        batches = self.data.held_out()
        scores: dict[str, float] = {}
        for size in sizes:
            entropy = hits = count = first = firsts = 0.0
            for speech in batches:
                logits, targets = patch_logits(self.lm, self.adapter, speech, size)
                logits, valid = logits.float(), targets != IGNORE
                each = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), ignore_index=IGNORE, reduction="none")
                each = each.view(targets.shape)
                entropy, count = entropy + float(each.sum()), count + int(valid.sum())
                hits += int((logits.argmax(-1) == targets)[valid].sum())
                first, firsts = first + float(each[:, :, 0].sum()), firsts + int(valid[:, :, 0].sum())
            scores |= {
                f"patch {size}: cross-entropy, nats": entropy / count,
                f"patch {size}: top-1": hits / count,
                f"patch {size}: cross-entropy of the first token": first / firsts,
            }
        return scores


class ShortTask(TLDRTask):
    name = "tldr-short"  # the whole method, for as many steps as its comparison models


WithoutLora, WithoutSpeaker, MeanPooled, Parallel, MultiToken = (
    type(f"TLDRTask {part}", (TLDRTask,), {"ablate": part})
    for part in ("no-lora", "no-speaker", "mean-pool", "parallel", "mtp")
)


def patch_logits(lm: LanguageModel, adapter: TLDRAdapter, batch: SpeechBatch, size: int) -> tuple[Tensor, Tensor]:
    """Teacher-forced logits [B, N, P, V] of a batch cut into patches of ``size``, and targets [B, N, P] (``IGNORE`` =
    padding). LoRA must be attached to ``lm.backbone``."""
    return uneven_logits(lm, adapter, batch, size, _whole(batch.codes.shape[1], size))[:2]


def uneven_logits(
    lm: LanguageModel,
    adapter: TLDRAdapter,
    batch: SpeechBatch,
    largest: int,
    sizes: Sequence[int],
    tokens: Tensor | None = None,
    alignment_layers: Layers = (),
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """``patch_logits`` of N patches that end early, at these ``sizes``, which cover the batch; ``tokens`` [B, F]: the
    input tokens, if not the batch's own. Each is decoded as one of the ``largest`` size: logits [B, N, largest, V],
    targets [B, N, largest]; and the log attention to the text [B, N, T] of the rows before each patch, of each of
    ``alignment_layers``."""
    windows = _windows(sizes, largest, batch.codes.device)
    starts = F.pad(windows[:, 0], (0, 1), value=sum(sizes))
    missing = int(windows.max()) - batch.codes.shape[1]  # behind the frames and end of speech
    targets = F.pad(speech_targets(batch, lm.config.eos, IGNORE), (0, missing), value=IGNORE)[:, windows]
    tokens = batch.codes[..., 0] if tokens is None else tokens
    embedded = lm.embed_speech(F.pad(tokens, (0, 1 + missing), value=lm.config.eos))  # [B, L, H]
    prefix = prefix_batch(lm, batch)
    # The last latent is never an input: patch N - 1 is decided at latent N - 2, patch 0 at TASK.
    count, count_read = len(sizes) - 1, sum(sizes[:-1])
    latents = adapter.compressor.of_sizes(embedded[:, :count_read], sizes[:-1]) if count else prefix.x[:, :0]
    patch_positions = patch_position(prefix.next[:, None], starts[None, 1:-1])
    mask = attention_mask(prefix, causal_mask(count, count, starts.device), lm.config.bidirectional_text)
    x, positions = torch.cat([prefix.x, latents], 1), torch.cat([prefix.positions, patch_positions], 1)
    hidden, attention = speech_rows(lm, prefix, (x, positions, mask), alignment_layers)
    g = hidden.flatten(0, 1)  # [B N, H]
    speaker = batch.speaker.repeat_interleave(len(sizes), 0)
    logits = adapter.extractor(g, speaker, embedded[:, windows].flatten(0, 1))
    return logits.view(*targets.shape, -1), targets, attention


def _windows(sizes: Sequence[int], largest: int, device: torch.device) -> Tensor:
    """[N, largest]: the tokens of patches of these ``sizes``, were each of the ``largest``."""
    starts = torch.tensor([0, *itertools.accumulate(sizes[:-1])], device=device)
    return starts[:, None] + torch.arange(largest, device=device)


def _whole(frames: int, size: int) -> list[int]:
    """Whole patches that cover ``frames`` and end of speech."""
    return [size] * -(-(frames + 1) // size)


def early_endings(frames: int, largest: int, rng: np.random.Generator) -> list[int]:
    """Sizes of patches, at most ``largest``, that cover ``frames`` and end of speech: each goes on after a token with
    one probability, sampled once for all."""
    going, sizes = rng.uniform(0.3, 0.95), []
    while sum(sizes) < frames + 1:
        sizes.append(min(largest, int(rng.geometric(1 - going))))
    return sizes
