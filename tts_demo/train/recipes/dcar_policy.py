"""Recipe ``dcar-policy``: the chunk policy by reinforcement (DCPO; DCAR, sections 4.1 and 4.2, appendix B).

A batch is a few short utterances, a group of rollouts each. Chase then exceed: half of a group takes fixed sizes from
its range, the other half the policy's own. Every group draws a range, so that one policy serves them all: half of the
groups draw the guidance range, the fixed sizes that scored best when profiled first, or a part of it; the others any
sizes. Each batch of rollouts serves several updates, which is what the clipped ratio is for. The voice conditions
through its vector and the refiner's prompt, not through prompt speech in front, as the demo does without a transcript.
``--set price=0.3``: what a step costs beside errors (``dcpo.rewards``; the paper's policy is not told that steps cost).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ... import checkpoints
from ...config import FRAME_RATE, Sampling
from ...lm import LoraDelta
from ...lm.decoder import Decoder
from ...methods.dcar.heads import Heads
from ...methods.dcar.policy import Policy
from ...methods.dcar.ranges import LONGEST
from ..data.corpora import describe
from ..data.load import load_ears, load_lm, sequences
from ..data.sequences import SpeechBatch, prefix_batch
from ..progress import Progress
from ..settings import SequenceSettings, Weight
from ..task import Task, TrainOptions
from .dcar_reward import PhonemeErrors
from .dcar_rollouts import Rollouts, Schedule, roll_out
from .dcpo import advantages, kl_weight, policy_loss, rewards

GROUP = 8  # rollouts an utterance
UPDATES = 3  # optimiser steps on one batch of rollouts
SECONDS = (1.2, 4.0)  # lengths of the utterances: short ones, because a rollout costs what it lasts
PROMPT_FRAMES = 100  # of another utterance of the voice, for the refiner
PROFILED = 16  # utterances the fixed sizes are profiled on
TESTED = 32  # held-out utterances of ``evaluate``
SAMPLING = Sampling()  # what a person hears by default is what is rewarded


@dataclass(frozen=True)
class Utterances:
    """U utterances to be spoken: their batch (text and voice), truths, error rates of the recordings, voice prompts."""

    speech: SpeechBatch
    truth: list[list[int]]
    recorded: Tensor  # [U]
    prompt: Tensor  # [U, F, K]

    def repeat(self, times: int) -> Utterances:
        """Each one ``times`` times in a row."""
        again = lambda t: t.repeat_interleave(times, 0)
        truth = [t for t in self.truth for _ in range(times)]
        return Utterances(self.speech.each(again), truth, again(self.recorded), again(self.prompt))


@dataclass(frozen=True)
class Experience:
    """Rollouts with what the loss needs: allowed [R, 7], advantage [R], reward [R], error [R]."""

    rollouts: Rollouts
    allowed: Tensor
    advantage: Tensor
    reward: Tensor
    error: Tensor


@dataclass(frozen=True)
class GuidanceProfile:
    """Error rate of each fixed chunk size, and the sizes that score best: the guidance range (appendix B.1)."""

    error_rates: dict[int, float]
    best: tuple[int, ...]


def guidance_profile(error_rate: Callable[[int], float], keep: int = 3) -> GuidanceProfile:
    """error_rate: fixed chunk size 1..7 -> error rate of speech made with it. ``keep``: sizes in the guidance range."""
    rates = {size: error_rate(size) for size in range(1, LONGEST + 1)}
    return GuidanceProfile(rates, tuple(sorted(sorted(rates, key=rates.get)[:keep])))


class PolicySettings(SequenceSettings):
    price: Weight = Field(0.0, description="what a step costs beside errors")


class PolicyTask(Task):
    Settings = PolicySettings
    settings: PolicySettings
    name = "dcar-policy"
    steps, lr = 240, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.size = options.batch or 4  # utterances a batch
        self.price = self.settings.price
        self.data = sequences(options, self.settings, frames=1)
        self.data_summary = describe(self.data.speech, self.data.train)
        self.lm = load_lm(options).requires_grad_(False)
        heads = checkpoints.load_module(options.checkpoint, "dcar-heads", Heads(self.lm))
        codec, refiner = (checkpoints.load_module(options.checkpoint, name) for name in ("codec", "refiner"))
        self.errors = PhonemeErrors(codec, refiner, load_ears(options.checkpoint))
        self.prepare(heads)

    def prepare(self, heads: Heads) -> None:
        """What follows from the modules loaded: the decoder with the heads' LoRA, a fresh policy, nothing rolled
        out."""
        self.heads = heads
        self.decoder = Decoder.from_model(self.lm, LoraDelta(heads.lora.state_dict(), heads.config.lora))
        self.policy = Policy(self.lm)
        self.modules, self.helpers = {"dcar-policy": self.policy}, {}
        self.experience: Experience | None = None
        self._recorded: dict[int, float] = {}

    def batch(self, rng: np.random.Generator, step: int) -> Experience:
        """Rollouts of the present policy, kept for ``UPDATES`` steps (a resumed run begins with new ones)."""
        if self.experience is None or step % UPDATES == 0:
            self.experience = self.explore(rng)
        return self.experience

    def loss(self, batch: Experience, progress: Progress) -> tuple[Tensor, dict[str, float]]:
        r = batch.rollouts
        with torch.autocast(r.hidden.device.type, enabled=False):
            log_probs = self.policy(r.hidden, batch.allowed).log_softmax(-1)
        weight = kl_weight(progress.share)
        loss, kl = policy_loss(
            log_probs, r.actions, r.log_probs, batch.advantage, r.mask, self.policy.reference(batch.allowed), weight
        )
        own = _own_rows(len(batch.reward))
        return loss, {
            "reward": batch.reward[own].mean().item(),
            "chased reward": batch.reward[~own].mean().item(),
            "error": batch.error[own].mean().item(),
            "kl": kl.item(),
            "chunk": r.mean_chunk,
        }

    def explore(self, rng: np.random.Generator) -> Experience:
        """One group of rollouts for each of a few utterances, and its advantages."""
        chosen = self._choose(rng, self.data.train, self.size)
        spoken = self.utterances(rng, chosen).repeat(GROUP)
        ranges = [self._range(rng) for _ in chosen]
        rows = [(sizes, sizes[i % len(sizes)] if i < GROUP // 2 else 0) for sizes in ranges for i in range(GROUP)]
        schedule = Schedule(allowed_sizes([sizes for sizes, _ in rows]), torch.tensor([fixed for _, fixed in rows]))
        rollouts, error = self.speak(spoken, schedule, int(rng.integers(2**31)))
        reward = rewards(
            error, spoken.recorded, rollouts.actions, rollouts.mask, schedule.allowed, rollouts.frames, self.price
        )
        return Experience(rollouts, schedule.allowed, advantages(reward, GROUP), reward, error)

    def speak(self, spoken: Utterances, schedule: Schedule, seed: int, learned: bool = True) -> tuple[Rollouts, Tensor]:
        """Rollouts of every row and their error rates [R]; ``learned`` False: chance chooses in place of the policy."""
        batch = spoken.speech
        limits = (1.5 * batch.frames).long() + 20  # speech that does not end is cut, and its errors counted
        policy = self.policy.runner() if learned else None
        prefix, generator = prefix_batch(self.lm, batch), torch.Generator().manual_seed(seed)
        rollouts = roll_out(self.decoder, self.heads, policy, prefix, schedule, limits, SAMPLING, generator)
        return rollouts, self.errors.of_codes(rollouts.codes, batch.speaker, spoken.prompt, spoken.truth)

    @cached_property
    def guidance(self) -> GuidanceProfile:
        """Error rates of the fixed sizes on training utterances (appendix B.1)."""
        rng = np.random.default_rng(0)
        spoken = self.utterances(rng, self._choose(rng, self.data.train, PROFILED))
        return guidance_profile(lambda size: self._error(spoken, (size,)))

    def evaluate(self) -> dict[str, float]:
        """Phoneme error rates on held-out utterances: recordings, fixed sizes, chance and the policy in one range."""
        rng = np.random.default_rng(1)
        spoken = self.utterances(rng, self._choose(rng, self.data.test, TESTED))
        scores = {
            f"guidance profile on training speech, fixed {size}": rate
            for size, rate in self.guidance.error_rates.items()
        }
        scores["phoneme error rate, recordings"] = spoken.recorded.mean().item()
        for size in range(1, LONGEST + 1):
            scores[f"phoneme error rate, fixed {size}"] = self._error(spoken, (size,))
        for sizes in ((2, 3, 4), (2, 3), tuple(range(1, LONGEST + 1))):
            word = ",".join(map(str, sizes))
            scores[f"phoneme error rate, random {word}"] = self._error(spoken, sizes, learned=False)
            rollouts, error = self.speak(spoken, _strict(sizes, len(spoken.truth)), 0)
            scores[f"phoneme error rate, policy {word}"] = error.mean().item()
            scores[f"mean chunk, policy {word}"] = rollouts.mean_chunk
        return scores

    def _error(self, spoken: Utterances, sizes: tuple[int, ...], learned: bool = True) -> float:
        learned = learned and len(sizes) > 1
        return self.speak(spoken, _strict(sizes, len(spoken.truth)), 0, learned)[1].mean().item()

    def _range(self, rng: np.random.Generator) -> tuple[int, ...]:
        """The range of one group: the guidance range or a part of it, or any two to seven sizes."""
        best = self.guidance.best
        pool = best if rng.random() < 0.5 else tuple(range(1, LONGEST + 1))
        count = int(rng.integers(2, len(pool) + 1))
        return tuple(sorted(int(size) for size in rng.choice(pool, count, replace=False)))

    def _choose(self, rng: np.random.Generator, pool: Sequence[int], count: int) -> list[int]:
        """Short utterances of ``pool``, of like length, so that rows end together."""
        low, high = (seconds * FRAME_RATE for seconds in SECONDS)
        by_length = sorted(pool, key=lambda i: len(self.data.codes.get(i)))
        short = [i for i in by_length if low <= len(self.data.codes.get(i)) <= high] or by_length[:count]
        start = int(rng.integers(max(1, len(short) - 3 * count + 1)))
        near = short[start : start + 3 * count]
        return [int(i) for i in rng.choice(near, min(count, len(near)), replace=False)]

    def utterances(self, rng: np.random.Generator, chosen: list[int]) -> Utterances:
        """What to say, and another utterance of the same voice to sound like."""
        items, prompts = [], []
        for i in chosen:
            other = int(rng.choice(self.data.same_voice(i)))
            codes, voice = self.data.codes.get(i), self.data.codes.get(other)
            prompts.append(torch.from_numpy(np.resize(voice[:PROMPT_FRAMES], (PROMPT_FRAMES, voice.shape[1]))))
            items.append((self.data.speech.ids(i), codes, np.full(len(codes), -1), self.data.codes.speakers[other]))
        truth = [self.data.speech.sounds(i).tolist() for i in chosen]
        recorded = torch.tensor([self._recording(i, t) for i, t in zip(chosen, truth)])
        return Utterances(self.data.collate(items), truth, recorded, torch.stack(prompts))

    def _recording(self, index: int, truth: list[int]) -> float:
        """Error rate of the recording itself, computed once."""
        if index not in self._recorded:
            self._recorded[index] = self.errors.of_samples(torch.from_numpy(self.data.speech.samples(index)), truth)
        return self._recorded[index]


def allowed_sizes(ranges: Sequence[Sequence[int]]) -> Tensor:
    """Ranges of sizes -> [R, 7] bool."""
    return torch.tensor([[size in sizes for size in range(1, LONGEST + 1)] for sizes in ranges])


def _strict(sizes: tuple[int, ...], rows: int) -> Schedule:
    """All rows in one range that nothing leaves, as in use."""
    return Schedule(allowed_sizes([sizes] * rows), torch.full((rows,), sizes[0] if len(sizes) == 1 else 0), strict=True)


def _own_rows(rows: int) -> Tensor:
    """[R] bool: the half of each group in which the policy chose."""
    return torch.arange(rows) % GROUP >= GROUP // 2
