"""What TLDR trains: compressor, LoRA factors, speaker-conditioned extractor and its head. Forward passes here are the
teacher-forced ones of training and the oracle of the tests; decoding goes through local.py.

One adapter serves every patch size: P reaches the compressor and the extractor as an embedding of (P, position in the
patch). A fresh adapter starts near the frozen model it adapts: z_k is the normalised mean of the token embeddings at
the embeddings' own scale, LoRA adds nothing, and the extractor is a residual, zero at first, around the base head, so
the first token of a patch starts from the base model's own prediction from g_k."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import LMConfig
from ...lm.lora import LoraFactors, LoraSpec
from ...lm.model import LanguageModel, new_backbone

LARGEST = 8  # tokens in the largest patch
ABLATIONS = ("no-lora", "no-speaker", "mean-pool", "parallel", "mtp")
AT_ONCE = ("parallel", "mtp")  # all tokens of a patch, none of which knows the others
PAPER_HIDDEN = 896  # at this width every size is the paper's (table 7); below, sizes are in proportion


@dataclass(frozen=True)
class TLDRConfig:
    """``ablate`` is "none" or one of ``ABLATIONS``, the parts that the paper's comparison models lack."""

    hidden: int = 256
    heads: int = 4  # of every local self-attention
    cross_heads: int = 4
    ffn: int = 320
    slots: int = 4  # key/value slots of each extractor layer (the paper's J)
    slot_width: int = 128
    layers: int = 2  # of the extractor
    window: int = 16  # tokens a token of the compressor sees, itself included
    rank: int = 16
    speaker: int = 192
    eps: float = 1e-6
    ablate: str = "none"

    def __post_init__(self) -> None:
        assert self.ablate in ("none", *ABLATIONS), self.ablate

    @classmethod
    def of(cls, lm: LMConfig, ablate: str = "none") -> "TLDRConfig":
        """Paper's sizes at its backbone's shape, the same proportions (extractor: a sixth of the layers) elsewhere. The
        extractor takes a speaker vector even where the language model takes none, as in the paper."""
        layers, speaker = max(1, lm.layers // 6), lm.speaker or 192
        common = dict(hidden=lm.hidden, layers=layers, speaker=speaker, eps=lm.rms_eps, ablate=ablate)
        if lm.hidden >= PAPER_HIDDEN:
            return cls(heads=8, ffn=4 * lm.hidden, slot_width=lm.hidden, rank=64, **common)
        return cls(heads=lm.heads, ffn=5 * lm.hidden // 4, slot_width=lm.hidden // 2, **common)

    @property
    def lora(self) -> LoraSpec:
        return LoraSpec(self.rank, float(self.rank))


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float, scale: float = 1.0) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.full((width,), scale)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def window_mask(rows: int, window: int, device: torch.device | str | None = None) -> Tensor:
    """[rows, rows] bool: each token attends to itself and the ``window - 1`` before it."""
    ones = torch.ones(rows, rows, dtype=torch.bool, device=device)
    return ones.tril_().triu_(1 - window)


class Compressor(nn.Module):
    """Token embeddings of a patch -> one latent z_k (sections 3.2 and A.1)."""

    def __init__(self, config: TLDRConfig, lm: LMConfig, embedding_rms: float) -> None:
        super().__init__()
        self.config, width = config, config.hidden
        self.pool_norm = RMSNorm(width, config.eps, embedding_rms)
        if config.ablate == "mean-pool":
            return
        heads = config.heads
        self.local_config = replace(lm, hidden=width, layers=1, heads=heads, kv_heads=heads, ffn=config.ffn)
        self.local = new_backbone(self.local_config)
        del self.local.embed_tokens  # only embeddings are fed; a stub table would be stored for nothing
        self.position = nn.Parameter(torch.randn(LARGEST, LARGEST, width) * 0.1 * embedding_rms)  # [P - 1, position]
        self.query_norm = RMSNorm(width, config.eps)
        self.query, self.key_value = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.out.weight)

    def pool(self, embedded: Tensor) -> Tensor:
        """embedded [..., P, H] -> RMSNorm of the mean [..., H]."""
        return self.pool_norm(embedded.mean(-2))

    def forward(self, embedded: Tensor) -> Tensor:
        """embedded [B, N, P, H], consecutive patches -> z [B, N, H]."""
        return self.of_sizes(embedded.flatten(1, 2), [embedded.shape[2]] * embedded.shape[1])

    def of_sizes(self, embedded: Tensor, sizes: Sequence[int]) -> Tensor:
        """embedded [B, L, H], cut into N consecutive patches of these ``sizes``, which sum to L -> z [B, N, H]."""
        ends = torch.tensor(sizes, device=embedded.device).cumsum(0)
        states = None if self.config.ablate == "mean-pool" else self._states(embedded, sizes)
        found, order = [], []
        for size in sorted(set(sizes)):  # patches of one size together
            which = torch.tensor([i for i, s in enumerate(sizes) if s == size], device=embedded.device)
            tokens = ends[which, None] - size + torch.arange(size, device=embedded.device)  # [n, size]
            pooled = self.pool(embedded[:, tokens])
            found.append(pooled if states is None else self.gather(pooled, states[:, tokens]))
            order.append(which)
        return torch.cat(found, 1)[:, torch.cat(order).argsort()]

    def _states(self, embedded: Tensor, sizes: Sequence[int]) -> Tensor:
        """What the local block makes of the tokens [B, L, H], each seeing those of its window."""
        positions = torch.cat([self.position[size - 1, :size] for size in sizes])
        mask = window_mask(len(positions), self.config.window, embedded.device)
        return self.local(
            inputs_embeds=embedded + positions,
            position_ids=torch.arange(len(positions), device=embedded.device)[None],
            use_cache=False,
            attention_mask={"full_attention": mask[None, None]},
        ).last_hidden_state

    def gather(self, pooled: Tensor, states: Tensor) -> Tensor:
        """Patch-to-token cross-attention: query pooled [..., H], keys and values states [..., P, H] of its tokens."""
        heads = self.config.cross_heads
        query = self.query(self.query_norm(pooled)).unsqueeze(-2).unflatten(-1, (heads, -1)).transpose(-2, -3)
        key, value = (t.unflatten(-1, (heads, -1)).transpose(-2, -3) for t in self.key_value(states).chunk(2, -1))
        found = F.scaled_dot_product_attention(query, key, value)  # [..., heads, 1, D]
        return pooled + self.out(found.flatten(-3))


class ExtractorLayer(nn.Module):
    """Cross-attention to the slots of the context, causal self-attention inside the patch, SwiGLU (section A.3)."""

    def __init__(self, config: TLDRConfig) -> None:
        super().__init__()
        width, self.config = config.hidden, config
        self.cross_norm, self.self_norm, self.ffn_norm = (RMSNorm(width, config.eps) for _ in range(3))
        self.slots = nn.Linear(width, config.slots * config.slot_width)
        self.query, self.cross_out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(config.slot_width, width, bias=False) for _ in range(2))
        self.qkv, self.self_out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, width, bias=False)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """x [M, P, H] of M patches, context [M, H] -> [M, P, H]."""
        split = lambda t, heads: t.unflatten(-1, (heads, -1)).transpose(1, 2)
        slots = self.slots(context).unflatten(-1, (self.config.slots, -1))  # [M, slots, slot width]
        query, key, value = self.query(self.cross_norm(x)), self.key(slots), self.value(slots)
        found = F.scaled_dot_product_attention(*(split(t, self.config.cross_heads) for t in (query, key, value)))
        x = x + self.cross_out(found.transpose(1, 2).flatten(2))
        query, key, value = (split(t, self.config.heads) for t in self.qkv(self.self_norm(x)).chunk(3, -1))
        causal = self.config.ablate not in AT_ONCE
        found = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        x = x + self.self_out(found.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Extractor(nn.Module):
    """(g_k, speaker, tokens of the patch so far) -> logits of the patch's tokens (section 3.4).

    Row i holds the embedding of token i - 1, row 0 the context c_k itself in place of a start token. Of the comparison
    models that decode a patch at once, "parallel" has the context in every row, and "mtp" row 0 alone, from which
    additional heads, a residual layer each, predict the later tokens."""

    def __init__(self, config: TLDRConfig, head: nn.Linear, embedding_rms: float) -> None:
        super().__init__()
        self.config, width = config, config.hidden
        self.fuse = nn.Linear(width, width)  # with ``speaker_projection``: one linear layer over [g_k ; speaker]
        with_speaker = config.ablate != "no-speaker"
        self.speaker_projection = nn.Linear(config.speaker, width, bias=False) if with_speaker else None
        self.enter = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.enter.weight, std=width**-0.5 / embedding_rms)  # rows of unit size, as c_k's
        self.position = nn.Parameter(torch.randn(LARGEST, LARGEST, width) * 0.1)  # [P - 1, position]
        self.layers = nn.ModuleList(ExtractorLayer(config) for _ in range(config.layers))
        self.norm, self.out = RMSNorm(width, config.eps), nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.out.weight)
        # How much of the base model's prediction from g_k each place starts from: all of it first, half of it later.
        self.base = nn.Parameter(torch.full((LARGEST, LARGEST, width), 0.5))
        self.future = nn.Parameter(torch.zeros(LARGEST - 1, width, width)) if config.ablate == "mtp" else None
        self.head = nn.Linear(width, head.out_features, bias=head.bias is not None)
        self.head.load_state_dict(head.state_dict())
        with torch.no_grad():
            self.base[:, 0] = 1.0

    def forward(self, g: Tensor, speaker: Tensor, embedded: Tensor) -> Tensor:
        """g [M, H], speaker [M, E], embedded [M, P, H] target tokens -> logits [M, P, V]; row i saw tokens < i."""
        size = embedded.shape[1]
        context = self.fuse(g)
        if self.speaker_projection is not None:
            context = context + self.speaker_projection(speaker)
        if self.future is not None:
            x = context[:, None]
        elif self.config.ablate == "parallel":
            x = context[:, None].expand(-1, size, -1)
        else:
            x = torch.cat([context[:, None], self.enter(embedded[:, :-1])], 1)
        x = x + self.position[size - 1, : x.shape[1]]
        for layer in self.layers:
            x = layer(x, context)
        if self.future is not None:
            x = later_rows(x, self.future[: size - 1])
        return self.head(self.base[size - 1, :size] * g[:, None] + self.out(self.norm(x)))


def later_rows(x: Tensor, future: Tensor) -> Tensor:
    """x [M, 1, H] of the first token of each patch, future [P - 1, H, H] -> [M, P, H]."""
    return torch.cat([x, x + F.silu(torch.einsum("mh,phk->mpk", x[:, 0], future))], 1)


class TLDRAdapter(nn.Module):
    """Everything stored under ``checkpoints/<stack>/tldr`` (or an ablation's folder)."""

    def __init__(self, lm: LanguageModel, config: TLDRConfig) -> None:
        super().__init__()
        self.config = config
        rms = lm.speech_embedding.weight.detach().float().square().mean().sqrt().item()
        self.lora = LoraFactors(lm.backbone, config.lora) if config.ablate != "no-lora" else None
        self.compressor = Compressor(config, lm.config, rms)
        self.extractor = Extractor(config, lm.head, rms)


def patch_position(start: int | Tensor, tokens: int | Tensor) -> int | Tensor:
    """Logical position of a patch after which ``tokens`` tokens have been generated: that of its last token, so that
    positions advance with time at every P and are the base model's at P = 1."""
    return start + tokens - 1
