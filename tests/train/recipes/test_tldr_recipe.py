"""Recipe ``tldr``: what the loss sees and must not see, that training pays at every patch size, that decoding
agrees."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from learning import learn

from conftest import TINY, base_of, make_lm
from tts_demo.config import Sampling, UserError
from tts_demo.lineage import THROUGH
from tts_demo.lm import lora
from tts_demo.lm import sampling as sampling_module
from tts_demo.methods import REGISTRY
from tts_demo.methods.batched import BatchedPatches
from tts_demo.methods.tldr import TLDR
from tts_demo.methods.tldr.modules import AT_ONCE, TLDRAdapter, TLDRConfig
from tts_demo.train import RECIPES
from tts_demo.train.data.on_policy import PER_GROUP, REPEATS, generate_by, generate_rows
from tts_demo.train.data.sequences import SpeechBatch
from tts_demo.train.progress import Progress
from tts_demo.train.recipes import tldr
from tts_demo.train.recipes.lm import base_logits
from tts_demo.train.recipes.tldr import IGNORE, Patches, TLDRTask, early_endings, patch_logits, uneven_logits
from tts_demo.train.task import TrainOptions

ABLATIONS = {name: kind for name, kind in REGISTRY.items() if kind.variant_of == "tldr"}

LENGTHS = (13, 9, 4)


def speech(seed: int = 0) -> SpeechBatch:
    """Three items of unlike length; codes climb from a start that the voice gives away, so there is much to learn."""
    rng = torch.Generator().manual_seed(seed)
    size, frames, text = len(LENGTHS), torch.tensor(LENGTHS), torch.tensor([6, 5, 3])
    start = torch.randint(TINY.speech_codes, (size, 1), generator=rng)
    codes = (start + torch.arange(max(LENGTHS))) % TINY.speech_codes
    codes = (
        torch.where(torch.arange(max(LENGTHS)) < frames[:, None], codes, 0)[..., None].expand(-1, -1, 8).contiguous()
    )
    ids = torch.randint(1, TINY.text_vocab, (size, 6), generator=rng)
    speaker = F.one_hot(start[:, 0] % TINY.speaker, TINY.speaker).float()
    return SpeechBatch(
        torch.where(torch.arange(6) < text[:, None], ids, 0),
        text,
        codes,
        frames,
        speaker,
        torch.full((size, max(LENGTHS)), -1),
    )


def adapted(ablate: str = "none", stir: bool = True):
    """A tiny LM with an adapter attached; stirred: every weight counts."""
    lm = make_lm(seed=2).requires_grad_(False)
    torch.manual_seed(4)
    adapter = TLDRAdapter(lm, TLDRConfig.of(lm.config, ablate))
    if stir:
        for name, weight in adapter.named_parameters():
            weight.data.add_(torch.randn_like(weight) * (0.02 if "lora" in name else 0.1))
    plain = copy.deepcopy(lm)
    if adapter.lora is not None:
        lora.attach(lm.backbone, adapter.lora.spec, adapter.lora)
    return plain, lm, adapter


@pytest.mark.parametrize("ablate", ("none", "mean-pool"))
@pytest.mark.parametrize("size", (1, 3, 4))
def test_no_leak_of_a_patch_into_its_own_context(size, ablate):
    _, lm, adapter = adapted(ablate)
    batch, patch = speech(), 2
    with torch.no_grad():
        before, _ = patch_logits(lm, adapter, batch, size)
        codes = batch.codes.clone()
        codes[:, patch * size :] = (codes[:, patch * size :] + 5) % TINY.speech_codes
        after, _ = patch_logits(lm, adapter, replace(batch, codes=codes), size)
    moved = (after - before).abs().amax((0, 3))  # [N, P]
    assert moved[:patch].max() < 1e-5 and moved[patch, 0] < 1e-5  # all earlier tokens, and the patch's own first
    assert size == 1 or moved[patch, 1:].min() > 1e-3  # inside the patch the extractor reads what it has spoken
    assert moved[patch + 1].max() > 1e-3  # and the next patch's context has it


def test_inside_a_patch_only_earlier_tokens_are_read():
    for ablate, reads in (("none", True), ("parallel", False), ("mtp", False)):
        _, lm, adapter = adapted(ablate)
        batch, size = speech(), 4
        codes = batch.codes.clone()
        codes[:, 5] = (codes[:, 5] + 3) % TINY.speech_codes  # place 1 of patch 1
        with torch.no_grad():
            moved = (
                (
                    patch_logits(lm, adapter, replace(batch, codes=codes), size)[0]
                    - patch_logits(lm, adapter, batch, size)[0]
                )
                .abs()
                .amax((0, 3))
            )
        assert moved[1, :2].max() < 1e-5 and (moved[1, 2:].min() > 1e-3) == reads


@pytest.mark.parametrize("size", (1, 2, 4, 8))
def test_targets_are_the_speech_then_its_end_and_padding_carries_no_loss(size):
    _, lm, adapter = adapted()
    batch = speech()
    with torch.no_grad():
        logits, targets = patch_logits(lm, adapter, batch, size)
        assert targets.shape == (3, -(-14 // size), size) and logits.shape == (*targets.shape, TINY.vocab)
        for row, length, codes in zip(targets.flatten(1), LENGTHS, batch.codes[..., 0]):
            assert row[:length].tolist() == codes[:length].tolist() and row[length] == TINY.eos
            assert (row[length + 1 :] == IGNORE).all()
        loss = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), ignore_index=IGNORE)
        noise = torch.randint(TINY.speech_codes, batch.codes.shape)
        behind = torch.arange(batch.codes.shape[1])[None, :, None] >= batch.frames[:, None, None]
        logits, again = patch_logits(lm, adapter, replace(batch, codes=torch.where(behind, noise, batch.codes)), size)
        assert torch.equal(again, targets)
        other = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), ignore_index=IGNORE)
    torch.testing.assert_close(other, loss, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("ablate", ("none", "no-lora", "no-speaker", "mean-pool", "parallel", "mtp"))
@pytest.mark.parametrize("size", (1, 3, 8))
def test_decoding_an_utterance_gives_the_logits_of_training(monkeypatch, ablate, size):
    """The one test across both worlds: peft LoRA, padded batch and teacher forcing against merged, cached, lean
    steps."""
    plain, lm, adapter = adapted(ablate)
    batch, item = speech(), 0
    with torch.no_grad():
        expected, targets = patch_logits(lm, adapter, batch, size)
    kind = TLDR if ablate == "none" else ABLATIONS[f"tldr-{ablate}"]
    method = kind(base_of(plain), {kind.needs_weights[0]: adapter})
    length = int(batch.text_lengths[item])
    prefix = plain.prefix(batch.text[item, :length], ("t",) * length, batch.speaker[item], batch.codes[item, :0])
    script, seen = targets[item].flatten()[: LENGTHS[item] + 1].tolist(), []
    rest = iter(script + [0] * size)

    def told(logits, *_):
        seen.append(logits[0])
        return torch.tensor([next(rest)])

    monkeypatch.setattr(sampling_module, "sample", told)
    state = method.prefill(prefix, method.Options(patch_size=size), Sampling(), torch.Generator(), 50)
    while not method.step(state).done:
        pass
    assert state.emitted == LENGTHS[item]
    torch.testing.assert_close(
        torch.stack(seen)[: len(script)], expected[item].flatten(0, 1)[: len(script)], atol=2e-3, rtol=1e-3
    )


def test_decoding_patches_that_end_early_gives_the_logits_of_training(monkeypatch):
    """Whatever sizes the extractor's confidence leaves."""
    plain, lm, adapter = adapted("none")
    batch, item, size = speech(), 0, 6
    method, length = TLDR(base_of(plain), {"tldr": adapter}), int(batch.text_lengths[0])
    prefix = plain.prefix(batch.text[item, :length], ("t",) * length, batch.speaker[item], batch.codes[item, :0])
    script, seen = [*batch.codes[item, : LENGTHS[item], 0].tolist(), plain.config.eos], []
    rest = iter(script + [0] * size)

    def told(logits, *_):
        seen.append(logits[0])
        return torch.tensor([next(rest)])

    monkeypatch.setattr(sampling_module, "sample", told)
    options = method.Options(patch_size=size, confidence=0.8)
    state = method.prefill(prefix, options, Sampling(), torch.Generator(), 50)
    while not method.step(state).done:
        pass
    sizes = [len(patch) for patch in state.patches]
    assert len(set(sizes)) > 1 and max(sizes) <= size
    sizes += [size] * -(-max(0, max(LENGTHS) + 1 - sum(sizes)) // size)  # the batch's longer items
    with torch.no_grad():
        expected, targets, _ = uneven_logits(lm, adapter, batch, size, sizes)
    found = torch.cat([row[: len(patch)] for row, patch in zip(expected[item], state.patches)])
    assert torch.cat([row[: len(p)] for row, p in zip(targets[item], state.patches)])[: len(script)].tolist() == script
    torch.testing.assert_close(torch.stack(seen)[: len(script)], found[: len(script)], atol=2e-3, rtol=1e-3)


def test_early_ends_cover_the_batch():
    for seed in range(20):
        sizes = early_endings(37, 5, np.random.default_rng(seed))
        assert 38 <= sum(sizes) < 38 + 5 and max(sizes) <= 5 and min(sizes) >= 1


class TinyData:
    """Stands in for the corpus: batches by seed."""

    speech, train = None, ()

    def batch(self, rng: np.random.Generator) -> SpeechBatch:
        return speech(int(rng.integers(100)))

    def held_out(self) -> list[SpeechBatch]:
        return [speech(100 + i) for i in range(3)]


def even(size: int) -> list[int]:
    """Sizes of whole patches for a batch of ``speech``."""
    return [size] * -(-(max(LENGTHS) + 1) // size)


@pytest.fixture
def make_task(monkeypatch):
    monkeypatch.setattr(tldr, "sequences", lambda options, settings, frames: TinyData())
    monkeypatch.setattr(tldr, "load_lm", lambda root: make_lm(seed=2))
    monkeypatch.setattr(tldr, "describe", lambda *_: "none")

    def make(kind=TLDRTask, **settings):
        torch.manual_seed(0)
        return kind(TrainOptions(data=Path("unused"), settings=settings))

    return make


def test_training_helps_every_patch_size_and_leaves_the_base_alone(make_task):
    task = make_task()
    frozen = [(p, p.clone()) for p in task.lm.parameters() if not p.requires_grad]
    trained = {id(p) for p in task.adapter.parameters()}
    before = task.evaluate()
    loss_of = lambda step: task.loss(task.batch(np.random.default_rng(step), step), Progress(step))
    learn(task.adapter.parameters(), loss_of, 60, 2e-3)
    after = task.evaluate()
    entropies = [key for key in before if key.endswith("cross-entropy, nats")]
    assert [key.split(":")[0] for key in entropies] == [f"patch {p}" for p in (1, 2, 4, 6, 8)]
    assert all(after[key] < 0.8 * before[key] for key in entropies), (before, after)
    assert all(torch.equal(now, then) for now, then in frozen)
    assert all(id(p) in trained for p in task.lm.parameters() if p.requires_grad)  # only the adapter's own factors


@pytest.mark.parametrize("size", (1, 3))
def test_the_base_teaches_every_token_it_would_have_drawn(make_task, size):
    """The loss by hand, item by item: every token of every patch against the law of the base at that very place."""
    task = make_task(distil="1")
    batch = speech()
    with torch.no_grad():
        law = base_logits(task.base, batch, batch.codes[..., 0])
        logits, _ = patch_logits(task.lm, task.adapter, batch, size)
        assert law.shape[:2] == (3, max(LENGTHS) + 1)
        each = [
            -(law[i, : n + 1].softmax(-1) * logits[i].flatten(0, 1)[: n + 1].log_softmax(-1)).sum(-1)
            for i, n in enumerate(LENGTHS)
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tldr, "NOISE", 0.0)
            loss, parts = task.loss(Patches(batch, size, even(size)), Progress())
    assert set(parts) == {"ce", "distil"} and loss.item() == pytest.approx(parts["distil"])
    torch.testing.assert_close(loss, torch.cat(each).mean(), atol=1e-4, rtol=1e-4)
    assert all(not p.requires_grad for p in task.base.parameters()) and make_task().base is None


@pytest.mark.parametrize("early", ("0", "1"))
def test_patches_that_end_early_are_taught_too(make_task, early):
    """By the same law: where all patches are whole, the two losses are one."""
    task = make_task(distil="0.6", early=early, patch_size="5")
    seen = [task.batch(np.random.default_rng(i), i).sizes for i in range(8)]
    assert any(len(set(sizes)) > 1 for sizes in seen) == (early == "1")
    loss, parts = task.loss(task.batch(np.random.default_rng(1), 1), Progress(1))
    assert torch.isfinite(loss) and set(parts) == {"ce", "distil"}


def test_patches_learn_from_what_they_said_themselves(make_task):
    """Whole patches of one size, the same for as many steps as are drawn together, said by the weights of the moment;
    the base alone teaches, and learning brings what is drawn nearer to it."""
    with pytest.raises(UserError, match="distil"):
        make_task(spoken="1")
    task = make_task(distil="0.5", spoken="1", drawn="1", patch_size="3")
    told = [task.batch(np.random.default_rng(i), i) for i in range(PER_GROUP * REPEATS)]
    assert all(batch.self_generated and batch.size == 3 and set(batch.sizes) == {3} for batch in told)
    assert [id(batch) for batch in told[:PER_GROUP]] == [id(batch) for batch in told[PER_GROUP:]]
    batch = told[0]
    assert (
        batch.speech.codes.shape[1:] == (int(batch.speech.frames.max()), 1)
        and sum(batch.sizes) > batch.speech.frames.max()
    )
    seen = learn(task.adapter.parameters(), lambda step: task.loss(batch, Progress(step)), 12, 3e-3, torch.optim.Adam)
    assert all(set(parts) == {"own distil", "own rejected", "own outside"} for _, parts in seen)
    assert seen[-1][1]["own rejected"] < seen[0][1]["own rejected"]


def test_guided_heads_look_where_those_of_the_base_do(make_task, monkeypatch):
    """At the symbols of any token of a patch, of recordings and of what patches said themselves."""
    monkeypatch.setattr(tldr, "ALIGNMENT_LAYERS", (1,))
    monkeypatch.setattr("tts_demo.train.recipes.lm.ATTENDED", 0.0)  # a random model looks nowhere for sure
    with pytest.raises(UserError, match="distil"):
        make_task(guide="1")
    task = make_task(distil="0.5", guide="3", spoken="0.5", patch_size="2")
    batches = [task.batch(np.random.default_rng(i), i) for i in range(4 * PER_GROUP * REPEATS)]
    assert {batch.self_generated for batch in batches} == {True, False}
    for own, guide in ((True, "own guide"), (False, "guide")):
        batch = next(b for b in batches if b.self_generated == own)
        loss_of = lambda step, batch=batch: task.loss(batch, Progress(step))
        seen = learn(task.adapter.parameters(), loss_of, 12, 3e-3, torch.optim.Adam)
        assert 0 < seen[-1][1][guide] < seen[0][1][guide]


def test_what_a_method_says_is_its_own_run(make_task):
    task, greedy, random = make_task(distil="1"), Sampling(temperature=0), torch.Generator()
    method, batch = TLDR(base_of(task.base), {"tldr": task.adapter}), speech()
    options = method.Options(patch_size=4)
    spoken = generate_by(method, options, batch, 4, greedy, random)
    for i, frames in enumerate(spoken.frames.tolist()):
        text = batch.text[i, : batch.text_lengths[i]]
        prefix = task.base.prefix(text, (), batch.speaker[i], batch.codes[i, :4])
        state = method.prefill(prefix, options, greedy, random, frames - 4)
        while not state.done:
            method.step(state)
        said = torch.cat([batch.codes[i, :4, 0], *state.patches])[:frames]
        assert torch.equal(spoken.codes[i, :frames, 0], said)
    together = generate_rows(BatchedPatches(method, 4, greedy, random), task.base, batch, 4)
    assert all(torch.equal(a, b) for a, b in ((together.codes, spoken.codes), (together.frames, spoken.frames)))


def test_every_weight_of_every_kind_is_trained(make_task):
    for ablate in ("none", "no-lora", "no-speaker", "mean-pool", "parallel", "mtp"):
        task = make_task(ablate=ablate)
        for weight in task.adapter.parameters():  # zeros at the start hold gradients back
            weight.data.add_(torch.randn_like(weight) * 0.05)
        task.loss(Patches(speech(), 4, even(4)), Progress())[0].backward()
        idle = [name for name, p in task.adapter.named_parameters() if p.grad is None or not p.grad.any()]
        assert not [n for n in idle if not (ablate in AT_ONCE and n == "extractor.enter.weight")], (ablate, idle)


def test_ablations_store_under_their_own_name_and_bad_settings_are_refused(make_task):
    assert set(make_task().modules) == {"tldr"}
    task = make_task(ablate="no-lora", patch_size="4")
    assert task.name == "tldr-no-lora" and set(task.modules) == {"tldr-no-lora"} and task.adapter.lora is None
    assert {task.batch(np.random.default_rng(i), i).size for i in range(5)} == {4}
    assert set(TLDRTask(TrainOptions(data=Path("unused"))).sizes) == set(range(1, 9))
    for name, kind in ABLATIONS.items():
        module, recipe = RECIPES[name].split(".")
        task = getattr(tldr, recipe)
        assert module == "tldr" and name == kind.needs_weights[0] and task.ablate == kind.ablate
        assert name in (task.name, f"tldr-{task.ablate}") and name in THROUGH
    assert set(make_task(kind=tldr.ShortTask).modules) == {"tldr-short"}
    for settings in ({"ablate": "head"}, {"patch_size": "9"}, {"patch_size": "x"}):
        with pytest.raises(UserError):
            make_task(**settings)
