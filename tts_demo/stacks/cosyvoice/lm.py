"""The released language model as ours: the same Qwen2 backbone, cache, decoder and methods, other special vectors.

Nothing of the text head is kept: released code computes it on every step and throws the result away.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ...config import LMConfig
from ...lm import LanguageModel

_BACKBONE = "llm.model.model."
_RENAMED = {  # released name -> ours
    "llm.model.model.embed_tokens.weight": "text_embedding.weight",
    "speech_embedding.weight": "speech_embedding.weight",
    "llm_decoder.weight": "head.weight",
    "llm_decoder.bias": "head.bias",
    "llm_embedding.weight": "markers.weight",
}
TEXT_HEAD = "llm.model.lm_head.weight"  # in the file as an alias of the text embedding


class SpeechRows(nn.Module):
    """SOS and TASK as two rows of the speech embedding (version 3), with the interface of a table of their own."""

    def __init__(self, table: nn.Embedding, rows: tuple[int, int]) -> None:
        super().__init__()
        self._table = (table,)  # in a tuple, so that the weights are not registered twice
        self._rows = rows

    @property
    def weight(self) -> Tensor:
        """[2, H]"""
        return self._table[0].weight[list(self._rows)]


class CosyLanguageModel(LanguageModel):
    """[SOS, text, TASK, prompt speech, speech ...]: no speaker vector, plain causal attention, V codes and specials."""

    def __init__(self, config: LMConfig, marker_rows: tuple[int, int] | None) -> None:
        """marker_rows: SOS and TASK among the rows of the speech embedding; None: they are a table of their own, and
        the head has a bias (version 2)."""
        super().__init__(config)
        if marker_rows:
            self.markers = SpeechRows(self.speech_embedding, marker_rows)
        else:
            self.head = nn.Linear(config.hidden, config.vocab)

    def released_names(self) -> Iterator[tuple[str, str]]:
        """(released key, our key) of every weight; the text head, an alias, is left out."""
        ours = set(self.state_dict())
        for theirs, name in _RENAMED.items():
            if name in ours:
                yield theirs, name
        for name in sorted(ours):
            if name.startswith("backbone.layers.") or name == "backbone.norm.weight":
                yield _BACKBONE + name.removeprefix("backbone."), name

    def load_released(self, state: dict[str, Tensor]) -> None:
        """Take over the weights of a released ``llm.pt``. Raises KeyError or RuntimeError where it is another
        model's."""
        names = dict(self.released_names())
        unknown = set(state) - set(names) - {TEXT_HEAD}
        if unknown:
            raise KeyError(sorted(unknown)[0])
        taken = {ours: state[theirs] for theirs, ours in names.items()}
        unused = self.backbone.embed_tokens.weight  # the backbone's own text table, a stub
        taken["backbone.embed_tokens.weight"] = torch.zeros(unused.shape)
        self.load_state_dict(taken, assign=True)


def empty_lm(config: LMConfig, marker_rows: tuple[int, int] | None) -> CosyLanguageModel:
    """The model without weights, to be filled by ``load_released``: half a billion random numbers are not drawn
    first."""
    with torch.device("meta"):
        lm = CosyLanguageModel(config, marker_rows)
    rotary = lm.backbone.rotary_emb
    lm.backbone.rotary_emb = type(rotary)(config=lm.backbone.config)  # a table that is computed, not loaded
    return lm
