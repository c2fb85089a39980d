"""The vocoder's excitation: harmonics of the pitch plus noise, made frame by frame so that a stream can carry on.

The released code interpolates at the sample rate, sums phases in float32 and draws noise for the longest utterance it
can think of (288 MB for version 3). Here phases are summed per frame in float64 and noise is drawn as it is needed,
from a generator that stands where theirs stood, which gives the same samples.
"""

import functools
import math

import torch
from torch import Tensor

from .configs import HiftConfig


def harmonic_cycles(f0: Tensor, config: HiftConfig) -> Tensor:
    """Phase of every harmonic after each frame, in cycles per sample summed over frames. [M] Hz -> [M, harmonics].

    Multiplied by the samples of a frame this is the phase in cycles; the integer parts are dropped per frame as
    released (they do not matter after the multiplication by a whole number of samples).
    """
    orders = torch.arange(1, config.harmonics + 1, device=f0.device, dtype=torch.float32)
    return ((f0.float()[:, None] * orders / config.sample_rate) % 1).double().cumsum(0)


def sines(cycles: Tensor, before: Tensor, after: Tensor, config: HiftConfig) -> Tensor:
    """Harmonics of M frames. cycles: [M, harmonics]; before, after: the neighbouring frames' [1, harmonics].

    -> [M * frame, harmonics] float32, at ``sine_amplitude``. Version 2 interpolates phases linearly between frame
    centres; version 3 holds them over the frame, as released.
    """
    frame = config.frame
    if config.causal:
        phases = cycles.repeat_interleave(frame, dim=0)
    else:
        line = torch.cat((before, cycles, after))  # [M + 2, harmonics]
        place = (torch.arange(len(cycles) * frame, device=cycles.device, dtype=torch.float64) + 0.5) / frame + 0.5
        left = place.floor().long()
        share = (place - left)[:, None]
        phases = line[left] * (1 - share) + line[left + 1] * share
    return ((phases * frame % 1) * (2 * math.pi)).sin().float() * config.sine_amplitude


def excitation(sine: Tensor, f0: Tensor, noise: Tensor, config: HiftConfig) -> Tensor:
    """Harmonics where the frame is voiced, noise everywhere (louder where it is not).

    sine, noise: [M * frame, harmonics]; f0: [M] Hz -> [M * frame, harmonics].
    """
    voiced = (f0 > config.voiced_above).float().repeat_interleave(config.frame)[:, None]
    loudness = voiced * config.noise_std + (1 - voiced) * config.sine_amplitude / 3
    return sine * voiced + noise * loudness


class NoiseSource:
    """Noise for one utterance, in order, independent of how many frames are asked for at a time.

    Version 2 drew Gaussian noise anew on every call: here it comes from a seed. Version 3 starts every utterance at
    the same point of one uniform sequence; ``state`` is the generator's state at that point.
    """

    def __init__(self, config: HiftConfig, state: Tensor) -> None:
        self._config = config
        self._generator = torch.Generator()
        self._generator.set_state(state)

    def frames(self, count: int) -> Tensor:
        """[count * frame, harmonics] on the CPU."""
        config = self._config
        if config.causal:  # uniform draws are made one by one, so a long draw equals many short ones
            return torch.rand(count * config.frame, config.harmonics, generator=self._generator)
        drawn = [torch.randn(config.frame, config.harmonics, generator=self._generator) for _ in range(count)]
        return torch.cat(drawn) if drawn else torch.empty(0, config.harmonics)


@functools.cache
def released_noise_state(causal: bool, harmonics: int) -> Tensor:
    """State of the generator that ``NoiseSource`` starts from.

    Version 3's noise follows, in one random sequence, the flow's noise table and the initial weights of the modules
    that are built between the two; only how much each of them draws matters, so the draws are made and dropped.
    """
    generator = torch.Generator().manual_seed(0)
    if causal:
        torch.randn(1, 80, 15_000, generator=generator)
        torch.empty(6561, 80).normal_(generator=generator)  # token embedding
        for inputs, outputs, kernel in ((192, 80, 1), (80, 512, 4), *[(512, 512, 3)] * 4, (512, 1, 1)):
            torch.rand(outputs, inputs, kernel, generator=generator)  # speaker layer, pitch network
            torch.rand(outputs, generator=generator)
        torch.rand(1, harmonics, generator=generator)  # initial phases, which the interpolation never reads
    return generator.get_state()
