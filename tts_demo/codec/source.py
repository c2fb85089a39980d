"""The two sources of the decoder: harmonics of the vocal folds, and the noise of breath.

A frame of 20 ms cannot know the phase that earlier frames have led to, and a network that must guess it makes speech
hoarse. So the decoder reads a pitch off its latent, the phase is the running sum of that pitch, and its harmonics and a
noise are given to the inverse STFT to be shaped (X. Wang and others, "Neural source-filter waveform models", 2019,
section II).

A *tone* is [B, F, 3]: turns that the frame adds, pitch in Hz, voicing from 0 to 1. ``run`` makes it [B, F, 4]: turns
since the start at the frame's first sample, pitch, voicing, and the frame's number, by which it finds its noise.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import ShiftedConv

LOWEST, HIGHEST = 50.0, 500.0  # Hz
TOP = 7600.0  # Hz, of the highest harmonic
HISS = 512  # frames until the noise repeats, 10 s


class Tone(nn.Module):
    """latent [B, F, latent] -> tone [B, F, 3] before ``run``; ``left`` and ``right`` frames bound what a frame depends
    on."""

    def __init__(self, latent: int, hop: int, sample_rate: int, width: int = 128) -> None:
        super().__init__()
        self.seconds = hop / sample_rate
        self.layers = nn.ModuleList([ShiftedConv(latent, width, 7, right=1), ShiftedConv(width, width, 7, right=1)])
        self.out = nn.Linear(width, 2)
        nn.init.constant_(self.out.bias, 0.0)
        self.left = sum(layer.left for layer in self.layers) + 1  # one more for the mean over neighbours
        self.right = sum(layer.right for layer in self.layers) + 1

    def guess(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """-> pitch as its place between LOWEST and HIGHEST on a logarithmic scale, 0 to 1, and the logit of voicing,
        [B, F]."""
        x = latent.transpose(1, 2)
        for layer in self.layers:
            x = F.gelu(layer(x))
        place, voicing = self.out(x.transpose(1, 2)).float().unbind(-1)
        return place.sigmoid(), voicing

    def forward(self, latent: Tensor) -> Tensor:
        place, voicing = self.guess(latent)
        return self.of(LOWEST * (HIGHEST / LOWEST) ** place, voicing.sigmoid())

    def of(self, hertz: Tensor, voicing: Tensor) -> Tensor:
        """Pitch and voicing [B, F] -> tone [B, F, 3] before ``run``; pitch is linear between the middles of frames."""
        near = _neighbours(hertz)
        turns = self.seconds * (near * near.new_tensor([1, 6, 1]) / 8).sum(-1)
        return torch.stack([turns, hertz, voicing], -1)


def run(tone: Tensor, turns: Tensor | float = 0.0, number: Tensor | int = 0) -> Tensor:
    """From what each frame adds to what it starts from: tone [..., F, n], its three columns the last of n, to
    [..., F, n + 1]. ``turns`` and ``number`` are those of the first frame."""
    added = tone[..., -3].double()
    before = (added.cumsum(-1) - added + turns).remainder(1.0)
    numbers = (torch.arange(tone.shape[-2], device=tone.device) + number) % HISS
    columns = [before[..., None].to(tone.dtype), tone[..., -2:], numbers.expand(before.shape)[..., None].to(tone.dtype)]
    return torch.cat([tone[..., :-3], *columns], -1)


def harmonics(tone: Tensor, hop: int, sample_rate: int) -> Tensor:
    """tone [B, F, 4] -> samples [B, F * hop]: all harmonics below TOP, each a cosine of amplitude 1, faded by the
    voicing."""
    # the closed form divides by what is nearly 0
    tau = torch.arange(hop, device=tone.device, dtype=torch.float64) / hop
    early, late = tau.clamp(max=0.5), (tau - 0.5).clamp(min=0)
    ahead = torch.stack(
        [
            early / 2 - early.square() / 2,
            early / 2 + early.square() / 2 + late - late.square() / 2,
            # [3, hop]: turns since the frame's start, per Hz of the last, this and the next frame
            late.square() / 2,
        ]
    )
    weight = torch.stack([(0.5 - tau).clamp(min=0), 1 - (tau - 0.5).abs(), (tau - 0.5).clamp(min=0)])
    start, hertz, voicing, _ = tone.double().unbind(-1)
    turns = (start[..., None] + hop / sample_rate * _neighbours(hertz) @ ahead).remainder(1.0)
    count = (TOP / hertz).floor()[..., None]
    sine = torch.sin(math.pi * turns)
    kernel = torch.sin(math.pi * (2 * count + 1) * turns) / torch.where(sine.abs() < 1e-7, 1.0, sine)
    # Dirichlet: the sum of cosines in closed form
    pulses = (torch.where(sine.abs() < 1e-7, 2 * count + 1, kernel) - 1) / 2
    return (pulses * (_neighbours(voicing) @ weight)).flatten(-2).float()


def hiss(hop: int) -> Tensor:
    """White noise of power 1, [HISS, hop], always the same: a stream must come out as the whole does."""
    return torch.randn(HISS, hop, generator=torch.Generator().manual_seed(0))


def _neighbours(x: Tensor) -> Tensor:
    """[B, F] -> [B, F, 3]: the frame before, this one, the next; at the ends the frame itself."""
    padded = torch.cat([x[..., :1], x, x[..., -1:]], -1)
    return torch.stack([padded[..., :-2], x, padded[..., 2:]], -1)
