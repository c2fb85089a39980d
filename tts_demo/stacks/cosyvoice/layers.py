"""Small layers that both flows and both vocoders share. Knows no model sizes."""

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .memory import Memory


class PaddedConv1d(nn.Conv1d):
    """A convolution whose zero padding is chosen per side: ``left`` and ``right`` frames. [B, C, T] -> [B, C', T'].
    With a memory, the frames before x are those of the last pass."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, left: int = 0, right: int = 0, **kw: int) -> None:
        super().__init__(inputs, outputs, kernel, **kw)
        self.sides = (left, right)

    def forward(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        if memory is None:
            return super().forward(F.pad(x, self.sides))
        return super().forward(memory.joined(self, x, self.sides[0]))


class RepeatConv1d(PaddedConv1d):
    """Nearest-neighbour up-sampling by ``rate``, then a convolution that sees only the past."""

    def __init__(self, inputs: int, outputs: int, kernel: int, rate: int) -> None:
        super().__init__(inputs, outputs, kernel, left=kernel - 1)
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.repeat_interleave(self.rate, dim=-1))


def chain(**layers: nn.Module) -> nn.Sequential:
    """Layers one after the other, each under the key of its released weights."""
    return nn.Sequential(OrderedDict(layers))


def rotate_pairs(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate the leading channels of the flat projection in float32, pass the others. x: [B, M, C]; angles: [M,
    channels]."""
    head, rest = x[..., : cosines.shape[-1]], x[..., cosines.shape[-1] :]
    even, odd = head[..., 0::2], head[..., 1::2]
    turned = torch.stack((-odd, even), dim=-1).flatten(-2)
    return torch.cat(((head * cosines + turned * sines).to(x.dtype), rest), dim=-1)


class MemoryAttention(nn.Module):
    """In two parts, between which a memory may put keys and values of earlier frames. Key ``to_out.0``."""

    def __init__(self, width: int, heads: int, inner: int, bias: bool) -> None:
        """inner: width of all heads; bias: of queries, keys and values."""
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, inner, bias) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(inner, width)])

    def project(self, x: Tensor, angles: tuple[Tensor, Tensor] | None = None) -> list[Tensor]:
        """x [B, M, C] -> queries, keys and values [B, A, M, D]; angles: see ``rotate_pairs``."""
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        if angles is not None:
            q, k = rotate_pairs(q, *angles), rotate_pairs(k, *angles)
        return [y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v)]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """-> [B, M, C]."""
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out[0](y.transpose(1, 2).flatten(2))


def time_features(t: Tensor, width: int, scale: float = 1000.0) -> Tensor:
    """Sinusoids of the flow's time. [B] -> [B, width], sines then cosines."""
    half = width // 2
    steps = torch.arange(half, device=t.device, dtype=torch.float32)
    angles = scale * t.float()[:, None] * torch.exp(steps * (-math.log(10_000) / (half - 1)))
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def block_mask(length: int, block: int, device: torch.device | str = "cpu", past: int = 0) -> Tensor:
    """True where a position may attend: its own block of ``block`` positions, counted from the first, and everything
    before it. [length, past + length] bool, of the positions behind the first ``past``."""
    blocks = torch.arange(past + length, device=device) // block
    return blocks[past:, None] >= blocks[None, :]


def attention_mask(length: int, block: int | None, device: torch.device | str = "cpu", past: int = 0) -> Tensor | None:
    """``block_mask``, or None where it hides nothing: without blocks, and inside one block."""
    if block is None or length <= block - past % block:
        return None
    return block_mask(length, block, device, past)


class Lookahead(nn.Module):
    """Mixes a few tokens of the future into each token, with a residual. Keys ``conv1`` and ``conv2``."""

    REACH = 2  # tokens of the past that it sees

    def __init__(self, width: int, channels: int, lookahead: int) -> None:
        super().__init__()
        self.lookahead = lookahead
        self.conv1 = nn.Conv1d(width, channels, lookahead + 1)
        self.conv2 = PaddedConv1d(channels, width, 1 + self.REACH, left=self.REACH)

    def forward(self, x: Tensor, future: Tensor | None = None) -> Tensor:
        """x: [B, T, C]; future: [B, lookahead, C] that follows x, or None at the end of speech (zeros)."""
        if future is None:
            future = x.new_zeros(x.shape[0], self.lookahead, x.shape[2])
        y = torch.cat((x, future), dim=1).transpose(1, 2)
        y = self.conv2(F.leaky_relu(self.conv1(y)))
        return x + y.transpose(1, 2)
