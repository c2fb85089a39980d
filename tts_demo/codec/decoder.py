"""The waveform decoder: codec latent -> samples.

A trunk of ConvNeXt blocks works at the codec's frame rate. Each frame then makes ``subframes`` finer ones, thin blocks
work on these, and an inverse STFT with a short window shapes two sources: harmonics of the predicted F0 and noise
(neural source-filter models, X. Wang and others, 2019, section II; inverse STFT head, Vocos, H. Siuzdak, 2023,
section 3). The window decides how fast a formant can move: one of 80 ms smears several pitch pulses into each other.

It knows nothing of text, codes or streams (``streaming.py`` does the latter)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import DecoderConfig
from .layers import ConvNeXtBlock, ShiftedConv, framed_spectra
from .source import SourcePredictor, accumulate, harmonics, white_noise

NOISE_FLOOR = 0.03  # noise that a fully voiced frame keeps; as loud as the recording it would hide the harmonics
NOISE_GAINS = 8  # noise gains a frame: onsets are shorter than the window
LARGEST_LOG_GAIN = 6.0  # of a spectral bin
FINE_RIGHT = 1  # sub-frames of future that each fine block sees


class WaveformDecoder(nn.Module):
    """latent [B, F, latent] -> samples [B, F * hop], in three steps that a stream takes one after the other:
    ``condition`` puts the source parameters beside the latent, ``accumulate`` sums up the phase of the harmonics,
    ``forward`` makes samples of both. ``whole`` is all three.

    ``left`` and ``right`` are the frames of past and future that a sample of ``forward`` depends on, ``source.left``
    and ``source.right`` those of a frame of ``condition``."""

    def __init__(self, config: DecoderConfig = DecoderConfig()) -> None:
        super().__init__()
        self.config = c = config
        self.source = SourcePredictor(c.latent, c.hop, c.sample_rate)
        right = [1 if i < c.lookahead else 0 for i in range(c.layers + 1)]
        self.stem = ShiftedConv(c.latent, c.width, 7, right[0])
        self.norm = nn.LayerNorm(c.width)
        self.blocks = nn.Sequential(*(ConvNeXtBlock(c.width, right=r) for r in right[1:]))
        self.upsample = nn.Identity()
        if c.subframes > 1 or c.fine_width != c.width:
            self.upsample = nn.Linear(c.width, c.subframes * c.fine_width)
        self.fine_blocks = nn.Sequential(*(ConvNeXtBlock(c.fine_width, right=FINE_RIGHT) for _ in range(c.fine_layers)))
        self.final_norm = nn.LayerNorm(c.fine_width)
        self.head = SourceFilterHead(c.fine_width, c.window, c.hop // c.subframes, NOISE_GAINS // c.subframes)
        self.register_buffer("noise", white_noise(c.hop), persistent=False)
        coarse = [self.stem] + [block.depthwise for block in self.blocks]
        fine = [block.depthwise for block in self.fine_blocks]
        frames = lambda subframes: -(-subframes // c.subframes)
        self.left = sum(conv.left for conv in coarse) + frames(sum(conv.left for conv in fine) + 2 * self.head.reach)
        self.right = sum(conv.right for conv in coarse) + frames(sum(conv.right for conv in fine) + 2 * self.head.reach)
        self.right = max(1, self.right)  # F0 is interpolated between neighbouring frames

    def condition(self, latent: Tensor) -> Tensor:
        """latent [B, F, latent] -> [B, F, latent + 3]: the source parameters behind the latent."""
        return torch.cat([latent, self.source(latent)], -1)

    def forward(self, conditioned: Tensor) -> Tensor:
        """Result of ``condition`` and ``accumulate`` [B, F, latent + 4] -> samples [B, F * hop]."""
        return self.synthesise(self.features(conditioned[..., :-4]), conditioned[..., -4:])

    def features(self, latent: Tensor) -> Tensor:
        """latent [B, F, latent] -> sub-frame features [B, F * subframes, fine_width]."""
        x = self.blocks(self.norm(self.stem(latent.transpose(1, 2)).transpose(1, 2)))
        x = self.upsample(x).unflatten(-1, (self.config.subframes, -1)).flatten(1, 2)
        return self.final_norm(self.fine_blocks(x))

    def synthesise(self, features: Tensor, source: Tensor) -> Tensor:
        """features [B, F * subframes, fine_width], source [B, F, 4] -> samples [B, F * hop]."""
        c = self.config
        # Squared: a half-voiced frame with half of the noise sounds hoarse.
        level = NOISE_FLOOR + (1 - NOISE_FLOOR) * (1 - source[..., 2:3]).square()
        noise = self.noise[source[..., 3].long()] * level
        return self.head(features, harmonics(source, c.hop, c.sample_rate), noise.flatten(1))

    def whole(self, latent: Tensor) -> Tensor:
        """latent [B, F, latent] -> samples [B, F * hop]."""
        return self(accumulate(self.condition(latent)))


class SourceFilterHead(nn.Module):
    """Features [B, S, width] at sub-frame rate, harmonic source and noise -> samples [B, S * hop].

    Per sub-frame and frequency bin the head predicts the log-magnitude of the noise, the log-gain of the harmonics over
    it and their phase shift, and for each part of the hop a gain of the noise; windowed overlap-add follows. Phases
    come from the sources: a network that chooses them itself turns breath into one click a frame.

    Sub-frame t is centred on the middle of its own hop, so a sample depends on at most ``2 * reach`` sub-frames on
    either side: its window reaches as far into the noise, whose gains are predicted by sub-frames of their own."""

    def __init__(self, width: int, window: int, hop: int, noise_gains: int) -> None:
        super().__init__()
        self.window_length, self.hop, self.noise_gains = window, hop, noise_gains
        self.reach = (window // 2 + hop // 2 - 1) // hop
        self.bins = window // 2 + 1
        self.project = nn.Linear(width, 3 * self.bins + noise_gains)
        # begin with neutral gains and phases; a few harmonics need more gain than noise in all bins
        with torch.no_grad():
            self.project.weight[self.bins :].zero_()
            self.project.bias.zero_()
            self.project.bias[self.bins : 2 * self.bins] = 1.0
        self.register_buffer("window", torch.hann_window(window), persistent=False)

    def forward(self, features: Tensor, harmonic: Tensor, noise: Tensor) -> Tensor:
        """features [B, S, width]; harmonic [B, S * hop], cosines of amplitude 1; noise [B, S * hop] of power 1."""
        count, side = features.shape[1], (self.window_length - self.hop) // 2
        sizes = [self.bins, self.bins, self.bins, self.noise_gains]
        level, gain, shift, noise_gain = self.project(features).float().split(sizes, -1)
        noise_gain = noise_gain.clamp(-4.0, 4.0).exp()
        shaped = (noise.unflatten(-1, (count, self.noise_gains, -1)) * noise_gain[..., None]).flatten(1)
        voiced = framed_spectra(harmonic, self.window, self.hop) * (2 / self.window.sum())  # 1 in the bin of a cosine
        # 1 on average in every bin
        rough = framed_spectra(shaped, self.window, self.hop) / self.window.square().sum().sqrt()
        loud = (level + gain).clamp(max=LARGEST_LOG_GAIN).exp()
        spectra = rough * level.clamp(max=LARGEST_LOG_GAIN).exp() + voiced * torch.polar(loud, shift)
        samples = self._overlap_add(torch.fft.irfft(spectra, n=self.window_length) * self.window)
        envelope = self._overlap_add(self.window.square().expand(1, count, -1))
        return (samples / envelope.clamp(min=1e-4))[:, side : side + count * self.hop]

    def _overlap_add(self, frames: Tensor) -> Tensor:
        """[B, S, window] -> [B, (S - 1) * hop + window]."""
        length = (frames.shape[1] - 1) * self.hop + self.window_length
        folded = F.fold(frames.transpose(1, 2), (1, length), (1, self.window_length), stride=(1, self.hop))
        return folded[:, 0, 0]


def from_codec(weights: dict[str, Tensor]) -> WaveformDecoder:
    """The decoder of a checkpoint where the codec holds it as ``decoder.*``: one filter a frame, over four hops."""
    own = {key.removeprefix("decoder."): value for key, value in weights.items() if key.startswith("decoder.")}
    parts = ("head.project", "head.shape", "head.burst")
    for kind in ("weight", "bias"):
        own[f"head.project.{kind}"] = torch.cat([own.pop(f"{part}.{kind}") for part in parts])
    state = {("source." + key[5:] if key.startswith("tone.") else key): value for key, value in own.items()}
    width, bins = len(state["stem.bias"]), (len(state["head.project.bias"]) - NOISE_GAINS) // 3
    layers = len({key.split(".")[1] for key in state if key.startswith("blocks.")})
    decoder = WaveformDecoder(
        DecoderConfig(
            latent=state["stem.weight"].shape[1],
            width=width,
            layers=layers,
            subframes=1,
            fine_width=width,
            fine_layers=0,
            window=2 * (bins - 1),
        )
    )
    decoder.load_state_dict(state)
    return decoder
