"""Real sentences from the bundled weights: at tolerance 0 the tokens have the baseline's statistics, and the test would
see it if they had not."""

from __future__ import annotations

import pytest
import torch

from tts_demo import audio, checkpoints
from tts_demo.config import Sampling
from tts_demo.lm.sampling import Distribution
from tts_demo.stacks import load_stack
from tts_demo.ui import voices

pytestmark = pytest.mark.skipif(
    not checkpoints.available(checkpoints.resolve("nano"), "ssd-draft"), reason="no bundled weights"
)
SENTENCES = ("The river was calm.", "Where is my hat?", "We waited for the morning.")
RUNS, SHUFFLES = 20, 1000


@pytest.fixture(scope="module")
def stack():
    return load_stack("nano", "cpu", "float32")


@torch.inference_mode()
def spoken(stack, prompt, method: str, offset: int, **options) -> torch.Tensor:
    """How often each token was said, [SENTENCES * RUNS, V], one row a run."""
    speaker, rows = stack.method(method), []
    for sentence in SENTENCES:
        prefix = stack.prefix(prompt, sentence)
        for run in range(RUNS):
            generator = torch.Generator().manual_seed(offset + run)
            state = speaker.prefill(prefix, speaker.Options(**options), Sampling(), generator, 150)
            steps = [speaker.step(state)]
            while not steps[-1].done:
                steps.append(speaker.step(state))
            rows.append(
                torch.bincount(torch.cat([step.frames[:, 0] for step in steps]), minlength=speaker.lm.config.vocab)
            )
    return torch.stack(rows).double()


def chance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Two-sample permutation test of token counts [R, V] each: how often two random halves of the runs, as many of each
    sentence as here, differ by as much (chi-square distance of all counts). Tokens of a run depend on each other;
    runs do not."""
    both = torch.stack([a, b], 1).view(len(SENTENCES), RUNS, 2, -1).transpose(1, 2).flatten(1, 2)  # [S, 2 RUNS, V]
    total, generator = both.sum((0, 1)), torch.Generator().manual_seed(0)

    def apart(first: torch.Tensor) -> float:
        half = torch.stack([runs[chosen].sum(0) for runs, chosen in zip(both, first)]).sum(0)
        return float(((2 * half - total) ** 2 / total.clamp(min=1)).sum())

    seen = apart(torch.arange(RUNS).expand(len(SENTENCES), -1))
    shuffled = [
        apart(torch.stack([torch.randperm(2 * RUNS, generator=generator)[:RUNS] for _ in SENTENCES]))
        for _ in range(SHUFFLES)
    ]
    return (1 + sum(v >= seen for v in shuffled)) / (1 + SHUFFLES)


def test_at_tolerance_0_the_tokens_of_real_sentences_are_the_baselines(stack, monkeypatch):
    recording = audio.read(voices.examples()[0].path, target=stack.sample_rate)
    prompt = stack.encode_prompt(recording.samples, recording.rate)
    baseline = spoken(stack, prompt, "baseline", 0)
    exact = spoken(stack, prompt, "ssd", 1000, tolerance=0.0, draft_length="3")
    assert chance(baseline, exact) > 0.002
    # And it would be seen if nobody judged: the draft's own law, three tokens of four.
    monkeypatch.setattr(
        "tts_demo.methods.ssd.method.verify",
        lambda r, drafted, p, q, *rest: torch.cat(
            [torch.tensor([len(drafted)]), drafted, Distribution(q.weights[-1:], q.ids[-1:]).sample()]
        ),
    )
    believed = spoken(stack, prompt, "ssd", 2000, tolerance=0.0, draft_length="3")
    assert chance(baseline, believed) < 0.01
