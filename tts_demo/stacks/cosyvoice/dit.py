"""Version 3's velocity field: a diffusion Transformer with adaptive normalisation.

Two things are as released and look like mistakes, but the weights were trained with them: the rotary embedding turns
only the first 64 of the 1,024 channels (head 0), and neighbouring channels form the pairs that rotate.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configs import DiTFlowConfig
from .layers import MemoryAttention, PaddedConv1d, chain, time_features
from .memory import Memory


class PositionConv(nn.Module):
    """Two grouped convolutions over the past: what tells most heads where they are."""

    def __init__(self, width: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(PaddedConv1d(width, width, kernel, left=kernel - 1, groups=groups), nn.Mish())
        self.conv2 = nn.Sequential(PaddedConv1d(width, width, kernel, left=kernel - 1, groups=groups), nn.Mish())

    def forward(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        x = x.transpose(1, 2)
        for conv, activation in (self.conv1, self.conv2):
            x = activation(conv(x, memory))
        return x.transpose(1, 2)


class InputEmbedding(nn.Module):
    """Inputs are stacked in the order [x, condition, mu, speaker], unlike version 2."""

    def __init__(self, config: DiTFlowConfig) -> None:
        super().__init__()
        self.proj = nn.Linear(4 * config.mels, config.width)
        self.conv_pos_embed = PositionConv(config.width, config.position_kernel, config.position_groups)

    def forward(
        self, x: Tensor, condition: Tensor, mu: Tensor, speaker: Tensor, memory: Memory | None = None
    ) -> Tensor:
        stacked = torch.cat((x, condition, mu, speaker[:, :, None].expand_as(x)), dim=1)
        x = self.proj(stacked.transpose(1, 2))
        return x + self.conv_pos_embed(x, memory)


class Rotary(nn.Module):
    """Key ``inv_freq``: stored with the weights, and worked out anew, so that no cast of the module can round it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.register_buffer("inv_freq", self._rates("cpu"))

    def _rates(self, device: torch.device | str) -> Tensor:
        return 10_000 ** (-torch.arange(0, self.channels, 2, device=device).float() / self.channels)

    def forward(self, length: int, past: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Cosines and sines in float32, each channel pair's angle twice, behind the first ``past`` positions. 2 x
        [length, channels]."""
        device = self.inv_freq.device
        positions = (torch.arange(length, device=device) + past).float()
        angles = (positions[:, None] * self._rates(device)).repeat_interleave(2, dim=-1)
        return angles.cos(), angles.sin()


class Modulation(nn.Module):
    """``parts`` vectors per channel from the time embedding. Key ``linear``."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = nn.Linear(width, parts * width)

    def forward(self, time: Tensor) -> tuple[Tensor, ...]:
        return self.linear(F.silu(time))[:, None].chunk(self.parts, dim=-1)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


class DiTBlock(nn.Module):
    def __init__(self, config: DiTFlowConfig) -> None:
        super().__init__()
        self.attn_norm = Modulation(config.width, 6)
        self.attn = MemoryAttention(config.width, config.heads, config.width, bias=True)
        inner = config.width * config.ffn_ratio
        widened = nn.Sequential(nn.Linear(config.width, inner), nn.GELU(approximate="tanh"))
        self.ff = chain(ff=nn.Sequential(widened, nn.Identity(), nn.Linear(inner, config.width)))

    def forward(
        self, x: Tensor, time: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor | None, memory: Memory | None = None
    ) -> Tensor:
        parts = self.attn_norm(time)
        q, k, v = self.before(x, parts, angles)
        if memory is not None:
            k, v = memory.extended(self.attn, k, v)
        return self.after(x, parts, q, k, v, mask)

    def before(self, x: Tensor, parts: tuple[Tensor, ...], angles: tuple[Tensor, Tensor]) -> list[Tensor]:
        """What comes before the memory. parts: of the modulation."""
        shift, scale, *_ = parts
        return self.attn.project(modulate(x, shift, scale), angles)

    def after(
        self, x: Tensor, parts: tuple[Tensor, ...], q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> Tensor:
        """What comes behind it."""
        _, _, gate, shift, scale, ff_gate = parts
        x = x + gate * self.attn.attend(q, k, v, mask)
        return x + ff_gate * self.ff(modulate(x, shift, scale))


class DiT(nn.Module):
    """Velocity of the mel at time t."""

    def __init__(self, config: DiTFlowConfig) -> None:
        super().__init__()
        self.times, width = config.time_width, config.width
        time_mlp = nn.Sequential(nn.Linear(self.times, width), nn.SiLU(), nn.Linear(width, width))
        self.time_embed = chain(time_mlp=time_mlp)
        self.input_embed = InputEmbedding(config)
        self.rotary_embed = Rotary(config.rotary)
        self.transformer_blocks = nn.ModuleList(DiTBlock(config) for _ in range(config.depth))
        self.norm_out = Modulation(width, 2)
        self.proj_out = nn.Linear(width, config.mels)

    def forward(
        self,
        x: Tensor,
        mu: Tensor,
        t: Tensor,
        speaker: Tensor,
        condition: Tensor,
        mask: Tensor | None = None,
        memory: Memory | None = None,
    ) -> Tensor:
        """x, mu, condition: [B, mels, M]; t: [B]; speaker: [B, mels]; mask: [M, past + M] bool or None; memory: of the
        ``past`` frames before x. -> [B, mels, M]."""
        time = self.time_embed(time_features(t, self.times).to(x.dtype))
        x = self.input_embed(x, condition, mu, speaker, memory)
        angles = self.rotary_embed(x.shape[1], 0 if memory is None else memory.past)
        for block in self.transformer_blocks:
            x = block(x, time, angles, mask, memory)
        scale, shift = self.norm_out(time)  # in this order here, the other way round in the blocks
        return self.proj_out(modulate(x, shift, scale)).transpose(1, 2)
