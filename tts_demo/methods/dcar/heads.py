"""The extra prediction heads of chunk-wise autoregression (DCAR, section 3.1 and appendix C.1)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm import LanguageModel, LoraFactors, LoraSpec
from ...lm.backend import Backend
from .ranges import LONGEST


@dataclass(frozen=True)
class HeadsConfig:
    hidden: int
    vocab: int
    heads: int = LONGEST - 1
    blocks: int = 4
    rank: int = 16  # LoRA on the frozen backbone; alpha equals it

    @classmethod
    def of(cls, lm: LanguageModel) -> "HeadsConfig":
        c = lm.config
        return cls(c.hidden, c.vocab, rank=64 if c.hidden >= 512 else 16)

    @property
    def lora(self) -> LoraSpec:
        return LoraSpec(self.rank, float(self.rank))


class Heads(nn.Module):
    """Head j = 1..6 predicts y_{t+1+j} from the hidden state that predicts y_{t+1}: residual blocks of Linear + SiLU,
    then a bias-free Linear to the vocabulary. Weights are stacked, so that a chunk's heads are one batched product.

    Fresh blocks are the identity and the output layers are copies of the base head: training starts from repeating the
    next token."""

    def __init__(self, lm: LanguageModel, config: HeadsConfig | None = None) -> None:
        super().__init__()
        self.config = c = config or HeadsConfig.of(lm)
        self.weight = nn.Parameter(torch.zeros(c.blocks, c.heads, c.hidden, c.hidden))  # [block, head, in, out]
        self.bias = nn.Parameter(torch.zeros(c.blocks, c.heads, 1, c.hidden))
        self.out = nn.Parameter(lm.head.weight.detach().float().repeat(c.heads, 1, 1))  # [head, V, H]
        self.lora = LoraFactors(lm.backbone, c.lora)

    def forward(self, hidden: Tensor, count: int | None = None) -> Tensor:
        """hidden [N, H] -> logits [count, N, V] of the first ``count`` extra heads (all when None)."""
        count = self.config.heads if count is None else count
        x = hidden.expand(count, -1, -1)
        for weight, bias in zip(self.weight, self.bias):
            x = x + F.silu(torch.baddbmm(bias[:count], x, weight[:count]))
        return torch.bmm(x, self.out[:count].transpose(1, 2))


class HeadsRunner:
    """Inference: the same weights, head by head, for one hidden state at a time."""

    @torch.inference_mode(False)  # built lazily, perhaps inside a run: its weights must stay ordinary tensors
    @torch.no_grad()
    def __init__(self, heads: Heads, backend: Backend) -> None:
        blocks = (
            [backend.projection(weight.t(), bias[0]) for weight, bias in zip(weights, biases)]
            for weights, biases in zip(heads.weight.unbind(1), heads.bias.unbind(1))
        )
        self.heads = list(zip(blocks, map(backend.projection, heads.out)))

    @torch.no_grad()
    def __call__(self, hidden: Tensor, count: int) -> list[Tensor]:
        """hidden [1, H] -> logits [1, V] of each of the first ``count`` extra heads."""
        logits = []
        for blocks, out in self.heads[:count]:
            x = hidden
            for block in blocks:
                x = x + F.silu(block(x))
            logits.append(out(x))
        return logits
