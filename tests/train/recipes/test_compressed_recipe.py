"""Training sees exactly what decoding sees, summaries carry no loss, and only the adapter learns."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from learning import learn, made_up

from conftest import TINY, base_of
from tts_demo.config import Sampling
from tts_demo.lm.lora import attach
from tts_demo.methods.compressed import Compressed, SummaryAdapter, text_position
from tts_demo.methods.compressed import method as compressed
from tts_demo.methods.compressed.method import CompressedState
from tts_demo.methods.compressed.text_position import TextPosition
from tts_demo.train.data.on_policy import PER_GROUP, OnPolicy
from tts_demo.train.data.sequences import SpeechBatch
from tts_demo.train.progress import Progress
from tts_demo.train.recipes import compressed as recipe
from tts_demo.train.recipes.compressed import BatchSetting, CompressedSettings, CompressedTask
from tts_demo.train.recipes.lm import OUTSIDE, REJECTION

FRAMES = 48


class TinyData:
    """Sequences of a made-up language."""

    def batch(self, rng: np.random.Generator, size: int = 4) -> SpeechBatch:
        return made_up(TINY, rng, size, 30, FRAMES, whole=1)

    def prompted(self, rng: np.random.Generator) -> tuple[SpeechBatch, int]:
        return self.batch(rng), 11

    def held_out(self, batches: int) -> list[SpeechBatch]:
        return [self.batch(np.random.default_rng(99))]

    def held_out_chains(self) -> list[SpeechBatch]:
        return [self.batch(np.random.default_rng(98), 1)]


@pytest.fixture
def task(tiny_lm):
    torch.manual_seed(0)
    task = CompressedTask.__new__(CompressedTask)  # without speech on disk
    task.base, task.lm, task.only = tiny_lm, copy.deepcopy(tiny_lm), {}
    task.guide = task.distil = task.text = task.sampling_weight = 0.0
    task.settings, task.on_policy = CompressedSettings(), OnPolicy(0.0, 0, task._sample)
    task.lm.__dict__.pop("decoder", None)
    task.adapter = SummaryAdapter(task.lm).requires_grad_(True)
    with torch.no_grad():
        for weight in task.adapter.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
    attach(task.lm.backbone, task.adapter.spec, task.adapter.lora)
    task.data = TinyData()
    return task


def hidden_states(method: Compressed, state: CompressedState, codes: torch.Tensor) -> torch.Tensor:
    """What decides the first token and those behind these codes [N], whatever the method itself would sample
    [N + 1, H]."""
    hidden = [state.hidden[0].clone()]
    method.step(state)  # the first token is decided by the first pass
    for code in codes:
        state.tokens[-1] = code[None]
        method.step(state)
        hidden.append(state.hidden[0].clone())
    return torch.cat(hidden)


@pytest.mark.parametrize("group, prompt", [(5, 7), (10, 0), (0, 3)])
def test_training_logits_are_decoding_logits(task, tiny_lm, group, prompt):
    """Each item of a padded batch, fed token by token to the evicting decoder, gets the logits it was trained on."""
    batch = task.data.batch(np.random.default_rng(1))
    with torch.no_grad():
        trained, targets, _ = task.logits(batch, BatchSetting(30, group, prompt), batch.codes[..., 0])
    assert (targets[:, :prompt] == -100).all() and (targets[:, prompt:] >= 0).sum() == (batch.frames + 1 - prompt).sum()
    method = Compressed(base_of(tiny_lm), {"compressed": task.adapter})
    for i in range(2):
        codes = batch.codes[i, : int(batch.frames[i])]
        prefix = tiny_lm.prefix(batch.text[i, : int(batch.text_lengths[i])], (), batch.speaker[i], codes[:prompt])
        prefix = replace(prefix, x=prefix.x.detach())
        options = method.Options(30, group)
        state = method.prefill(prefix, options, Sampling(), torch.Generator(), len(codes) + 1, forced=True)
        decoded = method.decoder.logits(hidden_states(method, state, codes[prompt:, 0]))
        torch.testing.assert_close(decoded, trained[i, prompt : len(codes) + 1], atol=1e-3, rtol=1e-3)


def test_settings_are_mixed_and_can_be_fixed(task):
    drawn = [task.batch(np.random.default_rng(i), i)[1] for i in range(60)]
    assert {s.window for s in drawn} == {30, 40, 50, 80, 120, 200} and {s.group for s in drawn} == {0, 5, 10, 15}
    assert any(s.prompt for s in drawn) and all(s.prompt <= 24 for s in drawn)
    task.only = {"window": 50, "group": 10}
    assert {(s.window, s.group) for s in (task.batch(np.random.default_rng(i), i)[1] for i in range(5))} == {(50, 10)}


def test_whole_utterances_stand_in_front_as_prompts(task):
    task.settings = CompressedSettings(prompted=1.0)
    sampled = [task.batch(np.random.default_rng(i), i)[1] for i in range(20)]
    assert {s.prompt for s in sampled} == {11} and len({s.window for s in sampled}) > 1
    task.settings = CompressedSettings(prompted=0.5)
    assert 3 < sum(task.batch(np.random.default_rng(i), i)[1].prompt == 11 for i in range(20)) < 17


def test_its_own_samples_teach_what_the_base_says_of_them(task, tiny_lm, monkeypatch):
    """Behind prompts that stay as recorded; the loss is the distance to the base's distribution on the sampled frames
    alone, and to where the base looks."""
    monkeypatch.setattr(recipe, "ALIGNMENT_LAYERS", (1,))
    monkeypatch.setattr(recipe, "WINDOWS", (30, 40))
    monkeypatch.setattr("tts_demo.train.recipes.lm.ATTENDED", 0.0)
    task.distil = 1.0
    task.on_policy = OnPolicy(1.0, 3, task._sample, tiny_lm)
    (batch, setting), (other, _) = (task.batch(np.random.default_rng(i), i) for i in range(2))
    assert setting.self_generated and setting.prompt == 11 and not torch.equal(batch.codes, other.codes)
    assert task.batch(np.random.default_rng(PER_GROUP), PER_GROUP)[0] is batch
    periods = 1 + batch.text[:, :1] % 3
    recorded = (torch.arange(11) * periods) % tiny_lm.config.speech_codes
    assert torch.equal(batch.codes[:, :11, 0], recorded)
    loss, parts = task.loss((batch, setting), Progress())
    assert set(parts) == {"own distil"} and loss.item() == pytest.approx(parts["own distil"])
    rows = torch.arange(batch.codes.shape[1] + 1)
    emits = (rows <= batch.frames[:, None]) & (rows >= 11)
    logits, _, _ = task.logits(batch, setting, batch.codes[..., 0])
    base = recipe.base_logits(tiny_lm, batch, batch.codes[..., 0])
    assert loss.item() == pytest.approx(F.cross_entropy(logits[emits], base[emits].softmax(-1)).item(), rel=1e-4)
    task.guide = 1.0
    guided, parts = task.loss((batch, setting), Progress())
    assert parts["own guide"] > 0 and guided.item() == pytest.approx(loss.item() + parts["own guide"], rel=1e-4)
    guided.backward()
    assert task.adapter.summary.grad is not None


def test_only_the_adapter_learns_and_it_does(task):
    frozen = {k: v.clone() for k, v in task.lm.state_dict().items() if "lora" not in k}
    setting = BatchSetting(30, 5, 0)
    before = task.evaluate()
    loss_of = lambda step: task.loss((task.data.batch(np.random.default_rng(step)), setting), Progress(step))
    learn(task.adapter.parameters(), loss_of, 8, 1e-2)
    after = task.evaluate()
    key = "cross-entropy, window 30, group 10"
    assert (
        after[key] < before[key] - 0.1
        and after["cross-entropy, base, everything seen"] == before["cross-entropy, base, everything seen"]
    )
    assert all(torch.equal(v, frozen[k]) for k, v in task.lm.state_dict().items() if "lora" not in k)
    assert task.adapter.summary.grad.abs().sum() > 0  # rows after the window learn from summaries
    assert set(task.adapter.state_dict()) == {"summary", *(f"lora.{k}" for k in task.adapter.lora.state_dict())}


def test_guiding_pulls_the_attention_of_speech_rows_to_the_spoken_phoneme(task, monkeypatch):
    """What the guide loss sees are the rows that say speech, summaries left out; without it nothing is looked at."""
    monkeypatch.setattr(recipe, "ALIGNMENT_LAYERS", (1,))
    batch, setting = task.data.batch(np.random.default_rng(3)), BatchSetting(30, 5, 4)
    place = (
        torch.arange(FRAMES)
        .div(8, rounding_mode="floor")
        .expand(len(batch.text), -1)
        .minimum(batch.text_lengths[:, None] - 1)
    )
    aligned = replace(batch, alignment=torch.where(torch.arange(FRAMES) < batch.frames[:, None], place, -1))
    spoken = batch.codes[..., 0]
    assert set(task.loss((aligned, setting), Progress())[1]) == {"ce"} and not task.logits(aligned, setting, spoken)[2]
    *_, guided = task.logits(aligned, setting, spoken, (1,))
    assert [w.shape for w in guided] == [(4, FRAMES + 1, 6)] and guided[0].exp().sum(-1).max().item() <= 1 + 1e-5
    attended = guided[0].exp().sum(-1)[0, :FRAMES]
    assert (attended > 0).all()  # a summary's row would have none on the text
    task.guide = 1.0
    seen = learn(task.adapter.parameters(), lambda step: task.loss((aligned, setting), Progress(step)), 15, 1e-2)
    assert seen[-1][1]["guide"] < 0.8 * seen[0][1]["guide"]
    assert "guide" not in task.loss((replace(batch, alignment=torch.full((4, FRAMES), -1)), setting), Progress())[1]


def test_input_tokens_are_replaced_in_training_alone(task, monkeypatch):
    """The share that ``NOISE`` says, and no target with them; held-out scores hear what was spoken."""
    shares, add = [], recipe.add_noise
    monkeypatch.setattr(
        recipe, "add_noise", lambda codes, entries, share: shares.append(share) or add(codes, entries, share)
    )
    batch, setting = task.data.batch(np.random.default_rng(3)), BatchSetting(30, 5, 4)
    task.loss((batch, setting), Progress())
    assert shares == [recipe.NOISE] and recipe.NOISE > 0
    spoken = batch.codes[..., 0]
    plain, targets, _ = task.logits(batch, setting, spoken)
    other, same, _ = task.logits(batch, setting, add(spoken, 32, 1.0))
    assert not torch.allclose(other, plain) and torch.equal(same, targets)
    shares.clear()
    task.evaluate()
    assert not shares


def test_distillation_goes_to_the_base_models_law(task):
    """``distil``: what the base says with all of the past is what is learnt, whatever was recorded."""
    setting = BatchSetting(30, 5, 4)
    batch = task.data.batch(np.random.default_rng(3))
    said = torch.arange(FRAMES + 1) <= batch.frames[:, None]
    said[:, : setting.prompt] = False

    @torch.no_grad()
    def apart() -> float:
        """KL divergence in nats, every frame of the batch."""
        mine = task.logits(batch, setting, batch.codes[..., 0])[0][said].log_softmax(-1)
        law = recipe.base_logits(task.base, batch, batch.codes[..., 0])[said].log_softmax(-1)
        return F.kl_div(mine, law, log_target=True, reduction="batchmean").item()

    task.distil, before = 1.0, apart()
    seen = learn(task.adapter.parameters(), lambda step: task.loss((batch, setting), Progress(step)), 15, 1e-2)
    assert all(loss == pytest.approx(parts["distil"]) for loss, parts in seen)
    assert apart() < 0.8 * before
    task.distil = 0.25
    loss, parts = task.loss((batch, setting), Progress())
    assert loss.item() == pytest.approx(0.75 * parts["ce"] + 0.25 * parts["distil"], rel=1e-5)
    task.sampling_weight = 0.5
    loss, parts = task.loss((batch, setting), Progress())
    base = parts["distil"] + 0.5 * (REJECTION * parts["rejected"] + OUTSIDE * parts["outside"])
    assert loss.item() == pytest.approx(0.75 * parts["ce"] + 0.25 * base, rel=1e-5) and parts["rejected"] > 0


class Aligned(TextPosition):
    """A position in the text that is known beforehand."""

    def __init__(self, text: slice, reach: int, places: torch.Tensor) -> None:
        self._places, self._fed = places.tolist(), 0
        super().__init__(text, reach)

    @property
    def index(self) -> int:
        return self._places[self._fed]

    @index.setter
    def index(self, symbol: int) -> None:
        pass

    def move(self, posterior: torch.Tensor, symbol: int) -> None:
        self._fed += 1


@pytest.mark.parametrize("reach", [1, 3, 9])
def test_text_windows_are_those_of_decoding(task, tiny_lm, monkeypatch, reach):
    """Led by the alignment, the decoder gets the logits that the recipe trains on: the same symbols at the same
    distance, near each other alone, and a text that is always in sight where it is."""
    monkeypatch.setattr(recipe, "NEIGHBOURS", 2)
    monkeypatch.setattr(compressed, "NEIGHBOURS", 2)
    monkeypatch.setattr(text_position, "ALIGNMENT_LAYERS", (0,))  # the tiny model has no guided layers
    batch = task.data.batch(np.random.default_rng(1))
    place = torch.arange(FRAMES).div(9, rounding_mode="floor").minimum(batch.text_lengths[:, None] - 1)
    batch = replace(batch, alignment=place)
    with torch.no_grad():
        trained, *_ = task.logits(batch, BatchSetting(30, 5, 0, reach), batch.codes[..., 0])
        whole, *_ = task.logits(batch, BatchSetting(30, 5, 0), batch.codes[..., 0])
    assert ((trained - whole).abs().max() > 0.1) == (reach < 9)
    method = Compressed(base_of(tiny_lm), dict.fromkeys(("compressed", "compressed-text"), task.adapter))
    codes = batch.codes[0, : int(batch.frames[0])]
    prefix = tiny_lm.prefix(batch.text[0, : int(batch.text_lengths[0])], (), batch.speaker[0], codes[:0])
    prefix = replace(prefix, x=prefix.x.detach())
    monkeypatch.setattr(method, "check", lambda options: None)
    options = replace(method.Options(30, 5), text=0)
    object.__setattr__(options, "text", reach)
    state = method.prefill(prefix, options, Sampling(), torch.Generator(), len(codes) + 1, forced=True)
    state.position = Aligned(prefix.text, reach, place[0])
    decoded = method.decoder.logits(hidden_states(method, state, codes[:, 0]))
    torch.testing.assert_close(decoded, trained[0, : len(codes) + 1], atol=1e-3, rtol=1e-3)


def test_a_text_window_goes_astray_by_a_little_now_and_then(task):
    batch = task.data.batch(np.random.default_rng(1))
    size, symbols = len(batch.text), 200
    place = (torch.arange(FRAMES) * 3 + 20).expand(size, -1)
    batch = replace(
        batch, text=torch.ones(size, symbols).long(), text_lengths=torch.full((size,), symbols), alignment=place
    )
    assert torch.equal(recipe.text_positions(batch, 0), place)
    off = recipe.text_positions(batch, 6) - place
    assert off.abs().max() <= 6 and len(off.unique()) > 2 and (off[:, 0] == off[:, 30]).all()
    unknown = replace(batch, alignment=torch.where(torch.arange(FRAMES) % 2 == 0, place, -1))
    assert torch.equal(recipe.text_positions(unknown, 0)[:, 1::2], place[:, ::2])


def test_text_windows_are_drawn_in_their_share_of_the_batches(task):
    assert not any(task.batch(np.random.default_rng(i), i)[1].text for i in range(20))
    task.text = 0.5
    drawn = [task.batch(np.random.default_rng(i), i)[1].text for i in range(100)]
    assert set(drawn) == {0, *recipe.TEXTS} and 30 < sum(map(bool, drawn)) < 70
