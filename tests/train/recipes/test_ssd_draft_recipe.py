"""The draft's recipe: only its own parts learn, the base teaches, and a little training raises acceptance."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from learning import item_of, learn, made_up

from conftest import TINY, base_of, make_lm
from tts_demo.config import Sampling
from tts_demo.lm.sampling import probabilities
from tts_demo.methods.ssd import Draft, cache_over, catch_up, draft_decoder, feature_projection, preceding
from tts_demo.methods.ssd.draft import DraftConfig
from tts_demo.runtime import autocast
from tts_demo.train.data.on_policy import LONGER, PER_GROUP, REPEATS, OnPolicy, generate
from tts_demo.train.data.sequences import SpeechBatch, prefix_batch
from tts_demo.train.progress import Progress
from tts_demo.train.recipes.lm import base_inputs, disagreement
from tts_demo.train.recipes.ssd_draft import DEEPEST, DraftBatch, DraftSettings, DraftTask


class TinyData:
    """Sequences of a made-up language."""

    def batch(self, rng: np.random.Generator, times: int = 1, size: int = 6) -> SpeechBatch:
        return made_up(TINY, rng, times * size)

    def held_out(self) -> list[SpeechBatch]:
        return [self.batch(np.random.default_rng(99), size=16)]


@pytest.fixture(params=[True, False], ids=["base's cache", "own cache"])
def task(tiny_lm, request):
    torch.manual_seed(0)
    task = DraftTask.__new__(DraftTask)  # without speech on disk
    task.lm, task.distil, task.on_policy_samples = tiny_lm, 0.8, OnPolicy(0.0, 0, task._say)
    task.settings = DraftSettings()
    config = DraftConfig.of(tiny_lm.config, request.param)
    task.draft, task.decoder = Draft(tiny_lm, config).requires_grad_(True), base_of(tiny_lm).decoder
    task.data = TinyData()
    return task


def test_an_untouched_draft_of_all_layers_is_the_base(task):
    batch = task.data.held_out()[0]
    rows = task.rows(DraftBatch(batch))
    torch.testing.assert_close(rows.student, rows.teacher[rows.about])
    unread = task.draft.config.attends is not None  # it decides nothing before it has read a token
    assert (
        len(rows.targets) == len(rows.teacher) == int(batch.frames.sum()) + 16
        and (rows.targets == task.lm.config.eos).sum() == 16
    )
    assert [(rows.depth == deep).sum() for deep in range(DEEPEST + 1)] == [
        len(rows.teacher) - 16 * (deep + unread) for deep in range(DEEPEST + 1)
    ]
    scores = task.evaluate()
    assert [v for k, v in scores.items() if "acceptance" in k] == pytest.approx([1] * 8, abs=1e-4)


def test_how_far_the_laws_are_apart():
    """What would be rejected is what ``verify`` rejects; what is outside is the draft's mass where the base has none.
    Both teach."""
    student, teacher = (3 * torch.randn(64, 40, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    p, q = probabilities(student, Sampling()), probabilities(teacher, Sampling())
    rejected, outside = disagreement(student.requires_grad_(), q)
    # sum of p(x) (1 - min(1, q / p))
    torch.testing.assert_close(rejected, (p * (1 - (q / p).clamp(max=1)).nan_to_num()).sum(-1))
    assert ((outside <= rejected + 1e-6) & (outside >= 0)).all() and 0 < outside.mean() < rejected.mean()
    torch.testing.assert_close(outside, torch.stack([row[law == 0].sum() for row, law in zip(p, q)]))
    for share in (rejected, outside):
        (gradient,) = torch.autograd.grad(share.mean(), student, retain_graph=True)
        assert (
            disagreement(student - 300 * gradient, q)[share is outside].mean() < share.mean()
        ) and gradient.abs().sum() > 0
    assert max(float(share.max()) for share in disagreement(teacher, q)) < 1e-5


def test_padding_changes_nothing(task):
    """An item alone and in a batch of longer ones gets the same logits."""
    batch = task.data.batch(np.random.default_rng(1))
    listening(task)
    alone, together = task.rows(DraftBatch(item_of(batch))), task.rows(DraftBatch(batch))
    for deep in range(DEEPEST + 1):
        mine = (together.depth == deep) & (together.about <= int(batch.frames[0]))  # the first item's rows come first
        torch.testing.assert_close(alone.student[alone.depth == deep], together.student[mine], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "distil, score, sign", [(1.0, "acceptance at tolerance 0", 1), (0.0, "draft cross-entropy", -1)]
)
def test_training_moves_only_the_drafts_parts(task, distil, score, sign):
    """Towards the base when it teaches, towards the data when that does."""
    base = {k: v.clone() for k, v in task.lm.state_dict().items()}
    task.distil = distil
    with torch.no_grad():
        for weight in task.draft.parameters():
            weight.add_(torch.randn_like(weight) * weight.std() * 0.3)
    before = task.evaluate()
    loss_of = lambda step: task.loss(DraftBatch(task.data.batch(np.random.default_rng(step))), Progress(step))
    _, parts = learn(task.draft.parameters(), loss_of, 30, 3e-3)[-1]
    after = task.evaluate()
    assert sign * (after[score] - before[score]) > 0.05, (before, after)
    assert all(torch.equal(v, base[k]) for k, v in task.lm.state_dict().items())
    assert all(p.grad is not None for p in task.draft.parameters())
    assert set(parts) == {"ce", "distil", "rejected", "outside"}


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
        torch.nn.init.normal_(draft.feature_projection.weight, std=0.2)
        draft.layers[0].mlp.down_proj.weight.add_(torch.randn_like(draft.layers[0].mlp.down_proj.weight))
    return draft


def test_a_fresh_draft_hears_nothing(task):
    batch = task.data.batch(np.random.default_rng(3))
    deaf = task.rows(DraftBatch(batch)).student
    listening(task)
    assert (task.rows(DraftBatch(batch)).student - deaf).abs().max() > 0.01


@torch.no_grad()
def test_it_learns_from_what_it_does_when_drafting(task):
    """One sentence: what every pass drafts with caches, one token after the other, is what the recipe scores, at every
    depth."""
    draft, lm = listening(task), task.lm
    item = item_of(task.data.batch(np.random.default_rng(5), 1))
    codes, rows = item.codes, task.rows(DraftBatch(item))
    x, _, mask = base_inputs(lm, prefix := prefix_batch(lm, item), codes[..., 0])
    c, f = prefix.x.shape[1], codes.shape[1]
    decoder, listen = draft_decoder(base_of(lm).decoder, draft), feature_projection(draft, base_of(lm).decoder)
    base = base_of(lm).decoder.new_cache(c + f)
    hidden = base_of(lm).decoder.forward(x, base, 0, mask[0])[0]
    heard, compared, layers = preceding(hidden, c), 0, draft.config.base_layers
    # tokens are known, and the base has been heard about them; a draft on the base's cache reads the last one itself
    for i in range(0 if layers is None else 1, f + 1):
        if layers is None:
            cache = decoder.new_cache(c + f)
            itself = decoder.forward(listen(heard, x[0])[None, : c + i], cache, 0, mask[0, : c + i, : c + i], last=True)
        else:
            base_cache = base_of(lm).decoder.new_cache(c + f)
            base_of(lm).decoder.forward(x[:, : c + i - 1], base_cache, 0, mask[0, : c + i - 1, : c + i - 1])
            cache, row = cache_over(decoder, base_cache, layers), c + i - 1
            catch_up(cache, base_cache)
            itself = decoder.forward(listen(heard[row : row + 1], x[0, row : row + 1])[None], cache, row)
        for deep in range(min(DEEPEST, f - i) + 1):
            if deep:
                row = c + i + deep - 1
                itself = decoder.forward(listen(itself[0], x[0, row : row + 1])[None], cache, row, last=True)
            scored = rows.student[(rows.depth == deep) & (rows.about == i + deep)]
            torch.testing.assert_close(decoder.logits(itself[0]), scored, atol=1e-4, rtol=1e-4)
            compared += 1
    assert compared == len(rows.student)


def test_what_the_base_says_is_what_its_decoder_says(task):
    """Greedy: rows spoken together say what each says alone, from any frame on, with the states that decide it."""
    lm, batch, greedy = (
        copy.deepcopy(task.lm),
        task.data.batch(np.random.default_rng(6)),
        replace(Sampling(), temperature=0.0),
    )
    lm.__dict__.pop("decoder", None)  # built anew from the changed head
    with torch.no_grad():
        lm.head.weight[lm.config.eos] *= 2  # some come to an end by themselves, some are stopped
    ended = 0
    for kept in (0, 3):
        spoken, hidden = generate(lm, base_of(lm).decoder, batch, kept, greedy, torch.Generator())
        assert (spoken.frames <= (batch.frames * LONGER).long()).all() and spoken.frames.max() == spoken.codes.shape[1]
        assert torch.equal(spoken.codes[:, :kept], batch.codes[:, :kept, :1])
        for i in range(len(batch.frames)):
            item = item_of(spoken, i)
            x, _, mask = base_inputs(lm, prefix := prefix_batch(lm, item), item.codes[..., 0])
            full = base_of(lm).decoder.forward(x, base_of(lm).decoder.new_cache(x.shape[1]), 0, mask[0])[
                0, prefix.x.shape[1] - 1 :
            ]
            torch.testing.assert_close(hidden[i, : len(full)], full, atol=1e-4, rtol=1e-4)
            said, limit = base_of(lm).decoder.logits(full[kept:]).argmax(-1), int(batch.frames[i] * LONGER)
            assert torch.equal(said[:-1], item.codes[0, kept:, 0])
            assert len(full) - 1 == limit or said[-1] >= lm.config.speech_codes
            ended += len(full) - 1 < limit
    assert 0 < ended < 2 * len(batch.frames)


def test_batches_in_the_bases_own_words_are_those_of_their_step(task):
    """The same whether it came there step by step or was resumed, and none of them a recording."""
    task.on_policy_samples = OnPolicy(1.0, 7, task._say)
    group = PER_GROUP * REPEATS
    inorder = [task.batch(np.random.default_rng((7, step)), step) for step in range(group + 1)]
    assert inorder[PER_GROUP] is inorder[0]
    task.on_policy_samples = OnPolicy(1.0, 7, task._say)
    for step in (group, 2):
        again = task.batch(np.random.default_rng((7, step)), step)
        assert torch.equal(again.batch.codes, inorder[step].batch.codes) and torch.equal(
            again.hidden, inorder[step].hidden
        )
    if inorder[0].memory is not None:  # what is kept is what would be worked out
        with autocast("cpu"):  # as in training
            kept, fresh = (task.rows(speech).student for speech in (inorder[0], replace(inorder[0], memory=None)))
        torch.testing.assert_close(kept, fresh, atol=1e-2, rtol=1e-2)
    loss, _ = task.loss(inorder[0], Progress())
    loss.backward()
    assert all(p.grad is not None for p in task.draft.parameters())
    assert not torch.equal(inorder[0].batch.codes, inorder[1].batch.codes)
    task.on_policy_samples, task.process = OnPolicy(1.0, 7, task._say), 1  # another process says something else
    assert not torch.equal(task.batch(np.random.default_rng((7, 0, 1)), 0).batch.codes, inorder[0].batch.codes)
    task.on_policy_samples = OnPolicy(0.0, 7, task._say)
    assert task.batch(np.random.default_rng((7, 0)), 0).hidden is None


def test_a_larger_group_is_sampled_at_once_and_serves_more_steps(task):
    """Every batch of it in turn, and then a new group."""
    task.settings = DraftSettings(group=3, repeats=2)
    task.on_policy_samples = OnPolicy(1.0, 7, task._say, steps=6)
    told = [task.batch(np.random.default_rng((7, step)), step) for step in range(7)]
    assert [id(batch) for batch in told[:3]] == [id(batch) for batch in told[3:6]] and len(set(map(id, told))) == 4
    assert sum(len(batch.batch.codes) for batch in told[:3]) == len(task.data.batch(np.random.default_rng(0), 3).codes)
