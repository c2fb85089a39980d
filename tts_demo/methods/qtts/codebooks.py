"""What both multi-codebook strategies share: their sizes, the embeddings of all codes, how runs begin."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import CodecConfig, LMConfig, Sampling
from ...lm import Base, Decoder, History, LanguageModel, LoraFactors, LoraSpec
from ...lm.sampling import numbers
from ..base import Replay, Start, State, first_pass, plain_replay

HIGHER_TEMPERATURE = 0.57  # temperature of the higher codebooks, as a share of the first's


def higher_sampling(sampling: Sampling) -> Sampling:
    """The sampling of codebooks 2 to K, whose fine texture sounds like noise at the first codebook's temperature."""
    return replace(sampling, temperature=HIGHER_TEMPERATURE * sampling.temperature)


@dataclass(frozen=True)
class QTTSConfig:
    """Sizes of an adapter. ``code_width`` E: every code is a vector of that width, projected up to where it is read and
    scored by inner product where it is predicted; a table and a head of full width per codebook would be four times
    larger and, on a few hours of speech, mostly noise."""

    hidden: int = 256
    entries: int = 1024
    codebooks: int = 8
    code_width: int = 64
    head_width: int = 256  # inner width of a delay head
    max_delay: int = 4
    depth_width: int = 192
    depth_layers: int = 2
    depth_heads: int = 4
    rank: int = 16
    alpha: float = 16.0

    @classmethod
    def of(cls, lm: LMConfig) -> "QTTSConfig":
        """In proportion to a language model; all codebooks have as many entries as its first, ``speech_codes``."""
        return cls(
            hidden=lm.hidden,
            entries=lm.speech_codes,
            codebooks=CodecConfig.codebooks,
            code_width=lm.hidden // 4,
            head_width=lm.hidden,
            depth_width=min(192, 3 * lm.hidden // 4),
            rank=16 if lm.hidden < 512 else 64,
            alpha=16.0 if lm.hidden < 512 else 64.0,
        )

    @property
    def lora(self) -> LoraSpec:
        return LoraSpec(self.rank, self.alpha)

    @property
    def pad(self) -> int:
        """The padding id of every codebook: no such frame."""
        return self.entries


class CodebookEmbeddings(nn.Module):
    """Vectors of codes [K, entries, E], and their projections as input and as context.

    The input of a backbone step is the sum of its codes' embeddings. The first codebook's is the language model's own;
    the others start at zero, so that an untrained adapter is the language model. ``context`` of width C conditions a
    prediction directly on the lower codebooks of its own frame: their sum, as in a residual quantizer."""

    def __init__(self, c: QTTSConfig, context: int) -> None:
        super().__init__()
        self.config = c
        self.codes = nn.Parameter(torch.randn(c.codebooks, c.entries, c.code_width))
        self.into = nn.Parameter(torch.zeros(c.codebooks - 1, c.code_width, c.hidden))
        self.context = nn.Parameter(torch.randn(c.codebooks, c.code_width, context) * (0.3 * c.code_width**-0.5))
        self.count_tag = nn.Parameter(torch.zeros(c.codebooks, c.hidden))  # row K - 1: K codebooks are in use

    @torch.no_grad()
    def start_from(self, entries: Tensor) -> None:
        """entries [K, N, width of the codec's lookup]: initialise the first columns from the codec's entries, in which
        similar sounds are close; the other columns stay random."""
        width = min(entries.shape[-1], self.codes.shape[-1])
        self.codes[..., :width] = F.normalize(entries[..., :width], dim=-1) * width**0.5

    def table(self, base: Tensor, codebooks: int, pads: Tensor | None = None) -> Tensor:
        """base [V, H], the language model's speech embedding -> [codebooks, entries + 1, H + C]: per code its input
        embedding and its context. The last row is padding: input ``pads`` [K, H] or zero, context zero."""
        into = torch.cat(
            [
                base[: self.config.entries].to(self.codes.dtype)[None],
                torch.bmm(self.codes[1:codebooks], self.into[: codebooks - 1]).to(self.codes.dtype),
            ]
        )
        context = torch.bmm(self.codes[:codebooks], self.context[:codebooks]).to(self.codes.dtype)
        into = F.pad(into, (0, 0, 0, 1)) if pads is None else torch.cat([into, pads[:codebooks, None]], 1)
        return torch.cat([into, F.pad(context, (0, 0, 0, 1))], -1)

    def look_up(self, table: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """codes [..., K] -> input [..., H] (without any tag), contexts [..., K, C] of the single codes."""
        starts = torch.arange(table.shape[0], device=table.device) * table.shape[1]  # of codebooks
        rows = F.embedding(codes + starts, table.flatten(0, 1))
        return rows[..., : self.config.hidden].sum(-2), rows[..., self.config.hidden :]


class CodebookAdapter(nn.Module):
    """LoRA on the frozen backbone and the codebooks' vectors, with contexts of width ``context``."""

    def __init__(self, lm: LanguageModel, c: QTTSConfig, context: int) -> None:
        super().__init__()
        self.config = c
        self.lora = LoraFactors(lm.backbone, c.lora)
        self.codebooks = CodebookEmbeddings(c, context)

    def table(self, base: Tensor, codebooks: int) -> Tensor:
        """See ``CodebookEmbeddings.table``."""
        return self.codebooks.table(base, codebooks)


@dataclass(kw_only=True)
class CodebookState(State):
    history: History  # of the first codebook
    table: Tensor  # [K, entries + 1, H + C]
    tag: Tensor  # [H]
    prompt: Tensor  # [F', K] codes fed before the first step
    hidden: Tensor  # [1, H] backbone output that decides the next step
    random: int  # numbers that a step takes (see ``numbers``)


class Strategy:
    """A way to decode several codebooks. ``adapter``: a ``CodebookAdapter``."""

    def __init__(self, base: Base, adapter: Any) -> None:
        self.base, self.adapter = base, adapter

    @cached_property
    def decoder(self) -> Decoder:
        return self.base.merged(self.adapter.lora)

    @cached_property
    @torch.inference_mode(False)  # built lazily, perhaps inside a run: it must stay an ordinary tensor
    @torch.no_grad()
    def table(self) -> Tensor:
        """[codebooks, entries + 1, H + C], of which a run reads its first K codebooks."""
        return self.adapter.table(self.decoder.embedding, self.adapter.config.codebooks).to(self.decoder.dtype)

    def begun(self, start: Start, prompt: Tensor, tag: Tensor, more: int = 0) -> dict[str, Any]:
        """``CodebookState`` after the first pass, which reads prompt [F', K]. more: steps beyond the limit."""
        decoder = self.decoder
        table, tag = self.table[: prompt.shape[1]], tag.to(decoder.dtype)
        x = start.prefix.followed_by(self.adapter.codebooks.look_up(table, prompt)[0] + tag)
        cache = decoder.new_cache(len(x) + start.ending.longest + more)
        hidden = first_pass(decoder, start.prefix, x, cache)[0]
        sampling, others = start.sampling, self.adapter.config.entries
        random = numbers(sampling, self.base.config.vocab)
        random += numbers(sampling, others, prompt.shape[1] - 1, redraws=False)
        shared = dict(start=start, caches={"backbone": cache}, history=start.history(), random=random)
        return shared | dict(table=table, tag=tag, prompt=prompt, hidden=hidden)

    def replayed(self, state: CodebookState, generated: Tensor, frames_of: Sequence[int]) -> Replay:
        """Of a run that has ``generated`` [S, K] behind the prompt, of which the last step's was not fed."""
        fed = torch.cat([state.prompt, generated[: max(0, len(frames_of) - 1)]])
        x = state.prefix.followed_by(self.adapter.codebooks.look_up(state.table, fed)[0] + state.tag)
        return plain_replay(self.decoder, state.prefix, x, frames_of)
