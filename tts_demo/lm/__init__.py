"""The speech language model: weights, KV cache, lean decoder, sampling, LoRA, attention capture and cost. Its classes
may be imported from here, its functions come from their modules."""

from .attention import AttentionMap, Replay
from .backend import Backend
from .cache import KVCache
from .decoder import Base, Decoder
from .graphs import BufferPool
from .linear import Projection
from .lockstep import Lockstep, TokenRows
from .lora import LoraFactors, LoraSpec, LoraSum
from .model import LanguageModel, Prefix
from .sampling import Distribution, Ending, History, Sampler, distribution, probabilities, sample
from .workspace import Workspace
