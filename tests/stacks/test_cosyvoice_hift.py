"""The vocoder's formulas against literal ones, and its stream against one call over the whole mel."""

import math

import pytest
import torch
import torch.nn.functional as F
from cosyvoice_tiny import HIFT_2, HIFT_3, randomise

from tts_demo.lm.graphs import BufferPool
from tts_demo.stacks.cosyvoice.hift import PADDED, Hift, HiftStream, Snake, reach
from tts_demo.stacks.cosyvoice.source import NoiseSource, excitation, harmonic_cycles, released_noise_state, sines

CONFIGS = {2: HIFT_2, 3: HIFT_3}


def voice(version: int) -> Hift:
    """A random vocoder whose pitch network says something between silence and speech."""
    hift = randomise(Hift(CONFIGS[version]).prepare(), scale=0.12)
    hift.f0_predictor.classifier.weight.mul_(4000)
    hift.f0_predictor.classifier.bias.fill_(90.0)
    return hift


def literal_sines(f0, config):
    """SineGen as described: phases at the sample rate, interpolated down, summed, interpolated up."""
    frame, up = config.frame, f0.repeat_interleave(config.frame)
    rad = (up[:, None] * torch.arange(1, config.harmonics + 1) / config.sample_rate) % 1
    rad[0] += torch.rand(config.harmonics)  # the initial phase: the interpolation below never reads sample 0
    down = F.interpolate(rad.T[None], scale_factor=1 / frame, mode="linear")
    phase = down.double().cumsum(-1) * 2 * math.pi
    phase = F.interpolate(phase * frame, scale_factor=frame, mode="nearest" if config.causal else "linear")
    return phase.sin()[0].T.float() * config.sine_amplitude


@pytest.mark.parametrize("version", [2, 3])
def test_sines(version):
    config = CONFIGS[version]
    f0 = torch.tensor([0.0, 101.7, 210.0, 95.3, 333.3])
    cycles = harmonic_cycles(f0, config)
    torch.testing.assert_close(
        sines(cycles, cycles[:1], cycles[-1:], config), literal_sines(f0, config), rtol=1e-4, atol=1e-4
    )


def test_excitation():
    f0, frame = torch.tensor([0.0, 9.9, 10.1]), HIFT_2.frame
    sine, noise = torch.randn(3 * frame, 9), torch.randn(3 * frame, 9)
    made = excitation(sine, f0, noise, HIFT_2)
    for n in (0, frame, 2 * frame, 3 * frame - 1):
        voiced = float(f0[n // frame]) > 10
        expected = sine[n] + 0.003 * noise[n] if voiced else noise[n] * (0.1 / 3)
        torch.testing.assert_close(made[n], expected, rtol=1e-4, atol=1e-6)


def test_version_3_noise_is_the_released_one():
    noise = NoiseSource(HIFT_3, released_noise_state(True, 9)).frames(2)
    torch.testing.assert_close(noise[0, :3], torch.tensor([0.9228, 0.4774, 0.8271]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("version", [2, 3])
def test_noise_does_not_depend_on_how_it_is_asked_for(version):
    config = CONFIGS[version]
    state = released_noise_state(config.causal, 9)
    whole, pieces = NoiseSource(config, state), NoiseSource(config, state)
    torch.testing.assert_close(whole.frames(5), torch.cat([pieces.frames(n) for n in (1, 0, 3, 1)]), rtol=0, atol=0)


def test_snake():
    layer = randomise(Snake(3), scale=2.0)
    x = torch.randn(1, 3, 4)
    literal = [
        [x[0, c, t] + math.sin(layer.alpha[c] * x[0, c, t]) ** 2 / (layer.alpha[c] + 1e-9) for t in range(4)]
        for c in range(3)
    ]
    torch.testing.assert_close(layer(x)[0], torch.tensor(literal), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("version", [2, 3])
def test_inverse_stft_head(version):
    """Against overlap-add with the inverse DFT written as a sum."""
    hift, frames = voice(version), 21
    x = torch.randn(1, 18, frames)
    x[0, 2, 3] = 9.0  # above the limit of 100
    window = [0.5 - 0.5 * math.cos(2 * math.pi * n / 16) for n in range(16)]
    wave, weight = [0.0] * (4 * frames + 16), [0.0] * (4 * frames + 16)
    for t in range(frames):
        magnitude = [min(math.exp(x[0, k, t]), 100.0) for k in range(9)]
        phase = [math.sin(x[0, 9 + k, t]) for k in range(9)]
        for n in range(16):
            value = 0.0
            for k in range(9):
                twice = 1 if k in (0, 8) else 2  # the mirrored bins
                value += twice * magnitude[k] * math.cos(phase[k] + 2 * math.pi * k * n / 16)
                if k in (0, 8):  # an inverse real DFT has no use for the imaginary part of these two
                    value += magnitude[k] * math.sin(phase[k]) * math.sin(2 * math.pi * k * n / 16)
            wave[4 * t + n] += value / 16 * window[n]
            weight[4 * t + n] += window[n] ** 2
    literal = [max(-0.99, min(0.99, wave[n] / weight[n])) for n in range(8, 8 + 4 * (frames - 1))]
    torch.testing.assert_close(hift._inverse(x), torch.tensor(literal), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("version", [2, 3])
def test_length(version):
    assert voice(version)(torch.randn(1, 80, 13)).shape == (13 * HIFT_2.frame,)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("pieces", [(60, 70), (1, 29, 3, 97), (13,) * 10])
@pytest.mark.parametrize("pooled", [False, True], ids=["plain", "padded"])
def test_stream_equals_whole(version, pieces, pooled):
    """Padded: as on a GPU, in few sizes."""
    hift = voice(version)
    hift.pool = BufferPool(enabled=False) if pooled else None
    mel = torch.randn(1, 80, 130)
    whole, stream = hift(mel), HiftStream(hift)
    parts = [stream.push(piece) for piece in mel.split(pieces, dim=-1)]
    wave = torch.cat([*parts, stream.push(mel[:, :, :0], last=True)])
    assert wave.shape == whole.shape
    torch.testing.assert_close(wave, whole, rtol=0, atol=1e-4)
    assert whole.std() > 1e-3
    if pooled:
        (buffer,) = hift.pool._free[None]
        sizes = {shapes[0][0][-1] for _, shapes in buffer.graphs}
        assert len(buffer.graphs) == 2 * len(sizes) and all(size % PADDED == 0 for size in sizes)


def test_held_back_frames():
    """Version 3, as released: of 60 frames the last 8 wait, 3 for the pitch, 4 for the first convolution, 1 for the
    inverse STFT; and what is given out does not change when more comes."""
    hift = voice(3)
    mel = torch.randn(1, 80, 90)
    early = HiftStream(hift).push(mel[:, :, :60])
    assert len(early) == 52 * HIFT_3.frame
    torch.testing.assert_close(early, hift(mel)[: 52 * HIFT_3.frame], rtol=0, atol=1e-4)


@pytest.mark.parametrize("version", [2, 3])
def test_reach_covers_every_dependency(version):
    """Change the mel at one frame: no sample further away than ``reach`` may change. The carried phase is the one
    thing that reaches on for ever, so the pitch is held still."""
    hift = voice(version)
    hift.f0_predictor.classifier.weight.zero_()
    past, future = reach(CONFIGS[version])
    at, mel = 100, torch.randn(1, 80, 200)
    other = mel.clone()
    other[:, :, at] += 5
    changed = (hift(other) != hift(mel)).view(-1, HIFT_2.frame).any(-1).nonzero()[:, 0]
    assert at - future <= changed.min() < at
    assert at < changed.max() <= at + past


def test_the_stream_holds_a_bounded_past():
    hift = voice(3)
    stream = HiftStream(hift)
    for _ in range(4):
        stream.push(torch.randn(1, 80, 50))
    assert stream._mel.shape[-1] <= sum(reach(HIFT_3))
    assert stream._source.shape[-1] <= sum(reach(HIFT_3)) * HIFT_3.frame


@pytest.mark.parametrize("version", [2, 3])
def test_folding_weight_norm_changes_nothing(version):
    hift = randomise(Hift(CONFIGS[version]), scale=0.12)
    mel, source = torch.randn(1, 80, 7), torch.randn(1, 1, 7 * HIFT_2.frame)
    before = hift.decode(mel, source)
    torch.testing.assert_close(hift.prepare().decode(mel, source), before, rtol=0, atol=1e-5)
    assert not any("parametrizations" in key for key in hift.state_dict())
