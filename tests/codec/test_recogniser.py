"""The ears: shapes, reading a path, and that training variations leave evaluation alone."""

from __future__ import annotations

import torch

from tts_demo.codec.recogniser import PhonemeRecogniser, RecogniserConfig, read
from tts_demo.config import HOP

SMALL = RecogniserConfig(width=16, lower=2, upper=1, middle=2, middle_width=24, heads=2)


def small(seed: int = 0) -> PhonemeRecogniser:
    torch.manual_seed(seed)
    ears = PhonemeRecogniser(SMALL).eval()
    for weight in (ears.up.weight, ears.up.bias):  # as if trained
        torch.nn.init.normal_(weight, std=0.1)
    return ears


def test_every_frame_is_told_at_odd_and_even_lengths() -> None:
    ears = small()
    for frames in (1, 2, 7, 30):
        spell, frame = ears.log_probs(torch.randn(frames * HOP + 17))
        assert spell.shape == frame.shape == (frames, SMALL.symbols)
        assert torch.allclose(spell.exp().sum(-1), torch.ones(frames), atol=1e-5)


def test_a_frame_depends_on_the_whole_utterance() -> None:
    ears, x = small(), torch.randn(1, 200, SMALL.mels, requires_grad=True)
    ears.hidden(x)[0, 3].sum().backward()
    assert x.grad is not None and (x.grad[0].abs().sum(-1) > 0).all()


def test_a_path_is_read_without_blanks_and_repeats() -> None:
    assert read(torch.tensor([0, 9, 9, 0, 3, 4, 0, 4, 7, 7, 0])) == [9, 3, 4, 4, 7]


def test_blocks_are_left_out_in_training_alone() -> None:
    ears, x = PhonemeRecogniser(SMALL, skip=0.5).eval(), torch.randn(2, 40, SMALL.mels)
    assert torch.equal(ears.hidden(x), ears.hidden(x))
    ears.train()
    assert not torch.equal(ears.hidden(x), ears.hidden(x))
