"""Recipe ``lm``: the base language model, which every method is compared with and builds on.

Next-token cross-entropy on the first codebook, text attended both ways, some of the input tokens replaced at random. On
little data the text-speech alignment fails first, so one head in each of a few layers is guided: the share of its
attention near the aligned phoneme (forced alignment, two symbols either side) is a second loss, and a linear probe on
the hidden state predicts that phoneme. ``--set width=192 longest=500`` makes a smaller model on utterances of at most
10 s, which two CPU cores train in an hour.
"""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ... import checkpoints
from ...config import CodecConfig, LMConfig, Sampling, UserError
from ...lm.model import ALIGNMENT_LAYERS, LanguageModel, Layers
from ...lm.sampling import probabilities
from ...text.symbols import SYMBOLS
from ..data.corpora import describe
from ..data.load import load_lm, sequences
from ..data.sequences import PrefixBatch, SpeechBatch, prefix_batch, speech_inputs, speech_rows, speech_targets
from ..optimiser import inner_matrices
from ..progress import Progress
from ..settings import SequenceSettings, Share, Weight
from ..task import Loss, Task, TrainOptions
from ..wider import widened

REJECTION, OUTSIDE = 4.0, 2.0  # weights of the two parts of ``disagreement`` beside a cross-entropy
ATTENDED = 0.5  # share of the attention on one symbol
SETTLED = 150  # steps in which new tables learn alone (``Progress.ramp``)
NEAR = 2  # symbols either side of the aligned one that count as aligned


class LMSettings(SequenceSettings):
    start: Literal["new", "published", "wider"] = Field(
        "new", description="published: go on; wider: begin with the blocks of the published model, made ``width`` wide"
    )
    width: int = Field(256, ge=64, multiple_of=64, description="hidden size of a new model")
    settled: int | None = Field(
        None, ge=0, description=f"steps in which new tables learn alone; by default {SETTLED} with start=wider, else 0"
    )
    guide: Weight = Field(0.3, description="weight of the attention guide and of the phoneme probe")
    noise: Share = Field(0.08, description="share of the input tokens replaced by random ones")
    dropout: Share = Field(0.0, description="share of a block's outputs left out")


class LMTask(Task):
    Settings = LMSettings
    settings: LMSettings
    name = "lm"
    steps, lr = 4000, 1.5e-3
    loads_published = True  # in its own width

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.sequences = sequences(options, self.settings, frames=options.batch or 2400)
        start, settled = self.settings.start, self.settings.settled
        if start == "published":
            self.lm = load_lm(options).requires_grad_(True)
        else:
            codec = CodecConfig(**checkpoints.read_config(options.checkpoint, "codec")["config"])
            wanted = shape(self.settings.width, codec.first)
            self.lm = widened(load_lm(options).cpu(), wanted) if start == "wider" else LanguageModel(wanted)
        self.settled = SETTLED if settled is None and start == "wider" else settled or 0
        self.guide, self.noise, self.dropout = self.settings.guide, self.settings.noise, self.settings.dropout
        self.probe = nn.Linear(self.lm.config.hidden, self.lm.config.text_vocab)
        self.modules, self.helpers = {"lm": self.lm}, {"probe": self.probe}
        self.data_summary = describe(self.sequences.speech, self.sequences.train)

    def matrices(self) -> list[nn.Parameter]:
        return inner_matrices(self.lm.backbone.layers)

    def batch(self, rng: np.random.Generator, step: int) -> SpeechBatch:
        return self.sequences.batch(rng)

    def loss(self, batch: SpeechBatch, progress: Progress) -> Loss:
        if self.settled:
            self.lm.backbone.requires_grad_(not progress.begins(self.settled))
        hidden, targets, attention = self._forward(batch, self.noise, ALIGNMENT_LAYERS, self.dropout)
        entropy = F.cross_entropy(self.lm.head(hidden).float().flatten(0, 1), targets.flatten(), ignore_index=-100)
        guide, read = attention_guide(attention, batch), self.probe(hidden[:, :-1]).float().transpose(1, 2)
        probe = F.cross_entropy(read, aligned_phonemes(batch), ignore_index=-100)
        loss = entropy + self.guide * (guide + probe)
        return loss, {"ce": entropy.item(), "guide": guide.item(), "probe": probe.item()}

    def _forward(
        self, batch: SpeechBatch, noise: float, alignment_layers: Layers, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """-> hidden states [B, F + 1, H] before each frame, targets [B, F + 1], log attention to the text in each
        guided layer [B, F + 1, T]."""
        codes = add_noise(batch.codes[..., 0], self.lm.config.speech_codes, noise)
        hidden, weights = base_hidden(self.lm, batch, codes, alignment_layers, dropout)
        return hidden, speech_targets(batch, self.lm.config.eos), weights

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        entropy = hits = near = count = aligned = 0.0
        for batch in self.sequences.held_out():
            hidden, targets, attention = self._forward(batch, 0.0, ALIGNMENT_LAYERS)
            logits = self.lm.head(hidden).float()
            valid = targets != -100
            rows = logits.flatten(0, 1), targets.flatten()
            entropy += F.cross_entropy(*rows, ignore_index=-100, reduction="sum").item()
            hits += float((logits.argmax(-1) == targets)[valid].sum())
            count += int(valid.sum())
            known = int((batch.alignment >= 0).sum())
            near += float(torch.exp(-attention_guide(attention, batch))) * known
            aligned += known
        return {
            "cross-entropy, held-out, nats": entropy / count,
            "top-1, held-out": hits / count,
            "attention on the spoken phoneme, held-out": near / aligned,
        }


def aligned_phonemes(batch: SpeechBatch) -> Tensor:
    """The phoneme of each frame by the alignment [B, F], -100 where unknown."""
    ids = batch.text.gather(1, batch.alignment.clamp(min=0))
    return torch.where(batch.alignment >= 0, ids, -100)


def shape(width: int, entries: int) -> LMConfig:
    """Twelve layers of this width, in the proportions of the bundled model: heads of 64, two or three to a KV head."""
    heads = width // 64
    return LMConfig(
        text_vocab=len(SYMBOLS),
        speech_codes=entries,
        hidden=width,
        heads=heads,
        kv_heads=2 if heads % 2 == 0 else 1,
        ffn=8 * width // 3 // 32 * 32,
    )


def add_noise(codes: Tensor, entries: int, share: float) -> Tensor:
    """Replace a random ``share`` of codes by random ones, so that the model recovers from its own errors."""
    if not share:
        return codes
    other = torch.randint(entries, codes.shape, device=codes.device)
    return torch.where(torch.rand(codes.shape, device=codes.device) < share, other, codes)


def base_inputs(lm: LanguageModel, prefix: PrefixBatch, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The baseline's teacher-forced inputs for codes [B, F]: ``speech_inputs`` of their embeddings."""
    return speech_inputs(prefix, lm.embed_speech(codes), lm.config.bidirectional_text)


def base_logits(lm: LanguageModel, batch: SpeechBatch, tokens: Tensor) -> Tensor:
    """The base model's logits [B, F + 1, V] after each of ``tokens`` [B, F], and before the first."""
    return base_rows(lm, batch, tokens)[0]


def base_rows(
    lm: LanguageModel, batch: SpeechBatch, tokens: Tensor, alignment_layers: Layers = ()
) -> tuple[Tensor, list[Tensor]]:
    """``base_logits``, and the log attention to the text in each of ``alignment_layers`` [B, F + 1, T]."""
    hidden, attention = base_hidden(lm, batch, tokens, alignment_layers)
    return lm.head(hidden), attention


def base_hidden(
    lm: LanguageModel, batch: SpeechBatch, tokens: Tensor, alignment_layers: Layers = (), dropout: float = 0.0
) -> tuple[Tensor, list[Tensor]]:
    """``base_rows`` before the head: [B, F + 1, H]."""
    prefix = prefix_batch(lm, batch)
    return speech_rows(lm, prefix, base_inputs(lm, prefix, tokens), alignment_layers, dropout=dropout)


def disagreement(student: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [N, V] of a student and the base's probabilities [N, V] -> [N] each, under the default sampling
    (repetition penalty left out): the probability that the base rejects a token sampled from the student, and the
    student's mass outside the base's support. Differentiable."""
    p = probabilities(student, Sampling())
    return (p - base).clamp(min=0).sum(-1), p.where(base == 0, 0.0).sum(-1)


def distillation(student: Tensor, base: Tensor, sampling_weight: float = 0.0) -> Loss:
    """Logits [N, V] of a student and of the base -> cross-entropy to the base's distribution plus ``sampling_weight``
    times their ``disagreement``, []; its parts."""
    student, base = student.float(), base.float()
    entropy = F.cross_entropy(student, base.softmax(-1))
    if not sampling_weight:
        return entropy, {"distil": entropy.item()}
    rejection, outside = (share.mean() for share in disagreement(student, probabilities(base, Sampling())))
    parts = {"distil": entropy.item(), "rejected": rejection.item(), "outside": outside.item()}
    return entropy + sampling_weight * (REJECTION * rejection + OUTSIDE * outside), parts


def attention_guide(weights: list[Tensor], batch: SpeechBatch) -> Tensor:
    """weights: log attention [B, F + 1, T] per guided layer -> mean of -log(attention near the aligned phoneme), []."""
    return attention_guide_to([w[:, :-1] for w in weights], batch.alignment[..., None])


def attention_guide_to(weights: list[Tensor], positions: Tensor) -> Tensor:
    """``attention_guide`` of any rows: weights [B, R, T] per guided layer, positions [B, R, P] in the text that each
    row is about, -1 = unknown."""
    if not weights:
        raise UserError("Guided attention needs at least one layer.")
    symbols = torch.arange(weights[0].shape[-1], device=positions.device)
    near = (((symbols - positions[..., None]).abs() <= NEAR) & (positions >= 0)[..., None]).any(2)  # [B, R, T]
    # Rows whose window on the text masks all of it out are left out before the sum, not after it: log(0) has a NaN
    # gradient, which a weight of 0 does not remove.
    known = (near & weights[0].isfinite()).any(-1)
    losses = [-w[known].masked_fill(~near[known], float("-inf")).logsumexp(-1).sum() for w in weights]
    return torch.stack(losses).mean() / known.sum().clamp(min=1)


def attended_symbol(weights: list[Tensor]) -> Tensor:
    """Log attention [B, R, T] of guided layers -> [B, R]: the most attended symbol, -1 where none has ``ATTENDED``."""
    share, position = torch.stack([w.exp() for w in weights]).mean(0).max(-1)
    return position.where(share >= ATTENDED, -1)
