"""HiFT vocoder: mel -> 24 kHz wave by up-sampling convolutions, a harmonic source and an inverse STFT.

(HiFTNet, Li et al. 2023.) Version 2's convolutions see both sides; version 3's see the past, except the first
convolution and the pitch network. ``HiftStream`` runs either in pieces.
"""

import math
import weakref
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from ...lm.graphs import BufferPool
from .configs import HiftConfig
from .layers import PaddedConv1d, RepeatConv1d, chain
from .pooled import without_memory
from .source import NoiseSource, excitation, harmonic_cycles, released_noise_state, sines

PADDED = 64  # frames, to whose multiples a piece of a stream is padded where it is a graph


def _conv(config: HiftConfig, inputs: int, outputs: int, kernel: int, *, dilation: int = 1) -> nn.Module:
    """A same-length convolution: centred in version 2, over the past in version 3."""
    reach = dilation * (kernel - 1)
    left = reach if config.causal else reach // 2
    return weight_norm(PaddedConv1d(inputs, outputs, kernel, left=left, right=reach - left, dilation=dilation))


class Snake(nn.Module):
    """x + sin^2(alpha x) / alpha, alpha learnt per channel (Ziyin et al. 2020)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha = self.alpha[:, None]
        return x + (x * alpha).sin().square() / (alpha + 1e-9)


class ResBlock(nn.Module):
    def __init__(self, config: HiftConfig, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(_conv(config, channels, channels, kernel, dilation=d) for d in config.dilations)
        self.convs2 = nn.ModuleList(_conv(config, channels, channels, kernel) for _ in config.dilations)
        self.activations1 = nn.ModuleList(Snake(channels) for _ in config.dilations)
        self.activations2 = nn.ModuleList(Snake(channels) for _ in config.dilations)

    def forward(self, x: Tensor) -> Tensor:
        for wide, narrow, before, between in zip(self.convs1, self.convs2, self.activations1, self.activations2):
            x = x + narrow(between(wide(before(x))))
        return x


class PitchNet(nn.Module):
    """Mel -> pitch in Hz. [1, mels, M] -> [M]."""

    def __init__(self, config: HiftConfig) -> None:
        super().__init__()
        width = config.f0_channels
        if config.causal:  # the first one alone sees the future
            first = weight_norm(PaddedConv1d(config.mels, width, 4, right=3))
        else:
            first = _conv(config, config.mels, width, 3)
        convs = [first, *(_conv(config, width, width, 3) for _ in range(4))]
        self.condnet = nn.Sequential(*(layer for conv in convs for layer in (conv, nn.ELU())))
        self.classifier = nn.Linear(width, 1)

    def forward(self, mel: Tensor) -> Tensor:
        features = self.condnet(mel.to(self.classifier.weight.dtype))
        return self.classifier(features.transpose(1, 2))[0, :, 0].abs()


class Hift(nn.Module):
    pool: BufferPool | None = None  # where pieces of a stream run as graphs

    def __init__(self, config: HiftConfig) -> None:
        super().__init__()
        self.config = config
        bins = config.n_fft // 2 + 1
        widths = [config.channels // 2**i for i in range(len(config.rates) + 1)]
        self.m_source = chain(l_linear=nn.Linear(config.harmonics, 1), act=nn.Tanh())  # mixes the harmonics
        left, right = config.pre_sides
        self.conv_pre = weight_norm(PaddedConv1d(config.mels, widths[0], left + 1 + right, left=left, right=right))
        self.ups = nn.ModuleList(weight_norm(self._up(i, widths)) for i in range(len(config.rates)))
        self.source_downs = nn.ModuleList(self._down(i, 2 * bins, widths[i + 1]) for i in range(len(config.rates)))
        self.source_resblocks = nn.ModuleList(
            ResBlock(config, width, kernel) for width, kernel in zip(widths[1:], config.source_res_kernels)
        )
        self.resblocks = nn.ModuleList(
            ResBlock(config, width, kernel) for width in widths[1:] for kernel in config.res_kernels
        )
        self.conv_post = _conv(config, widths[-1], 2 * bins, 7)
        self.f0_predictor = PitchNet(config)
        self.register_buffer("window", torch.hann_window(config.n_fft), persistent=False)

    def _up(self, level: int, widths: list[int]) -> nn.Module:
        config = self.config
        rate, kernel = config.rates[level], config.kernels[level]
        if config.causal:
            return RepeatConv1d(widths[level], widths[level + 1], kernel, rate)
        return nn.ConvTranspose1d(widths[level], widths[level + 1], kernel, rate, padding=(kernel - rate) // 2)

    def _down(self, level: int, inputs: int, outputs: int) -> nn.Module:
        """The source's spectrum at the rate of this level: the product of the later rates, 15, 3, 1 as released."""
        stride = math.prod(self.config.rates[level + 1 :])
        if stride == 1:
            return PaddedConv1d(inputs, outputs, 1)
        left = stride - 1 if self.config.causal else stride // 2
        right = 0 if self.config.causal else stride // 2
        return PaddedConv1d(inputs, outputs, 2 * stride, left=left, right=right, stride=stride)

    def prepare(self) -> "Hift":
        """For inference: fold weight norm into the weights, and version 3's pitch network into float64 as released."""
        for module in list(self.modules()):
            if parametrize.is_parametrized(module, "weight"):
                parametrize.remove_parametrizations(module, "weight")
        if self.config.causal:
            self.f0_predictor.double()
        return self.eval().requires_grad_(False)

    def new_noise(self) -> NoiseSource:
        return NoiseSource(self.config, released_noise_state(self.config.causal, self.config.harmonics))

    def source(self, f0: Tensor, cycles: Tensor, before: Tensor, after: Tensor, noise: Tensor) -> Tensor:
        """Excitation of M frames. f0: [M]; cycles: [M, harmonics] and its neighbours [1, harmonics];
        noise: [M * frame, harmonics] -> [1, 1, M * frame]."""
        harmonics = excitation(sines(cycles, before, after, self.config), f0, noise.to(f0.device), self.config)
        return self.m_source(harmonics).T[None]

    @torch.inference_mode()
    def forward(self, mel: Tensor) -> Tensor:
        """A whole utterance. mel: [1, mels, M] -> wave [M * frame]."""
        f0 = self.f0_predictor(mel)
        cycles = harmonic_cycles(f0, self.config)
        source = self.source(f0, cycles, cycles[:1], cycles[-1:], self.new_noise().frames(len(f0)))
        return self.decode(mel, source)

    def pitch(self, mel: Tensor, more: bool = False) -> Tensor:
        """mel: [1, mels, M] -> [M] Hz. more: mel follows, so that the last frames are not final; then a graph computes
        them, where there are graphs."""
        if not more or self.pool is None:
            return self.f0_predictor(mel)
        hift, length = weakref.proxy(self), mel.shape[-1]
        return self._launch("pitch", lambda _, mel: hift.f0_predictor(mel), F.pad(mel, (0, -length % PADDED)))[:length]

    def decode(self, mel: Tensor, source: Tensor, more: bool = False) -> Tensor:
        """mel: [1, mels, M]; source: [1, 1, M * frame]; more: see ``pitch`` -> wave [M * frame]."""
        config, length = self.config, mel.shape[-1]
        spectrum = torch.stft(source[:, 0], config.n_fft, config.hop, window=self.window, return_complex=True)
        spectrum = torch.cat((spectrum.real, spectrum.imag), dim=1)
        if not more or self.pool is None:
            return self._inverse(self.features(mel, spectrum))
        hift, added, columns = weakref.proxy(self), -length % PADDED, spectrum.shape[-1]
        given = F.pad(mel, (0, added)), F.pad(spectrum, (0, added * config.frame // config.hop))
        features = self._launch("features", lambda _, *given: hift.features(*given), *given)
        return self._inverse(features[..., :columns])

    def _launch(self, name: str, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        return self.pool.run(without_memory(self.pool, inputs[0]), name, function, *inputs)

    def features(self, mel: Tensor, spectrum: Tensor) -> Tensor:
        """mel: [1, mels, M]; spectrum: of the source [1, 2 * bins, T] -> what the wave is made of [1, 2 * bins, T]."""
        config = self.config
        x = self.conv_pre(mel)
        kinds = len(config.res_kernels)
        for i, (up, down, mix) in enumerate(zip(self.ups, self.source_downs, self.source_resblocks)):
            x = up(F.leaky_relu(x, 0.1))
            if i == len(self.ups) - 1:  # one frame more, as a centred STFT has
                x = F.pad(x, (1, 0), mode="reflect")
            x = x + mix(down(spectrum))
            x = sum(block(x) for block in self.resblocks[i * kinds : (i + 1) * kinds]) / kinds
        return self.conv_post(F.leaky_relu(x))

    def _inverse(self, x: Tensor) -> Tensor:
        """Log magnitude and (the sine's argument of) phase, [1, 2 * bins, T] -> wave."""
        config = self.config
        magnitude, phase = x.chunk(2, dim=1)
        magnitude, phase = magnitude.exp().clamp(max=100.0), phase.sin()
        wave = torch.istft(torch.polar(magnitude, phase), config.n_fft, config.hop, window=self.window)
        return wave[0].clamp(-config.limit, config.limit)


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
        return math.ceil(8 + 2 * inner + ups) + 2, config.f0_right + config.pre_sides[1] + 1
    # the source does not pass the first up-sampling; one frame for the phase's interpolation, one for the STFTs
    return math.ceil(5 + inner + ups) + 2, math.ceil(config.f0_right + inner + ups - config.kernels[0] / rates[0]) + 2


class HiftStream:
    """One utterance. ``push`` mel as it comes, the last of it with ``last``: sample for sample what one call over the
    whole mel gives. Every piece re-runs the convolutions over a bounded stretch of past mel, as long as their reach;
    pitch, phase and noise are carried on and never computed twice."""

    def __init__(self, hift: Hift) -> None:
        self._hift = hift
        self._past, self.held_back = reach(hift.config)  # frames that a stream keeps, and that wait for their future
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

    @torch.inference_mode()
    def push(self, mel: Tensor, last: bool = False) -> Tensor:
        """mel: [1, mels, n], n >= 0 -> wave [N], N >= 0 a multiple of a frame; with ``last`` all that is left."""
        self._mel = torch.cat((self._mel, mel.float()), dim=-1)
        total = self._first + self._mel.shape[-1]
        ready = total if last else total - self.held_back
        if ready <= self._done:
            return self._mel.new_zeros(0)
        self._extend_source(total, last)
        frame = self._hift.config.frame
        # the mel beyond the known source still serves the first convolution as future
        unknown = self._mel.shape[-1] * frame - self._source.shape[-1]
        wave = self._hift.decode(self._mel, F.pad(self._source, (0, unknown)), more=not last)
        piece = wave[(self._done - self._first) * frame : (ready - self._first) * frame]
        self._done = ready
        drop = max(0, ready - self._past - self._first)
        self._mel, self._source = self._mel[..., drop:], self._source[..., drop * frame :]
        self._first += drop
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
