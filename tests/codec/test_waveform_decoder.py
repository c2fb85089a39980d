"""The waveform decoder: streamed = whole, its sources, and what its inverse STFT head makes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tts_demo.codec.decoder import SourceFilterHead, WaveformDecoder, from_codec
from tts_demo.codec.source import HIGHEST_HARMONIC, SourcePredictor, accumulate, harmonics, white_noise
from tts_demo.codec.streaming import RunningPhase
from tts_demo.config import HOP, SAMPLE_RATE, DecoderConfig
from tts_demo.stacks.nano import NanoVocoder, speech_stages

SUBHOP, WINDOW = HOP // 4, 320


def small(subframes: int = 4, window: int = WINDOW) -> WaveformDecoder:
    torch.manual_seed(0)
    config = DecoderConfig(
        latent=24, width=32, layers=3, lookahead=2, subframes=subframes, fine_width=16, fine_layers=2, window=window
    )
    decoder = WaveformDecoder(config).eval().requires_grad_(False)
    torch.nn.init.normal_(decoder.head.project.weight, std=0.1)  # fresh, gains and phases ignore the features
    return decoder


@pytest.mark.parametrize("subframes, window", [(4, 320), (5, 512), (8, 320), (1, 1280)])
@pytest.mark.parametrize("sizes", [[1] * 30, [7, 13, 3], [3, 0, 25, 0]])
def test_decoder_stream_equals_whole(subframes: int, window: int, sizes: list[int]) -> None:
    decoder, latent = small(subframes, window), torch.randn(40, 24)
    whole = decoder.whole(latent[None])[0]
    vocoder = NanoVocoder(speech_stages(decoder), latent[:0])
    pieces = latent.split([*sizes, len(latent) - sum(sizes)])
    streamed = torch.from_numpy(np.concatenate([*map(vocoder.push, pieces), vocoder.finish()]))
    assert streamed.shape == whole.shape == (40 * HOP,)
    allowed = 2e-4 * whole.abs().max().clamp(min=1)  # phases of the highest harmonics, in float32
    assert (streamed - whole).abs().max() < allowed


@pytest.mark.parametrize("frame", [12, 20])
def test_a_frame_changes_no_sample_outside_the_reach(frame: int) -> None:
    decoder = small()
    source = accumulate(decoder.source.parameters_of(torch.full((1, 40), 150.0), torch.full((1, 40), 0.5)))
    latent = torch.randn(1, 40, 24)
    changed = latent.clone()
    changed[0, frame] += 1.0
    made, other = (decoder(torch.cat([x, source], -1))[0].unflatten(0, (40, HOP)) for x in (latent, changed))
    differs = (made - other).abs().amax(-1) > 1e-6
    assert differs[frame] and not differs[: frame - decoder.right].any()
    assert not differs[frame + decoder.left + 1 :].any()


def test_the_first_sound_waits_for_fewer_frames_than_a_window_of_80_ms_needed() -> None:
    assert WaveformDecoder().right <= 6  # 8 with one filter a frame


def test_the_source_swings_at_its_f0_without_a_jump() -> None:
    predictor = SourcePredictor(8, HOP, SAMPLE_RATE)
    f0, voicing = torch.full((1, 60), 200.0), torch.ones(1, 60)
    wave = harmonics(accumulate(predictor.parameters_of(f0, voicing)), HOP, SAMPLE_RATE)[0]
    time = torch.arange(len(wave)) / SAMPLE_RATE
    count = int(HIGHEST_HARMONIC // 200)
    expected = torch.cos(2 * torch.pi * 200 * torch.arange(1, count + 1)[:, None] * time.double()).sum(0)
    assert (wave - expected).abs().max() < 0.02 * count
    rising = predictor.parameters_of(torch.linspace(160, 300, 60)[None], voicing)
    glide = harmonics(accumulate(rising), HOP, SAMPLE_RATE)[0]
    peaks = (glide > 0.28 * glide.max()).nonzero()[:, 0]
    periods = peaks.diff()[peaks.diff() > 5]
    assert (periods.diff().abs() <= 8).all() and periods[0] > 1.7 * periods[-1]  # periods shrink, none is torn
    unvoiced = predictor.parameters_of(f0, torch.zeros(1, 60))
    assert not harmonics(accumulate(unvoiced), HOP, SAMPLE_RATE).any()


def test_the_phase_of_a_stream_is_the_wholes() -> None:
    predictor, running = SourcePredictor(8, HOP, SAMPLE_RATE), RunningPhase()
    made = predictor.parameters_of(60 + 300 * torch.rand(1, 50), torch.rand(1, 50))
    parts = torch.cat([running.push(made[0, a:b]) for a, b in ((0, 7), (7, 7), (7, 30), (30, 50))] + [running.finish()])
    whole = accumulate(made)[0]
    apart = (parts[:, 0] - whole[:, 0]).abs()
    assert torch.minimum(apart, 1 - apart).max() < 1e-5 and torch.equal(parts[:, 1:], whole[:, 1:])
    assert torch.equal(parts[:, 1:3], made[0, :, 1:]) and torch.equal(parts[:, 3], torch.arange(50.0))


def silent_but(head: SourceFilterHead, level: float, gain: float = 0.0) -> None:
    """The head predicts one level of the noise and one gain of the harmonics, whatever the features."""
    with torch.no_grad():
        head.project.weight.zero_()
        head.project.bias.zero_()
        head.project.bias[: head.bins] = level
        head.project.bias[head.bins : 2 * head.bins] = gain


def test_breath_is_noise_as_loud_as_it_should_be_and_no_click_a_frame() -> None:
    torch.manual_seed(0)
    head, count = SourceFilterHead(8, WINDOW, SUBHOP, 2), 1600
    silent_but(head, 0.5)
    wave = head(torch.randn(1, count, 8), torch.zeros(1, count * SUBHOP), white_noise(count * SUBHOP)[:1])[0].detach()
    inner = wave[4 * WINDOW : -4 * WINDOW]
    spectra = torch.fft.rfft(inner.unfold(0, WINDOW, SUBHOP) * head.window).abs() / head.window.square().sum().sqrt()
    assert spectra.square().mean().item() == pytest.approx(math.e / head.window.square().sum().item(), rel=0.05)
    envelope = inner.square().unflatten(0, (-1, SUBHOP)).mean(0)  # over the hop: a click a sub-frame would be a peak
    assert envelope.unflatten(0, (8, -1)).mean(1).std() < 0.1 * envelope.mean()


@pytest.mark.parametrize("side", ["harmonic", "noise"])
@pytest.mark.parametrize("window, hop", [(64, 16), (320, 80), (512, 64)])
def test_a_source_at_its_own_level_comes_out_as_it_went_in(side: str, window: int, hop: int) -> None:
    head, signal = SourceFilterHead(4, window, hop, 1), torch.randn(1, 40 * hop)
    own = head.window.square().sum().sqrt().log().item()
    level = own if side == "noise" else -30.0
    silent_but(head, level, (head.window.sum() / 2).log().item() - level if side == "harmonic" else -60.0)
    head.project.bias.data[2 * head.bins :] = 0.0
    out = head(torch.randn(1, 40, 4), signal if side == "harmonic" else torch.zeros_like(signal), signal)
    assert out.shape == signal.shape
    assert torch.allclose(out[:, window:-window], signal[:, window:-window], atol=1e-3 * math.exp(1))


def test_breath_can_begin_within_a_frame() -> None:
    head = SourceFilterHead(1, WINDOW, SUBHOP, 2)
    with torch.no_grad():
        head.project.weight.zero_()
        head.project.weight[-1] = 4.0  # the second half of a hop, where the feature is there
        head.project.bias.zero_()
        head.project.bias[-2:] = -4.0
    x = torch.zeros(1, 36, 1)
    x[0, 17] = 2.0
    wave = head(x, torch.zeros(1, 36 * SUBHOP), white_noise(36 * SUBHOP)[:1])[0].detach()
    power = wave.square().unflatten(0, (-1, SUBHOP // 2)).mean(1)
    assert power.argmax() == 35 and power[35] > 8 * power[30:33].mean()


def test_a_decoder_within_an_older_codec_is_read() -> None:
    """One filter a frame, its head in three parts: the layout of checkpoints from before the decoder's own folder."""
    torch.manual_seed(0)
    made = WaveformDecoder(
        DecoderConfig(latent=24, width=32, layers=3, subframes=1, fine_width=32, fine_layers=0, window=1280)
    ).eval()
    torch.nn.init.normal_(made.head.project.weight, std=0.1)
    old, bins = {}, made.head.bins
    for key, value in made.state_dict().items():
        if key.startswith("head.project."):
            kind = key.rpartition(".")[2]
            old |= {
                f"decoder.head.project.{kind}": value[:bins],
                f"decoder.head.shape.{kind}": value[bins : 3 * bins],
                f"decoder.head.burst.{kind}": value[3 * bins :],
            }
        else:
            old[f"decoder.{key}".replace("decoder.source.", "decoder.tone.")] = value
    read = from_codec(old | {"encoder.stem.bias": torch.zeros(3)}).eval()
    latent = torch.randn(1, 20, 24)
    with torch.no_grad():
        assert torch.equal(read.whole(latent), made.whole(latent)) and read.config == made.config
