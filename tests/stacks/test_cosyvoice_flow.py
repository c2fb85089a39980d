"""The flow's formulas against slow literal ones, written element by element from the description."""

import math

import pytest
import torch
import torch.nn.functional as F
from cosyvoice_tiny import FLOW_2, FLOW_3, randomise

from tts_demo.stacks.cosyvoice.conformer import RelativeAttention, relative_positions
from tts_demo.stacks.cosyvoice.dit import DiT, DiTBlock, Rotary
from tts_demo.stacks.cosyvoice.flow import build_flow, flow_noise, solve
from tts_demo.stacks.cosyvoice.layers import Lookahead, block_mask, rotate_pairs, time_features
from tts_demo.stacks.cosyvoice.unet import ResidualBlock, UNet

FLOWS = {2: FLOW_2, 3: FLOW_3}


def close(mine, literal):
    torch.testing.assert_close(mine, literal, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_relative_attention(masked):
    heads, width, length = 2, 8, 7
    layer = randomise(RelativeAttention(width, heads), scale=0.7)
    x = torch.randn(1, length, width)
    mask = block_mask(length, 3) if masked else torch.ones(length, length, dtype=torch.bool)
    mine = layer(x, relative_positions(length, width, x.device, x.dtype), mask if masked else None)
    q, k, v = layer.linear_q(x[0]), layer.linear_k(x[0]), layer.linear_v(x[0])
    out = torch.zeros(length, width)
    d = width // heads
    for h in range(heads):
        part = slice(h * d, (h + 1) * d)
        for t in range(length):
            scores = torch.full((length,), -math.inf)
            for s in range(length):
                if not mask[t, s]:
                    continue
                angle = torch.tensor([(t - s) / 10_000 ** (2 * (c // 2) / width) for c in range(width)])
                place = torch.where(torch.arange(width) % 2 == 0, angle.sin(), angle.cos())
                p = layer.linear_pos(place)[part]
                scores[s] = (
                    (q[t, part] + layer.pos_bias_u[h]) @ k[s, part] + (q[t, part] + layer.pos_bias_v[h]) @ p
                ) / math.sqrt(d)
            out[t, part] = scores.softmax(0) @ v[:, part]
    close(mine[0], layer.linear_out(out))


def test_rotary_turns_only_the_leading_channels():
    rotary, x = Rotary(8), torch.randn(1, 6, 24)
    turned = rotate_pairs(x, *rotary(6))
    literal = x.clone()
    for m in range(6):
        for pair in range(4):
            angle = m / 10_000 ** (2 * pair / 8)
            a, b = x[0, m, 2 * pair], x[0, m, 2 * pair + 1]
            literal[0, m, 2 * pair] = a * math.cos(angle) - b * math.sin(angle)
            literal[0, m, 2 * pair + 1] = b * math.cos(angle) + a * math.sin(angle)
    close(turned, literal)
    assert torch.equal(turned[..., 8:], x[..., 8:])


def test_released_rotary_turns_64_of_1024_channels():
    x = torch.randn(1, 3, 1024)
    changed = (rotate_pairs(x, *Rotary(64)(3)) != x)[0, 2]
    assert changed[:64].all() and not changed[64:].any()


def test_dit_block_modulation():
    block = randomise(DiTBlock(FLOW_3), scale=0.2)
    x, time = torch.randn(1, 5, 64), torch.randn(1, 64)
    angles = Rotary(16)(5)
    parts = block.attn_norm.linear(F.silu(time))[0].reshape(6, 64)

    def norm(y, shift, scale):
        centred = y - y.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt() * (1 + scale) + shift

    y = norm(x, parts[0], parts[1])
    q, k = rotate_pairs(block.attn.to_q(y), *angles)[0], rotate_pairs(block.attn.to_k(y), *angles)[0]
    v = block.attn.to_v(y)[0]
    heads = [((q[:, i : i + 16] @ k[:, i : i + 16].T / 4).softmax(-1) @ v[:, i : i + 16]) for i in range(0, 64, 16)]
    x1 = x + parts[2] * block.attn.to_out[0](torch.cat(heads, -1))
    z = block.ff.ff[0][0](norm(x1, parts[3], parts[4]))
    gelu = 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    close(block(x, time, angles, None), x1 + parts[5] * block.ff.ff[2](gelu))


def test_dit_input_order_and_output_modulation():
    dit = randomise(DiT(FLOW_3))
    dit.transformer_blocks = torch.nn.ModuleList()
    x, mu, condition, speaker, t = *(torch.randn(1, 80, 6) for _ in range(3)), torch.randn(1, 80), torch.tensor([0.3])
    stacked = torch.cat((x, condition, mu, speaker[:, :, None].expand(1, 80, 6)), dim=1)[0].T
    h = dit.input_embed.proj(stacked)
    y = h
    for conv in (dit.input_embed.conv_pos_embed.conv1[0], dit.input_embed.conv_pos_embed.conv2[0]):
        z = torch.zeros_like(y)
        for m in range(6):
            for c in range(64):
                group = c // 16
                for tap in range(5):
                    if m + tap - 4 >= 0:
                        z[m, c] += conv.weight[c, :, tap] @ y[m + tap - 4, group * 16 : (group + 1) * 16]
        z = z + conv.bias
        y = z * torch.tanh(F.softplus(z))
    h = h + y
    time = dit.time_embed(time_features(t, FLOW_3.time_width))[0]
    scale, shift = dit.norm_out.linear(F.silu(time)).reshape(2, 64)
    centred = h - h.mean(-1, keepdim=True)
    h = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt() * (1 + scale) + shift
    close(dit(x, mu, t, speaker, condition)[0], dit.proj_out(h).T)


def test_time_features():
    t = torch.tensor([0.0, 0.37])
    literal = torch.zeros(2, 10)
    for b in range(2):
        for i in range(5):
            angle = 1000 * float(t[b]) * math.exp(-math.log(10_000) * i / 4)
            literal[b, i], literal[b, 5 + i] = math.sin(angle), math.cos(angle)
    torch.testing.assert_close(time_features(t, 10), literal, rtol=1e-4, atol=1e-4)


def test_unet_residual_block():
    block = randomise(ResidualBlock(3, 4, 5))
    x, time = torch.randn(1, 3, 6), torch.randn(1, 5)

    def causal(part, y):
        conv, norm = part.block[0], part.block[2]
        z = torch.zeros(6, conv.weight.shape[0])
        for m in range(6):
            for tap in range(3):
                if m + tap - 2 >= 0:
                    z[m] += conv.weight[:, :, tap] @ y[m + tap - 2]
        z = z + conv.bias
        z = (z - z.mean(-1, keepdim=True)) / (z.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        z = z * norm.weight + norm.bias
        return z * torch.tanh(F.softplus(z))

    y = causal(block.block1, x[0].T) + block.mlp[1](time * torch.tanh(F.softplus(time)))
    y = causal(block.block2, y) + x[0].T @ block.res_conv.weight[:, :, 0].T + block.res_conv.bias
    close(block(x, time)[0].T, y)


def test_unet_never_looks_ahead_under_the_block_mask():
    net = randomise(UNet(FLOW_2), scale=0.2)
    inputs = [torch.randn(1, 80, 12) for _ in range(3)]
    other = [torch.cat((y[:, :, :8], torch.randn(1, 80, 4)), -1) for y in inputs]
    speaker, t, mask = torch.randn(1, 80), torch.tensor([0.5]), block_mask(12, 4)
    a, b = (net(x, mu, t, speaker, cond, mask) for x, mu, cond in (inputs, other))
    close(a[:, :, :8], b[:, :, :8])
    assert not torch.allclose(a[:, :, 8:], b[:, :, 8:])


def test_lookahead():
    layer = randomise(Lookahead(3, 4, 2))
    x, future = torch.randn(1, 5, 3), torch.randn(1, 2, 3)
    for ahead in (future, None):
        y = torch.cat((x, future if ahead is not None else torch.zeros(1, 2, 3)), 1)[0]
        hidden = torch.stack(
            [sum(layer.conv1.weight[:, :, k] @ y[t + k] for k in range(3)) + layer.conv1.bias for t in range(5)]
        )
        hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
        literal = torch.stack(
            [
                sum(layer.conv2.weight[:, :, k] @ hidden[t + k - 2] for k in range(3) if t + k >= 2) + layer.conv2.bias
                for t in range(5)
            ]
        )
        close(layer(x, ahead)[0], x[0] + literal)


def test_solver_follows_the_cosine_schedule():
    """Against the literal loop, whose step sizes come from the accumulated time."""
    noise = torch.randn(1, 2, 3)
    span = [1 - math.cos(i / 10 * math.pi / 2) for i in range(11)]
    x, t = noise.clone(), span[0]
    for k in range(10):
        dt = span[k + 1] - t
        x = x + dt * (x * t - x.sin())
        t += dt
    close(solve(lambda y, at, step: y * at - y.sin(), noise, 10), x)


def test_flow_noise_is_the_released_constant():
    noise = flow_noise()
    assert noise.shape == (1, 80, 15_000)
    torch.testing.assert_close(noise[0, 0, :4], torch.tensor([-1.1258, -1.1524, -0.2506, -0.4339]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("version", [2, 3])
def test_guidance_and_prompt(version):
    """The whole of ``Flow`` against two estimator calls a step, batch 1."""
    flow = randomise(build_flow(FLOWS[version]), scale=0.1)
    tokens, speaker = torch.randint(0, 6561, (1, 9)), torch.randn(1, 192)
    prompt, noise = torch.randn(1, 80, 6), torch.randn(1, 80, 18)
    mu = flow.encode(tokens)
    voice = flow.spk_embed_affine_layer(speaker / speaker.norm())
    condition = torch.cat((prompt, torch.zeros(1, 80, 12)), -1)
    span = [1 - math.cos(i / 3 * math.pi / 2) for i in range(4)]
    x = noise
    for start, end in zip(span, span[1:]):
        t = torch.tensor([start])
        with_all = flow.decoder.estimator(x, mu, t, voice, condition)
        without = flow.decoder.estimator(x, mu * 0, t, voice * 0, condition * 0)
        x = x + (end - start) * (1.7 * with_all - 0.7 * without)
    mine = flow(tokens, speaker, prompt, noise)
    assert mine.shape == (1, 80, 18)
    close(mine, x)


@pytest.mark.parametrize(("version", "scale"), [(2, 0.3), (3, 0.15)])
@pytest.mark.parametrize("first", [5, 10])
def test_blocks_computed_early_stay_as_they_are(version, scale, first):
    """Frames of finished attention blocks do not change when more tokens arrive: what streaming rests on. The last
    three tokens of the short run are only future."""
    flow = randomise(build_flow(FLOWS[version]), scale=scale)
    total = first + 5 + 3
    tokens, speaker = torch.randint(0, 6561, (1, total)), torch.randn(1, 192)
    prompt, noise = torch.randn(1, 80, 4), torch.randn(1, 80, 2 * total)
    whole = flow(tokens, speaker, prompt, noise, blocks=True)
    early = flow(
        tokens[:, :first], speaker, prompt, noise[:, :, : 2 * first], future=tokens[:, first : first + 3], blocks=True
    )
    assert early.shape[-1] == 2 * first
    torch.testing.assert_close(early, whole[:, :, : 2 * first], rtol=1e-4, atol=1e-4)
    full = flow(tokens, speaker, prompt, noise)
    assert not torch.allclose(full[:, :, : 2 * first], early, rtol=0, atol=1e-3)


def test_block_mask_counts_from_the_first_position():
    assert [int(row.sum()) for row in block_mask(8, 3)] == [3, 3, 3, 6, 6, 6, 8, 8]


def test_the_rotary_table_is_exact_in_a_module_that_was_cast():
    for cast, kept in zip(Rotary(64).bfloat16()(3000), Rotary(64)(3000)):
        assert torch.equal(cast, kept)
