"""The speech language model: weights, KV cache, lean decoder, sampling, LoRA, attention capture and cost."""

from .backend import Backend
from .base import Base
from .cache import KVCache
from .decoder import Decoder
from .lora import LoraFactors, LoraSpec
from .model import LanguageModel
from .prefix import Prefix
from .sampling import Distribution, History, distribution, probabilities, sample
