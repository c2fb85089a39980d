"""Discriminators that tell recorded speech from decoded: what makes a decoder choose one voice instead of the mean of
all.

Of waveforms there are two families, small enough for a CPU and made wider on a GPU: one folds the waveform by a period
and hears pitch pulses (HiFi-GAN, J. Kong and others, 2020, section 2.3), one reads complex spectrograms at a resolution
(as in Vocos). A third reads the codec's latents, of which the refiner makes what the decoder speaks: a hundredth of a
waveform's numbers. Losses are least squares with feature matching (HiFi-GAN, section 2.4).
"""

from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.parametrizations import weight_norm

from ..config import HOP
from .settings import Count, Settings, Weight
from .task import Loss

PERIODS, RESOLUTIONS = (2, 3, 5, 7), (512, 1024)  # samples; n_fft (hop = n_fft / 4)
LIGHT = (256, 512, 1024)  # n_fft of the light set
STRIDES = (1, 4)  # frames
WIDTHS, WIDTH = (16, 64, 128), 16  # channels of the layers of a period, and of the first of a resolution


class PeriodDiscriminator(nn.Module):
    """samples [B, N] -> maps of every layer, the last of them the verdict."""

    def __init__(self, period: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.period = period
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(*channels, (5, 1), (3, 1), padding=(2, 0))) for channels in pairwise((1, *widths))
        )
        self.out = weight_norm(nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, samples: Tensor) -> list[Tensor]:
        whole = samples[:, : samples.shape[1] // self.period * self.period]
        return _maps(self, whole.reshape(len(whole), 1, -1, self.period))


class SpectrumDiscriminator(nn.Module):
    """samples [B, N] -> maps of every layer over real and imaginary parts, magnitudes compressed."""

    def __init__(self, n_fft: int, width: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        twice = 2 * width
        shapes = [(2, width, 9, 2), (width, twice, 9, 4), (twice, twice, 9, 4), (twice, twice, 3, 1)]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(i, o, (3, kernel), (1, stride), padding=(1, kernel // 2)))
            for i, o, kernel, stride in shapes
        )
        self.out = weight_norm(nn.Conv2d(2 * width, 1, (3, 3), padding=(1, 1)))

    def forward(self, samples: Tensor) -> list[Tensor]:
        spectrum = torch.stft(samples, self.n_fft, self.n_fft // 4, window=self.window, return_complex=True)
        size = (spectrum.real.square() + spectrum.imag.square() + 1e-6).pow(-0.35)  # magnitude to the power of 0.3
        x = torch.stack([spectrum.real * size, spectrum.imag * size], 1).transpose(2, 3)
        return _maps(self, x.contiguous(memory_format=torch.channels_last))  # twice as fast on a CPU


class LatentDiscriminator(nn.Module):
    """Latents and what is known of them, [B, F, C] -> maps of every layer; every ``stride`` frames are one after the
    first layer."""

    def __init__(self, inputs: int, stride: int) -> None:
        super().__init__()
        width = 192
        shapes = [(inputs, 2 * stride + 1, stride), (width, 5, 1), (width, 5, 1)]
        conv = lambda inputs, kernel, step: nn.Conv1d(inputs, width, kernel, step, padding=kernel // 2)
        self.layers = nn.ModuleList(weight_norm(conv(*shape)) for shape in shapes)
        self.out = weight_norm(nn.Conv1d(width, 1, 3, padding=1))

    def forward(self, x: Tensor) -> list[Tensor]:
        return _maps(self, x.transpose(1, 2))


def _maps(part: nn.Module, x: Tensor) -> list[Tensor]:
    found = []
    for layer in part.layers:
        x = F.leaky_relu(layer(x), 0.1)
        found.append(x)
    return [*found, part.out(x)]


class Discriminators(nn.Module):
    """Several of them, which look at the same thing."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> list[list[Tensor]]:
        """x [B, ...] -> maps of every layer of every discriminator."""
        return [part(x.float()) for part in self.parts]

    def losses(self, made: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """made, real [B, ...] -> what the discriminators must lower, what the decoder must lower, and the distance of
        the maps of both, each []. The first has no gradient to ``made``, the others none to the discriminators, so one
        backward pass trains both sides."""
        of_real = self(real)
        discriminator_loss = [1 - maps[-1] for maps in of_real] + [maps[-1] for maps in self(made.detach())]
        frozen = {name: weight.detach() for name, weight in self.named_parameters()}
        of_made = functional_call(self, frozen, (made,))
        generator_loss = [1 - maps[-1] for maps in of_made]
        feature_matching = [
            (a - b.detach()).abs().mean() / b.detach().abs().mean().clamp(min=1e-3)
            for maps, others in zip(of_made, of_real)
            for a, b in zip(maps[:-1], others[:-1])
        ]
        count = len(self.parts)
        return (
            sum(x.float().square().mean() for x in discriminator_loss) / count,
            sum(x.float().square().mean() for x in generator_loss) / count,
            sum(feature_matching) / len(feature_matching),
        )

    def adversarial(self, made: Tensor, real: Tensor, weight: float, frames: int | None = None) -> Loss:
        """What they add to the loss of what makes ``made``, whose own part has this ``weight``, and the parts. frames:
        of waveforms [B, N] they look at a random stretch of so many; None: at everything."""
        if frames is not None:
            start = int(torch.randint(made.shape[1] // HOP - frames + 1, ())) * HOP
            made, real = (x[:, start : start + frames * HOP] for x in (made, real))
        own, generator, matching = self.losses(made, real)
        parts = {"discriminator": own.item(), "generator": generator.item(), "matching": matching.item()}
        return own + weight * (generator + 2 * matching), parts


class WaveformJudges(Settings):
    """Settings of recipes that train against discriminators of waveforms."""

    adversarial: Weight = Field(0.0, description="weight of the discriminators; 0 trains without")
    wider: Count = Field(1, description="times as many channels in every discriminator")
    judges: Literal["full", "light"] = Field("full", description="light: those of spectrograms alone, for a CPU")
    judges_rate: float = Field(1.0, gt=0, description="learning rate of the discriminators over the decoder's")


def of_waveforms(wider: int = 1, light: bool = False) -> Discriminators:
    """wider: how many times the channels of every layer. light: spectrograms alone, at three resolutions and half the
    channels, which is what a CPU can afford."""
    widths = tuple(wider * width for width in WIDTHS)
    periods = [] if light else [PeriodDiscriminator(p, widths) for p in PERIODS]
    resolutions, width = (LIGHT, wider * WIDTH // 2) if light else (RESOLUTIONS, wider * WIDTH)
    return Discriminators(*periods, *(SpectrumDiscriminator(n, width) for n in resolutions))


def of_latents(inputs: int) -> Discriminators:
    """inputs: numbers a frame, of the latent and of what is known beside it."""
    return Discriminators(*(LatentDiscriminator(inputs, stride) for stride in STRIDES))
