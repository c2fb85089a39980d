"""What compressed-to-fine language modelling trains: LoRA on the frozen backbone and the summary token's embedding."""

from dataclasses import dataclass

from torch import nn

from ...config import LMConfig
from ...lm import LanguageModel, LoraFactors, LoraSpec

FULL_TEXT, TEXT_WINDOW = "compressed", "compressed-text"  # adapters: for the full text, for a window of it


@dataclass(frozen=True)
class CompressedConfig:
    hidden: int
    rank: int
    alpha: float

    @classmethod
    def of(cls, config: LMConfig) -> "CompressedConfig":
        rank = 64 if config.hidden >= 896 else 16
        return cls(config.hidden, rank, float(rank))


class SummaryAdapter(nn.Module):
    """What is trained: LoRA on the frozen backbone and the embedding of W. A fresh one changes no weight, and its W is
    the mean of the speech embeddings."""

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__()
        self.config = CompressedConfig.of(lm.config)
        self.spec = LoraSpec(self.config.rank, self.config.alpha)
        self.lora = LoraFactors(lm.backbone, self.spec)
        self.summary = nn.Parameter(lm.speech_embedding.weight.detach().mean(0).clone())  # [H]
