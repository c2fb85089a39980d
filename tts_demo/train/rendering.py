"""What the audio recipes render with the waveform decoder: the recording's own source, and two noises to compare."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..codec.decoder import WaveformDecoder
from ..codec.source import HIGHEST, LOWEST, NOISE_FRAMES, SourcePredictor, accumulate


def recorded_source(predictor: SourcePredictor, latent: Tensor, f0: Tensor) -> tuple[Tensor, Tensor]:
    """Source parameters [B, F, 3] of the recording's F0 [B, F] (Hz, 0 = unvoiced), and the loss of the predictor that
    has to read them off the latent [B, F, latent], []. Unvoiced frames, whose F0 is not heard, keep the predicted
    one. No gradient reaches the latent."""
    height, voicing = predictor.predict(latent.detach())
    voiced = (f0 > 0).float()
    true = torch.log(f0.clamp(min=LOWEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    distance = ((height - true).abs() * voiced).sum() / voiced.sum().clamp(min=1)
    loss = 4 * distance + 0.2 * F.binary_cross_entropy_with_logits(voicing, voiced)
    known = LOWEST * (HIGHEST / LOWEST) ** torch.where(f0 > 0, true, height.detach())
    return predictor.parameters_of(known, voiced), loss


def renderings(decoder: WaveformDecoder, latent: Tensor, source: Tensor, f0: Tensor) -> tuple[Tensor, Tensor]:
    """Samples [B, F * hop] twice, with different noise where nothing is voiced, for the energy distance of spectra. In
    voiced frames the noise is the same: there the energy distance would teach that what the harmonics leave open is
    best rendered as noise, which sounds hoarse."""
    features = decoder.features(latent)
    numbers = torch.randint(NOISE_FRAMES, (2, len(latent), 1), device=latent.device)
    one, other = (accumulate(source, number=number) for number in numbers)
    other = torch.where(f0[..., None] > 0, one, other)
    return decoder.synthesise(features, one), decoder.synthesise(features, other)
