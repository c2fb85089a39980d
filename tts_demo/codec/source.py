"""Excitation of the waveform decoder: harmonics of the vocal folds, and noise.

A frame of 20 ms cannot know the phase that earlier frames have led to, and a network that must guess it makes speech
hoarse. So the decoder predicts F0 from its latent, the phase is the running sum of F0, and the inverse STFT shapes the
harmonics and a noise (X. Wang and others, "Neural source-filter waveform models", 2019, section II).

*Source parameters* are [B, F, 3]: cycles that the frame adds to the phase, F0 in Hz, voicing from 0 to 1.
``accumulate`` makes them [B, F, 4]: cycles since the start at the frame's first sample, F0, voicing, and the number of
the frame, which selects its noise."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import ShiftedConv

LOWEST, HIGHEST = 50.0, 500.0  # Hz, range of F0
HIGHEST_HARMONIC = 7600.0  # Hz
NOISE_FRAMES = 512  # frames until the noise repeats, 10 s


class SourcePredictor(nn.Module):
    """latent [B, F, latent] -> source parameters [B, F, 3], each of ``left`` frames of past and ``right`` of future."""

    def __init__(self, latent: int, hop: int, sample_rate: int, width: int = 128) -> None:
        super().__init__()
        self.seconds = hop / sample_rate
        self.layers = nn.ModuleList([ShiftedConv(latent, width, 7, right=1), ShiftedConv(width, width, 7, right=1)])
        self.out = nn.Linear(width, 2)
        nn.init.constant_(self.out.bias, 0.0)
        self.left = sum(layer.left for layer in self.layers) + 1  # one more for the mean over neighbours
        self.right = sum(layer.right for layer in self.layers) + 1

    def predict(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """-> F0 on a logarithmic scale from LOWEST (0) to HIGHEST (1), and the logit of voicing, [B, F] each."""
        x = latent.transpose(1, 2)
        for layer in self.layers:
            x = F.gelu(layer(x))
        height, voicing = self.out(x.transpose(1, 2)).float().unbind(-1)
        return height.sigmoid(), voicing

    def forward(self, latent: Tensor) -> Tensor:
        height, voicing = self.predict(latent)
        return self.parameters_of(LOWEST * (HIGHEST / LOWEST) ** height, voicing.sigmoid())

    def parameters_of(self, f0: Tensor, voicing: Tensor) -> Tensor:
        """F0 in Hz and voicing [B, F] -> source parameters [B, F, 3]; F0 is linear between the middles of frames."""
        near = _neighbours(f0)
        cycles = self.seconds * (near * near.new_tensor([1, 6, 1]) / 8).sum(-1)
        return torch.stack([cycles, f0, voicing], -1)


def accumulate(parameters: Tensor, cycles: Tensor | float = 0.0, number: Tensor | int = 0) -> Tensor:
    """Running phase and frame number: [..., F, n], source parameters in the last three columns, -> [..., F, n + 1].
    ``cycles`` and ``number`` are those of the first frame."""
    added = parameters[..., -3].double()
    before = (added.cumsum(-1) - added + cycles).remainder(1.0)
    numbers = (torch.arange(parameters.shape[-2], device=parameters.device) + number) % NOISE_FRAMES
    as_columns = lambda x: x.expand(before.shape)[..., None].to(parameters.dtype)
    return torch.cat([parameters[..., :-3], as_columns(before), parameters[..., -2:], as_columns(numbers)], -1)


def harmonics(source: Tensor, hop: int, sample_rate: int) -> Tensor:
    """source [B, F, 4] -> samples [B, F * hop]: cosines of amplitude 1 up to HIGHEST_HARMONIC, faded by the voicing."""
    # double: the closed form below divides by what is nearly 0
    tau = torch.arange(hop, device=source.device, dtype=torch.float64) / hop
    early, late = tau.clamp(max=0.5), (tau - 0.5).clamp(min=0)
    ahead = torch.stack(  # [3, hop]: cycles since the frame's start, per Hz of the last, this and the next frame
        [early / 2 - early.square() / 2, early / 2 + early.square() / 2 + late - late.square() / 2, late.square() / 2]
    )
    weight = torch.stack([(0.5 - tau).clamp(min=0), 1 - (tau - 0.5).abs(), (tau - 0.5).clamp(min=0)])
    start, f0, voicing, _ = source.double().unbind(-1)
    cycles = (start[..., None] + hop / sample_rate * _neighbours(f0) @ ahead).remainder(1.0)
    count = (HIGHEST_HARMONIC / f0).floor()[..., None]
    sine = torch.sin(math.pi * cycles)
    singular = sine.abs() < 1e-7
    kernel = torch.sin(math.pi * (2 * count + 1) * cycles) / torch.where(singular, 1.0, sine)
    # Dirichlet kernel: the sum of cosines in closed form
    pulses = (torch.where(singular, 2 * count + 1, kernel) - 1) / 2
    return (pulses * (_neighbours(voicing) @ weight)).flatten(-2).float()


def white_noise(hop: int) -> Tensor:
    """White noise of power 1, [NOISE_FRAMES, hop], always the same: a stream must equal the whole utterance."""
    return torch.randn(NOISE_FRAMES, hop, generator=torch.Generator().manual_seed(0))


def _neighbours(x: Tensor) -> Tensor:
    """[B, F] -> [B, F, 3]: the frame before, this one, the next; at the ends the frame itself."""
    padded = torch.cat([x[..., :1], x, x[..., -1:]], -1)
    return torch.stack([padded[..., :-2], x, padded[..., 2:]], -1)
