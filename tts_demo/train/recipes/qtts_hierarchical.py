"""Recipe ``qtts-hierarchical``: LoRA and the depth decoder, trained on whole frames, all codebooks of a frame at
once."""

import torch.nn.functional as F
from torch import Tensor, nn

from ...lm.block import training_forward
from ...lm.model import LanguageModel, Layers
from ...methods.qtts.hierarchical import HierarchicalAdapter
from ..data.sequences import SpeechBatch, prefix_batch, speech_inputs, speech_targets
from ..optimiser import inner_matrices
from .qtts import IGNORE, Dials, Prediction, QTTSTask, padded_codes


class QTTSHierarchicalTask(QTTSTask):
    name = "qtts-hierarchical"
    steps = 240
    scored = (Dials(8), Dials(4), Dials(2))

    def build(self, lm: LanguageModel) -> HierarchicalAdapter:
        return HierarchicalAdapter(lm)

    def matrices(self) -> list[nn.Parameter]:
        return [*super().matrices(), *inner_matrices(self.adapter.depth.blocks)]

    def predict(self, batch: SpeechBatch, dials: Dials, inputs: Tensor, alignment_layers: Layers = ()) -> Prediction:
        lm, adapter = self.lm, self.adapter
        hidden, contexts, targets, attention = frame_rows(lm, adapter, batch, inputs, alignment_layers)
        first_targets = speech_targets(batch, lm.config.eos, IGNORE)
        valid = first_targets != IGNORE  # end of speech included: its row predicts codebook 1 alone
        rows = adapter.depth(hidden[valid], contexts[valid])
        first = lm.head(hidden[valid] + adapter.correct(rows[:, 0]))
        rest, rest_targets = adapter.scores(rows[:, 1:]), targets[valid][:, 1:].t()
        return Prediction(first, first_targets[valid], rest, rest_targets, attention)


def frame_rows(
    lm: LanguageModel, adapter: HierarchicalAdapter, batch: SpeechBatch, inputs: Tensor, alignment_layers: Layers = ()
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """Teacher forcing over frames: hidden states [B, F + 1, H] before each frame, the contexts of that frame's codes
    [B, F + 1, K, W], targets [B, F + 1, K], and the log attention to the text. LoRA must be attached to
    ``lm.backbone``."""
    codebooks = inputs.shape[-1]
    codes, targets = padded_codes(batch, inputs, adapter.config.pad)
    table = adapter.codebooks.table(lm.speech_embedding.weight, codebooks)
    embedded, contexts = adapter.codebooks.look_up(table, codes)
    prefix = prefix_batch(lm, batch)
    fed = speech_inputs(prefix, embedded + adapter.tag(codebooks), lm.config.bidirectional_text)
    start, text = prefix.x.shape[1] - 1, batch.text.shape[1]
    hidden, attention = training_forward(lm, *fed, alignment_layers, slice(start, None), slice(start - text, start))
    contexts, targets = F.pad(contexts, (0, 0, 0, 0, 0, 1)), F.pad(targets, (0, 0, 0, 1), value=IGNORE)
    return hidden[:, start:], contexts, targets, attention
