"""The speech language model: weights, KV cache, lean decoder, sampling, LoRA, attention capture and cost."""

from .cache import KVCache
from .decoder import Decoder
from .lora import LoraDelta, LoraFactors, LoraSpec
from .model import LanguageModel
from .prefix import Prefix
from .sampling import History, distribution, sample

__all__ = [
    "Decoder",
    "History",
    "KVCache",
    "LanguageModel",
    "LoraDelta",
    "LoraFactors",
    "LoraSpec",
    "Prefix",
    "distribution",
    "sample",
]
