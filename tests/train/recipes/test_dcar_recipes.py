"""DCAR's recipes: heads learn their offsets, rollouts in a batch are runs apart, training on a toy reward raises it."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from learning import learn

from conftest import base_of
from tts_demo.codec.decoder import WaveformDecoder
from tts_demo.codec.model import Codec
from tts_demo.codec.recogniser import PhonemeRecogniser, RecogniserConfig
from tts_demo.codec.refiner import Refiner
from tts_demo.config import HOP, CodecConfig, DecoderConfig, RefinerConfig, Sampling
from tts_demo.lineage import THROUGH
from tts_demo.lm import Lockstep, Prefix, lora
from tts_demo.lm.masks import prefix_mask
from tts_demo.methods.dcar import Dcar
from tts_demo.methods.dcar.heads import Heads
from tts_demo.text.symbols import SYMBOLS
from tts_demo.train import CPU_ONLY, METHODS, recipe
from tts_demo.train.data.on_policy import OnPolicy
from tts_demo.train.data.sequences import SpeechBatch, prefix_batch, speech_targets
from tts_demo.train.progress import Progress
from tts_demo.train.recipes.dcar_heads import (
    IGNORE,
    HeadsSettings,
    HeadsTask,
    SelfGenerated,
    head_targets,
    head_weights,
)
from tts_demo.train.recipes.dcar_policy import GROUP, UPDATES, PolicySettings, PolicyTask
from tts_demo.train.recipes.dcar_reward import Hama, PhonemeErrors, coarse
from tts_demo.train.recipes.dcar_rollouts import Schedule, roll_out

WARM, GREEDY = Sampling(1.0, 0, 1.0), Sampling(temperature=0)


def counting_batch(lm, size: int = 6, frames: int = 14, seed: int = 0) -> SpeechBatch:
    """Speech that counts upwards from a start: seven tokens ahead are as sure as the next."""
    c, rng = lm.config, torch.Generator().manual_seed(seed)
    lengths, spoken = torch.randint(3, 7, (size,), generator=rng), torch.randint(9, frames + 1, (size,), generator=rng)
    text = torch.randint(1, c.text_vocab, (size, 6), generator=rng) * (torch.arange(6) < lengths[:, None])
    codes = (torch.randint(c.speech_codes, (size, 1), generator=rng) + torch.arange(frames)) % c.speech_codes
    codes = codes * (torch.arange(frames) < spoken[:, None])
    return SpeechBatch(
        text,
        lengths,
        codes[..., None].expand(-1, -1, 8),
        spoken,
        torch.randn(size, c.speaker, generator=rng),
        torch.zeros(size, frames, dtype=torch.long),
    )


@pytest.fixture(scope="module")
def noisy(tiny_lm) -> Dcar:
    """Random heads, LoRA and policy that really do something."""
    torch.manual_seed(5)
    modules = Dcar.build_modules(tiny_lm)
    for module in modules.values():
        for weight in module.parameters():
            weight.data.add_(torch.randn_like(weight) * 0.1)
        module.eval().requires_grad_(False)
    return Dcar(base_of(tiny_lm), modules)


def test_targets_of_each_head():
    found = head_targets(torch.tensor([[5, 6, 7, 99, IGNORE]]), 2)
    assert found[:, 0].tolist() == [[5, 6, 7, 99, IGNORE], [6, 7, 99, IGNORE, IGNORE], [7, 99, IGNORE, IGNORE, IGNORE]]
    assert (head_targets(torch.tensor([[5, 99]]), 6)[2:] == IGNORE).all()  # shorter than the heads reach


@pytest.mark.parametrize("distil", [0.0, 0.5])
def test_the_heads_recipe_learns_every_offset_and_leaves_the_base_alone(tiny_lm, distil):
    lm = copy.deepcopy(tiny_lm)
    before = {k: v.clone() for k, v in lm.state_dict().items()}
    torch.manual_seed(0)
    task = HeadsTask.__new__(HeadsTask)  # without speech on disk
    task.lm, task.heads, task.weights = lm, Heads(lm), head_weights(6, base=3.0)
    task.distil, task.base = distil, copy.deepcopy(lm) if distil else None
    task.settings = HeadsSettings(distil=distil)
    lora.attach(lm.backbone, task.heads.config.lora, task.heads.lora)
    with torch.no_grad():
        _, at_first = task.scores(counting_batch(lm, 12, seed=99))
    loss_of = lambda step: task.loss(counting_batch(lm, 12, seed=step), Progress(step))
    learn(task.heads.parameters(), loss_of, 60, 1e-2)
    with torch.no_grad():
        losses, right = task.scores(counting_batch(lm, 12, seed=99))
    assert losses.shape == right.shape == (7,) and right.min() > at_first.max() + 0.3
    lora.detach(lm.backbone)
    assert all(torch.equal(value, before[key]) for key, value in lm.state_dict().items())


def test_what_the_base_teaches_each_head_is_about_the_same_tokens(tiny_lm, monkeypatch):
    """A base that is sure of what is said teaches what the recording does: rows and heads are not mixed up."""
    lm, task = copy.deepcopy(tiny_lm), HeadsTask.__new__(HeadsTask)
    task.lm, task.base, task.heads, task.weights = lm, lm, Heads(lm), head_weights(6, base=3.0)
    task.settings = HeadsSettings()
    sure = lambda lm, batch, *_: (1e4 * F.one_hot(speech_targets(batch, lm.config.eos, 0), lm.config.vocab).float(), [])
    monkeypatch.setattr("tts_demo.train.recipes.dcar_heads.base_rows", sure)
    found = []
    for task.distil in (0.0, 1.0):
        torch.manual_seed(0)
        found.append(task.loss(counting_batch(lm, 12, seed=1), Progress())[0].item())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert head_weights(2, 3.0) == pytest.approx([3 / 4.9, 1 / 4.9, 0.9 / 4.9])
    assert head_weights(6, 1.0, 1.0) == pytest.approx([1 / 7] * 7)  # the paper's


def test_heads_learn_from_their_own_chunks_and_look_where_the_base_looks(tiny_lm, monkeypatch):
    """Self-generated batches have the base's distribution as their only target; the guide and the sampled
    distributions add what they say, and pull."""
    monkeypatch.setattr("tts_demo.train.recipes.dcar_heads.ALIGNMENT_LAYERS", (1,))
    monkeypatch.setattr("tts_demo.train.recipes.lm.ATTENDED", 0.0)
    lm, task = copy.deepcopy(tiny_lm), HeadsTask.__new__(HeadsTask)
    torch.manual_seed(0)
    task.lm, task.heads, task.weights, task.distil = lm, Heads(lm), head_weights(6, 3.0), 0.5
    task.base = tiny_lm
    for weight in task.heads.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.05)
    lora.attach(lm.backbone, task.heads.config.lora, task.heads.lora)
    task.data = SimpleNamespace(batch=lambda rng: counting_batch(lm, 3, seed=int(rng.integers(99))))
    task.settings, task.on_policy = HeadsSettings(distil=0.5), OnPolicy(1.0, 2, task._sample, tiny_lm)
    batch = task.batch(np.random.default_rng(0), 0)
    assert isinstance(batch, SelfGenerated) and (batch.speech.alignment == -1).all()
    again = OnPolicy(1.0, 2, task._sample, tiny_lm).batch(0, 0)
    assert torch.equal(batch.speech.codes, again.speech.codes)
    loss, parts = task.loss(batch, Progress())
    assert all(name.startswith("own ") for name in parts) and loss.item() == pytest.approx(parts["own distil"])
    task.settings = HeadsSettings(distil=0.5, sampled=0.5, guide=2.0)
    more, parts = task.loss(batch, Progress())
    expected = loss.item() + 0.5 * parts["own disagreement"] + 2 * parts["own guide"]
    assert more.item() == pytest.approx(expected, rel=1e-4) and min(parts["own disagreement"], parts["own guide"]) > 0
    recorded, told = task.loss(counting_batch(lm, 6), Progress())
    assert set(told) == {"base", "second", "last", "distil", "disagreement", "guide"} and recorded.isfinite()
    (_, first), *_, (_, last) = learn(task.heads.parameters(), lambda _: task.loss(batch, Progress()), 25, 3e-3)
    assert last["own disagreement"] < 0.9 * first["own disagreement"] and last["own distil"] < first["own distil"]


def steps_alone(method: Dcar, prefix: Prefix, chunk_range: str, most: int) -> list[torch.Tensor]:
    """The first codebook's codes of each step of the method by itself, greedy."""
    state, steps = method.prefill(prefix, Dcar.Options(chunk_range), GREEDY, torch.Generator(), most), []
    while not state.done:
        steps.append(method.step(state).frames[:, 0])
    return steps


@pytest.mark.parametrize("size", [1, 3, 7])
def test_batched_rollouts_equal_the_method_alone(noisy, size):
    """Greedy, rows of unequal text and length in one batch, each against the method run on that row."""
    lm, batch = noisy.lm, counting_batch(noisy.lm, 4, seed=3)
    limits = torch.tensor([9, 20, 14, 20])
    schedule = Schedule(torch.ones(4, 7, dtype=torch.bool), torch.full((4,), size), strict=True)
    found = roll_out(
        noisy.decoder, noisy.heads, None, prefix_batch(lm, batch), schedule, limits, GREEDY, torch.Generator()
    )
    for row in range(4):
        prefix = lm.prefix(batch.text[row, : batch.text_lengths[row]], (), batch.speaker[row], batch.codes[row, :0])
        steps = steps_alone(noisy, prefix, str(size), int(limits[row]))
        assert found.codes[row].tolist() == torch.cat(steps).tolist()
        assert int(found.mask[row].sum()) == len(steps)


def mixed(noisy, strict: bool = False):
    batch = counting_batch(noisy.lm, 2, seed=4).repeat(3)
    schedule = Schedule(torch.tensor([[0, 1, 1, 1, 0, 0, 0]] * 6).bool(), torch.tensor([2, 0, 0, 4, 0, 0]), strict)
    policy = noisy.modules["dcar-policy"]
    rollouts = roll_out(
        noisy.decoder,
        noisy.heads,
        policy.runner(),
        prefix_batch(noisy.lm, batch),
        schedule,
        torch.full((6,), 40),
        WARM,
        torch.Generator().manual_seed(2),
    )
    return batch, schedule, policy, rollouts


def test_only_states_that_scheduled_a_chunk_are_kept(noisy):
    """The rollouts' states are those of a teacher-forced pass at the first rows of the chunks, and no others."""
    batch, _, _, rollouts = mixed(noisy)
    for row, codes in enumerate(rollouts.codes):
        sizes = (rollouts.actions[row] + 1)[rollouts.mask[row]]
        starts = sizes.cumsum(0) - sizes
        assert starts[-1] <= len(codes) < starts[-1] + 8  # the last chunk may have been cut by end of speech
        x = torch.cat(
            [
                noisy.lm.prefix(
                    batch.text[row, : batch.text_lengths[row]], (), batch.speaker[row], batch.codes[row, :0]
                ).x,
                noisy.lm.embed_speech(codes),
            ]
        )
        prefix = len(x) - len(codes)
        hidden, _ = noisy.decoder.full(x[None], torch.arange(len(x)), prefix_mask(prefix, len(x), True))
        torch.testing.assert_close(
            rollouts.hidden[row][rollouts.mask[row]], hidden[0, prefix - 1 + starts], atol=1e-3, rtol=1e-3
        )


def test_rollouts_remember_the_policys_own_probabilities(noisy):
    _, schedule, policy, rollouts = mixed(noisy)
    log_probs = policy(rollouts.hidden, schedule.allowed).log_softmax(-1)
    taken = log_probs.gather(2, rollouts.actions[..., None])[..., 0]
    torch.testing.assert_close(taken[rollouts.mask], rollouts.log_probs[rollouts.mask], atol=1e-4, rtol=1e-4)
    assert (rollouts.actions[0][rollouts.mask[0]] == 1).all() and (rollouts.actions[3][rollouts.mask[3]] == 3).all()


def test_strict_rollouts_stay_in_their_range_and_others_leave_it(noisy):
    rollouts = mixed(noisy, strict=True)[3]
    assert set((rollouts.actions + 1)[rollouts.mask].tolist()) == {2, 3, 4} and 2 < rollouts.mean_chunk < 4
    outside = mixed(noisy)[3]
    assert set((outside.actions + 1)[outside.mask].tolist()) - {2, 3, 4}


class ToyErrors:
    """In place of speech: the error is the share of steps that were not chunks of two."""

    def of_samples(self, samples, truth) -> float:
        return 0.0


@pytest.fixture
def task(tiny_lm) -> PolicyTask:
    """The recipe on four made-up utterances whose 'phonemes' are their codes."""
    torch.manual_seed(0)
    task = PolicyTask.__new__(PolicyTask)
    task.lm, task.size, task.total, task.errors, task.settings = tiny_lm, 2, 42, ToyErrors(), PolicySettings()
    task.data = TinyCorpus(tiny_lm)
    task.prepare(Heads(tiny_lm).requires_grad_(False))
    return task


class TinyCorpus:
    """What the recipe reads of ``Sequences``."""

    class Codes:
        def __init__(self, batch: SpeechBatch) -> None:
            self.batch, self.speakers = batch, batch.speaker.numpy()

        def get(self, index: int) -> np.ndarray:
            return self.batch.codes[index, : self.batch.frames[index]].numpy()

    class Speech:
        class Utterance:
            speaker = "voice"

        utterances = [Utterance()] * 6

        def __init__(self, batch: SpeechBatch) -> None:
            self.texts = [t[:n].numpy() for t, n in zip(batch.text, batch.text_lengths)]

        def ids(self, index: int) -> np.ndarray:
            return self.texts[index]

        sounds = ids

        def samples(self, index: int) -> np.ndarray:
            return np.zeros(HOP, np.float32)

    def __init__(self, lm) -> None:
        batch = counting_batch(lm, 6, seed=8)
        self.codes, self.speech = self.Codes(batch), self.Speech(batch)
        self.train, self.test = [0, 1, 2, 3], [4, 5]

    def same_speaker(self, index: int) -> list[int]:
        return self.train if index in self.train else self.test

    @staticmethod
    def collate(items) -> SpeechBatch:
        from tts_demo.train.data.sequences import Sequences

        return Sequences.collate(items)


def toy_speak(task: PolicyTask):
    """Rollouts as they are, their errors from the sizes taken: only chunks of two are good."""
    real = task.roll_out

    def speak(spoken, schedule, seed):
        task.errors.of_codes = lambda codes, *_: torch.zeros(len(codes))
        rollouts, _ = real(spoken, schedule, seed)
        wrong = ((rollouts.actions != 1) & rollouts.mask).sum(1) / rollouts.mask.sum(1)
        return rollouts, wrong.float()

    return speak


def test_training_on_a_toy_reward_raises_it(task):
    task.roll_out = toy_speak(task)
    profile = task.profile
    assert min(profile, key=profile.get) == 2  # it found the size the toy prefers
    loss_of = lambda n: task.loss(task.batch(np.random.default_rng(n), n), Progress.of(n, task.total))
    curve = [parts["reward"] for _, parts in learn(task.policy.parameters(), loss_of, task.total, 3e-2)]
    assert np.mean(curve[-9:]) > np.mean(curve[:9]) + 0.2
    scores = task.evaluate()
    assert scores["phoneme error rate, policy 2,3,4"] < scores["phoneme error rate, random 2,3,4"] - 0.2
    assert scores["phoneme error rate, fixed 2"] == 0 and 2 <= scores["mean chunk, policy 2,3,4"] < 3


def test_groups_chase_then_exceed(task):
    task.roll_out = toy_speak(task)
    first = task.batch(np.random.default_rng(0), 0)
    assert all(task.batch(np.random.default_rng(s), s) is first for s in range(1, UPDATES))
    assert task.batch(np.random.default_rng(UPDATES), UPDATES) is not first
    for group in range(2):
        rows = range(group * GROUP, group * GROUP + GROUP // 2)
        sizes = {tuple(set((first.rollouts.actions[r] + 1)[first.rollouts.mask[r]].tolist())) for r in rows}
        assert all(len(s) == 1 and first.allowed[rows[0]][s[0] - 1] for s in sizes)  # fixed sizes of the group's range
        assert first.advantage[group * GROUP : (group + 1) * GROUP].mean().abs() < 1e-3
    assert (first.allowed.view(2, GROUP, 7) == first.allowed.view(2, GROUP, 7)[:, :1]).all()


def test_groups_stay_in_the_guidance_range_and_begin_behind_the_prompt(task):
    task.settings = PolicySettings(guidance=(3, 5), chase=0.0)
    seen = []
    task.errors.of_codes = lambda codes, *_: seen.extend(codes) or torch.zeros(len(codes))
    found = task.explore(np.random.default_rng(0))
    assert (found.allowed.sum(1) == 2).all() and found.allowed[:, [2, 4]].all() and found.own.all()
    spoken = task.utterances(np.random.default_rng(0), task.data.train[:2]).repeat(GROUP)
    assert 0 < spoken.prompt_frames <= int(spoken.speech.frames.min()) // 2
    rollouts, _ = task.roll_out(spoken, Schedule(found.allowed, torch.zeros(2 * GROUP, dtype=torch.long)), 0)
    for whole, new, recorded in zip(seen[-2 * GROUP :], rollouts.codes, spoken.speech.codes[..., 0]):
        assert whole[: -len(new)].tolist() == recorded[: spoken.prompt_frames].tolist()  # judged with the prompt
        assert whole[len(whole) - len(new) :].tolist() == new.tolist()


def test_a_rollout_behind_a_prompt_equals_the_method_alone(noisy):
    lm, batch = noisy.lm, counting_batch(noisy.lm, 3, seed=3)
    limits, before = torch.full((3,), 12), batch.codes[:, :4, 0]
    schedule = Schedule(torch.ones(3, 7, dtype=torch.bool), torch.full((3,), 3), strict=True)
    found = roll_out(
        noisy.decoder, noisy.heads, None, prefix_batch(lm, batch), schedule, limits, GREEDY, torch.Generator(), before
    )
    for row in range(3):
        prefix = lm.prefix(batch.text[row, : batch.text_lengths[row]], (), batch.speaker[row], batch.codes[row, :4])
        assert found.codes[row].tolist() == torch.cat(steps_alone(noisy, prefix, "3", 12)).tolist()


@pytest.mark.parametrize("every", (1, 3))
def test_gaps_that_unequal_chunks_leave_are_closed_and_nothing_changes(noisy, every, monkeypatch):
    lm, batch = noisy.lm, counting_batch(noisy.lm, 3, seed=3)
    limits, before = torch.tensor([30, 24, 28]), batch.codes[:, :4, 0]
    schedule = Schedule(torch.ones(3, 7, dtype=torch.bool), torch.tensor([1, 7, 3]), strict=True)
    slots = []
    spied = lambda self, *given: slots.append(self.cache.length) or feed(self, *given)
    feed = Lockstep.feed
    monkeypatch.setattr(Lockstep, "feed", spied)

    def runs(closed_every: int):
        monkeypatch.setattr("tts_demo.lm.lockstep.CLOSED_EVERY", closed_every)
        generator = torch.Generator().manual_seed(1)
        prefix = prefix_batch(lm, batch)
        found = roll_out(noisy.decoder, noisy.heads, None, prefix, schedule, limits, GREEDY, generator, before)
        return found, max(slots)

    (gappy, most), _ = runs(1000), slots.clear()
    closed, fewer = runs(every)
    assert [c.tolist() for c in closed.codes] == [c.tolist() for c in gappy.codes]
    assert torch.allclose(closed.hidden, gappy.hidden, atol=1e-4) and torch.equal(closed.mask, gappy.mask)
    assert fewer < most


def test_hama_and_our_symbols_meet_in_one_alphabet():
    text = [SYMBOLS.index(symbol) for symbol in "ɡɹAtᵊɜɹʌTʤOɔ"]
    ipa = ["g", "r", "eɪ", "t", "ə", "ɝ", "ʌ", "t", "d͡ʒ", "oʊ", "ɒ"]
    assert Hama.reference(text) == coarse(ipa)


def test_phoneme_errors_in_a_batch_equal_those_of_rows_alone():
    torch.manual_seed(0)
    codec = Codec(
        CodecConfig(encoder_width=16, encoder_layers=1, latent=16, codebooks=2, entries=32, code_width=4)
    ).eval()
    decoder = WaveformDecoder(DecoderConfig(latent=16, width=16, layers=2, fine_width=8, fine_layers=1)).eval()
    refiner = Refiner(RefinerConfig(entries=32, latent=16, speaker=8, width=16, layers=1, heads=2, ffn=32)).eval()
    ears = PhonemeRecogniser(RecogniserConfig(symbols=12, width=16, lower=1, middle=1, middle_width=16, upper=1)).eval()
    errors = PhonemeErrors(codec, decoder, refiner, ears)
    codes = [torch.randint(32, (n,)) for n in (20, 31, 0)]
    speaker, prompt = torch.randn(3, 8), torch.randint(32, (3, 5, 2))
    truth = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    found = errors.of_codes(codes, speaker, prompt, truth)
    assert found[2] == 1  # said nothing
    alone = errors.of_codes([codes[1]], speaker[1:2], prompt[1:2], truth[1:2])
    assert found[1] == alone[0] and (found >= 0).all()
    wave = torch.randn(30 * HOP)
    assert errors.of_samples(wave, ears.phonemes(wave) or [1]) in (0, 1)


def test_heads_for_comparison_are_weighed_alike_in_one_recipe_and_as_ours_in_the_other():
    ours, short, equal = (recipe(name) for name in ("dcar-heads", "dcar-short-heads", "dcar-equal-heads"))
    assert short.Settings() == ours.Settings()
    assert {k for k, v in equal.Settings() if v != getattr(ours.Settings(), k)} == {"base", "later"}
    assert head_weights(6, equal.Settings().base, equal.Settings().later) == pytest.approx([1 / 7] * 7)
    assert all(kind.name in METHODS and kind.name in THROUGH for kind in (ours, short, equal))


def test_policies_for_comparison_lack_one_part_each():
    whole, *others = (recipe(name) for name in ("dcar-policy", "dcar-no-chase", "dcar-no-penalty"))
    changed = [{k for k, v in kind.Settings() if v != getattr(whole.Settings(), k)} for kind in others]
    assert changed == [{"chase"}, {"penalty"}] and not others[0].Settings().chase and not others[1].Settings().penalty
    assert all(kind.name in CPU_ONLY and kind.name in THROUGH for kind in (whole, *others))
