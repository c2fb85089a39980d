"""Building blocks of the audio models: mel features, ConvNeXt blocks with a chosen look-ahead, the inverse STFT
head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn


class MelFeatures(nn.Module):
    """Log-mel frames centred on the codec's frames: samples [B, N] -> [B, F * per_frame, mels], N a multiple of hop.

    Frame t looks at the window centred on sample (t + 1/2) * step, so that feature, code and output frames line up.
    """

    def __init__(self, sample_rate: int, n_fft: int, step: int, mels: int) -> None:
        super().__init__()
        self.n_fft, self.step = n_fft, step
        bank = torchaudio.functional.melscale_fbanks(n_fft // 2 + 1, 0.0, sample_rate / 2, mels, sample_rate)
        self.register_buffer("bank", bank, persistent=False)
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        side = (self.n_fft - self.step) // 2
        padded = F.pad(samples.float(), (side, self.n_fft - self.step - side))
        frames = padded.unfold(-1, self.n_fft, self.step) * self.window
        power = torch.fft.rfft(frames).abs().square()
        return torch.log(torch.clamp(power @ self.bank, min=1e-5))


class ShiftedConv(nn.Conv1d):
    """Convolution [B, C, F] -> [B, C', F] that sees ``right`` frames of future and the rest of its kernel in the
    past."""

    def __init__(self, inputs: int, outputs: int, kernel: int, right: int | None = None, **kw) -> None:
        super().__init__(inputs, outputs, kernel, **kw)
        span = (kernel - 1) * self.dilation[0]
        self.right = span // 2 if right is None else right
        self.left = span - self.right

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (self.left, self.right)))


class DepthwiseConv(nn.Conv2d):
    """Depthwise convolution over time that keeps the [B, F, C] layout of the linear layers around it.

    Written as a channels-last 2-D convolution: on a CPU that is four times faster than Conv1d, copies included.
    """

    def __init__(self, width: int, kernel: int, right: int | None = None, dilation: int = 1) -> None:
        super().__init__(width, width, (1, kernel), groups=width, dilation=(1, dilation))
        span = (kernel - 1) * dilation
        self.right = span // 2 if right is None else right
        self.left = span - self.right

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, self.left, self.right))
        return super().forward(x.unsqueeze(1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).squeeze(1)


class ConvNeXtBlock(nn.Module):
    """[B, F, C] -> [B, F, C]: depthwise convolution over time, then a pointwise MLP, with a learned residual scale."""

    def __init__(
        self,
        width: int,
        expansion: int = 3,
        kernel: int = 7,
        right: int | None = None,
        dilation: int = 1,
        scale: float = 0.2,
    ) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv(width, kernel, right, dilation)
        self.norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, expansion * width)
        self.shrink = nn.Linear(expansion * width, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.depthwise(x))
        return x + self.scale * self.shrink(F.gelu(self.grow(h), approximate="tanh"))


class InverseSTFTHead(nn.Module):
    """[B, F, C], a voiced source and a noise -> samples [B, F * hop]: per bin the level of the noise, and how much
    louder or softer than it the voiced source is and how far turned, then windowed overlap-add (as in Vocos). A network
    that may choose the phases themselves makes a click a frame of what should be breath; noise it can only shape, in
    time too: BURSTS levels a frame, for the onsets that a window is too long for.

    Frame t is centred on the middle of its own hop, so a sample depends on at most twice ``reach`` frames on either
    side: its window reaches as far into the sources, of which the noise has levels of its own.
    """

    BURSTS = 8

    def __init__(self, width: int, n_fft: int, hop: int) -> None:
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.reach = (n_fft // 2 + hop // 2 - 1) // hop
        self.project = nn.Linear(width, n_fft // 2 + 1)  # log-magnitude of the noise
        self.shape = nn.Linear(width, n_fft + 2)  # of the voiced source: log-gain over that, and phase
        self.burst = nn.Linear(width, self.BURSTS)  # log-gain of the noise in each part of the hop
        nn.init.zeros_(self.shape.weight)
        nn.init.zeros_(self.shape.bias)
        # what a few harmonics need to be as loud as noise in all bins
        nn.init.constant_(self.shape.bias[: n_fft // 2 + 1], 1.0)
        nn.init.zeros_(self.burst.weight)
        nn.init.zeros_(self.burst.bias)
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)

    def forward(self, x: Tensor, source: Tensor, noise: Tensor) -> Tensor:
        """x [B, F, C]; source [B, F * hop], cosines of amplitude 1; noise [B, F, hop] of power 1."""
        count, side = x.shape[1], (self.n_fft - self.hop) // 2
        level = self.project(x).float()
        gain, turn = self.shape(x).float().chunk(2, dim=-1)
        bursts = torch.exp(self.burst(x).float().clamp(-4.0, 4.0))
        breath = (noise.unflatten(-1, (self.BURSTS, -1)) * bursts[..., None]).flatten(1)
        voiced = self._pieces(source) * (2 / self.window.sum())  # 1 in the bin of a cosine
        rough = self._pieces(breath) / self.window.square().sum().sqrt()  # 1 on average in every bin
        made = rough * torch.exp(level.clamp(max=6.0)) + voiced * torch.polar(
            torch.exp((level + gain).clamp(max=6.0)), turn
        )
        frames = torch.fft.irfft(made, n=self.n_fft) * self.window
        samples = self._overlap_add(frames)
        envelope = self._overlap_add(self.window.square().expand(1, count, -1))
        return (samples / envelope.clamp(min=1e-4))[:, side : side + count * self.hop]

    def _pieces(self, samples: Tensor) -> Tensor:
        """[B, F * hop] -> spectra of the windows around each frame [B, F, n_fft / 2 + 1]."""
        side = (self.n_fft - self.hop) // 2
        return torch.fft.rfft(F.pad(samples, (side, side)).unfold(-1, self.n_fft, self.hop) * self.window)

    def _overlap_add(self, frames: Tensor) -> Tensor:
        """[B, F, n_fft] -> [B, (F - 1) * hop + n_fft]."""
        length = (frames.shape[1] - 1) * self.hop + self.n_fft
        folded = F.fold(frames.transpose(1, 2), (1, length), (1, self.n_fft), stride=(1, self.hop))
        return folded[:, 0, 0]
