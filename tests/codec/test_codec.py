"""Codec, refiner and their streams: shapes, prefixes of the residual stack, streamed = whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tts_demo.codec.model import Codec
from tts_demo.codec.quantizer import Codebook, PhonemeCodebook
from tts_demo.codec.refiner import Refiner
from tts_demo.codec.speaker import SpeakerEncoder
from tts_demo.codec.streaming import Windowed
from tts_demo.config import HOP, CodecConfig, RefinerConfig, SpeakerConfig

SMALL = CodecConfig(
    semantic_mels=20,
    semantic_width=16,
    semantic_layers=1,
    encoder_width=32,
    encoder_layers=2,
    latent=24,
    codebooks=4,
    entries=32,
    code_width=8,
)


@pytest.fixture(scope="module")
def codec() -> Codec:
    torch.manual_seed(0)
    return Codec(SMALL).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def refiner() -> Refiner:
    torch.manual_seed(0)
    made = Refiner(
        RefinerConfig(entries=32, latent=24, speaker=16, width=32, layers=2, heads=4, ffn=48, left=9, right=2)
    )
    for layer in made.layers:
        torch.nn.init.normal_(layer.voice.weight, std=0.1)
    return made.eval().requires_grad_(False)


def stream(fn, left: int, right: int, data: torch.Tensor, sizes: list[int], rate: int = 1) -> torch.Tensor:
    windowed = Windowed(fn, left, right, rate)
    pieces = data.split([*sizes, len(data) - sum(sizes)])
    return torch.cat([*map(windowed.push, pieces), windowed.finish()])


def test_encode_pads_to_whole_frames(codec: Codec) -> None:
    codes = codec.encode(torch.randn(2, 7 * HOP + 1))
    assert codes.shape == (2, 8, 4) and 0 <= int(codes.min()) and int(codes.max()) < 32


def test_a_prefix_of_the_books_decodes(codec: Codec) -> None:
    codes = codec.encode(torch.randn(1, 10 * HOP))
    latents = [codec.quantizer.decode(codes[..., :k]) for k in (1, 2, 4)]
    assert all(x.shape == (1, 10, 24) for x in latents)
    assert not torch.allclose(latents[0], latents[1])


def test_quantised_training_latent_is_what_the_codes_decode_to(codec: Codec) -> None:
    latent, semantic = torch.randn(2, 12, 24), torch.randn(2, 12, 24)
    total, first, codes, _ = codec.quantizer(latent, semantic, torch.tensor([4, 2]))
    assert torch.allclose(total[0], codec.quantizer.decode(codes[:1])[0], atol=1e-5)
    assert torch.allclose(total[1], codec.quantizer.decode(codes[1:, :, :2])[0], atol=1e-5)
    assert torch.equal(codes, codec.quantizer.encode(latent, semantic))


def test_first_book_hears_only_its_share_of_the_reconstruction() -> None:
    torch.manual_seed(0)
    fresh = Codec(SMALL)
    gradients = []
    for share in (1.0, 0.25):
        generator = torch.Generator().manual_seed(1)
        latent, semantic = (torch.randn(1, 12, 24, generator=generator) for _ in range(2))
        semantic.requires_grad_(True)
        fresh.quantizer.eval()
        total, *_ = fresh.quantizer(latent, semantic, torch.tensor([1]), share)
        total.square().sum().backward()
        gradients.append(semantic.grad)
    assert torch.allclose(gradients[1], 0.25 * gradients[0], atol=1e-6)


def test_dead_entries_move_to_the_data() -> None:
    torch.manual_seed(0)
    book = Codebook(8, 16, 4).train()
    with torch.no_grad():
        book.entries[5] = -100.0 * torch.ones(4)
        book.usage[5] = -1.0
    before = book.entries[5].clone()
    book(torch.randn(2, 30, 8))
    assert not torch.equal(before, book.entries[5]) and book.usage[5] > 0.5


@pytest.fixture
def book() -> PhonemeCodebook:
    torch.manual_seed(0)
    made = PhonemeCodebook(8, 12, 4).eval()
    made.sounds.copy_(torch.arange(12) // 4 * 3)  # of sounds 0, 3 and 6
    return made


def test_a_told_code_is_the_nearest_of_its_sound(book: PhonemeCodebook) -> None:
    x = torch.randn(5, 40, 8)
    told = torch.randint(0, 3, (5, 40)) * 3
    codes, near = book.encode(x, told), book.similarity(x)
    assert torch.equal(book.sounds[codes], told)
    for sound in (0, 3, 6):
        mine = torch.where(book.sounds == sound, near, -torch.inf).argmax(-1)
        assert torch.equal(codes[told == sound], mine[told == sound])
    nobody_knows = torch.where(torch.rand(5, 40) < 0.5, -100, 2)  # unknown, and a sound without an entry
    assert torch.equal(book.encode(x, nobody_knows), book.encode(x)) and torch.equal(book.encode(x), near.argmax(-1))
    assert torch.equal(book(x, told)[1], codes)


def test_what_is_heard_sums_the_entries_of_a_sound(book: PhonemeCodebook) -> None:
    x = torch.randn(3, 8)
    law = (10 * book.similarity(x)).softmax(-1)
    assert torch.allclose(book.phoneme_log_probs(x).exp()[:, [0, 3, 6]], law.unflatten(-1, (3, 4)).sum(-1), atol=1e-6)


def test_known_words_are_told_to_the_first_book() -> None:
    torch.manual_seed(0)
    codec = Codec(replace(SMALL, first_by_sound=True)).eval()
    first = codec.quantizer.codebooks[0]
    first.sounds.copy_(torch.arange(len(first.entries)) % 5)
    wave = torch.randn(1, 30 * HOP)
    heard = codec.phonetic(wave)
    told = codec.align(heard, [2, 1, 4])
    assert torch.unique_consecutive(told[told != 0]).tolist() == [2, 1, 4]
    codes = codec.encode(wave, heard, told)
    assert torch.equal(first.sounds[codes[..., 0]], told)
    assert 9 in codec.align(heard, [2, 9, 4])  # no entry says 9: still it has its place
    assert codec.align(heard, [1, 2] * 15) is not None and codec.align(heard, []) is None
    assert codec.align(heard, [1, 2] * 15 + [3]) is None and codec.align(heard, [1] * 16) is None


def test_a_dead_entry_moves_to_vectors_of_its_sound(book: PhonemeCodebook) -> None:
    x, told = torch.randn(2, 30, 8), torch.tensor([0, 3, 6]).repeat(2, 10)
    book.train().usage[5] = -1.0
    with torch.no_grad():
        book.entries[5] = -100.0 * torch.ones(4)
    book(x, told)
    unit = book._unit(x)[told == 3]
    assert (book.entries[5] - unit).abs().amax(-1).min() < 1e-5


@pytest.mark.parametrize("sizes", [[1] * 50, [20, 31]])
def test_refiner_stream_equals_whole(refiner: Refiner, sizes: list[int]) -> None:
    codes, speaker, prompt = torch.randint(32, (60,)), torch.randn(1, 16), torch.randn(1, 20, 24)
    fn = lambda c: refiner(c, speaker, prompt)
    whole = fn(codes[None])[0]
    assert (stream(fn, refiner.left, refiner.right, codes, sizes) - whole).abs().max() < 1e-5


def test_the_refiner_speaks_at_the_pitch_it_is_given_or_guesses_one(refiner: Refiner) -> None:
    codes, speaker = torch.randint(32, (1, 20)), torch.randn(1, 16)
    torch.nn.init.normal_(refiner.pitch.table.weight)
    low, logits = refiner.refine(codes, speaker, pitch=torch.full((1, 20), 3))
    high, same = refiner.refine(codes, speaker, pitch=torch.full((1, 20), 40))
    assert torch.equal(logits, same) and not torch.allclose(low, high)
    certain = torch.full((1, 2, 49), -50.0)
    certain[0, 0, 7], certain[0, 1, 0] = 50.0, 50.0
    assert torch.allclose(refiner.pitch(certain)[0], refiner.pitch.table.weight[[7, 0]], atol=1e-5)
    between = torch.full((1, 1, 49), -50.0)
    between[0, 0, 7:9] = 50.0
    assert torch.allclose(refiner.pitch(between)[0, 0], refiner.pitch.table.weight[7:9].mean(0), atol=1e-4)
    torch.nn.init.zeros_(refiner.pitch.table.weight)


def test_refiner_window_bounds_its_reach(refiner: Refiner) -> None:
    codes, speaker = torch.randint(32, (1, 60)), torch.randn(1, 16)
    changed = codes.clone()
    changed[0, 20] = (changed[0, 20] + 1) % 32
    moved = (refiner(codes, speaker) - refiner(changed, speaker)).abs().sum(-1)[0] > 1e-6
    reach = 2 * 9 + refiner.stem.left
    assert moved[20] and not moved[20 + reach + 1 :].any() and not moved[: 20 - refiner.right].any()
    assert moved[20 : 20 + reach].any()


def test_speaker_vector_has_one_length_and_hears_the_voice() -> None:
    torch.manual_seed(0)
    encoder = SpeakerEncoder(SpeakerConfig(width=24, layers=2, embedding=16)).eval()
    low = torch.sin(torch.arange(16000) * 0.05)[None]
    high = torch.sin(torch.arange(16000) * 0.7)[None]
    a, b = encoder(low), encoder(high)
    assert torch.allclose(a.norm(), torch.tensor(4.0), atol=1e-3) and not torch.allclose(a, b, atol=1e-2)
