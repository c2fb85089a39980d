"""Recipe ``dcar-heads``: six extra heads and LoRA on the frozen backbone (DCAR, section 3.1).

The base head stays frozen and keeps its term in the loss, so that LoRA may not spoil it. The paper weighs all heads
alike, in a model that learns them from the start; beside a LoRA of a base that is done, six new heads pull it away from
its next token, so the base head weighs more here and a later head less than the one before it. ``dcar-equal-heads``
weighs them as the paper does; ``dcar-short-heads`` is what it is compared with.
``distil`` mixes in cross-entropy to the frozen base's distribution of a token given all tokens before it: averaged over
those, it is the distribution that a head must have. Some input tokens are replaced at random, as in the base model's
recipe: chunks are sampled blindly, and err. Self-generated batches (``on_policy``) are sampled from chunks of 2 to 4
with the weights of the moment; there the base model's distribution is the only target."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ...config import Sampling
from ...lm import lora
from ...lm.model import ALIGNMENT_LAYERS
from ...lm.sampling import probabilities
from ...methods.dcar import Dcar
from ...methods.dcar.heads import Heads
from ..data.corpora import describe
from ..data.load import load_lm, scale, sequences
from ..data.on_policy import PER_GROUP, OnPolicy, check_distilled, generate_by
from ..data.sequences import SpeechBatch, begun, prefix_batch, speech_rows, speech_targets
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import AdapterSettings, Weight
from ..task import Loss, Task, TrainOptions
from .lm import OUTSIDE, REJECTION, add_noise, attended_symbol, attention_guide_to, base_inputs, base_rows, disagreement

IGNORE = -100
NOISE = 0.08  # share of input tokens replaced
SAMPLED = "random:2,3,4"  # chunk sizes of self-generated batches


@dataclass(frozen=True)
class SelfGenerated:
    """Speech sampled from chunks."""

    speech: SpeechBatch


def head_targets(targets: Tensor, heads: int) -> Tensor:
    """targets [B, F + 1] of the base head, y_{t+1} at row t -> [1 + heads, B, F + 1]: head j must say y_{t+1+j} there;
    behind the end there is nothing to say."""
    shifted = [F.pad(targets[:, j:], (0, min(j, targets.shape[1])), value=IGNORE) for j in range(heads + 1)]
    return torch.stack(shifted)


def head_weights(heads: int, base: float, later: float = 0.9) -> list[float]:
    """Of the base head, ``base`` times the first of the others, and of those, each ``later`` times the one before it:
    they sum to 1."""
    weights = [base, *(later**j for j in range(heads))]
    return [weight / sum(weights) for weight in weights]


def entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of logits [R, V], 0 where there are none: speech that ends before a head's reach."""
    return F.cross_entropy(logits, targets, reduction="sum") / max(1, len(logits))


class HeadsSettings(AdapterSettings):
    base: Weight = Field(3.0, description="weight of the base head over that of the first extra head")
    later: Weight = Field(0.9, description="weight of a head over that of the one before it")


class HeadsTask(Task):
    Settings = HeadsSettings
    settings: HeadsSettings
    name = "dcar-heads"
    steps, lr = 500, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.lm = load_lm(options).requires_grad_(False)
        self.steps, self.lr, frames = scale(self, self.lm, 2500)
        self.data = sequences(options, self.settings, frames=options.batch or frames)
        self.data_summary = describe(self.data.speech, self.data.train)
        self.heads = Heads(self.lm)
        self.distil = self.settings.distil
        self.base = load_lm(options).requires_grad_(False) if self.distil else None  # without the LoRA
        settings = self.settings
        self.weights = head_weights(self.heads.config.heads, settings.base, settings.later)
        check_distilled(settings)
        self.on_policy = OnPolicy(settings.on_policy, options.seed, self._sample, self.base)
        self.ahead = not settings.on_policy
        lora.attach(self.lm.backbone, self.heads.config.lora, self.heads.lora)
        self.modules, self.helpers = {self.name: self.heads}, {}

    def matrices(self) -> list[nn.Parameter]:
        return [self.heads.weight, *inner_matrices(self.heads.lora)]

    def batch(self, rng: np.random.Generator, step: int) -> SpeechBatch | SelfGenerated:
        return self.on_policy.batch(step, self.process) or begun(self.data, rng, self.settings.prompted)[0]

    def _sample(self, rng: np.random.Generator) -> list[SelfGenerated]:
        """Some batches sampled from chunks, all of them or from a random frame of the recordings on."""
        method, samples = Dcar(self.on_policy.base, {Dcar.heads_folder: self.heads}), []
        generator = torch.Generator(self.base.device).manual_seed(int(rng.integers(2**62)))
        for _ in range(PER_GROUP):
            batch, kept = begun(self.data, rng, self.settings.prompted)
            options = method.Options(chunk_range=SAMPLED)
            samples.append(SelfGenerated(generate_by(method, options, batch, kept, Sampling(), generator)))
        return samples

    def loss(self, batch: SpeechBatch | SelfGenerated, progress: Progress) -> Loss:
        own, settings = isinstance(batch, SelfGenerated), self.settings
        batch = batch.speech if own else batch
        alignment_layers = ALIGNMENT_LAYERS if settings.guide else ()
        inputs = add_noise(batch.codes[..., 0], self.lm.config.speech_codes, 0.0 if own else NOISE)
        emitting, targets, logits, attention = self._emitting(batch, inputs, alignment_layers)
        each = [entropy(x, targets[about]) for about, x in logits]
        truth = sum(w * loss for w, loss in zip(self.weights, each))
        parts = {"base": each[0].item(), "second": each[1].item(), "last": each[-1].item()}
        if self.base is None:
            return truth, parts
        with torch.no_grad():
            base, base_attention = base_rows(self.base, batch, inputs, alignment_layers)
            base = base[emitting].float()  # [N, V]
            probs = base.softmax(-1)
        distil = sum(w * entropy(x, probs[about]) for w, (about, x) in zip(self.weights, logits))
        loss, parts = distil, parts | {"distil": distil.item()}
        if settings.sampled:
            gap = self._disagreement(logits, probabilities(base, Sampling()))
            loss, parts = loss + settings.sampled * gap, parts | {"disagreement": gap.item()}
        if not own:
            loss = (1 - self.distil) * truth + self.distil * loss
        if settings.guide:
            symbols = attended_symbol(base_attention).where(emitting, -1)
            guide = attention_guide_to(attention, symbols[..., None])
            loss, parts = loss + settings.guide * guide, parts | {"guide": guide.item()}
        return loss, {f"own {name}": value for name, value in parts.items()} if own else parts

    def _disagreement(self, logits: list[tuple[Tensor, Tensor]], base: Tensor) -> Tensor:
        """How far apart tokens are sampled from each head and from the base's probabilities [N, V] of the same token,
        by the weights of the heads, []."""
        total = base.new_zeros(())
        for weight, (about, x) in zip(self.weights, logits):
            rejection, outside = (share.sum() / max(1, len(x)) for share in disagreement(x, base[about]))
            total = total + weight * (REJECTION * rejection + OUTSIDE * outside)
        return total

    def _emitting(
        self, batch: SpeechBatch, inputs: Tensor, alignment_layers: tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]], list[Tensor]]:
        """Which rows [B, F + 1] emit a token after the tokens ``inputs`` [B, F], the target of each such row [N], of
        the base head and the six others which of those rows' targets they are about [R] and logits [R, V], and the log
        attention of all rows to the text [B, F + 1, T] in each of ``alignment_layers``."""
        lm, prefix = self.lm, prefix_batch(self.lm, batch)
        hidden, attention = speech_rows(lm, prefix, base_inputs(lm, prefix, inputs), alignment_layers)
        targets = speech_targets(batch, lm.config.eos, IGNORE)
        emitting = targets != IGNORE
        rows = hidden[emitting]  # row t has read t speech tokens
        number = torch.where(emitting, emitting.flatten().cumsum(0).view_as(emitting) - 1, IGNORE)
        about = head_targets(number, self.heads.config.heads)[:, emitting]
        logits = torch.cat([lm.head(rows)[None], self.heads(rows)])
        found = [(a[a != IGNORE], x[a != IGNORE].float()) for a, x in zip(about, logits)]
        return emitting, targets[emitting], found, attention

    def scores(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """Cross-entropy and accuracy [7] of the base head and the six others, over the positions each one has."""
        _, targets, logits, _ = self._emitting(batch, batch.codes[..., 0])
        losses = [entropy(x, targets[about]) for about, x in logits]
        right = [(x.argmax(-1) == targets[about]).sum() / max(1, len(x)) for about, x in logits]
        return torch.stack(losses), torch.stack(right)

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Cross-entropy and accuracy of every head on held-out speech."""
        scored = [self.scores(batch) for batch in self.data.held_out(batches=4)]
        losses, right = (torch.stack(part).mean(0).tolist() for part in zip(*scored))
        return {
            f"head {j} ({j + 1} ahead) {kind}": values[j]
            for kind, values in (("cross-entropy", losses), ("accuracy", right))
            for j in range(len(values))
        }


class ShortHeadsTask(HeadsTask):
    name = "dcar-short-heads"  # the recipe, for as many steps as the heads of equal weights


class EqualHeadsSettings(HeadsSettings):
    base: Weight = Field(1.0, description="weight of the base head over that of the first extra head")
    later: Weight = Field(1.0, description="weight of a head over that of the one before it")


class EqualHeadsTask(HeadsTask):
    Settings = EqualHeadsSettings
    name = "dcar-equal-heads"
