"""The vocoder in a stream: pushed in pieces, it gives sample for sample what one call over the whole mel gives.

Every piece re-runs the convolutions over a bounded stretch of past mel, as long as their reach; pitch, phase and
noise are carried on and never computed twice.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .configs import HiftConfig
from .hift import Hift
from .source import harmonic_cycles


def reach(config: HiftConfig) -> tuple[int, int]:
    """Mel frames of past and of future that one output frame depends on, at most.

    The longest way leads from the pitch network through the source's residual stack at the lowest rate, then through
    the mel's stack at every rate.
    """

    def stack(kernel: int) -> int:
        """Samples of one side that a centred residual block sees."""
        return sum((kernel - 1) * (d + 1) for d in config.dilations) // 2

    rates = [math.prod(config.rates[: i + 1]) for i in range(len(config.rates))]  # per mel frame
    inner = stack(config.source_res_kernels[0]) / rates[0] + sum(stack(max(config.res_kernels)) / r for r in rates)
    ups = sum(kernel / rate for kernel, rate in zip(config.kernels, rates))
    if config.causal:  # everything inner looks back twice as far; ahead: one frame for the inverse STFT's overlap
        return math.ceil(8 + 2 * inner + ups) + 2, config.f0_right + config.pre_right + 1
    # the source does not pass the first up-sampling; one frame for the phase's interpolation, one for the STFTs
    return math.ceil(5 + inner + ups) + 2, math.ceil(config.f0_right + inner + ups - config.kernels[0] / rates[0]) + 2


class HiftStream:
    """One utterance. ``push`` mel as it comes, the last of it with ``last``."""

    def __init__(self, hift: Hift) -> None:
        self._hift = hift
        self._past, self._future = reach(hift.config)
        self._noise = hift.new_noise()
        device = hift.conv_pre.weight.device
        harmonics = hift.config.harmonics
        self._mel = torch.zeros(1, hift.config.mels, 0, device=device)  # frames first.. of the utterance
        self._source = torch.zeros(1, 1, 0, device=device)  # of frames first.. as far as it is known
        self._first = 0
        self._done = 0  # frames whose samples were given out
        self._pitch = torch.zeros(0, device=device)  # [n] Hz of frames whose source is still to be made
        self._cycles = torch.zeros(0, harmonics, dtype=torch.float64, device=device)  # theirs
        self._before = torch.zeros(0, harmonics, dtype=torch.float64, device=device)  # [1] the frame before them

    @property
    def held_back(self) -> int:
        """Frames at the end of what was pushed that wait for their future."""
        return self._future

    @torch.inference_mode()
    def push(self, mel: Tensor, last: bool = False) -> Tensor:
        """mel: [1, mels, n], n >= 0 -> wave [N], N >= 0 a multiple of a frame; with ``last`` all that is left."""
        self._mel = torch.cat((self._mel, mel.float()), dim=-1)
        total = self._first + self._mel.shape[-1]
        ready = total if last else total - self._future
        if ready <= self._done:
            return self._mel.new_zeros(0)
        self._extend_source(total, last)
        frame = self._hift.config.frame
        # the mel beyond the known source still serves the first convolution as future
        unknown = self._mel.shape[-1] * frame - self._source.shape[-1]
        wave = self._hift.decode(self._mel, F.pad(self._source, (0, unknown)), more=not last)
        piece = wave[(self._done - self._first) * frame : (ready - self._first) * frame]
        self._done = ready
        self._forget(max(0, ready - self._past))
        return piece

    def _extend_source(self, total: int, last: bool) -> None:
        """Append the excitation of every frame whose pitch (and, in version 2, whose next phase) is settled."""
        hift, config = self._hift, self._hift.config
        frame = config.frame
        pitched = self._first + self._source.shape[-1] // frame + len(self._pitch)
        settled = total if last else max(pitched, total - config.f0_right)
        pitch = hift.pitch(self._mel, not last)[pitched - self._first : settled - self._first].float()
        cycles = harmonic_cycles(pitch, config)
        if pitched:
            cycles = cycles + (self._cycles[-1:] if len(self._cycles) else self._before)
        pitch, cycles = torch.cat((self._pitch, pitch)), torch.cat((self._cycles, cycles))
        count = len(pitch) if last or config.causal else max(0, len(pitch) - 1)
        if count:
            before = self._before if len(self._before) else cycles[:1]
            after = cycles[count : count + 1] if count < len(cycles) else cycles[-1:]
            made = hift.source(pitch[:count], cycles[:count], before, after, self._noise.frames(count))
            self._source = torch.cat((self._source, made), dim=-1)
            self._before = cycles[count - 1 : count]
        self._pitch, self._cycles = pitch[count:], cycles[count:]

    def _forget(self, first: int) -> None:
        drop = first - self._first
        if drop > 0:
            self._mel = self._mel[..., drop:]
            self._source = self._source[..., drop * self._hift.config.frame :]
            self._first = first
