"""Recipe ``qtts-delay``: LoRA and one head per codebook, trained on delayed codes with padding in the corners."""

import torch
from torch import Tensor, nn

from ...lm.block import training_forward
from ...lm.model import LanguageModel, Layers
from ...methods.qtts.delay import DelayAdapter, delay
from ..data.sequences import SpeechBatch, prefix_batch, speech_inputs
from .qtts import IGNORE, Dials, Prediction, QTTSTask, padded_codes


class QTTSDelayTask(QTTSTask):
    name = "qtts-delay"
    steps = 240
    scored = (Dials(8, 1), Dials(8, 2), Dials(8, 4), Dials(4, 1), Dials(2, 1))

    def build(self, lm: LanguageModel) -> DelayAdapter:
        return DelayAdapter(lm)

    def matrices(self) -> list[nn.Parameter]:
        return [*super().matrices(), self.adapter.inner]

    def predict(self, batch: SpeechBatch, dials: Dials, inputs: Tensor, alignment_layers: Layers = ()) -> Prediction:
        given = batch, dials, inputs, alignment_layers
        hidden, below, targets, attention = delay_rows(self.lm, self.adapter, *given)
        first, rest = targets[..., 0] != IGNORE, (targets[..., 1:] != IGNORE).any(-1)
        return Prediction(
            self.lm.head(hidden[first]),
            targets[..., 0][first],
            self.adapter.scores(hidden[rest], below[rest]),
            targets[..., 1:][rest].t(),
            attention,
        )


def delay_rows(
    lm: LanguageModel,
    adapter: DelayAdapter,
    batch: SpeechBatch,
    dials: Dials,
    input_codes: Tensor,
    alignment_layers: Layers = (),
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """Teacher forcing of the delay pattern: hidden states [B, S, H] before each step, the vectors of their frames'
    lower codebooks [B, S, K - 1, H], targets [B, S, K], and the log attention to the text of the F + 1 steps that emit
    codebook 1; S = F + (K - 1) d. LoRA must be attached to ``lm.backbone``."""
    pad = adapter.config.pad
    codes, targets = padded_codes(batch, input_codes, pad)
    steps = delay(codes, dials.d, pad)
    targets = delay(targets, dials.d, IGNORE)
    # after its last frame, codebook 1 ends speech
    ends = torch.arange(targets.shape[1], device=targets.device) == batch.frames[:, None]
    targets[..., 0] = torch.where(ends, lm.config.eos, targets[..., 0])
    table = adapter.table(lm.speech_embedding.weight, dials.codebooks)
    prefix = prefix_batch(lm, batch)
    inputs = adapter.codebooks.look_up(table, steps[:, :-1])[0] + adapter.tag(dials.codebooks, dials.d)
    fed = speech_inputs(prefix, inputs, lm.config.bidirectional_text)
    start, text = prefix.x.shape[1] - 1, batch.text.shape[1]
    rows = slice(start, start + codes.shape[1] + 1)
    hidden, attention = training_forward(lm, *fed, alignment_layers, rows, slice(start - text, start))
    below = adapter.below(adapter.codebooks.look_up(table, codes)[1], dials.d)
    return hidden[:, start:], below, targets, attention
