"""The base model of a stack, ready for decoding: what all methods share."""

from functools import cached_property

from .backend import Backend
from .decoder import Decoder
from .lora import LoraFactors, LoraSum
from .model import LanguageModel


class Base:
    """A language model with the decoder that every method uses. Make it after the weights are loaded
    and moved: the decoder holds fused copies, which later changes of the model do not reach."""

    def __init__(self, lm: LanguageModel, exact: bool = False, graphed: bool = True) -> None:
        """exact, graphed: see ``Backend``."""
        self.lm, self.config = lm, lm.config
        self.backend = Backend(lm.device, lm.dtype, exact, graphed)

    @cached_property
    def decoder(self) -> Decoder:
        """Of the weights without any adapter."""
        return Decoder.from_model(self.lm, backend=self.backend)

    def merged(self, lora: LoraFactors | LoraSum) -> Decoder:
        """A decoder of its own with ``lora`` merged into the weights."""
        return Decoder.from_model(self.lm, lora, backend=self.backend)
