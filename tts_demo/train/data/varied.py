"""Augmentation: one recording as many speakers, rooms and microphones would have it.

On samples: rooms, noise, another voice in the background, loudness. On mel frames: pace, and spectra stretched as by a
longer or shorter vocal tract; bands and stretches of time masked (SpecAugment; D. Park and others, 2019).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ...config import SAMPLE_RATE

ROOM, BABBLE, DULL = 0.3, 0.15, 0.15  # share of the recordings in a room, with a voice behind, without high bands
DECAY = 0.15, 0.7  # seconds in which a room's echo falls by 60 dB
PACE, THROAT = 0.14, 0.13  # how far from 1 they are sampled
SECOND_DRY = 0.2  # share without any noise


def in_rooms(samples: Tensor) -> Tensor:
    """[B, N], some of them with the echo of a room: noise that decays, 3 to 18 dB below the voice itself."""
    chosen = (torch.rand(len(samples), device=samples.device) < ROOM).nonzero().flatten()
    if not len(chosen):
        return samples
    length = int(DECAY[1] * SAMPLE_RATE)
    time = torch.arange(length, device=samples.device) / SAMPLE_RATE
    decay = torch.empty(len(chosen), 1, device=samples.device).uniform_(*DECAY)
    echo = torch.randn(len(chosen), length, device=samples.device) * torch.exp(-6.9 * time / decay)
    echo[:, : SAMPLE_RATE // 400] = 0  # nothing comes back within 2.5 ms
    below = 10 ** (-torch.empty(len(chosen), 1, device=samples.device).uniform_(3, 18) / 20)
    echo = echo / echo.norm(dim=1, keepdim=True) * below
    echo[:, 0] = 1
    size = samples.shape[1] + length
    wet = torch.fft.irfft(torch.fft.rfft(samples[chosen], size) * torch.fft.rfft(echo, size), size)
    out = samples.clone()
    out[chosen] = wet[:, : samples.shape[1]]
    return out


def noisy(samples: Tensor) -> Tensor:
    """[B, N] with noise of a colour between white and brown 5 to 50 dB below, and some with the next item's voice."""
    batch, count = samples.shape
    level = samples.square().mean(1, keepdim=True).sqrt()
    tilt = torch.empty(batch, 1, device=samples.device).uniform_(0, 1)
    frequencies = torch.arange(count // 2 + 1, device=samples.device).clamp(min=count * 50 // SAMPLE_RATE + 1)
    spectrum = torch.fft.rfft(torch.randn_like(samples)) * frequencies.float() ** -tilt
    noise = torch.fft.irfft(spectrum, count)
    noise = noise / noise.square().mean(1, keepdim=True).sqrt()
    below = 10 ** (-torch.empty(batch, 1, device=samples.device).uniform_(5, 50) / 20)
    below = below * (torch.rand_like(below) >= SECOND_DRY)
    other = (samples / level.clamp(min=1e-6)).roll(1, 0).roll(count // 3, 1)
    behind = 10 ** (-torch.empty(batch, 1, device=samples.device).uniform_(12, 30) / 20)
    behind = behind * (torch.rand_like(behind) < BABBLE)
    return samples + level * (below * noise + behind * other)


def louder(samples: Tensor) -> Tensor:
    """[B, N] at levels 14 dB below to 6 dB above."""
    return samples * 10 ** (torch.empty(len(samples), 1, device=samples.device).uniform_(-14, 6) / 20)


def warp(features: Tensor, pace: Tensor, throat: Tensor, frames: int) -> Tensor:
    """[B, T, mels] -> [B, frames, mels]: item b takes ``pace[b]`` times as long, its spectra are stretched by
    ``throat[b]`` along the bands. What would come from beyond the edges is the edge."""
    batch, count, mels = features.shape
    time = (torch.arange(frames, device=features.device) + 0.5) / pace[:, None] * 2 / count - 1
    band = (torch.arange(mels, device=features.device) + 0.5) / throat[:, None] * 2 / mels - 1
    grid = torch.stack([band[:, None].expand(-1, frames, -1), time[..., None].expand(-1, -1, mels)], -1)
    return F.grid_sample(features[:, None], grid, "bilinear", "border", align_corners=False)[:, 0]


def blotted(features: Tensor) -> Tensor:
    """[B, T, mels] with two bands, three stretches of time and sometimes all high bands set to the mean, 0."""
    batch, count, mels = features.shape

    def pieces(number: int, length: int, longest: int) -> Tensor:  # [B, length]
        size, start = (torch.rand(2, batch, number, 1, device=features.device) * longest).unbind()
        start = start / longest * max(1, length - longest)
        at = torch.arange(length, device=features.device)
        return ((at >= start) & (at < start + size)).any(1)

    border = 0.6 + 0.4 * torch.rand(batch, 1, device=features.device)
    high = torch.arange(mels, device=features.device) >= mels * border
    high = high & (torch.rand(batch, 1, device=features.device) < DULL)
    bands = pieces(2, mels, 14) | high
    return features.masked_fill(bands[:, None] | pieces(3, count, 24)[..., None], 0)
