"""The draft's recipe: only its own parts learn, the base teaches, and a little training raises acceptance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import TINY, make_lm

from tts_demo.config import Sampling
from tts_demo.lm.sampling import distribution
from tts_demo.methods.ssd import Draft, DraftConfig, before, draft_decoder, ear
from tts_demo.train import RECIPES
from tts_demo.train.lm import base_inputs
from tts_demo.train.sequences import SpeechBatch, prefix_batch
from tts_demo.train.ssd_draft import DEEPEST, DraftTask, ShallowLM, apart, depths, drafting_mask


class TinyData:
    """Sequences of a random language: every code is the one before plus a step that the text's first id sets."""

    def __init__(self, text_vocab: int, codes: int, speaker: int) -> None:
        self.shape = (text_vocab, codes, speaker)

    def batch(self, rng: np.random.Generator, size: int = 6) -> SpeechBatch:
        text_vocab, codes, speaker = self.shape
        lengths, frames = torch.from_numpy(rng.integers(3, 7, size)), torch.from_numpy(rng.integers(8, 15, size))
        text = torch.from_numpy(rng.integers(1, text_vocab, (size, 6)))
        text[torch.arange(6) >= lengths[:, None]] = 0
        spoken = (torch.arange(14) * (1 + text[:, :1] % 3)) % codes
        spoken[torch.arange(14) >= frames[:, None]] = 0
        vectors = torch.from_numpy(rng.standard_normal((size, speaker))).float()
        return SpeechBatch(text, lengths, spoken[..., None].expand(-1, -1, 8), frames, vectors, torch.zeros(size, 14).long())

    def held_out(self) -> list[SpeechBatch]:
        return [self.batch(np.random.default_rng(99), 16)]


@pytest.fixture
def task(tiny_lm):
    torch.manual_seed(0)
    task = DraftTask.__new__(DraftTask)  # without speech on disk
    task.lm, task.distil = tiny_lm, 0.8
    task.draft = Draft(tiny_lm).requires_grad_(True)
    task.shallow = ShallowLM.of(tiny_lm, task.draft)
    task.data = TinyData(tiny_lm.config.text_vocab, tiny_lm.config.speech_codes, tiny_lm.config.speaker)
    return task


def test_recipe_is_registered():
    assert RECIPES["ssd-draft"] == "ssd_draft.DraftTask" and DraftTask.name == "ssd-draft"


def test_an_untouched_draft_of_all_layers_is_the_base(task):
    student, teacher, targets, depth = task.logits(task.data.held_out()[0])
    torch.testing.assert_close(student, teacher)
    assert targets.shape == teacher.shape[:2] and (targets == task.lm.config.eos).sum() == 2 * 16 and len(depth) == 29
    scores = task.evaluate()
    assert [v for k, v in scores.items() if "acceptance" in k] == pytest.approx([1] * 4, abs=1e-4)


def test_how_far_the_laws_are_apart():
    """What would be rejected is what ``judge`` rejects; what is astray is the draft's mass where the base has none. Both teach."""
    student, teacher = (3 * torch.randn(64, 40, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    p, q = distribution(student, Sampling()), distribution(teacher, Sampling())
    rejected, astray = apart(student.requires_grad_(), teacher)
    torch.testing.assert_close(rejected, (p * (1 - (q / p).clamp(max=1)).nan_to_num()).sum(-1))  # sum of p(x) (1 - min(1, q / p))
    assert ((astray <= rejected + 1e-6) & (astray >= 0)).all() and 0 < astray.mean() < rejected.mean()
    torch.testing.assert_close(astray, torch.stack([row[law == 0].sum() for row, law in zip(p, q)]))
    for share in (rejected, astray):
        gradient, = torch.autograd.grad(share.mean(), student, retain_graph=True)
        assert (apart(student - 300 * gradient, teacher)[share is astray].mean() < share.mean()) and gradient.abs().sum() > 0
    assert max(float(share.max()) for share in apart(teacher, teacher)) < 1e-5


def test_padding_changes_nothing(task):
    """An item alone and in a batch of longer ones gets the same logits."""
    batch = task.data.batch(np.random.default_rng(1))
    n, f = int(batch.text_lengths[0]), int(batch.frames[0])
    alone = SpeechBatch(batch.text[:1, :n], batch.text_lengths[:1], batch.codes[:1, :f], batch.frames[:1],
                        batch.speaker[:1], batch.alignment[:1, :f])
    torch.nn.init.normal_(task.draft.listen.weight, std=0.2)
    longest = batch.codes.shape[1]
    rows = [*range(f + 1), *range(longest + 1, longest + 1 + f)]
    torch.testing.assert_close(task.logits(alone)[0][0], task.logits(batch)[0][0, rows], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("distil, score, sign", [(1.0, "acceptance at tolerance 0", 1), (0.0, "draft cross-entropy", -1)])
def test_training_moves_only_the_drafts_parts(task, distil, score, sign):
    """Towards the base when it teaches, towards the data when that does."""
    base = {k: v.clone() for k, v in task.lm.state_dict().items()}
    task.distil = distil
    with torch.no_grad():
        for weight in task.draft.parameters():
            weight.add_(torch.randn_like(weight) * weight.std() * 0.3)
    before = task.evaluate()
    optimiser = torch.optim.AdamW(task.draft.parameters(), lr=3e-3)
    for step in range(30):
        loss, parts = task.loss(task.data.batch(np.random.default_rng(step)), step)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = task.evaluate()
    assert sign * (after[score] - before[score]) > 0.05, (before, after)
    assert all(torch.equal(v, base[k]) for k, v in task.lm.state_dict().items())
    assert all(p.grad is not None for p in task.draft.parameters())
    assert set(parts) == {"ce", "distil", "rejected", "astray"}


def test_its_blocks_are_a_sixth_of_the_bases_and_its_own_begin_as_those_before_the_shared(task):
    shapes = [DraftConfig.of(replace(task.lm.config, layers=layers)) for layers in (2, 12, 24)]
    assert [(c.trained, c.shared) for c in shapes] == [(1, 1), (1, 1), (2, 2)]
    lm = make_lm(replace(TINY, layers=12))
    draft = Draft(lm)
    assert torch.equal(draft.layers[0].mlp.up_proj.weight, lm.backbone.layers[10].mlp.up_proj.weight)
    assert [id(b) for b in draft.blocks(lm)[1:]] == [id(lm.backbone.layers[11])]


def listening(task: DraftTask) -> Draft:
    """The task's draft, changed so that it listens and hears itself otherwise than the base."""
    draft = task.draft
    with torch.no_grad():
        torch.nn.init.normal_(draft.listen.weight, std=0.2)
        draft.layers[0].mlp.down_proj.weight.add_(torch.randn_like(draft.layers[0].mlp.down_proj.weight))
    return draft


def test_a_fresh_draft_hears_nothing(task):
    batch = task.data.batch(np.random.default_rng(3))
    deaf = task.logits(batch)[0]
    listening(task)
    assert (task.logits(batch)[0] - deaf).abs().max() > 0.01


@pytest.mark.parametrize("phase", range(DEEPEST))
@torch.no_grad()
def test_it_learns_from_what_it_does_when_drafting(task, phase):
    """One sentence: what every pass drafts with caches, one token after the other, is what the recipe scores."""
    draft, lm = listening(task), task.lm
    item = task.data.batch(np.random.default_rng(5), 1)
    codes = item.codes[:, : item.frames[0]]
    item = replace(item, text=item.text[:, : item.text_lengths[0]], codes=codes, alignment=item.alignment[:, : item.frames[0]])
    scored, _, _, depth = task.logits(item, phase=phase)
    x, _, mask = base_inputs(lm, prefix := prefix_batch(lm, item), codes[..., 0])
    c, f = prefix.x.shape[1], codes.shape[1]
    decoder, listen = draft_decoder(lm, draft), ear(draft, draft_decoder(lm, draft))
    hidden = lm.decoder.forward(x, lm.decoder.new_cache(c + f), 0, mask[0])[0]
    heard = before(hidden, c)
    for i in range(f + 1):  # i tokens are known and heard the base about
        cache = decoder.new_cache(c + f)
        itself = decoder.forward(listen(heard, x[0])[None, :c + i], cache, 0, mask[0, :c + i, :c + i], last=True)
        torch.testing.assert_close(decoder.logits(itself[0])[0], scored[0, i], atol=1e-4, rtol=1e-4)
        for deep in range(1, min(DEEPEST, f - i) + 1):
            row = c + i + deep - 1
            itself = decoder.forward(listen(itself[0], x[0, row:row + 1])[None], cache, row, last=True)
            place = i + deep - 1
            if depth[f + 1 + place] == deep:
                torch.testing.assert_close(decoder.logits(itself[0])[0], scored[0, f + 1 + place], atol=1e-4, rtol=1e-4)


def test_passes_begin_where_the_phase_says_and_are_of_every_depth():
    assert depths(8, 0).tolist() == [1, 2, 3, 1, 2, 3, 1, 2] and depths(8, 1).tolist() == [1, 2, 1, 2, 3, 1, 2, 3]
    seen = {(i, int(d)) for phase in range(DEEPEST) for i, d in enumerate(depths(9, phase))}
    assert seen == {(i, d) for i in range(9) for d in range(1, min(DEEPEST, i + 1) + 1)}


def test_a_drafted_token_sees_its_own_pass_and_the_base_heard_before_it():
    mask = drafting_mask(depths(4, 0))  # passes of three, then one
    assert mask[:4, :4].equal(torch.ones(4, 4).tril().bool()) and not mask[:4, 4:].any()
    assert mask[4:].int().tolist() == [[0, 0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 0],
                                       [1, 1, 1, 0, 0, 0, 0, 1]]
