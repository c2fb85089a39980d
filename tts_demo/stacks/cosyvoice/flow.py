"""Speech tokens -> mel by conditional flow matching, the part that versions 2 and 3 share.

An encoder (conformer or look-ahead convolution) turns tokens into a rough mel ``mu``; an estimator (U-Net or diffusion
Transformer) gives the velocity that carries noise to the mel in ten Euler steps (Lipman et al. 2022, with
classifier-free guidance). Knows nothing of streams: ``first_block`` only chooses the attention mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configs import MEL_PER_TOKEN, ConformerFlowConfig, DiTFlowConfig, FlowConfig
from .conformer import ConformerEncoder
from .dit import DiT
from .layers import Lookahead, block_mask
from .unet import UNet

NOISE_FRAMES = 15_000  # length of the released noise table, 300 s


class _Decoder(nn.Module):
    """Holds the velocity field under the key ``decoder.estimator``."""

    def __init__(self, estimator: nn.Module) -> None:
        super().__init__()
        self.estimator = estimator


class Flow(nn.Module):
    """Base of both versions. A subclass says how tokens become ``mu`` and which network gives the velocity."""

    def __init__(self, config: FlowConfig, estimator: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.input_embedding = nn.Embedding(config.tokens, config.token_width)
        self.spk_embed_affine_layer = nn.Linear(config.speaker, config.mels)
        self.decoder = _Decoder(estimator)

    @property
    def dtype(self) -> torch.dtype:
        return self.spk_embed_affine_layer.weight.dtype

    def encode(self, tokens: Tensor, future: Tensor | None = None, first_block: int | None = None) -> Tensor:
        """tokens: [1, F]; future: the next ``lookahead`` tokens [1, lookahead], None at the end. -> mu [1, mels,
        2F]."""
        raise NotImplementedError

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        speaker: Tensor,
        prompt_mel: Tensor,
        noise: Tensor,
        future: Tensor | None = None,
        first_block: int | None = None,
    ) -> Tensor:
        """The mel of all tokens, those of the prompt included.

        tokens: [1, F]; speaker: [1, speaker]; prompt_mel: [1, mels, <= 2F], what the mel begins with; noise:
        [1, mels, 2F]; future: see ``encode``; first_block: tokens of the first attention block, None for attention
        to everything. -> [1, mels, 2F] float32.
        """
        mu = self.encode(tokens, future, first_block)
        voice = self.spk_embed_affine_layer(F.normalize(speaker.to(self.dtype), dim=1))
        condition = torch.zeros_like(mu)
        condition[:, :, : prompt_mel.shape[-1]] = prompt_mel
        mask = None
        if first_block is not None:
            block = MEL_PER_TOKEN * self.config.block_tokens
            mask = block_mask(mu.shape[-1], block, MEL_PER_TOKEN * first_block, mu.device)

        def velocity(x: Tensor, t: Tensor) -> Tensor:
            return self._guided(x.to(self.dtype), mu, t, voice, condition, mask).float()

        return solve(velocity, noise.float(), self.config.steps)

    def _guided(
        self, x: Tensor, mu: Tensor, t: Tensor, voice: Tensor, condition: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Velocity with guidance: with and without everything that says what to speak, in one batch of two."""

        def or_nothing(y: Tensor) -> Tensor:
            return torch.cat((y, torch.zeros_like(y)))

        both = self.decoder.estimator(
            x.expand(2, -1, -1), or_nothing(mu), t.expand(2), or_nothing(voice), or_nothing(condition), mask
        )
        told, untold = both.chunk(2)
        return (1 + self.config.guidance) * told - self.config.guidance * untold


class ConformerFlow(Flow):
    """Version 2."""

    def __init__(self, config: ConformerFlowConfig) -> None:
        super().__init__(config, UNet(config))
        self.encoder = ConformerEncoder(config)
        self.encoder_proj = nn.Linear(config.token_width, config.mels)

    def encode(self, tokens: Tensor, future: Tensor | None = None, first_block: int | None = None) -> Tensor:
        ahead = None if future is None else self.input_embedding(future)
        return self.encoder_proj(self.encoder(self.input_embedding(tokens), ahead, first_block)).transpose(1, 2)


class DiTFlow(Flow):
    """Version 3. Its encoder has no attention, hence no blocks."""

    def __init__(self, config: DiTFlowConfig) -> None:
        super().__init__(config, DiT(config))
        self.pre_lookahead_layer = Lookahead(config.token_width, config.lookahead_channels, config.lookahead)

    def encode(self, tokens: Tensor, future: Tensor | None = None, first_block: int | None = None) -> Tensor:
        ahead = None if future is None else self.input_embedding(future)
        mu = self.pre_lookahead_layer(self.input_embedding(tokens), ahead)
        return mu.repeat_interleave(MEL_PER_TOKEN, dim=1).transpose(1, 2)


def build_flow(config: FlowConfig) -> Flow:
    return ConformerFlow(config) if isinstance(config, ConformerFlowConfig) else DiTFlow(config)


def solve(velocity: Callable[[Tensor, Tensor], Tensor], noise: Tensor, steps: int) -> Tensor:
    """Euler steps from noise to data on the cosine schedule t = 1 - cos(pi s / 2), s even in 0..1."""
    times = 1 - torch.cos(torch.linspace(0, 1, steps + 1, device=noise.device) * (0.5 * math.pi))
    x = noise
    for start, end in zip(times[:-1], times[1:]):
        x = x + (end - start) * velocity(x, start[None])
    return x


def flow_noise() -> Tensor:
    """The constant the released models start every mel from: seed 0, not stored with the weights. [1, mels, 15000]."""
    return torch.randn(1, 80, NOISE_FRAMES, generator=torch.Generator().manual_seed(0))
