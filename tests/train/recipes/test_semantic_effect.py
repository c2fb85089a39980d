"""The probe of the semantic loss: it hears what codes say, and nothing where they say nothing."""

from __future__ import annotations

import torch

from tts_demo.report.analyses import render
from tts_demo.train.recipes.semantic_effect import probe_error


def utterances(count: int, tells: bool, seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    labels = [torch.randint(1, 6, (80,), generator=rng).repeat_interleave(3) for _ in range(count)]
    noise = [torch.randint(4, row.shape, generator=rng) for row in labels]
    return [
        (4 * row + n if tells else torch.randint(24, row.shape, generator=rng), row) for row, n in zip(labels, noise)
    ]


def test_the_probe_hears_phonemes_in_codes_that_tell_them_and_only_there() -> None:
    heard, deaf = (
        probe_error(utterances(12, tells, 1), utterances(4, tells, 2), 24, steps=80) for tells in (True, False)
    )
    assert heard < 0.05 and deaf > 0.6


def test_the_table_says_what_trained_each_codec() -> None:
    rows = {
        name: {
            "phoneme_error": 0.5,
            "frames": 9,
            "perplexity": 3.0,
            "made_by": f"python train {name} (9 of 9 steps, 0.1 h)",
        }
        for name in ("with the semantic loss", "without it")
    }
    shown = render({"rows": {"semantic loss": rows}})
    assert "| without it | 50 | 3 | `python train without it` |" in shown and "9 held-out frames" in shown
