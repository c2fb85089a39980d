"""Both multi-codebook recipes: what training computes is what decoding computes, and a little of it helps."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from learning import item_of, learn, made_up

from conftest import TINY, base_of
from tts_demo.config import Sampling, UserError
from tts_demo.lm import lora
from tts_demo.lm.block import training_forward
from tts_demo.methods.qtts import QTTS
from tts_demo.methods.qtts.delay import DelayStrategy
from tts_demo.methods.qtts.hierarchical import HierarchicalStrategy
from tts_demo.train.data.sampled_codes import sample_delay, sample_hierarchical
from tts_demo.train.data.sequences import SpeechBatch, prefix_batch
from tts_demo.train.progress import Progress
from tts_demo.train.recipes import qtts as recipe
from tts_demo.train.recipes.lm import base_inputs
from tts_demo.train.recipes.qtts import (
    CODEBOOK_COUNTS,
    DELAYS,
    IGNORE,
    Dials,
    QTTSDelayTask,
    QTTSHierarchicalTask,
    QTTSSettings,
)

TASKS = {"delay": QTTSDelayTask, "hierarchical": QTTSHierarchicalTask}


class TinyData:
    """Sequences of a made-up language: any first code, and a book's code is the code of the book below plus 3."""

    def batch(self, rng: np.random.Generator, size: int = 6) -> SpeechBatch:
        first = lambda text, frames, codes: torch.from_numpy(rng.integers(0, codes, (len(text), frames, 1)))
        spoken = lambda text, frames, codes: (first(text, frames, codes) + torch.arange(8) * 3) % codes
        return made_up(TINY, rng, size, spoken=spoken)

    def held_out(self, batches: int = 1) -> list[SpeechBatch]:
        return [self.batch(np.random.default_rng(99), 16)]


def make_task(strategy: str, tiny_lm, noise: float = 0.0):
    torch.manual_seed(0)
    task = TASKS[strategy].__new__(TASKS[strategy])  # without speech on disk
    task.lm = copy.deepcopy(tiny_lm)  # LoRA goes into it
    task.data = TinyData()
    task.base, task.codebooks, task.delays = tiny_lm, CODEBOOK_COUNTS, DELAYS
    task.own = task.distil = task.guide = 0.0
    task.adapt(torch.randn(8, tiny_lm.config.speech_codes, 4))
    for name, weight in task.adapter.named_parameters():
        weight.data.add_(torch.randn_like(weight) * noise)
    return task


@pytest.mark.parametrize(
    "strategy, books, d", [("delay", 8, 1), ("delay", 4, 3), ("hierarchical", 8, 1), ("hierarchical", 2, 1)]
)
def test_training_rows_equal_decoding_rows(strategy, books, d, tiny_lm):
    """Greedy decoding from a prefix alone, then teacher forcing of what was spoken: same hidden states, same scores."""
    task = make_task(strategy, tiny_lm, noise=0.1)
    method = QTTS(base_of(tiny_lm), {**QTTS.build_modules(tiny_lm), task.name: task.adapter})
    text, speaker = torch.randint(1, 20, (6,)), torch.randn(tiny_lm.config.speaker)
    prefix = tiny_lm.prefix(text, ("x",) * 6, speaker, torch.zeros(0, 8, dtype=torch.long))
    state = method.prefill(
        prefix,
        QTTS.Options(strategy=strategy, codebooks=books, delay=d),
        Sampling(2.0, 0, 1.0),
        torch.Generator().manual_seed(1),
        9,
        True,
    )
    hidden, frames = [], []
    while not state.done:
        frames.append(method.step(state).frames)
        hidden.append(state.hidden[0])
    spoken = torch.cat(frames)
    longer = torch.cat([torch.nn.functional.pad(spoken, (0, 8 - books)), torch.zeros(3, 8, dtype=torch.long)])
    batch = SpeechBatch(
        torch.nn.functional.pad(text, (0, 2))[None],
        torch.tensor([6]),
        longer[None],
        torch.tensor([9]),
        speaker[None],
        torch.zeros(1, 12).long(),
    )
    with torch.no_grad():
        if strategy == "delay":
            rows, _, targets, _ = task.rows(batch, Dials(books, d), longer[None, :, :books])
            assert targets[0, 9, 0] == tiny_lm.config.eos and (targets[0, 10:, 0] == IGNORE).all()
        else:
            rows, _, _, _ = task.rows(batch, longer[None, :, :books])
    torch.testing.assert_close(rows[0, : len(hidden)], torch.stack(hidden), atol=2e-3, rtol=2e-3)


def test_delay_scores_see_no_later_book(tiny_lm):
    """Teacher-forced logits of book k at frame f do not move when books >= k of frame f, or later frames, change."""
    task = make_task("delay", tiny_lm, noise=0.1)
    batch, dials = task.data.batch(np.random.default_rng(0), 2), Dials(4, 2)
    changed = dataclasses.replace(batch, codes=batch.codes.clone())
    changed.codes[:, 5, 2:] = (changed.codes[:, 5, 2:] + 1) % 32
    with torch.no_grad():
        (hidden, below, *_), (other, told, *_) = (task.rows(b, dials, b.codes[..., :4]) for b in (batch, changed))
        a, b = (
            task.adapter.scores(h.flatten(0, 1), k.flatten(0, 1)).view(3, 2, -1, 32)
            for h, k in ((hidden, below), (other, told))
        )
    row = 5 + 2 * 2  # the step at which book index 2 speaks frame 5
    torch.testing.assert_close(a[:, :, : row + 1], b[:, :, : row + 1])
    assert not torch.allclose(a[:, :, row + 1 :], b[:, :, row + 1 :])


@pytest.mark.parametrize("strategy", TASKS)
def test_padding_changes_nothing(strategy, tiny_lm):
    """An item alone and in a batch of longer ones gets the same predictions."""
    task = make_task(strategy, tiny_lm, noise=0.1)
    batch = task.data.batch(np.random.default_rng(1))
    f = int(batch.frames[0])
    with torch.no_grad():
        one, many = (task.predict(b, Dials(4, 2), b.codes[..., :4]) for b in (item_of(batch), batch))
    torch.testing.assert_close(one.first, many.first[: f + 1], atol=1e-4, rtol=1e-4)
    rows = one.rest.shape[1]
    assert torch.equal(one.rest_targets, many.rest_targets[:, :rows])
    real = one.rest_targets != IGNORE
    torch.testing.assert_close(one.rest[real], many.rest[:, :rows][real], atol=1e-4, rtol=1e-4)
    assert int(real.sum()) == 3 * f and one.first_targets[-1] == tiny_lm.config.eos


@pytest.mark.parametrize("strategy", TASKS)
def test_training_starts_at_the_base_and_learns_the_other_books(strategy, tiny_lm):
    task = make_task(strategy, tiny_lm)
    base = {k: v.clone() for k, v in tiny_lm.state_dict().items()}
    before = task.evaluate()
    assert before["8 codebooks, delay 1: other codebooks, nats"] == pytest.approx(np.log(32), abs=1e-4)
    loss_of = lambda step: task.loss(task.batch(np.random.default_rng(step), step), Progress(step))
    learn(task.adapter.parameters(), loss_of, 40, 3e-3)
    after = task.evaluate()
    assert (
        after["8 codebooks, delay 1: other codebooks, nats"]
        < 0.6 * before["8 codebooks, delay 1: other codebooks, nats"]
    )
    assert after["8 codebooks, delay 1: codebook 1, nats"] < before["8 codebooks, delay 1: codebook 1, nats"]
    lora.detach(task.lm.backbone)
    for key, value in task.lm.state_dict().items():
        assert torch.equal(value, base[key]), key
    unmoved = [n for n, p in task.adapter.named_parameters() if p.grad is None or not p.grad.abs().sum()]
    assert unmoved == []


def test_dials_can_be_pinned():
    settings = QTTSSettings.parse({"codebooks": "8"})
    assert settings.codebooks == (8,) and settings.delay == DELAYS and QTTSSettings().codebooks == CODEBOOK_COUNTS
    with pytest.raises(UserError, match="some of 2, 4, 8"):
        QTTSSettings.parse({"codebooks": "3"})


@pytest.mark.parametrize("strategy, draw", [("delay", sample_delay), ("hierarchical", sample_hierarchical)])
def test_what_rows_draw_together_is_what_teacher_forcing_expects_of_each(strategy, draw, tiny_lm):
    """Greedy: fed with what was drawn, every higher book's likeliest code is the one that was drawn; book 1 is the
    recording's."""
    task = make_task(strategy, tiny_lm, noise=0.2)
    batch = task.data.batch(np.random.default_rng(3))
    kind = {"delay": DelayStrategy, "hierarchical": HierarchicalStrategy}[strategy]
    for books in (8, 3):
        given = dataclasses.replace(batch, codes=batch.codes[..., :books])
        codes = draw(kind(base_of(task.lm), task.adapter), Sampling(temperature=0), given, torch.Generator())
        there = torch.arange(codes.shape[1]) < batch.frames[:, None]
        assert codes.shape == given.codes.shape and torch.equal(codes[there][:, 0], given.codes[there][:, 0])
        assert (codes[there] != given.codes[there]).any()
        expected = task.predict(dataclasses.replace(batch, codes=codes), Dials(books), codes)
        said = expected.rest_targets != IGNORE
        assert torch.equal(expected.rest.argmax(-1)[said], expected.rest_targets[said])


@pytest.mark.parametrize("strategy", TASKS)
def test_an_item_s_own_draws_are_what_decoding_may_draw(strategy, tiny_lm):
    """Of certain heads: drawn all at once, again and again, they become what speaking frame by frame draws."""
    task = make_task(strategy, tiny_lm, noise=0.2)
    batch, books = task.data.batch(np.random.default_rng(4)), 3
    kind, draw = {"delay": (DelayStrategy, sample_delay), "hierarchical": (HierarchicalStrategy, sample_hierarchical)}[
        strategy
    ]
    for head in task.adapter.outer, task.adapter.bias:
        head.data *= 1e4  # one code has all of the probability
    given = dataclasses.replace(batch, codes=batch.codes[..., :books])
    wanted = draw(kind(base_of(task.lm), task.adapter), Sampling(temperature=0), given, torch.Generator())
    codes = given.codes
    for _ in range(3 * codes.shape[1]):
        codes = task.own_samples(dataclasses.replace(given, codes=codes), Dials(books))
    there = torch.arange(codes.shape[1]) < batch.frames[:, None]
    assert torch.equal(codes[there], wanted[there]) and not torch.equal(codes[there], given.codes[there])


@pytest.mark.parametrize("strategy", TASKS)
def test_behind_its_own_draws_only_the_first_book_is_taught(strategy, tiny_lm):
    task = make_task(strategy, tiny_lm, noise=0.1)
    task.own = task.distil = 1.0
    loss, parts = task.loss(task.batch(np.random.default_rng(0), 0), Progress())
    loss.backward()
    assert set(parts) == {"codebook 1", "distil"} and task.adapter.bias.grad is None
    assert all(p.grad.any() for p in task.adapter.lora.parameters())


@pytest.mark.parametrize("strategy", TASKS)
def test_an_adapter_that_adds_nothing_has_nothing_to_learn_from_the_base(strategy, tiny_lm):
    """Untrained it is the base: its cross-entropy to the base's law is that law's entropy, the least there is."""
    task = make_task(strategy, tiny_lm)
    task.distil = 1.0
    task.loss(task.batch(np.random.default_rng(0), 0), Progress())[0].backward()
    assert max(float(p.grad.abs().max()) for p in task.adapter.lora.parameters()) < 1e-6
    for name, weight in task.adapter.lora.named_parameters():
        weight.data.add_(torch.randn_like(weight))
    task.adapter.zero_grad()
    task.loss(task.batch(np.random.default_rng(0), 0), Progress())[0].backward()
    assert max(float(p.grad.abs().max()) for p in task.adapter.lora.parameters()) > 1e-4


@pytest.mark.parametrize("strategy", TASKS)
def test_looks_are_those_of_the_rows_that_decide_the_first_book(strategy, tiny_lm, monkeypatch):
    """Of an untrained adapter they are the base's; a loss on them moves LoRA."""
    monkeypatch.setattr(recipe, "ALIGNMENT_LAYERS", (1,))
    task = make_task(strategy, tiny_lm)
    batch, _ = task.batch(np.random.default_rng(0), 0)
    prefix, text = prefix_batch(tiny_lm, batch), batch.text.shape[1]
    start = prefix.x.shape[1] - 1
    _, expected = training_forward(
        tiny_lm,
        *base_inputs(tiny_lm, prefix, batch.codes[..., 0]),
        (1,),
        slice(start, None),
        slice(start - text, start),
    )
    looks = task.predict(batch, Dials(4, 2), batch.codes[..., :4], (1,)).attention
    assert len(looks) == 1 and looks[0].shape == (len(batch.frames), batch.codes.shape[1] + 1, text)
    there = torch.arange(looks[0].shape[1]) <= batch.frames[:, None]
    torch.testing.assert_close(looks[0][there], expected[0][there], atol=1e-5, rtol=1e-5)
    task.guide = 0.5
    loss, parts = task.loss((batch, Dials(4, 2)), Progress())
    loss.backward()
    assert parts["guide"] > 0 and any(p.grad.any() for p in task.adapter.lora.parameters())
