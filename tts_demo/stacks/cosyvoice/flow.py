"""Speech tokens -> mel by conditional flow matching, the part that versions 2 and 3 share.

An encoder (conformer or look-ahead convolution) turns tokens into a rough mel ``mu``; an estimator (U-Net or diffusion
Transformer) gives the velocity that carries noise to the mel in ten Euler steps (Lipman et al. 2022, with
classifier-free guidance). Of streams it knows the attention mask and what it is given to remember. Computes in
float32, the released code's default: half precision overflows in version 3's residual stream.
"""

import math
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...lm.graphs import BufferPool
from ...runtime import matrices_in_tf32
from .configs import MEL_PER_TOKEN, ConformerFlowConfig, DiTFlowConfig, FlowConfig
from .conformer import ConformerEncoder
from .dit import DiT, DiTBlock
from .layers import Lookahead, PaddedConv1d, attention_mask
from .memory import Budget, FlowMemory, Memory
from .pooled import PooledMemory, StaticMemory, solve_whole, whole_size
from .unet import TransformerBlock, UNet

NOISE_FRAMES = 15_000  # length of the released noise table, 300 s


class Flow(nn.Module):
    """Base of both versions. A subclass says how tokens become ``mu`` and which network gives the velocity."""

    tf32: bool = True  # on CUDA, matrices are multiplied in TF32: of a mel of 5.45 at most .0014 is then different

    pool: BufferPool | None = None  # where passes run as graphs

    def __init__(self, config: FlowConfig, estimator: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.input_embedding = nn.Embedding(config.tokens, config.token_width)
        self.spk_embed_affine_layer = nn.Linear(config.speaker, config.mels)
        self.decoder = nn.ModuleDict({"estimator": estimator})  # the velocity field
        self._captured: set[int] = set()  # sizes of whole segments that became graphs

    def encode(
        self, tokens: Tensor, future: Tensor | None = None, blocks: bool = False, memory: Memory | None = None
    ) -> Tensor:
        """tokens: [1, F]; future: the next ``lookahead`` tokens [1, lookahead], None at the end -> mu [1, mels, 2F],
        with a memory of those alone that it does not hold."""
        first = 0 if memory is None else memory.store.tokens
        known = min(Lookahead.REACH, first)  # remembered tokens that the look-ahead layer needs before the new ones
        ahead = None if future is None else self.input_embedding(future)
        return self._mu(self.input_embedding(tokens[:, first - known :]), ahead, blocks, memory, known)

    def _mu(self, x: Tensor, ahead: Tensor | None, blocks: bool, memory: Memory | None, known: int) -> Tensor:
        """x: embedded tokens [1, F, C], of which the memory holds the first ``known``; ahead: those that follow."""
        raise NotImplementedError

    def compile_blocks(self, **how: Any) -> None:
        """The estimator's Transformer blocks through ``torch.compile``, without what they remember. how: options."""
        for block in self.decoder.modules():
            if isinstance(block, (DiTBlock, TransformerBlock)):
                block.before = torch.compile(block.before, fullgraph=True, **how)
                block.after = torch.compile(block.after, fullgraph=True, **how)

    def new_memory(self, budget: Budget, plain: bool = False) -> FlowMemory:
        """For one run. plain: not in the pool."""
        config = self.config
        if plain or self.pool is None:
            return FlowMemory(config.block_tokens, config.remembered_bytes, budget)
        layers = (layer for layer in self.decoder.modules() if isinstance(layer, PaddedConv1d))
        convolved = sum(layer.in_channels * layer.sides[0] for layer in layers)
        return PooledMemory(config, convolved, self.pool, budget, self.input_embedding.weight.device)

    def is_new(self, tokens: int) -> bool:
        """Whether a pass over a whole segment and its prompt, so many tokens together, would capture a graph."""
        size = whole_size(MEL_PER_TOKEN * tokens, MEL_PER_TOKEN * self.config.block_tokens)
        return self.pool is not None and bool(size) and size not in self._captured

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        speaker: Tensor,
        prompt_mel: Tensor,
        noise: Tensor,
        future: Tensor | None = None,
        blocks: bool = False,
        memory: FlowMemory | None = None,
        keep: int = 0,
    ) -> Tensor:
        """The mel of all tokens, those of the prompt included; with a memory of those alone that it does not hold.

        tokens: [1, F]; speaker: [1, speaker]; prompt_mel: [1, mels, <= 2F], what the mel begins with; noise:
        [1, mels, 2F]; future: see ``encode``; blocks: attention in blocks of ``block_tokens`` that see themselves and
        what lies before them, False for attention to everything; keep: the memory will hold so many tokens more, whole
        blocks. -> [1, mels, 2F].
        """
        seen = None if memory is None else Memory(memory, keep)
        past = 0 if memory is None else MEL_PER_TOKEN * memory.tokens
        mu = self.encode(tokens, future, blocks, seen)
        voice = self.spk_embed_affine_layer(F.normalize(speaker, dim=1))
        condition, given = torch.zeros_like(mu), prompt_mel[:, :, past : past + mu.shape[-1]]
        condition[:, :, : given.shape[-1]] = given
        mel = self._solve(noise[:, :, past:], mu, voice, condition, blocks, seen)
        if memory is not None:
            memory.tokens += keep
        return mel

    def _solve(
        self, noise: Tensor, mu: Tensor, voice: Tensor, condition: Tensor, blocks: bool, seen: Memory | None
    ) -> Tensor:
        """As a graph where the memory lies in a pool, or the flow has one and the pass is over a whole segment."""
        block, flow = MEL_PER_TOKEN * self.config.block_tokens, weakref.proxy(self)
        function = lambda *inputs: flow._euler(*inputs)  # graphs live in buffers of this flow's own pool
        if seen is not None and isinstance(seen.store, PooledMemory):
            return seen.store.solve(function, noise, mu, voice, condition, seen.keep)
        if self.pool is not None and seen is None and not blocks:
            size = whole_size(noise.shape[-1], block)
            if size:
                self._captured.add(size)
                return solve_whole(function, self.pool, block, noise, mu, voice, condition)
        past = MEL_PER_TOKEN * seen.past if seen else 0
        mask = attention_mask(mu.shape[-1], block if blocks else None, mu.device, past)
        return self._euler(noise, mu, voice, condition, mask, lambda step: seen and seen.at(MEL_PER_TOKEN, step))

    def _euler(
        self,
        noise: Tensor,
        mu: Tensor,
        voice: Tensor,
        condition: Tensor,
        mask: Tensor | None,
        memory: Callable[[int], Memory | StaticMemory | None],
    ) -> Tensor:
        """noise, mu, condition: [1, mels, M]; voice: [1, mels]; memory: at an Euler step -> mel [1, mels, M]."""
        guidance = self.config.guidance
        # with and without everything that says what to speak, in one batch of two
        mu, voice, condition = (torch.cat((y, torch.zeros_like(y))) for y in (mu, voice, condition))

        def velocity(x: Tensor, t: Tensor, step: int) -> Tensor:
            both = self.decoder.estimator(x.expand(2, -1, -1), mu, t.expand(2), voice, condition, mask, memory(step))
            conditional, unconditional = both.chunk(2)
            return (1 + guidance) * conditional - guidance * unconditional

        with matrices_in_tf32(self.tf32):
            return solve(velocity, noise, self.config.steps)


class ConformerFlow(Flow):
    """Version 2."""

    def __init__(self, config: ConformerFlowConfig) -> None:
        super().__init__(config, UNet(config))
        self.encoder = ConformerEncoder(config)
        self.encoder_proj = nn.Linear(config.token_width, config.mels)

    def _mu(self, x: Tensor, ahead: Tensor | None, blocks: bool, memory: Memory | None, known: int) -> Tensor:
        return self.encoder_proj(self.encoder(x, ahead, blocks, memory, known)).transpose(1, 2)


class DiTFlow(Flow):
    """Version 3. Its encoder has no attention, hence no blocks."""

    def __init__(self, config: DiTFlowConfig) -> None:
        super().__init__(config, DiT(config))
        self.pre_lookahead_layer = Lookahead(config.token_width, config.lookahead_channels, config.lookahead)

    def _mu(self, x: Tensor, ahead: Tensor | None, blocks: bool, memory: Memory | None, known: int) -> Tensor:
        mu = self.pre_lookahead_layer(x, ahead)[:, known:]
        return mu.repeat_interleave(MEL_PER_TOKEN, dim=1).transpose(1, 2)


def build_flow(config: FlowConfig) -> Flow:
    return ConformerFlow(config) if isinstance(config, ConformerFlowConfig) else DiTFlow(config)


def solve(velocity: Callable[[Tensor, Tensor, int], Tensor], noise: Tensor, steps: int) -> Tensor:
    """Euler steps from noise to data on the cosine schedule t = 1 - cos(pi s / 2), s even in 0..1. velocity: of x at
    time t [1], in which step."""
    times = 1 - torch.cos(torch.linspace(0, 1, steps + 1, device=noise.device) * (0.5 * math.pi))
    x = noise
    for step, (start, end) in enumerate(zip(times[:-1], times[1:])):
        x = x + (end - start) * velocity(x, start[None], step)
    return x


def flow_noise() -> Tensor:
    """The constant the released models start every mel from: seed 0, not stored with the weights. [1, mels, 15000]."""
    return torch.randn(1, 80, NOISE_FRAMES, generator=torch.Generator().manual_seed(0))
