"""Version 2's velocity field: residual convolutions and Transformer blocks at one rate, with one skip connection.

All convolutions see only the past; attention is masked in blocks while streaming. The released network was exported
with a batch mask as well; this one always gets whole utterances, so there is none.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configs import ConformerFlowConfig
from .layers import MemoryAttention, PaddedConv1d, chain, time_features
from .memory import Memory


class CausalBlock(nn.Module):
    """Convolution, LayerNorm over channels, Mish. Keys ``block.0`` and ``block.2``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.block = nn.ModuleList([PaddedConv1d(inputs, outputs, 3, left=2), nn.Identity(), nn.LayerNorm(outputs)])

    def forward(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        conv, _, norm = self.block
        return F.mish(norm(conv(x, memory).transpose(1, 2)).transpose(1, 2))


class ResidualBlock(nn.Module):
    """Two convolutions with the time added between them. [B, C, M], [B, time] -> [B, C', M]."""

    def __init__(self, inputs: int, outputs: int, time_width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Mish(), nn.Linear(time_width, outputs))
        self.block1 = CausalBlock(inputs, outputs)
        self.block2 = CausalBlock(outputs, outputs)
        self.res_conv = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor, memory: Memory | None = None) -> Tensor:
        return self.block2(self.block1(x, memory) + self.mlp(time)[:, :, None], memory) + self.res_conv(x)


class TransformerBlock(nn.Module):
    def __init__(self, config: ConformerFlowConfig) -> None:
        super().__init__()
        width, heads = config.channels, config.unet_heads
        self.norm1 = nn.LayerNorm(width)
        self.attn1 = MemoryAttention(width, heads, heads * config.unet_head_dim, bias=False)
        self.norm3 = nn.LayerNorm(width)
        widened = chain(proj=nn.Linear(width, 4 * width), act=nn.GELU())
        self.ff = chain(net=nn.Sequential(widened, nn.Identity(), nn.Linear(4 * width, width)))

    def forward(self, x: Tensor, mask: Tensor | None, memory: Memory | None = None) -> Tensor:
        q, k, v = self.before(x)
        if memory is not None:
            k, v = memory.extended(self.attn1, k, v)
        return self.after(x, q, k, v, mask)

    def before(self, x: Tensor) -> list[Tensor]:
        """What comes before the memory."""
        return self.attn1.project(self.norm1(x))

    def after(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """What comes behind it."""
        x = x + self.attn1.attend(q, k, v, mask)
        return x + self.ff(self.norm3(x))


class UNet(nn.Module):
    """Velocity of the mel at time t. Inputs are stacked in the order [x, mu, speaker, condition]."""

    def __init__(self, config: ConformerFlowConfig) -> None:
        super().__init__()
        self.inputs = 4 * config.mels
        width, time_width = config.channels, 4 * config.channels
        self.time_mlp = chain(
            linear_1=nn.Linear(self.inputs, time_width), act=nn.SiLU(), linear_2=nn.Linear(time_width, time_width)
        )

        def level(inputs: int, closing: bool) -> nn.ModuleList:
            parts = [
                ResidualBlock(inputs, width, time_width),
                nn.ModuleList(TransformerBlock(config) for _ in range(config.transformers)),
            ]
            return nn.ModuleList(parts + [PaddedConv1d(width, width, 3, left=2)] * closing)

        self.down_blocks = nn.ModuleList([level(self.inputs, True)])
        self.mid_blocks = nn.ModuleList(level(width, False) for _ in range(config.mid_blocks))
        self.up_blocks = nn.ModuleList([level(2 * width, True)])
        self.final_block = CausalBlock(width, width)
        self.final_proj = nn.Conv1d(width, config.mels, 1)

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
        time = self.time_mlp(time_features(t, self.inputs).to(x.dtype))
        x = torch.cat((x, mu, speaker[:, :, None].expand(-1, -1, x.shape[-1]), condition), dim=1)
        (down,), (up,) = self.down_blocks, self.up_blocks
        skip = self._level(down, x, time, mask, memory)
        x = down[2](skip, memory)
        for block in self.mid_blocks:
            x = self._level(block, x, time, mask, memory)
        x = up[2](self._level(up, torch.cat((x, skip), dim=1), time, mask, memory), memory)
        return self.final_proj(self.final_block(x, memory))

    @staticmethod
    def _level(parts: nn.ModuleList, x: Tensor, time: Tensor, mask: Tensor | None, memory: Memory | None) -> Tensor:
        x = parts[0](x, time, memory).transpose(1, 2)
        for block in parts[1]:
            x = block(x, mask, memory)
        return x.transpose(1, 2)
