"""The voiced source of the decoder: how fast the vocal folds swing, and the harmonics that follow from it.

A frame of 20 ms cannot know the phase that earlier frames have led to, and a network that must guess it makes speech
hoarse. So the decoder reads a pitch off its latent, the phase is the running sum of that pitch, and its harmonics are
given to the inverse STFT to be shaped (X. Wang and others, "Neural source-filter waveform models", 2019, section II).

A *tone* is [B, F, 3]: turns since the start at the frame's first sample, pitch in Hz, voicing from 0 to 1. Before
``run`` its first column holds the turns of that frame alone.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import ShiftedConv

LOWEST, HIGHEST = 50.0, 500.0  # Hz
TOP = 7600.0  # Hz, of the highest harmonic


class Tone(nn.Module):
    """latent [B, F, latent] -> tone [B, F, 3] before ``run``; ``left`` and ``right`` frames bound what a frame depends on."""

    def __init__(self, latent: int, hop: int, sample_rate: int, width: int = 128) -> None:
        super().__init__()
        self.seconds = hop / sample_rate
        self.layers = nn.ModuleList([ShiftedConv(latent, width, 7, right=1), ShiftedConv(width, width, 7, right=1)])
        self.out = nn.Linear(width, 2)
        nn.init.constant_(self.out.bias, 0.0)
        self.left = sum(layer.left for layer in self.layers) + 1  # one more for the mean over neighbours
        self.right = sum(layer.right for layer in self.layers) + 1

    def guess(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """-> pitch as its place between LOWEST and HIGHEST on a logarithmic scale, 0 to 1, and the logit of voicing, [B, F]."""
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


def run(tone: Tensor, start: Tensor | float = 0.0) -> Tensor:
    """Replace the turns of each frame by those of all frames before it, from ``start`` on. tone [..., F, n], its three
    columns the last of n."""
    turns = tone[..., -3].double()
    before = (turns.cumsum(-1) - turns + start).remainder(1.0)
    return torch.cat([tone[..., :-3], before[..., None].to(tone.dtype), tone[..., -2:]], -1)


def harmonics(tone: Tensor, hop: int, sample_rate: int) -> Tensor:
    """tone [B, F, 3] after ``run`` -> samples [B, F * hop]: all harmonics below TOP, each a cosine of amplitude 1, faded by
    the voicing."""
    tau = torch.arange(hop, device=tone.device, dtype=torch.float64) / hop  # the closed form divides by what is nearly 0
    early, late = tau.clamp(max=0.5), (tau - 0.5).clamp(min=0)
    ahead = torch.stack([early / 2 - early.square() / 2, early / 2 + early.square() / 2 + late - late.square() / 2,
                         late.square() / 2])  # [3, hop]: turns since the frame's start, per Hz of the last, this and the next frame
    weight = torch.stack([(0.5 - tau).clamp(min=0), 1 - (tau - 0.5).abs(), (tau - 0.5).clamp(min=0)])
    start, hertz, voicing = tone.double().unbind(-1)
    turns = (start[..., None] + hop / sample_rate * _neighbours(hertz) @ ahead).remainder(1.0)
    count = (TOP / hertz).floor()[..., None]
    sine = torch.sin(math.pi * turns)
    kernel = torch.sin(math.pi * (2 * count + 1) * turns) / torch.where(sine.abs() < 1e-7, 1.0, sine)
    pulses = (torch.where(sine.abs() < 1e-7, 2 * count + 1, kernel) - 1) / 2  # Dirichlet: the sum of cosines in closed form
    return (pulses * (_neighbours(voicing) @ weight)).flatten(-2).float()


def _neighbours(x: Tensor) -> Tensor:
    """[B, F] -> [B, F, 3]: the frame before, this one, the next; at the ends the frame itself."""
    padded = torch.cat([x[..., :1], x, x[..., -1:]], -1)
    return torch.stack([padded[..., :-2], x, padded[..., 2:]], -1)
