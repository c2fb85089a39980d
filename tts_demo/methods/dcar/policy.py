"""The policy that chooses the chunk size (DCAR, section 4.2), conditioned on the range it may choose from."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...config import LMConfig
from ...lm import Backend, Decoder, KVCache, LanguageModel
from ...lm.masks import causal_mask
from .ranges import LONGEST


@dataclass(frozen=True)
class PolicyConfig:
    hidden: int  # of the language model whose states it reads
    width: int
    heads: int
    sizes: int = LONGEST
    prior: float = 2.0  # a fresh policy's log-odds of a size inside its range over one outside

    @classmethod
    def of(cls, lm: LanguageModel) -> "PolicyConfig":
        """As wide as the language model, as in the paper; a quarter of it for a small one, where a layer of full width
        would cost as much as one of the backbone's twelve."""
        c = lm.config
        width = c.hidden if c.hidden >= 512 else c.hidden // 4
        return cls(c.hidden, width, heads=max(1, width // 32))

    @property
    def core(self) -> LMConfig:
        return LMConfig(
            text_vocab=1,
            speech_codes=self.sizes,
            extra_codes=0,
            hidden=self.width,
            layers=1,
            heads=self.heads,
            kv_heads=self.heads,
            ffn=2 * self.width,
            speaker=0,
        )


class Policy(nn.Module):
    """One causal Transformer layer over the hidden states at which a chunk was scheduled, then a linear layer over the
    chunk sizes 1..7. It is a one-layer language model whose tokens are chunk sizes. The mean embedding of the allowed
    sizes conditions it on its range, so that one policy serves every range (the paper retrains for each)."""

    def __init__(self, lm: LanguageModel, config: PolicyConfig | None = None) -> None:
        super().__init__()
        self.config = c = config or PolicyConfig.of(lm)
        self.enter = nn.Linear(c.hidden, c.width)
        self.core = LanguageModel(c.core)
        self.inside = nn.Parameter(torch.tensor(c.prior))
        nn.init.zeros_(self.core.head.weight)  # a fresh policy is even within its range: the reference of the KL term

    def range_embedding(self, allowed: Tensor) -> Tensor:
        """allowed [..., 7] bool -> [..., width]."""
        share = allowed.to(self.core.dtype)
        return (share / share.sum(-1, keepdim=True)) @ self.core.speech_embedding.weight

    def forward(self, hidden: Tensor, allowed: Tensor) -> Tensor:
        """Training: hidden [R, S, H] at scheduled positions, allowed [R, 7] bool -> logits [R, S, 7] of all sizes."""
        rows, steps, _ = hidden.shape
        x = self.enter(hidden) + self.range_embedding(allowed)[:, None]
        positions = torch.arange(steps, device=x.device).expand(rows, -1)
        mask = causal_mask(steps, steps, x.device).expand(rows, -1, -1)
        logits = self.core.head(self.core(x, positions, mask))
        return logits.float() + self.inside * allowed[:, None]

    def reference(self, allowed: Tensor) -> Tensor:
        """Log-probabilities [R, 7] of a fresh policy, whatever its history: even inside the range, even outside."""
        return (self.config.prior * allowed.float()).log_softmax(-1)

    def runner(self) -> "PolicyRunner":
        return PolicyRunner(self, Backend(self.core.device, self.core.dtype))


class PolicyRunner:
    """Inference: the same weights through ``Decoder``, one scheduled state a step. Stateless; a run owns its cache."""

    @torch.inference_mode(False)  # built lazily, perhaps inside a run: its weights must stay ordinary tensors
    @torch.no_grad()
    def __init__(self, policy: Policy, backend: Backend) -> None:
        self.policy, self.decoder = policy, Decoder.from_model(policy.core, backend=backend)
        self.enter = backend.projection(policy.enter.weight)

    def new_cache(self, capacity: int, batch: int = 1) -> KVCache:
        return self.decoder.new_cache(capacity, batch)

    @torch.no_grad()
    def range_terms(self, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """What a range adds in every step: allowed [B, 7] bool -> to the inputs [B, width] and to the logits [B, 7]."""
        policy = self.policy
        return policy.range_embedding(allowed) + policy.enter.bias, policy.inside * allowed

    @torch.no_grad()
    def logits(self, forward: Callable[[Tensor], Tensor], hidden: Tensor, inputs: Tensor, logits: Tensor) -> Tensor:
        """hidden [B, H] and ``range_terms`` through ``forward``, a pass over one token -> logits [B, 7] float32."""
        return self.decoder.logits(forward(self.enter(hidden, inputs)[:, None])[:, 0]) + logits

    def step(self, hidden: Tensor, terms: tuple[Tensor, Tensor], cache: KVCache) -> Tensor:
        """hidden [B, H], ``range_terms`` of B ranges -> logits [B, 7] float32 over all sizes."""
        return self.logits(lambda x: self.decoder.forward(x, cache, cache.next_position), hidden, *terms)
